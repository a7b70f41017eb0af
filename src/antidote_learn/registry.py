"""Names of methods and losses, as a user writes them.

Torch is imported when a method or loss is built, so that a name can be refused without torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from antidote_learn.core.losses import LOSSES
from antidote_learn.core.losses.grammar import parse_loss
from antidote_learn.methods.co_teaching import CoTeaching
from antidote_learn.methods.corrections import Backward, Forward, Rent, Rw
from antidote_learn.methods.elr import Elr
from antidote_learn.methods.f_div import FDiv
from antidote_learn.methods.mixup import MixUp
from antidote_learn.methods.nlnl_stages import NlnlStages
from antidote_learn.methods.nls import Nls
from antidote_learn.methods.objectives import (
    Antidote,
    AntidoteDataset,
    AntidoteDro,
    AntidoteGradient,
    AntidoteLagged,
    AntidoteLearnedBudget,
    AntidoteMix,
)
from antidote_learn.methods.parameters import Recipe, check_recipe, makes_objective, makes_plan, parameters_of
from antidote_learn.methods.peer import Peer
from antidote_learn.methods.rrm import Rrm
from antidote_learn.methods.t_revision import TRevision
from antidote_learn.methods.volminnet import VolMinNet
from antidote_learn.presets.aliases import ALIASES, expand_name

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn.methods.base import Method, Objective
    from antidote_learn.nn.robust_loss import RobustLoss

BUDGETS = ("noise_rate", "delta", "penalty")  # the parameters that set a budget
GROUP = "antidote_learn.methods"  # the group of entry points by which installed packages add methods


METHODS: dict[str, Recipe] = {
    "antidote": Antidote,
    "antidote-dataset": AntidoteDataset,
    "antidote-lagged": AntidoteLagged,
    "antidote-gradient": AntidoteGradient,
    "antidote-learned-budget": AntidoteLearnedBudget,
    "antidote-mix": AntidoteMix,
    "antidote-dro": AntidoteDro,
    "co-teaching": CoTeaching,
    "elr": Elr,
    "forward": Forward,
    "backward": Backward,
    "rw": Rw,
    "rent": Rent,
    "t-revision": TRevision,
    "volminnet": VolMinNet,
    "f-div": FDiv,
    "peer": Peer,
    "nls": Nls,
    "nlnl-stages": NlnlStages,
    "mixup": MixUp,
    "rrm": Rrm,
}


@dataclass(frozen=True)
class MethodSpec:
    """A method as the user gave it: a name, parameters, and the recipe where the name is not a registered one."""

    name: str
    parameters: Mapping[str, Any]
    recipe: Recipe | None = None

    @property
    def maker(self) -> Recipe | None:
        """The recipe that makes the method from its parameters; None for a loss, or a sum of losses."""
        return self.recipe or known_recipe(self.name)

    @property
    def readers(self) -> dict[str, Callable[[str], Any]]:
        """The parameters of the method, each with a function that reads it from text."""
        return {} if self.maker is None else parameters_of(self.maker)

    @property
    def inner(self) -> MethodSpec | None:
        """The objective inside the method, its parameter ``objective``; None for a method without that parameter."""
        if "objective" not in self.readers:
            return None
        return method_of(self.value("objective"))

    def value(self, key: str) -> Any:
        """The value of a parameter, by default that of the recipe's field; None where there is no such parameter."""
        if key in self.parameters or self.maker is None:
            return self.parameters.get(key)
        found = [part.default for part in fields(self.maker) if part.name == key]  # type: ignore[arg-type]
        return found[0] if found and found[0] is not MISSING else None

    @property
    def forgets(self) -> bool:
        """Whether the method, or the objective inside it, has a budget, which must be given or estimated."""
        return "noise_rate" in (self.inner or self).readers

    @property
    def rate(self) -> Any:
        """The noise rate that the method, or the objective inside it, is given: a number or a word; else None."""
        return (self.inner or self).parameters.get("noise_rate")

    def with_parameters(self, **values: Any) -> MethodSpec:
        """The method with other values of some parameters."""
        return replace(self, parameters={**self.parameters, **values})

    def with_rate(self, rate: Any) -> MethodSpec:
        """The method with another noise rate, its own or that of the objective inside it."""
        inner = self.inner
        return (
            self.with_parameters(noise_rate=rate)
            if inner is None
            else self.with_parameters(objective=inner.with_rate(rate))
        )

    def __str__(self) -> str:
        """The method as the user writes it."""
        return ":".join([self.name, *(f"{key}={_text(value)}" for key, value in self.parameters.items())])


