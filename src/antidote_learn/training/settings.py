"""The settings of a training: a named protocol, changed by the settings that the user gave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from antidote_learn._checks import check_number, check_whole
from antidote_learn._types import Arrays
from antidote_learn.presets.protocols import TrainingSettings, default_protocol, protocols
from antidote_learn.training.schedules import parse_schedule

OPTIMIZERS = ("sgd", "adamw")
MOST = {"epochs": 10**6, "batch_size": 10**9}  # larger numbers are taken for a mistake
LARGEST_SEED = 2**63 - 1  # the largest seed that torch's generators take


def resolve_settings(name: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Checks the settings that the user gave, and leaves out those that are None.

    Raises:
        ValueError: A setting cannot be used, or there is no such protocol.
    """
    known = protocols()
    if name is not None and name not in known:
        raise ValueError(f"unknown protocol {name!r}; accepted: {', '.join(known)}")
    own = {key: value for key, value in given.items() if value is not None}
    for key in [key for key in MOST if key in own]:
        own[key] = check_whole(key, own[key], 1, MOST[key])
    if own.get("optimizer", OPTIMIZERS[0]) not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {own['optimizer']!r}; accepted: {', '.join(OPTIMIZERS)}")
    for key in [key for key in ("lr", "weight_decay", "warmup", "clip") if key in own]:
        check_number(key, own[key], 0, open_end=key == "lr")
    if "schedule" in own:
        parse_schedule(own["schedule"], epochs=1)
    return own


def settings_for(name: str | None, arrays: Arrays, own: dict[str, Any], *, seed: int) -> TrainingSettings:
    """The settings of a protocol, by default that of the data, changed by the user's own settings.

    A schedule of the user counts in the epochs of the run, the schedule of a protocol in the protocol's epochs.
    """
    protocol = protocols()[name or default_protocol(arrays.name, _sample_shape(arrays))].settings
    settings = replace(protocol, **own, seed=seed)
    return replace(settings, schedule_epochs=settings.epochs) if "schedule" in own else settings


def _sample_shape(arrays: Arrays) -> tuple[int, ...]:
    """A shape with three axes for images, and one axis for all else; the lengths do not matter yet."""
    shape = getattr(arrays.inputs, "shape", None)
    return (0,) if shape is not None and len(shape) == 2 else (0, 0, 0)


def check_seeds(seed: int, noise_seed: int) -> None:
    """Refuses seeds that no generator takes."""
    check_whole("seed", seed, 0, LARGEST_SEED)
    check_whole("noise_seed", noise_seed, 0, LARGEST_SEED)
