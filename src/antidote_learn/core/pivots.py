"""Alpha of high order, in logarithms: its offset nearly is a loss, the pivot, and is sought in the distance to it.

The weights are w = u^p / mean(u^p) with u = max(1 - x / o, 0) and p = 1 / (a - 1). With a large order a the power p is
small: a pivot of middling weight has a u far below the last place of the offset o, and E[w^a] leaves the range of
doubles. Both are plain in logarithms. The pivot is found by bisecting the sorted losses, then o = pivot + exp(v) in v.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from antidote_learn.core.moments import Point, Problem
from antidote_learn.core.sample import Sample, Scalar
from antidote_learn.core.steps import Search, find_root

FADED = 60.0  # log of the ratio of the heaviest sample's weight to the lightest pivot's; more does not show in doubles
COLDEST = 667.0  # the temperature is at least exp(-667) = 1e-290 of the offset, so that doubles hold their ratio
SMALL = 0.01  # log E[w^a] below which it has lost digits; D is then a mean of non-negative terms
LARGEST = 709.7  # log of nearly the largest double
RANKS = 24  # bisections of up to 16 million sorted losses, in a loop that cannot stop early
STEPS = 40  # steps in v, in a loop that cannot stop early
PLACES = 192  # points that look for the lowest of several minima of the penalised problem
SEEN = 8.0  # log of how much lighter than the heaviest sample a pivot is at the lowest of the `PLACES`

Residual = Callable[[Scalar, "Steep"], tuple[Scalar, Scalar, Scalar]]  # that of a `Search`


class Steep(NamedTuple):
    """The distribution at one offset, in logarithms where numbers may leave the range of doubles."""

    pivot: Scalar
    v: Scalar
    log_mass: Scalar  # log mean(u^p)
    log_t: Scalar  # log of the temperature
    level: Scalar  # log E[w^a] = log(1 + a (a - 1) D)
    log_divergence: Scalar
    level_slope: Scalar  # d level / d v
    slope: Scalar  # d log_divergence / d v
    drift: Scalar  # d log_t / d v
    expected: Scalar  # E[w x]


def log_shares(xp: Any, x: Any, pivot: Scalar, v: Scalar, beyond: Scalar) -> tuple[Any, Any]:
    """(log u, whether it is finite) at the offset pivot + beyond, beyond = exp(v) that may have underflowed."""
    offset, ahead = pivot + beyond, (pivot - x) + beyond
    at_pivot = x == pivot
    alive = (ahead > 0.0) | at_pivot
    log_ahead = xp.where(at_pivot, v, xp.log(xp.where(ahead > 0.0, ahead, 1.0)))
    low = x < 0.5 * offset
    near = xp.log1p(xp.where(low, x, 0.0) * (-1.0 / offset))
    return xp.where(low, near, log_ahead - math_log(xp, offset)), alive


def math_log(xp: Any, x: Any) -> Any:
    """The logarithm of a number of the host or of a device."""
    return math.log(x) if isinstance(x, float) else xp.log(x)


def steep_weights(xp: Any, x: Any, exponent: float, at: tuple[Scalar, Scalar, Scalar]) -> Any:
    """dQ/dP over the shifted losses; ``at`` is (pivot, v, log mean(u^p))."""
    pivot, v, log_mass = at
    beyond = math.exp(v) if isinstance(v, float) else xp.exp(v)
    log_u, alive = log_shares(xp, x, pivot, v, beyond)
    return xp.where(alive, xp.exp(exponent * log_u - log_mass), 0.0)


def steep_point(problem: Problem, p: float, pivot: Scalar, v: Scalar) -> Steep:
    """Alpha of order 1 + 1/p at the offset pivot + exp(v), which makes the temperature explicit."""
    ops, a, b = problem.sample, 1.0 + 1.0 / p, 1.0 / p
    beyond = ops.exp(v)
    log_o = ops.log(pivot + beyond)

    def terms(xp: Any, x: Any) -> tuple[tuple[Any, int], ...]:
        log_u, alive = log_shares(xp, x, pivot, v, beyond)
        less = xp.where(alive, xp.expm1(p * log_u), -1.0)
        g = less + 1.0
        return (
            (less, 0),
            (g, 0),
            (xp.where(alive, g * xp.exp(log_u), 0.0), 0),
            (xp.where(alive, g * xp.exp((v - log_o) - log_u), 0.0), 0),
            (g, 1),
        )

    less, mass, first, ahead, expected = ops.integrate(terms)
    mass, first = ops.at_least(ops.tiny, mass), ops.at_least(ops.tiny, first)
    log_mass = ops.select(mass < 0.5, ops.log(mass), ops.log1p(ops.at_least(-0.75, less - problem.missing)))
    drift = ahead / mass
    level = ops.log(first) - a * log_mass
    climb = (1.0 + p) * (ops.exp(v - log_o) * mass / first - drift)
    level, log_d, grown = _log_divergence(problem, p, (pivot, v, log_mass), level)
    return Steep(
        pivot, v, log_mass, math.log(b) + log_o + b * log_mass, level, log_d, climb, climb / grown, drift,
        expected / mass,
    )  # fmt: skip


def _log_divergence(
    problem: Problem, p: float, at: tuple[Scalar, Scalar, Scalar], level: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """(level, log D, 1 - exp(-level)), from the level, or from the mean of D's terms where that is small."""
    ops, a = problem.sample, 1.0 + 1.0 / p
    scale = a / p
    if ops.eager and level > SMALL:
        grown = 1.0 - ops.exp(-level)
        return level, level + ops.log(grown) - math.log(scale), grown

    def excess(xp: Any, x: Any) -> tuple[tuple[Any, int], ...]:
        pivot, v, log_mass = at
        log_u, alive = log_shares(xp, x, pivot, v, ops.exp(v))
        log_w = xp.where(alive, p * log_u - log_mass, 0.0)
        return ((xp.where(alive, (xp.expm1(a * log_w) - a * xp.expm1(log_w)) / scale, 1.0 / a), 0),)

    exact = ops.at_least(ops.tiny, ops.integrate(excess)[0] + problem.missing / a)
    inflated, large = exact * scale, level > SMALL
    grown = ops.select(large, 1.0 - ops.exp(-level), inflated / (1.0 + inflated))
    log_d = ops.select(large, level + ops.log(grown) - math.log(scale), ops.log(exact))
    return ops.select(large, level, ops.log1p(inflated)), log_d, grown