def _text(value: Any) -> str:
    text = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    return f"[{text}]" if set(text) & set(":+,") else text


def known_recipe(name: str) -> Recipe | None:
    """The recipe of a method that is built in, registered, or an entry point of an installed package; else None."""
    if name in METHODS:
        return METHODS[name]
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        return None
    recipe: Recipe = found[0].load()
    check_recipe(name, recipe)
    return recipe


def method_names() -> list[str]:
    """The names of all methods, those of installed packages last."""
    return [*METHODS, *sorted({entry.name for entry in entry_points(group=GROUP)} - {*METHODS})]


def register_method(name: str, recipe: Recipe) -> None:
    """Gives a method of your own a name, in this process.

    A package does the same for all processes with an entry point in the group ``antidote_learn.methods``.

    Args:
        name: The name that the user writes, with parameters as in "name:key=value".
        recipe: A dataclass whose fields are the parameters. Its objects are methods (`methods.base.Method`), or have a
            function ``method()`` that gives one, or a function ``objective(samples)`` that gives the objective of one
            network (`methods.base.Objective`).

    Raises:
        ValueError: The name is taken or is no name, or the recipe is no such class.

    Example:
        >>> from antidote_learn.nn.mean import MeanLoss
        >>> @dataclass(frozen=True)
        ... class Halved:
        ...     factor: float = 0.5
        ...
        ...     def objective(self, samples):
        ...         return MeanLoss(lambda logits, labels: self.factor * loss_function("ce")(logits, labels))
        >>> register_method("halved-ce", Halved)
        >>> str(parse_method("halved-ce:factor=0.25"))
        'halved-ce:factor=0.25'
    """
    if name in METHODS or name in LOSSES or name in ALIASES or not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        raise ValueError(f"{name!r} is taken, or no name: use letters, digits, '-', '_' and '.'")
    check_recipe(name, recipe)
    METHODS[name] = recipe


def method_of(given: Any) -> MethodSpec:
    """The method that `train` is given as a text, as a class, or as an object with its parameters."""
    if isinstance(given, MethodSpec):
        return given
    if isinstance(given, str):
        return parse_method(given)
    recipe = given if isinstance(given, type) else type(given)
    check_recipe(recipe.__name__, recipe)
    if isinstance(given, type):
        return MethodSpec(recipe.__name__, {}, recipe)
    values = {part.name: getattr(given, part.name) for part in fields(recipe) if part.init}
    if "objective" in values:
        values["objective"] = _objective_of(values["objective"])
    return MethodSpec(recipe.__name__, {k: v for k, v in values.items() if v is not None}, recipe)


def _objective_of(given: Any) -> MethodSpec:
    """The objective inside a method: a loss, or a method that trains one network on one objective."""
    spec = method_of(given)
    if spec.maker is not None and not makes_objective(spec.maker):
        known = ", ".join(name for name, recipe in METHODS.items() if makes_objective(recipe))
        raise ValueError(f"objective must be a loss or one of {known}; {str(spec)!r} is a whole training method")
    return spec


def parse_method(text: str) -> MethodSpec:
    """Reads a method, as in ``name:key=value``, or a sum of losses, as in ``nce+rce``.

    Brackets protect a value that has a colon: ``antidote:divergence=[alpha:1.5]``.

    Example:
        >>> parse_method("antidote:kappa=0:divergence=[alpha:1.5]").parameters
        {'kappa': 0.0, 'divergence': 'alpha:1.5'}
        >>> str(parse_method("nce + 0.5*mae"))
        'nce+0.5*mae'
    """
    text = expand_name(text)
    name, *given = split_outside_brackets(text, ":")
    recipe = known_recipe(name)
    if recipe is None:
        if name not in LOSSES and not set(name) & set("+*"):
            known = ", ".join([*method_names(), *LOSSES])
            raise ValueError(f"unknown method {name!r}; accepted: {known}, and sums of losses as in 'nce+0.5*mae'")
        return MethodSpec("+".join(map(str, parse_loss(text))), {})
    accepted, found = parameters_of(recipe), {}
    for parameter in given:
        key, equals, value = parameter.partition("=")
        if key not in accepted or not equals:
            known = ", ".join(f"{key}=..." for key in accepted) or "none"
            raise ValueError(f"method {text!r}: unknown parameter {parameter!r}; {name!r} accepts: {known}")
        if key in found:
            raise ValueError(f"method {text!r} gives {key} twice: leave one out")
        try:
            found[key] = accepted[key](value[1:-1] if value.startswith("[") and value.endswith("]") else value)
        except ValueError as error:
            raise ValueError(f"method {text!r}: {key} must be {error}, got {value!r}") from error
    if "objective" in found:
        found["objective"] = _objective_of(found["objective"])
    return MethodSpec(name, found)


