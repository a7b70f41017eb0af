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
    chosen = own_settings(name, given)
    name = name or default_protocol(arrays.name, _sample_shape(arrays))
    return name, Protocol(**{**asdict(protocols()[name]), **chosen})


def own_settings(name: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given, without those that are None; ValueError for one that cannot be, or the protocol."""
    known = protocols()
    if name is not None and name not in known:
        raise ValueError(f"unknown protocol {name!r}; accepted: {', '.join(known)}")
    chosen = {key: value for key, value in given.items() if value is not None}
    for key in [key for key in MOST if key in chosen]:
        chosen[key] = check_whole(key, chosen[key], 1, MOST[key])
    if chosen.get("optimizer", OPTIMIZERS[0]) not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {chosen['optimizer']!r}; accepted: {', '.join(OPTIMIZERS)}")
    for key in [key for key in ("lr", "weight_decay", "warmup", "clip") if key in chosen]:
        check_number(key, chosen[key], 0, open_end=key == "lr")
    if "schedule" in chosen:
        parse_schedule(chosen["schedule"], epochs=1)
    return chosen


def _sample_shape(arrays: Arrays) -> tuple[int, ...]:
    """Images have three axes, all else one; the numbers do not matter yet."""
    shape = getattr(arrays.inputs, "shape", None)
    return (0,) if shape is not None and len(shape) == 2 else (0, 0, 0)


def check_seeds(seed: int, noise_seed: int) -> None:
    """Both are whole numbers that a generator takes."""
    check_whole("seed", seed, 0, LARGEST_SEED)
    check_whole("noise_seed", noise_seed, 0, LARGEST_SEED)
