"""The chi-square problem of a small sample solved without iterating."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=64)
def _prefix_masses(count: int) -> Any:
    """The masses 1/B, 2/B ... 1 of the smallest losses of a uniform sample."""
    shares = np.arange(1.0, count + 1.0) / count
    shares.flags.writeable = False
    return shares


def solve_chi2(x: Any, mass: Any, delta: float, kappa: float) -> tuple[float, float]:
    """(t, nu) of the chi-square problem without iterating, from sorted losses and prefix sums; mass None is uniform.

    With the n smallest losses alive, of mass P, mean m and variance v: t^2 = P v / (1 + 2 delta - 1 / P), and the
    threshold -rho = m + t / P must fall between the n-th loss and the next. Where rounding leaves no such n, t is 0.
    """
    if mass is None:
        x, total = np.sort(x), _prefix_masses(x.size)
        first = x / x.size
    else:
        order = np.argsort(x)
        x, mass = x[order], mass[order]
        total, first = np.cumsum(mass), mass * x
    mean = first.cumsum() / total
    first *= x
    spread = np.maximum(first.cumsum() / total - mean * mean, 0.0)
    room = (1.0 + 2.0 * delta) - 1.0 / total
    t = np.sqrt(total * spread / np.where(room > 0.0, room, math.nan))
    threshold = mean + t / total
    following = np.empty_like(x)
    following[:-1], following[-1] = x[1:], np.inf
    fits = (x < threshold) & (following >= threshold)
    n = int(fits.argmax())
    if fits[n] and t[n] >= kappa:
        return float(t[n]), float(-threshold[n] / t[n])
    if kappa == 0.0:
        return 0.0, 0.0
    threshold = mean + kappa / total
    n = int(np.flatnonzero(x < threshold)[-1])
    return kappa, float(-threshold[n] / kappa)