def split_outside_brackets(text: str, mark: str) -> list[str]:
    """The parts of a text between marks; a mark inside square brackets divides nothing, unless one is not closed.

    Example:
        >>> split_outside_brackets("mixup:objective=[antidote:divergence=[alpha:2]]:alpha=4", ":")
        ['mixup', 'objective=[antidote:divergence=[alpha:2]]', 'alpha=4']
    """
    if text.count("[") != text.count("]"):
        return text.split(mark)
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == mark and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def with_budget(spec: MethodSpec, given: Mapping[str, Any]) -> MethodSpec:
    """The method with exactly one budget, if it takes any: its own, the given one, or the estimated rate."""
    inner = spec.inner
    if inner is not None:
        lost = [key for key, value in given.items() if value is not None and key not in inner.readers]
        if lost:
            raise ValueError(
                f"method {spec.name!r} with the objective {inner.name!r} takes no {' or '.join(lost)}: leave it out, "
                f"or take another objective, as in '{spec.name}:objective=antidote'"
            )
        budgeted = with_budget(inner, given)
        return spec if budgeted == inner else spec.with_parameters(objective=budgeted)
    chosen = {key: value for key, value in given.items() if value is not None}
    own = {key: spec.parameters[key] for key in BUDGETS if key in spec.parameters}
    foreign = [key for key in chosen if key not in spec.readers]
    if foreign:
        raise ValueError(f"method {spec.name!r} takes no {' or '.join(foreign)}: leave it out")
    if not spec.forgets and not chosen:
        return spec
    if len(chosen) + len(own) > 1:
        both = " and ".join([*(f"{k}={v}" for k, v in own.items()), *(f"{k}={v}" for k, v in chosen.items())])
        raise ValueError(f"give one of noise_rate, delta and penalty, got {both}")
    estimated = {} if chosen or own else {"noise_rate": "auto"}
    return spec.with_parameters(**chosen, **estimated)


def build_method(spec: MethodSpec, *, samples: int = 1) -> Method:
    """Builds a method for a number of training samples; its budget must be a number."""
    from antidote_learn.methods.one_network import OneNetwork

    if spec.maker is None or makes_objective(spec.maker):
        return OneNetwork(build_objective(spec, samples=samples))
    inner = spec.inner
    built = {} if inner is None else {"objective": build_objective(inner, samples=samples)}
    made = spec.maker(**{**spec.parameters, **built})
    method: Method = made.method() if hasattr(made, "method") else made
    return method


def build_objective(spec: MethodSpec, *, samples: int = 1) -> Objective:
    """Builds the objective of one network: the mean of a loss, or the one that a method makes."""
    from antidote_learn.nn.mean import MeanLoss

    if spec.maker is None:
        return MeanLoss(spec.name)
    objective: Objective = spec.maker(**spec.parameters).objective(samples)
    return objective


def check_method(method: MethodSpec, *, epochs: int | None = None) -> None:
    """Builds a method once to check its parameters, with a stand-in for a rate that is not known yet.

    Args:
        method: The method.
        epochs: The epochs of the training, which the stages of the method must fit in; None if not known yet.
    """
    from antidote_learn.methods.base import Hooks

    if method.maker is not None and makes_plan(method.maker):
        method.maker(**method.parameters)  # it refuses parameters out of range
        return
    rate = method.rate
    if isinstance(rate, str) and rate not in ("auto", "injected"):
        raise ValueError(f"noise_rate must be auto, injected or a number in [0, 1), got {rate!r}")
    built = build_method(method.with_rate(0.1) if isinstance(rate, str) else method)
    if epochs is not None:
        Hooks(built).stages(epochs)


def loss(
    name: str,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> RobustLoss:
    """A robust loss by name, as a module with the keywords of ``nn.CrossEntropyLoss`` (see `RobustLoss`).

    Args:
        name: The name of a loss (see `antidote list losses`), or a row of the paper's tables, with its weights for
            CIFAR-10, such as "preset:NCE+MAE".
        weight: (C,) class weights, as in torch.
        ignore_index: The label of elements that do not count.
        label_smoothing: The amount of label smoothing, as in torch.
        reduction: The reduction, "mean", "sum" or "none".

    Example:
        >>> loss("preset:NCE+MAE", reduction="sum")
        RobustLoss('nce+0.5*mae', reduction='sum')
    """
    from antidote_learn.nn.robust_loss import RobustLoss

    return RobustLoss(
        expand_name(name),
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
