"""Checks of numbers, with messages that say what was received, what is accepted and how to fix it."""

from __future__ import annotations

import math
import operator
import reprlib

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
