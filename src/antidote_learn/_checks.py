"""Argument checks, with messages that say what was received, what is accepted and how to fix it."""

from __future__ import annotations

import math
import operator
import reprlib

import torch
from torch import Tensor

SMALLEST = 1e-100  # a positive number below is a slip: its inverse, cubed, leaves the range of doubles

LARGEST_PENALTY = 1e100


def real_number(value: object) -> float | None:
    """A real number as a float; None for anything else: truth values, text, complex numbers, arrays of several."""
    if isinstance(value, (bool, str, bytes, bytearray, complex)) or getattr(value, "ndim", 0) > 0:
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def check_penalty(value: float) -> float:
    """The price C of a budget: beyond 1e100 it leaves the range of what it is added to."""
    if check_number("penalty", value, 0.0, open_end=True) > LARGEST_PENALTY:
        raise ValueError(f"penalty must be at most {LARGEST_PENALTY:g}, got {value!r}: there is nothing left to forget")
    return float(value)


def check_number(name: str, value: float, low: float, *, open_end: bool = False) -> float:
    """A real number at least ``low`` (above it with ``open_end``) as a float; +inf is refused."""
    bound = f"{'>' if open_end else '>='} {low:g}"
    number = value if type(value) is float else real_number(value)
    if number is None:
        raise ValueError(f"{name} must be a number {bound}, got {reprlib.repr(value)}")
    if not (low < number < math.inf or (number == low and not open_end)):
        raise ValueError(f"{name} must be a finite number {bound}, got {value!r}")
    if 0.0 < number < SMALLEST:
        raise ValueError(f"{name} must be a finite number {bound}, and at least {SMALLEST:g} unless 0, got {value!r}")
    return number


def check_whole(name: str, value: int, low: int, high: int | None = None) -> int:
    """A whole number from ``low`` to ``high`` as an int; a float is none."""
    try:
        whole = None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        whole = None
    if whole is None or whole < low or (high is not None and whole > high):
        upto = "" if high is None else f" and at most {high}"
        raise ValueError(f"{name} must be a whole number >= {low}{upto}, got {reprlib.repr(value)}")
    return whole


def check_losses(losses: Tensor) -> None:
    """A floating-point vector; values are looked at by the solver."""
    if not isinstance(losses, Tensor) or losses.dim() != 1 or not losses.is_floating_point():
        kind = f"{losses.dtype} of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(f"losses must be a floating-point tensor of shape (B,), one loss a sample; got {kind}")


def check_measure(measure: Tensor, losses: Tensor, name: str = "base_weight") -> None:
    """A reference measure of the losses' shape."""
    if not isinstance(measure, Tensor) or measure.shape != losses.shape:
        kind = f"shape {tuple(measure.shape)}" if isinstance(measure, Tensor) else type(measure).__name__
        raise ValueError(f"{name} must be a tensor of the losses' shape {tuple(losses.shape)}, got {kind}")
    if measure.dtype == torch.bool or measure.is_complex():
        raise ValueError(f"{name} must hold real numbers >= 0, got {measure.dtype}")


def check_groups(groups: Tensor, losses: Tensor) -> None:
    """An integer for each loss."""
    if not isinstance(groups, Tensor) or groups.shape != losses.shape:
        kind = f"shape {tuple(groups.shape)}" if isinstance(groups, Tensor) else type(groups).__name__
        raise ValueError(f"groups must be a tensor of the losses' shape {tuple(losses.shape)}, got {kind}")
    if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
        raise ValueError(f"groups must hold whole numbers, one group each; got {groups.dtype}: use groups.long()")
