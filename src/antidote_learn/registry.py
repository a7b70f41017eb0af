"""Names of methods and protocols, and how a user writes them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from antidote_learn.core.losses import LOSSES
from antidote_learn.methods.base import Method
from antidote_learn.methods.single import Single
from antidote_learn.nn.antidote import AntidoteLoss

BUDGETS = ("noise_rate", "delta", "penalty")


@dataclass(frozen=True)
class MethodEntry:
    """A method that can be named.

    Attributes:
        about: One line for the user.
        build: Parameters to a method.
        parameters: What may follow the name: a function from text to value for each.
    """

    about: str
    build: Callable[..., Method]
    parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)


def _rate(text: str) -> float | str:
    return text if text in ("auto", "injected") else float(text)


METHODS: dict[str, MethodEntry] = {
    "antidote": MethodEntry(
        "ANTIDOTE, the paper's Algorithm 1: forgets mislabelled samples, batch by batch",
        lambda **given: Single(AntidoteLoss(**given)),
        {
            "noise_rate": _rate,
            "delta": float,
            "penalty": float,
            "kappa": float,
            "divergence": str,
            "base_loss": str,
        },
    ),
    "ce": MethodEntry("plain cross-entropy", lambda: Single(LOSSES["ce"])),
}


@dataclass(frozen=True)
class MethodSpec:
    """A method as the user wrote it: name and parameters."""

    name: str
    parameters: Mapping[str, Any]

    @property
    def forgets(self) -> bool:
        """Whether the method has a budget that must come from somewhere."""
        return "noise_rate" in METHODS[self.name].parameters

    def __str__(self) -> str:
        """As it is written."""
        return ":".join([self.name, *(f"{key}={_text(value)}" for key, value in self.parameters.items())])


def _text(value: Any) -> str:
    text = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    return f"[{text}]" if set(text) & set(":+,") else text


def parse_method(text: str) -> MethodSpec:
    """``name:key=value:...``; brackets protect a value: ``antidote:divergence=[alpha:1.5]``.

    Example:
        >>> parse_method("antidote:kappa=0:divergence=[alpha:1.5]").parameters
        {'kappa': 0.0, 'divergence': 'alpha:1.5'}
    """
    name, *given = re.split(r":(?![^\[]*\])", text)
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; accepted: {', '.join(METHODS)}")
    accepted, found = METHODS[name].parameters, {}
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
            raise ValueError(f"method {text!r}: {key} must be a number, got {value!r}") from error
    return MethodSpec(name, found)


def with_budget(spec: MethodSpec, given: Mapping[str, Any]) -> MethodSpec:
    """The method with exactly one budget: its own, or the one that is given, or the estimated rate."""
    chosen = {key: value for key, value in given.items() if value is not None}
    own = {key: spec.parameters[key] for key in BUDGETS if key in spec.parameters}
    if not spec.forgets:
        if chosen:
            raise ValueError(f"method {spec.name!r} takes no {' or '.join(chosen)}: leave it out")
        return spec
    if len(chosen) + len(own) > 1:
        both = " and ".join([*(f"{k}={v}" for k, v in own.items()), *(f"{k}={v}" for k, v in chosen.items())])
        raise ValueError(f"give one of noise_rate, delta and penalty, got {both}")
    return MethodSpec(spec.name, {**spec.parameters, **chosen, **({} if chosen or own else {"noise_rate": "auto"})})


def build_method(spec: MethodSpec) -> Method:
    """A method whose budget is a number."""
    return METHODS[spec.name].build(**spec.parameters)


@dataclass(frozen=True)
class Protocol:
    """How a network is trained; see presets/protocols.toml."""

    about: str
    source: str
    model: str
    optimizer: str
    momentum: float
    lr: float
    schedule: str
    epochs: int
    batch_size: int
    weight_decay: float
    clip: float
    recipe: str
    nesterov: bool = False
    warmup: float = 0.0


def protocols() -> dict[str, Protocol]:
    """All named protocols."""
    text = files("antidote_learn.presets").joinpath("protocols.toml").read_text(encoding="utf-8")
    return {name: Protocol(**entry) for name, entry in tomllib.loads(text).items()}


DATA_PROTOCOLS = {
    "digits": "features",
    "cifar10": "c10-antidote",
    "cifar100": "c100-antidote",
    "mnist": "mnist",
    "fashion-mnist": "mnist",
    "mini-webvision": "webv-antidote",
}


def default_protocol(data: str, shape: tuple[int, ...]) -> str:
    """The protocol of a data set, by its name (``cifar10n-worse`` is CIFAR-10) or by the kind of its samples."""
    base = re.sub(r"^(cifar100?)n.*", r"\1", data)
    return DATA_PROTOCOLS.get(base) or ("images" if len(shape) == 3 else "features")
