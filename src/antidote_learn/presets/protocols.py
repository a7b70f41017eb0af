"""Named protocols as data: how a network is trained, with its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from antidote_learn.presets import base_data, read_presets

DATA_PROTOCOLS = {
    "digits": "features",
    "cifar10": "c10-antidote",
    "cifar100": "c100-antidote",
    "mnist": "mnist",
    "fashion-mnist": "mnist",
    "mini-webvision": "webv-antidote",
}


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How networks are trained: a protocol, with all that the user changed of it.

    Attributes:
        protocol: The protocol's name.
        model: The network's name; "auto" in a protocol stands for one by the kind of the samples.
        optimizer: "sgd" or "adamw".
        lr: The initial learning rate.
        momentum: The momentum of SGD.
        nesterov: Whether the momentum is Nesterov's.
        weight_decay: The weight decay of the optimiser.
        clip: The largest norm of a gradient; 0 for any.
        schedule: The learning rate's schedule, as in "step:100".
        schedule_epochs: The epochs for which the schedule was written.
        warmup: The epochs over which the learning rate rises from 0.
        epochs: How often the data is seen.
        batch_size: The samples of a global batch.
        recipe: The augmentation and normalisation of images.
        seed: The seed of weights, order and augmentation.
    """

    protocol: str
    model: str
    optimizer: str
    lr: float
    momentum: float
    nesterov: bool = False
    weight_decay: float
    clip: float
    schedule: str
    schedule_epochs: int
    warmup: float = 0.0
    epochs: int
    batch_size: int
    recipe: str
    seed: int = 0


@dataclass(frozen=True)
class Protocol:
    """A protocol of presets/protocols.toml: what it is, where it stands, and its settings."""

    about: str
    source: str
    settings: TrainingSettings


@cache
def protocols() -> dict[str, Protocol]:
    """All named protocols."""
    found = {}
    for name, entry in read_presets("protocols.toml").items():
        about, source = entry.pop("about"), entry.pop("source")
        settings = TrainingSettings(protocol=name, schedule_epochs=entry["epochs"], **entry)
        found[name] = Protocol(about, source, settings)
    return found


def default_protocol(data: str, shape: tuple[int, ...]) -> str:
    """The protocol of a data set, by its name (``cifar10n-worse`` is CIFAR-10) or by the kind of its samples."""
    return DATA_PROTOCOLS.get(base_data(data)) or ("images" if len(shape) == 3 else "features")