def _cap(ops: Sample, log_x: Scalar) -> Scalar:
    """A logarithm, at most that of nearly the largest double."""
    return -ops.at_least(-LARGEST, -log_x)


def _linear(ops: Sample, log_x: Scalar) -> Scalar:
    """The number itself, at most nearly the largest double."""
    return ops.exp(_cap(ops, log_x))


def _as_point(ops: Sample, found: Steep) -> Point:
    offset = found.pivot + ops.exp(found.v)
    t = ops.exp(ops.at_least(ops.log(offset) - COLDEST, found.log_t))
    at = (found.pivot, found.v, found.log_mass)
    divergence = ops.select(found.log_divergence > LARGEST, ops.scalar(math.inf), _linear(ops, found.log_divergence))
    return Point(t, -offset / t, 1.0, divergence, found.slope, found.drift, 1.0, near=at)


class _Ladder(NamedTuple):
    """The sorted losses as places for the pivot; the offset is sought between one of them and the next."""

    ordered: Any
    least: Scalar  # log offset below which nothing is sought above a pivot of 0
    most: Scalar  # log distance from the largest loss above which nothing is sought
    power: float  # p


def _rungs(problem: Problem, ladder: _Ladder, k: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(pivot, and the range of v) of the k-th smallest loss."""
    ops, last = problem.sample, problem.sample.size - 1.0
    pivot = ops.at_rank(ladder.ordered, k)
    following = ops.at_rank(ladder.ordered, ops.select(k < last, k + 1.0, k))
    low = ops.select(pivot > 0.0, ops.log(ops.at_least(ops.tiny, pivot)) - FADED / ladder.power, ladder.least)
    gap = ops.log(ops.at_least(ops.tiny, following - pivot))
    return pivot, low, ops.select(k < last, gap, ladder.most)


def _climb(problem: Problem, ladder: _Ladder, residual: Residual, low: Scalar, high: Scalar) -> Scalar:
    """The last k in [low, high) whose residual is positive as the offset falls onto it; ``low`` counts as one."""
    ops = problem.sample
    for _ in range(ops.size.bit_length() if ops.eager else RANKS):
        k = (low + high) // 2.0
        pivot, v, _ = _rungs(problem, ladder, k)
        gap = residual(v, steep_point(problem, ladder.power, pivot, v))[0]
        below = (gap > 0.0) | (pivot <= 0.0) | (k <= low)
        low, high = ops.select(below, k, low), ops.select(below, high, k)
    return low


def _settle(
    problem: Problem, ladder: _Ladder, residual: Residual, k: Scalar, ends: tuple[float, float] = (-math.inf, math.inf)
) -> Steep:
    """The root of the residual between the k-th loss and the next, with v inside of the ``ends``."""
    ops, p = problem.sample, ladder.power
    pivot, low, high = _rungs(problem, ladder, k)
    low, high = ops.at_least(ends[0], low), -ops.at_least(-ends[1], -high)
    start = ops.select(high - 1.0 / p > low, high - 1.0 / p, 0.5 * (low + high))
    search = Search(residual, start, low, ops.at_least(low, high) + 1e-9)
    found: Steep = find_root(ops, search, lambda v: steep_point(problem, p, pivot, v), STEPS)
    return found


def solve_steep_budget(problem: Problem, p: float, cost: Scalar, budget: Scalar) -> Point:
    """`solve_budget` for alpha of order 1 + 1/p: max(D_f over budget, kappa over t) is 1."""
    ops, kappa = problem.sample, problem.kappa

    def residual(v: Scalar, point: Steep) -> tuple[Scalar, Scalar, Scalar]:
        used = ops.at_least(ops.tiny, _linear(ops, point.log_divergence) - cost)
        gap, derivative = ops.log(used / budget), point.slope * ((used + cost) / used)
        if kappa == 0.0:
            return gap, derivative, 0.0
        short = math.log(kappa) - point.log_t
        return ops.select(short > gap, short, gap), ops.select(short > gap, -point.drift, derivative), 0.0

    least = math.log(kappa * p) - 1.0 if kappa > 0.0 else 0.0  # t <= o / p
    most = ops.log(problem.largest * (1.0 + p / budget**0.5)) + 10.0
    if kappa > 0.0:
        most = ops.at_least(math.log(kappa * p), most) + 1e-9
    ladder = _Ladder(ops.sort(), ops.scalar(least), _cap(ops, most), p)
    k = _climb(problem, ladder, residual, ops.scalar(0.0), ops.scalar(ops.size))
    return _as_point(ops, _settle(problem, ladder, residual, k))


def solve_steep_penalty(problem: Problem, p: float, penalty: float) -> tuple[Scalar, Point, Scalar]:
    """`solve_penalty` for alpha of order a = 1 + 1/p: lam = V'(r) / delta'(r) = C a (1 - z^-2) z^(2 - a).

    z is 1 / (1 - r). On the host the lowest of many places is looked for first; a device settles for the minimum that
    it meets.
    """
    ops, kappa, a = problem.sample, problem.kappa, 1.0 + 1.0 / p

    def log_price(point: Steep) -> Scalar:
        log_z = point.level * p
        return math.log(a * penalty) + ops.log(ops.at_least(ops.tiny, -ops.expm1(-2.0 * log_z))) + (2.0 - a) * log_z

    def residual(v: Scalar, point: Steep) -> tuple[Scalar, Scalar, Scalar]:
        warmer = ops.scalar(1.0)  # lam / t
        if kappa > 0.0:
            warmer = ops.at_least(ops.tiny, -ops.expm1(-ops.at_least(-1.0, point.log_t - math.log(kappa))))
        growth = ops.at_least(ops.tiny, ops.expm1(2.0 * p * point.level))
        derivative = (2.0 / growth + 2.0 - a) * p * point.level_slope - point.drift / warmer
        return log_price(point) - point.log_t - ops.log(warmer), derivative, 0.0

    least = math.log(kappa * p) - 1.0 if kappa > 0.0 else math.log(penalty) - 40.0  # o > C (1 - z^-2)
    most = ops.at_least(ops.scalar(math.log(penalty + kappa)), ops.log(problem.largest)) + 20.0
    ladder, ends = _Ladder(ops.sort(), ops.scalar(least), _cap(ops, most), p), (-math.inf, math.inf)
    low, high = ops.scalar(0.0), ops.scalar(ops.size)
    if ops.eager:
        left, right = _lowest(problem, ladder, residual, penalty)
        low, high = left[0], right[0] + 1.0
    k = _climb(problem, ladder, residual, low, high)
    if ops.eager:
        ends = left[1] if k == left[0] else -math.inf, right[1] if k == right[0] else math.inf
    found = _settle(problem, ladder, residual, k, ends)
    return ops.exp(log_price(found)), _as_point(ops, found), -ops.expm1(-p * found.level)


Place = tuple[float, float]  # (k, v)


def _lowest(problem: Problem, ladder: _Ladder, residual: Residual, penalty: float) -> tuple[Place, Place]:
    """The two ends between which the lowest of several minima lies, going by evenly spaced places on the ladder."""
    places = [_spot(problem, ladder, problem.sample.size * j / PLACES) for j in range(PLACES + 1)]
    points = [steep_point(problem, ladder.power, pivot, v) for _, pivot, v in places]
    values = [_objective(problem, ladder.power, point, penalty) for point in points]
    best = min(range(len(values)), key=values.__getitem__)
    rises = residual(points[best].v, points[best])[0] > 0.0
    left, right = (best, best + 1) if rises else (best - 1, best)
    left, right = max(left, 0), min(right, PLACES)
    return (places[left][0], places[left][2]), (places[right][0], places[right][2])


def _spot(problem: Problem, ladder: _Ladder, at: float) -> tuple[float, float, float]:
    """(k, pivot, v) for a real number of the ladder: the k-th loss, and so far from it as the fraction says."""
    k = min(math.floor(at), problem.sample.size - 1)
    pivot, low, high = _rungs(problem, ladder, float(k))
    low = max(low, high - SEEN / ladder.power) if pivot > 0.0 else low
    return float(k), pivot, low + (at - k) * (high - low)


def _objective(problem: Problem, p: float, point: Steep, penalty: float) -> float:
    """The value of the penalised problem, with V(r) = C z r^2."""
    rate = -math.expm1(-p * point.level)
    price = penalty * math.exp(p * point.level) * rate * rate
    return float(point.expected + problem.kappa * _linear(problem.sample, point.log_divergence) + price)
