"""Checks of numbers, with messages that say what was received, what is accepted and how to fix it."""

from __future__ import annotations

import math
import operator
import reprlib

SMALLEST = 1e-100  # the smallest positive number that is accepted: the cubed inverse of smaller ones leaves the doubles

LARGEST_PENALTY = 1e100  # the largest price that is accepted: larger ones leave the range of their summands


def real_number(value: object) -> float | None:
    """A real number as a float; None for anything else: truth values, text, complex numbers, arrays of several."""
    if isinstance(value, (bool, str, bytes, bytearray, complex)) or getattr(value, "ndim", 0) > 0:
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def check_penalty(value: float) -> float:
    """Checks the price C of a budget, above 0 and at most `LARGEST_PENALTY`, and returns it as a float."""
    if check_number("penalty", value, 0.0, open_end=True) > LARGEST_PENALTY:
        raise ValueError(f"penalty must be at most {LARGEST_PENALTY:g}, got {value!r}: there is nothing left to forget")
    return float(value)


def check_number(name: str, value: float, low: float, *, open_end: bool = False) -> float:
    """Checks a finite number, at least ``low`` (above ``low`` with ``open_end``), and returns it as a float."""
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
    """Checks a whole number from ``low`` to ``high``, and returns it as an int; a float is refused."""
    try:
        whole = None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        whole = None
    if whole is None or whole < low or (high is not None and whole > high):
        upto = "" if high is None else f" and at most {high}"
        raise ValueError(f"{name} must be a whole number >= {low}{upto}, got {reprlib.repr(value)}")
    return whole
