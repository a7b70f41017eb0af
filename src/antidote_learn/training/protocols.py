"""The settings of a training: those of a named protocol, and those that the user gave."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from antidote_learn._checks import check_number, check_whole
from antidote_learn._types import Arrays
from antidote_learn.registry import Protocol, default_protocol, protocols
from antidote_learn.training.schedules import parse_schedule

OPTIMIZERS = ("sgd", "adamw")
MOST = {"epochs": 10**6, "batch_size": 10**9}
LARGEST_SEED = 2**63 - 1


def chosen_protocol(name: str | None, arrays: Arrays, given: dict[str, Any]) -> tuple[str, Protocol]:
    """The protocol's name, and its settings with those that were given."""
    known = protocols()
    name = name or default_protocol(arrays.name, _sample_shape(arrays))
    if name not in known:
        raise ValueError(f"unknown protocol {name!r}; accepted: {', '.join(known)}")
    chosen = {**asdict(known[name]), **{key: value for key, value in given.items() if value is not None}}
    for key, most in MOST.items():
        chosen[key] = check_whole(key, chosen[key], 1, most)
    settings = Protocol(**chosen)
    if settings.optimizer not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {settings.optimizer!r}; accepted: {', '.join(OPTIMIZERS)}")
    for key in ("lr", "weight_decay", "warmup", "clip"):
        check_number(key, getattr(settings, key), 0, open_end=key == "lr")
    parse_schedule(settings.schedule, epochs=settings.epochs)
    return name, settings


def _sample_shape(arrays: Arrays) -> tuple[int, ...]:
    """Images have three axes, all else one; the numbers do not matter yet."""
    shape = getattr(arrays.inputs, "shape", None)
    return (0,) if shape is not None and len(shape) == 2 else (0, 0, 0)


def check_seeds(seed: int, noise_seed: int) -> None:
    """Both are whole numbers that a generator takes."""
    check_whole("seed", seed, 0, LARGEST_SEED)
    check_whole("noise_seed", noise_seed, 0, LARGEST_SEED)
