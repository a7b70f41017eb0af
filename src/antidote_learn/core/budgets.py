"""The budget delta and the largest forgotten fraction r_max, both ways (eq:delta_rmax), and the penalty on r_max."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from antidote_learn._checks import real_number
from antidote_learn.core.divergences import KL, Divergence, divergence_of

NEWTON = 24  # steps that bring any rate to its last digit
ONE_MINUS = 1.0 - 2.0**-52  # the largest rate, so that 1 / (1 - r) is finite


def delta_from_rate(rate: float, divergence: Divergence | str = KL) -> float:
    """The budget whose ball contains distributions that forget up to ``rate`` of the mass, and none that forget more.

    delta = r f(0) + (1 - r) f(1 / (1 - r)); KL: -log(1 - r). Limits: rate 0 gives 0.

    Args:
        rate: The fraction, in [0, 1).
        divergence: A record or a name.

    Example:
        >>> round(delta_from_rate(0.2), 6)
        0.223144
    """
    f = divergence_of(divergence)
    number = real_number(rate)
    if number is None or not 0.0 <= number < 1.0:
        raise ValueError(
            f"rate must be in [0, 1), got {rate!r}: the fraction of labels that may be wrong, 0.2 for 20 %"
        )
    require_forgetting(f)
    with np.errstate(over="ignore"):
        delta = float(budget_of(f, number))
    if math.isinf(delta):
        raise ValueError(f"the budget of rate {rate!r} under {f.name!r} exceeds the largest number: lower one of them")
    return delta


def rate_from_delta(delta: float, divergence: Divergence | str = KL) -> float:
    """The maximal fraction of the mass that a budget can forget: the inverse of `delta_from_rate`.

    Limits: 0 gives 0; at or beyond the maximum of a bounded divergence it is 1.

    Example:
        >>> round(rate_from_delta(0.223144), 6)
        0.2
    """
    f = divergence_of(divergence)
    number = real_number(delta)
    if number is None or not number >= 0.0:
        raise ValueError(f"delta must be a number >= 0, got {delta!r}")
    require_forgetting(f)
    if number >= f.max_delta:
        return 1.0
    return float(_invert_budget(f, number))


def require_forgetting(f: Divergence) -> None:
    """Refuses a divergence under which no sample can be forgotten."""
    if math.isinf(f.f_zero):
        raise ValueError(f"divergence {f.name!r} has f(0) = inf: no budget can forget a sample, so it has no rate")


def budget_of(f: Divergence, r: Any) -> Any:
    """delta(r) of eq:delta_rmax for numbers, arrays or tensors."""
    if f.budget is not None:
        return f.budget(r)
    z = 1.0 / (1.0 - r)
    return r * f.f_zero + (1.0 - r) * f.f(z)


def _budget_prime(f: Divergence, r: Any) -> Any:
    """The derivative d delta / d r = f(0) - f(z) + z f'(z), z = 1 / (1 - r): positive and increasing."""
    z = 1.0 / (1.0 - r)
    return f.f_zero - f.f(z) + z * f.f_prime(z)


def _invert_budget(f: Divergence, delta: Any, ops: Any = None) -> Any:
    """The rate of a budget; delta(r) is convex, so that Newton from the right falls onto the root."""
    if f.rate is not None:
        return f.rate(delta)
    r = delta / f.excess_zero
    for _ in range(NEWTON):
        r = _below_one(r, ops)
        r = r - (budget_of(f, r) - delta) / _budget_prime(f, r)
    return r


def _below_one(r: Any, ops: Any) -> Any:
    return min(r, ONE_MINUS) if ops is None else ops.select(r < ONE_MINUS, r, ops.scalar(ONE_MINUS))


def rate_at(ops: Any, f: Divergence, delta: Any) -> Any:
    """The rate of a budget inside an iteration, below 1."""
    return _below_one(_invert_budget(f, delta, ops), ops)


def penalty_value(penalty: float, rate: Any) -> Any:
    """V(r) = C r^2 / (1 - r) of app:delta_penalized_opt."""
    return penalty * rate * rate / (1.0 - rate)


def log_marginal_price(ops: Any, f: Divergence, delta: Any) -> tuple[Any, Any]:
    """The logarithm of (V'(r) / C) / delta'(r) at the r that delta allows, and its derivative in delta."""
    r = rate_at(ops, f, delta)
    z = 1.0 / (1.0 - r)
    slope = _budget_prime(f, r)
    value = ops.log(r * (2.0 - r)) + 2.0 * ops.log(z) - ops.log(slope)
    bend = z * z * z / f.curvature(z)  # d^2 delta / d r^2
    per_rate = 1.0 / r - 1.0 / (2.0 - r) + 2.0 * z - bend / slope
    return value, per_rate / slope
