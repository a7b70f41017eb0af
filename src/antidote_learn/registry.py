"""Names of methods, losses and protocols, and how a user writes them.

Torch is imported when something is built: a name can be refused without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from antidote_learn.core.losses import LOSSES
from antidote_learn.core.losses.naming import loss_function, parse_loss
from antidote_learn.presets import preset, read

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn.methods.base import Method
    from antidote_learn.nn.robust import RobustLoss

BUDGETS = ("noise_rate", "delta", "penalty")


@dataclass(frozen=True)
class MethodEntry:
    """A method that can be named.

    Attributes:
        about: One line for the user.
        build: Parameters to a method.
        parameters: What may follow the name: a function from text to value for each.
        remembers: Whether it also takes ``num_samples``, as it keeps something of every sample.
    """

    about: str
    build: Callable[..., Method]
    parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    remembers: bool = False


def _rate(text: str) -> float | str:
    return text if text in ("auto", "injected") else float(text)


def _build_antidote(**given: Any) -> Method:
    from antidote_learn.methods.single import Single
    from antidote_learn.nn.antidote import AntidoteLoss

    return Single(AntidoteLoss(**given))


def _build_antidote_dataset(**given: Any) -> Method:
    from antidote_learn.methods.single import Single
    from antidote_learn.nn.dataset import DatasetAntidoteLoss

    return Single(DatasetAntidoteLoss(**given))


METHODS: dict[str, MethodEntry] = {
    "antidote": MethodEntry(
        "ANTIDOTE, the paper's Algorithm 1: forgets mislabelled samples, batch by batch",
        _build_antidote,
        {
            "noise_rate": _rate,
            "delta": float,
            "penalty": float,
            "kappa": float,
            "divergence": str,
            "base_loss": str,
        },
    ),
    "antidote-dataset": MethodEntry(
        "ANTIDOTE over the whole data set, within each class, by remembered losses",
        _build_antidote_dataset,
        {"noise_rate": _rate, "delta": float, "kappa": float},
        remembers=True,
    ),
}
# Names that users of the published code know.
ALIASES = {
    "CE": "ce",
    "FL": "preset:FL",
    "MAE": "mae",
    "GCE": "preset:GCE",
    "RCE": "rce",
    "SCE": "preset:SCE",
    "NCE": "nce",
    "NCEandMAE": "preset:NCE+MAE",
    "NCEandRCE": "preset:NCE+RCE",
    "NFLandRCE": "preset:NFL+RCE",
    "NCEandAUL": "preset:NCE+AUL",
    "NCEandAGCE": "preset:NCE+AGCE",
    "NCEandAEL": "preset:NCE+AEL",
    "AUL": "preset:AUL",
    "AUE": "preset:AUL",
    "AGCE": "preset:AGCE",
    "AEL": "preset:AEL",
    "AExp": "preset:AEL",
    "LDR": "preset:LDR-KL",
    "CEandLC": "preset:CE+LC",
    "ECEandMAE": "preset:CE_eps+MAE",
    "EFLandMAE": "preset:FL_eps+MAE",
    "NLNL": "preset:NLNL",
    "antidote_kl_bisec": "antidote",
}


@dataclass(frozen=True)
class MethodSpec:
    """A method as the user wrote it: name and parameters."""

    name: str
    parameters: Mapping[str, Any]

    @property
    def is_loss(self) -> bool:
        """Whether the name is that of a loss, or a sum of losses, to train a network on."""
        return self.name not in METHODS

    @property
    def forgets(self) -> bool:
        """Whether the method has a budget that must come from somewhere."""
        return not self.is_loss and "noise_rate" in METHODS[self.name].parameters

    def __str__(self) -> str:
        """As it is written."""
        return ":".join([self.name, *(f"{key}={_text(value)}" for key, value in self.parameters.items())])


def _text(value: Any) -> str:
    text = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    return f"[{text}]" if set(text) & set(":+,") else text


def resolved(text: str, *, data: str = "cifar10", noise: str = "symmetric") -> str:
    """A loss or method as it is written, with aliases and ``preset:ROW`` replaced by what they stand for.

    Args:
        text: What the user wrote.
        data: The data set at hand: a preset may depend on it.
        noise: The noise at hand, likewise.

    Example:
        >>> resolved("preset:NCE+MAE", data="cifar100")
        '10*nce+0.05*mae'
    """
    if not isinstance(text, str):
        raise ValueError(f"a loss or method is named by a string such as 'gce:q=0.7', got {text!r}")
    text = ALIASES.get(text.strip(), text.strip())
    return preset(text.removeprefix("preset:"), data=data, noise=noise).loss if text.startswith("preset:") else text


def parse_method(text: str) -> MethodSpec:
    """``name:key=value:...``; brackets protect a value: ``antidote:divergence=[alpha:1.5]``. Or a loss: ``nce+rce``.

    Example:
        >>> parse_method("antidote:kappa=0:divergence=[alpha:1.5]").parameters
        {'kappa': 0.0, 'divergence': 'alpha:1.5'}
        >>> str(parse_method("nce + 0.5*mae"))
        'nce+0.5*mae'
    """
    text = resolved(text)
    name, *given = re.split(r":(?![^\[]*\])", text)
    if name not in METHODS:
        if name not in LOSSES and not set(name) & set("+*"):
            known = ", ".join([*METHODS, *LOSSES])
            raise ValueError(f"unknown method {name!r}; accepted: {known}, and sums of losses as in 'nce+0.5*mae'")
        return MethodSpec("+".join(map(str, parse_loss(text))), {})
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
    foreign = [key for key in chosen if spec.is_loss or key not in METHODS[spec.name].parameters]
    if foreign:
        raise ValueError(f"method {spec.name!r} takes no {' or '.join(foreign)}: leave it out")
    if not spec.forgets:
        return spec
    if len(chosen) + len(own) > 1:
        both = " and ".join([*(f"{k}={v}" for k, v in own.items()), *(f"{k}={v}" for k, v in chosen.items())])
        raise ValueError(f"give one of noise_rate, delta and penalty, got {both}")
    return MethodSpec(spec.name, {**spec.parameters, **chosen, **({} if chosen or own else {"noise_rate": "auto"})})


def build_method(spec: MethodSpec, *, num_samples: int = 1) -> Method:
    """A method whose budget is a number, for so many training samples."""
    if spec.is_loss:
        from antidote_learn.methods.single import Single

        return Single(loss_function(spec.name))
    entry = METHODS[spec.name]
    return entry.build(**spec.parameters, **({"num_samples": num_samples} if entry.remembers else {}))


def check_method(method: MethodSpec) -> None:
    """Builds it once, with a rate that stands in for one that is not known yet."""
    rate = method.parameters.get("noise_rate")
    if isinstance(rate, str) and rate not in ("auto", "injected"):
        raise ValueError(f"noise_rate must be auto, injected or a number in [0, 1), got {rate!r}")
    stand_in = {**method.parameters, **({"noise_rate": 0.1} if isinstance(rate, str) else {})}
    build_method(MethodSpec(method.name, stand_in))


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
        name: See `antidote list losses`; also a row of the paper's tables, with its weights for CIFAR-10:
            "preset:NCE+MAE".
        weight: (C,) class weights, as in torch.
        ignore_index: Elements with this label do not count.
        label_smoothing: As in torch.
        reduction: "mean", "sum" or "none".

    Example:
        >>> loss("preset:NCE+MAE", reduction="sum")
        RobustLoss('nce+0.5*mae', reduction='sum')
    """
    from antidote_learn.nn.robust import RobustLoss

    return RobustLoss(
        resolved(name),
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )


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
    return {name: Protocol(**entry) for name, entry in read("protocols.toml").items()}


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
