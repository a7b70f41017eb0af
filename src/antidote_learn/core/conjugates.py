"""A user's own f-divergence, checked numerically before it is used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn.core.divergences import Divergence, Function, namespace

TorchFunction = Callable[[Tensor], Tensor]
AGREEMENT = 1e-6  # tolerance of the checks
NUDGE = 1e-6  # relative step of numerical derivatives
FAR, FARTHER = 1e200, 1e300  # two arguments at which a limit is read off


def from_conjugate(
    f: TorchFunction,
    f_prime: TorchFunction,
    conjugate: TorchFunction,
    conjugate_prime: TorchFunction,
    *,
    domain: tuple[float, float] = (0.0, math.inf),
    name: str = "custom",
) -> Divergence:
    """A divergence of one's own, from f on (a, b) and its conjugate f*(y) = sup_x {y x - f(x)} (thm:duality).

    The functions are checked: f(1) = 0, f' is the derivative of f and strictly increasing, f*' inverts f', and
    f*(f'(w)) = w f'(w) - f(w). The values f(0), f'(0) and f'(inf) are read off as limits.

    Args:
        f: The generator, strictly convex, written with torch functions, element by element.
        f_prime: Its derivative.
        conjugate: f*.
        conjugate_prime: f*'; its values are weights, in [a, b].
        domain: The interval (a, b) of f, 0 <= a < 1 < b <= inf.
        name: What messages call it.

    Raises:
        ValueError: Where a check fails, with the point at which it does.

    Example:
        >>> import torch
        >>> neyman = from_conjugate(
        ...     lambda w: (w - 1) ** 2 / (2 * w), lambda w: (1 - w**-2) / 2,
        ...     lambda y: 1 - torch.sqrt(1 - 2 * y), lambda y: (1 - 2 * y) ** -0.5, name="neyman")
        >>> neyman.f_zero
        inf
    """
    low, high = domain
    if not 0.0 <= low < 1.0 < high:
        raise ValueError(f"domain must be (a, b) with 0 <= a < 1 < b, got {domain!r}")
    generator, slope = (
        _inside(_lift(f), low, high, math.inf, math.inf),
        _inside(_lift(f_prime), low, high, -math.inf, math.inf),
    )
    star, weight = _lift(conjugate), _lift(conjugate_prime)
    _verify(name, generator, slope, star, weight, low, high)
    f_zero = math.inf if low > 0.0 else _limit(generator, 1.0 / FAR, 1.0 / FARTHER, math.inf)
    slope_one = float(slope(1.0))

    def curvature(w: Any) -> Any:
        xp = namespace(w)
        step = xp.where(w > 0, w, 1.0) * NUDGE
        bend = (slope(w + step) - slope(w - step)) / (2.0 * step)
        return xp.where((w > low) & (bend > 0) & xp.isfinite(bend), 1.0 / xp.where(bend > 0, bend, 1.0), 0.0)

    def excess(d: Any) -> Any:
        xp = namespace(d)
        return xp.where(d > -1.0, generator(xp.where(d > -1.0, d, 0.0) + 1.0) - slope_one * d, f_zero + slope_one)

    return Divergence(
        name=name,
        f=generator,
        f_prime=slope,
        conjugate=star,
        conjugate_prime=weight,
        curvature=curvature,
        excess=excess,
        f_zero=f_zero,
        slope_inf=math.inf if high < math.inf else _limit(slope, FAR, FARTHER, math.inf),
        domain=(low, high),
        vanishing_score=-math.inf if low > 0.0 else _limit(slope, 1.0 / FAR, 1.0 / FARTHER, -math.inf),
    )


def _lift(function: TorchFunction) -> Function:
    """A torch function that also takes NumPy arrays and numbers."""

    def accept(x: Any) -> Any:
        if isinstance(x, Tensor):
            return function(x)
        out = function(torch.as_tensor(np.asarray(x, dtype=np.float64))).numpy()
        return out if np.ndim(x) else float(out)

    return accept


def _inside(function: Function, low: float, high: float, below: float, above: float) -> Function:
    """The function on (a, b), closed at the ends where it is finite there, and constants outside."""

    def extend(w: Any) -> Any:
        xp = namespace(w)
        fits = (w >= low) & (w <= high) if low > 0.0 else (w > 0.0) & (w <= high)
        safe = function(xp.where(fits, w, 1.0))
        return xp.where(fits, safe, xp.where(w > high, above, below))

    return extend


def _limit(function: Function, near: float, nearer: float, diverged: float) -> float:
    a, b = float(function(near)), float(function(nearer))
    return b if math.isfinite(b) and abs(a - b) <= AGREEMENT * (1.0 + abs(b)) else diverged


def _verify(name: str, f: Function, slope: Function, star: Function, weight: Function, low: float, high: float) -> None:
    inner = np.concatenate([1.0 - (1.0 - low) * np.logspace(-6, -0.01, 40)[::-1], [1.0]])
    outer = 1.0 + (np.logspace(-6, 2, 60) if high == math.inf else (high - 1.0) * np.logspace(-6, -0.01, 60))
    w = np.concatenate([inner, outer])
    value, y = f(w), slope(w)
    step = NUDGE * np.minimum(np.minimum(w - low, w), high - w)
    numeric = (f(w + step) - f(w - step)) / (2.0 * step)
    inverse = np.abs(weight(y) - w) <= AGREEMENT * (1.0 + w)
    conjugate = np.abs(star(y) - (w * y - value)) <= AGREEMENT * (1.0 + np.abs(w * y))
    checks = [
        (np.abs(f(np.ones(1))) <= 1e-9, "f(1) must be 0", np.ones(1)),
        (np.isfinite(value) & np.isfinite(y), "f and f' must be finite inside the domain", w),
        (np.diff(y) > 0.0, "f is not strictly convex, f' does not increase; a flat f needs a solution of its own", w),
        (np.abs(numeric - y) <= 1e-3 * (1.0 + np.abs(y)), "f_prime is not the derivative of f", w),
        (inverse, "conjugate_prime does not invert f_prime: f*'(f'(w)) must be w", w),
        (conjugate, "conjugate is not f*: f*(f'(w)) must be w f'(w) - f(w)", w),
    ]
    for passed, reason, where in checks:
        if not passed.all():
            at = where[int(np.argmin(passed))]
            raise ValueError(f"divergence {name!r}: {reason}; it fails at w = {at:.6g} (domain ({low:g}, {high:g}))")
