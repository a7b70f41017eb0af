"""The settings of a training: those of a named protocol, and those that the user gave."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from antidote_learn._types import Arrays
from antidote_learn.registry import Protocol, default_protocol, protocols
from antidote_learn.training.schedules import parse_schedule

OPTIMIZERS = ("sgd", "adamw")


def chosen_protocol(name: str | None, arrays: Arrays, given: dict[str, Any]) -> tuple[str, Protocol]:
    """The protocol's name, and its settings with those that were given."""
    known = protocols()
    name = name or default_protocol(arrays.name, _sample_shape(arrays))
    if name not in known:
        raise ValueError(f"unknown protocol {name!r}; accepted: {', '.join(known)}")
    chosen = {**asdict(known[name]), **{key: value for key, value in given.items() if value is not None}}
    settings = Protocol(**chosen)
    if settings.optimizer not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {settings.optimizer!r}; accepted: {', '.join(OPTIMIZERS)}")
    for key in ("epochs", "batch_size"):
        check_positive(key, getattr(settings, key))
    for key in ("lr", "weight_decay", "warmup", "clip"):
        if not 0.0 <= getattr(settings, key) < float("inf") or (key == "lr" and settings.lr == 0.0):
            raise ValueError(f"{key} must be a positive number, got {getattr(settings, key)!r}")
    parse_schedule(settings.schedule, epochs=settings.epochs)
    return name, settings


def _sample_shape(arrays: Arrays) -> tuple[int, ...]:
    """Images have three axes, all else one; the numbers do not matter yet."""
    shape = getattr(arrays.inputs, "shape", None)
    return (0,) if shape is not None and len(shape) == 2 else (0, 0, 0)


def check_positive(name: str, value: int) -> int:
    """A whole number from 1 on."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
    return value
