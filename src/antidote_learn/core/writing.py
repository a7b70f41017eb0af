"""The weights of a solved inner problem on the host, written a chunk at a time, and mended where a step was trusted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from antidote_learn._types import Status
from antidote_learn.core.arrays import HostSample
from antidote_learn.core.points import Point
from antidote_learn.core.solvers import MENDED, SEEN

ROUNDING = 1e-13  # of a mean weight
SMALLEST = 1e-300  # variance to divide by

Ratio = Callable[[Any, slice], Any]  # (shifted losses of a chunk, which rows they are) -> dQ/dP


class Solved(NamedTuple):
    """The case that holds: what the value has beside the weighted losses, and dQ/dP over the shifted losses."""

    constant: float
    status: Status
    raw: dict[str, Any]
    ratio: Ratio
    unseen: Point | None = None  # a point that was stepped to and not evaluated


def written(
    kappa: float, sample: HostSample, solved: Solved, again: Callable[[], Solved], out: Any, keep: Any
) -> tuple[float, Status, dict[str, Any], float]:
    """Writes the weights; (constant, status, raw numbers, expected shifted loss).

    An unseen point of KL is seen here, through the mass and the moments of its weights. If it missed the budget by
    little, the weights are mended, else it is solved for ``again``, without a step that is taken on trust.
    """
    constant, status, raw, ratio, point = solved
    mass, expected, square = _write(out, keep, sample, ratio)
    if point is not None:
        delta, t, expected = raw["delta"], point.t, expected / mass
        raw["achieved"] = achieved = sample.total(-expected / t - sample.log1p(mass - 1.0) - (point.nu + 1.0))
        if abs(achieved - delta) > SEEN * delta:
            spread = sample.total(square / mass - expected * expected)
            change = mended(t, delta, achieved, spread)
            if change is None:
                return written(kappa, sample, again(), again, out, keep)
            slope, t = change
            _multiply(out, keep, sample, slope / mass, (1.0 - slope * expected) / mass)
            raw["achieved"], raw["lam"] = delta, t - kappa
            return kappa * delta, status, raw, sample.total(expected) + slope * spread
        constant = kappa * raw["achieved"]
    elif np.max(abs(mass - 1.0)) > ROUNDING:  # the last place of a shift may decide digits of the weights
        expected /= mass
    else:
        return constant, status, raw, sample.total(expected)
    if sample.grouped:
        _multiply(out, keep, sample, 0.0 * mass, 1.0 / mass)
    else:
        out *= 1.0 / mass
    return constant, status, raw, sample.total(expected)


def mended(t: float, delta: float, achieved: float, spread: float) -> tuple[float, float] | None:
    """From weights of KL with D = achieved to D = delta: (a, t), each weight times 1 + a (x - E x); None if too far.

    To first order in log t, in which D has the slope -Var x / t^2, with Var x = ``spread``.
    """
    change = (achieved - delta) / max(spread, SMALLEST) * t * t
    return (change / t, t * math.exp(change)) if abs(change) < MENDED else None


def _write(out: Any, keep: Any, sample: HostSample, ratio: Ratio) -> tuple[Any, Any, Any]:
    """Writes B q into ``out``, a chunk at a time; rows that are not kept stay 0. The integrals of 1, x and x^2 in Q."""
    rows = None if keep is None else np.flatnonzero(keep)
    moments: Any = [0.0, 0.0, 0.0]
    for x, p, part in sample.chunks():
        share = ratio(x, part) if p is None else ratio(x, part) * p
        out[part if rows is None else rows[part]] = share if p is None else share * out.size
        for power in range(3):
            moments[power] = moments[power] + sample.summed(share, part)
            share *= x
    mass, expected, square = moments
    return mass / sample.norm, expected / sample.norm, square / sample.norm


def _multiply(out: Any, keep: Any, sample: HostSample, slope: Any, constant: Any) -> None:
    """Multiplies the weights in ``out`` by slope x + constant."""
    rows = None if keep is None else np.flatnonzero(keep)
    for x, _, part in sample.chunks():
        out[part if rows is None else rows[part]] *= x * sample.at(slope, part) + sample.at(constant, part)
