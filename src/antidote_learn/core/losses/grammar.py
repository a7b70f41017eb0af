"""The grammar of losses: a name with parameters, or a weighted sum of such.

``gce:q=0.5``, ``nce+rce``, ``0.01*eps-ce:m=1e5+5*mae``: ``:`` separates parameters, ``+`` terms, ``*`` a weight.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from antidote_learn.core.losses import LOSSES

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn._types import PerSampleLoss
    from antidote_learn.core.losses.closed import ClosedForm

WORDS = {"true": True, "false": False}


class Term(NamedTuple):
    """A part of a sum."""

    weight: float
    name: str
    parameters: Mapping[str, Any]

    def __str__(self) -> str:
        """The term as a user writes it."""
        given = [f"{key}={format_value(value)}" for key, value in self.parameters.items()]
        return ("" if self.weight == 1.0 else f"{format_value(self.weight)}*") + ":".join([self.name, *given])


def parse_loss(text: str) -> tuple[Term, ...]:
    """The terms of a loss.

    Raises:
        ValueError: For what is no loss; says what is accepted.

    Example:
        >>> [str(term) for term in parse_loss("0.01*eps-ce:m=1e5 + 5*mae")]
        ['0.01*eps-ce:m=100000', '5*mae']
    """
    return tuple(_term(part.strip(), text) for part in text.split("+"))


def loss_function(text: str) -> PerSampleLoss:
    """The loss as one function (logits, targets) -> losses.

    Example:
        >>> import torch
        >>> loss_function("nce+0.5*mae")(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.3334])
    """
    functions = [(weight, _bind(LOSSES[name].function, given)) for weight, name, given in parse_loss(text)]
    if len(functions) == 1 and functions[0][0] == 1.0:
        return functions[0][1]

    def total(input: Tensor, target: Tensor) -> Tensor:
        first, *others = (weight * function(input, target) for weight, function in functions)
        return sum(others, start=first)

    return total


def build_closed_form(text: str) -> ClosedForm:
    """The loss with its gradient, for rows of logits and class indices on the host.

    Example:
        >>> import torch
        >>> build_closed_form("mae")(torch.zeros(1, 2), torch.tensor([0]), 1.0)
        (1.0, tensor([[-0.5000,  0.5000]]))
    """
    from antidote_learn.core.losses.closed import ClosedForm

    return ClosedForm(
        [(weight, name, {**LOSSES[name].parameters, **given}) for weight, name, given in parse_loss(text)]
    )


def _bind(function: PerSampleLoss, given: Mapping[str, Any]) -> PerSampleLoss:
    return functools.partial(function, **given) if given else function


def format_value(value: Any) -> str:
    """A parameter's value as text that reads back as the same."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _term(part: str, text: str) -> Term:
    weight, star, rest = part.rpartition("*")
    name, *given = rest.strip().split(":")
    if name not in LOSSES:
        raise ValueError(
            f"unknown loss {name!r} in {text!r}; accepted: {', '.join(LOSSES)}, with parameters as in 'gce:q=0.5', "
            "and weighted sums of them as in 'nce+0.5*mae'"
        )
    return Term(_weight(weight, text) if star else 1.0, name, _parameters(name, given, text))


def _weight(weight: str, text: str) -> float:
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise ValueError(f"the weight in {text!r} must be a positive number, got {weight.strip()!r}")
    return number


def _parameters(name: str, given: list[str], text: str) -> dict[str, Any]:
    accepted, found = LOSSES[name].parameters, {}
    for parameter in given:
        key, equals, value = (piece.strip() for piece in parameter.partition("="))
        if key not in accepted or not equals:
            known = ", ".join(f"{key}={format_value(value)}" for key, value in accepted.items()) or "no parameters"
            raise ValueError(f"loss {text!r}: unknown parameter {parameter!r}; {name!r} accepts {known}")
        if key in found:
            raise ValueError(f"loss {text!r} gives {key} twice: leave one out")
        found[key] = _read_value(key, value, accepted[key], text)
    return found


def _read_value(key: str, value: str, default: Any, text: str) -> Any:
    """The value in the type of the default."""
    if isinstance(default, str):
        return value
    if isinstance(default, bool):
        if value not in WORDS:
            raise ValueError(f"loss {text!r}: {key} must be true or false, got {value!r}")
        return WORDS[value]
    kind = "a whole number" if isinstance(default, int) else "a number"
    if not re.fullmatch(r"\d+" if isinstance(default, int) else r"[-+.\deE]+", value):
        raise ValueError(f"loss {text!r}: {key} must be {kind}, got {value!r}")
    try:
        return type(default)(value)
    except ValueError as error:
        raise ValueError(f"loss {text!r}: {key} must be {kind}, got {value!r}") from error
