"""The parameters of a method: the fields of a dataclass, each with a function that reads it from text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from textwrap import dedent
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

Recipe = Callable[..., Any]
"""A dataclass whose objects are methods, or have a function ``method()`` or ``objective(samples)`` that makes one."""

Rate = float | Literal["auto", "injected"]
"""A share of wrong labels: a number, or a word that the trainer replaces by the estimated or the injected rate."""

REQUIRED = ("build", "step")  # the functions that every method has
TRUTH = {"true": True, "false": False}  # the truth values by their text


def parameters_of(recipe: Recipe) -> dict[str, Callable[[str], Any]]:
    """A function from text to value for each field; its ValueError names the accepted values."""
    hints = get_type_hints(recipe)
    return {part.name: _reader(hints[part.name]) for part in fields(recipe) if part.init}  # type: ignore[arg-type]


def rate_number(rate: Rate | None) -> float | None:
    """The rate as a number; ValueError for a word that the trainer has not replaced."""
    if isinstance(rate, str):
        raise ValueError(f"noise_rate must be a number in [0, 1) here, got {rate!r}: the trainer puts it in place")
    return rate


@dataclass(frozen=True)
class MethodCard:
    """A method in words, as the docstring of its recipe has them; what the docstring does not have is empty.

    Attributes:
        about: The first line, without the full stop.
        idea: The paragraphs below it.
        needs: What the method must be told or can estimate, from the line "Needs:".
        when: The cases that it is for, from the line "When:".
        reference: The publication, from the line "Reference:".
        parameters: The meaning of each parameter, from "Args:", those of base classes first.
    """

    about: str
    idea: str
    needs: str
    when: str
    reference: str
    parameters: Mapping[str, str]


def method_card(recipe: Recipe) -> MethodCard:
    """Reads the docstring of a recipe.

    Example:
        >>> class Halved:
        ...     '''Half of cross-entropy.
        ...
        ...     Needs: nothing but labels.
        ...     '''
        >>> method_card(Halved).needs
        'nothing but labels.'
    """
    about, parts = _docstring_parts(recipe)
    arguments = [_docstring_parts(kind)[1].get("Args", "") for kind in reversed(getattr(recipe, "__mro__", ()))]
    needs, when, reference = (_join_lines(parts.get(name, "")) for name in ("Needs", "When", "Reference"))
    return MethodCard(
        about=about.removesuffix("."),
        idea="\n\n".join(map(_join_lines, parts[""].strip().split("\n\n"))),
        needs=needs,
        when=when,
        reference=reference,
        parameters={
            name: _join_lines(text)
            for part in arguments
            for name, text in _labels(dedent(part), r"\w+").items()
            if name
        },
    )


def _docstring_parts(thing: Any) -> tuple[str, dict[str, str]]:
    """The first line of a docstring, and the parts of the rest."""
    first, _, rest = inspect.cleandoc(thing.__doc__ or "").partition("\n")
    return first, _labels(rest, "[A-Z][a-z]+")


def _labels(text: str, label: str) -> dict[str, str]:
    """The parts of a text that start with "label:" on a line of their own, by the label; "" is what comes before."""
    pieces = re.split(rf"^({label}):(?=\s)", text, flags=re.MULTILINE)
    return dict(zip(["", *pieces[1::2]], pieces[::2], strict=True))


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def check_recipe(name: str, recipe: Any) -> None:
    """Raises ValueError for a recipe that is no dataclass, or neither a method nor the maker of one."""
    if not isinstance(recipe, type) or not is_dataclass(recipe):
        raise ValueError(f"method {name!r} must be a dataclass, its fields are the parameters; received {recipe!r}")
    lacking = [part for part in REQUIRED if not hasattr(recipe, part)]
    if lacking and not makes_objective(recipe) and not makes_plan(recipe) and not hasattr(recipe, "method"):
        raise ValueError(
            f"method {name!r} has no {lacking[0]!r}: a method has {', '.join(REQUIRED)}, or instead of them objective, "
            "method or plan_training"
        )


def makes_plan(recipe: Any) -> bool:
    """Whether a recipe decides before the training what is trained on, and with which method."""
    return callable(getattr(recipe, "plan_training", None))


def makes_objective(recipe: Any) -> bool:
    """Whether a recipe makes the objective of one network; elsewhere ``objective`` may be a parameter."""
    return callable(getattr(recipe, "objective", None))


def _reader(hint: Any) -> Callable[[str], Any]:
    words, kinds = _hint_parts(hint)

    def read(text: str) -> Any:
        if text in words:
            return words[text]
        for kind in (int, float):
            if kind in kinds:
                try:
                    return kind(text)
                except ValueError:
                    continue
        if str in kinds:
            return text
        raise ValueError(" or ".join([*words, *(["a number"] if {int, float} & kinds else [])]))

    return read


def _hint_parts(hint: Any) -> tuple[dict[str, Any], set[Any]]:
    """The words of an annotation with their values, and its further types."""
    if hint is bool:
        return TRUTH, set()
    if get_origin(hint) is Literal:
        return {str(word): word for word in get_args(hint)}, set()
    if not get_args(hint):
        return {}, {hint} - {NoneType}
    words, kinds = dict[str, Any](), set[Any]()
    for part in get_args(hint):
        more, further = _hint_parts(part)
        words, kinds = words | more, kinds | further
    return words, kinds
