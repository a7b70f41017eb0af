"""The searches for the temperature t = lam + kappa, and for a general f the shift rho with it.

One family covers all: the weights are f*'(-(L + rho) / t) with mean 1, D_f falls as t grows, and the optimum is
t* = max(kappa, t_delta), where D_f(t_delta) = delta. A search is written once, over a `Sample`. The budget of KL has
searches of its own: `kl` on the host, `solve_torch` on a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from antidote_learn.core.budgets import log_marginal_price, penalty_value, rate_at
from antidote_learn.core.chi2 import solve_chi2
from antidote_learn.core.divergences import CHI2, KL, Divergence, Power, namespace
from antidote_learn.core.kl import (
    DEPTH,
    HOST_LIMIT,
    highest_log_t,
    kl_point,
    loss_spread,
    lowest_log_t,
    start_temperature,
    thin_sample,
)
from antidote_learn.core.moments import Point, Problem, general_point, power_point, shift_bracket
from antidote_learn.core.pivots import solve_steep_budget, solve_steep_penalty, steep_weights
from antidote_learn.core.sample import Scalar
from antidote_learn.core.sample_numpy import CHUNK, HostSample
from antidote_learn.core.steps import Bracket, Search, find_root, take_step

MASS_TOLERANCE = 500.0  # of the mean weight, in units of the last place
STALLED = 2.0  # relative width of a bracket of the shift in which digits have run out, in units of the last place
DEVICE_PENALTY, DEVICE_POWER, DEVICE_NESTED = 16, 40, 96  # steps of device loops, which never stop early
COARSE = 2e-9  # a residual that asks for a pivot
SMALL_BUDGET = 1e-4  # a budget below which the explicit D_f of a power family has lost too many digits
GRID = 24  # points that look for the lowest of several minima of the penalised problem


class Nested(NamedTuple):
    """A search in two variables: v, and for each temperature the shift nu."""

    v: Scalar
    bracket: Bracket
    nu: Scalar
    shifts: Bracket
    done: Any
    point: Point  # the last one whose shift was right


def _move_shift(problem: Problem, state: Nested, point: Point) -> Nested:
    """One Newton step in the shift, on f'(mean weight), or a bisection."""
    ops, f = problem.sample, problem.divergence
    heavy, off = point.mass > 1.0, abs(point.mass - 1.0)
    low, high, limit = state.shifts
    low, high = ops.select(heavy, point.nu, low), ops.select(heavy, high, point.nu)
    safe = ops.at_least(ops.tiny, point.mass)
    newton = point.nu + (f.f_prime(safe) - f.slope_one) * f.curvature(safe) / point.curvature
    good = (newton > low) & (newton < high) & (off < limit)
    limit = ops.select(good, 0.7 * off, ops.scalar(math.inf))
    nu = ops.select(good, newton, 0.5 * (low + high))  # below: not _replace, which older torch does not compile
    return Nested(state.v, state.bracket, nu, (low, high, limit), state.done, state.point)


def _find_nested(problem: Problem, search: Search, temperature: Callable[[Scalar], Scalar], nu: Scalar) -> Point:
    """Runs a search for a general f: wherever the mean weight is not yet 1 the shift moves, else the temperature."""
    ops = problem.sample

    def move_temperature(state: Nested, point: Point) -> Nested:
        residual = search.residual(state.v, point)
        v, bracket, done = take_step(ops, state.v, search.floor, state.bracket, residual)
        t = temperature(v)
        low, high = shift_bracket(problem, t)
        nu = point.nu + point.drift * ops.log(t / point.t)  # to first order
        nu = ops.select(done, point.nu, ops.select((nu > low) & (nu < high), nu, 0.5 * (low + high)))
        return Nested(v, bracket, nu, (low, high, ops.scalar(math.inf)), done, point)

    v, infinite = ops.at_least(search.floor, search.start), ops.scalar(math.inf)
    low, high = shift_bracket(problem, temperature(v))
    nu = ops.select((nu > low) & (nu < high), nu, high)
    point = general_point(problem, temperature(v), nu)
    bracket = (search.floor - 1.0, search.high, infinite)
    state = Nested(v, bracket, nu, (low, high, infinite), v != v, point)
    for _ in range(HOST_LIMIT if ops.eager else DEVICE_NESTED):
        point = general_point(problem, temperature(state.v), state.nu)
        stalled = state.shifts[1] - state.shifts[0] <= STALLED * ops.eps * abs(state.nu)
        right = (abs(point.mass - 1.0) <= MASS_TOLERANCE * ops.eps) | stalled
        state = ops.branch(right, lambda: move_temperature(state, point), lambda: _move_shift(problem, state, point))  # noqa: B023
        if ops.stop(state.done):
            break
    return state.point


def solve_budget(problem: Problem, delta: float, cost: Scalar) -> Point:
    """The point with D_f(t) = delta, or t = kappa (up to `TOLERANCE`) where the budget is not used up; not for KL.

    Args:
        problem: The inner problem; kappa = 0 needs delta below the divergence of the tied minimum.
        delta: The budget.
        cost: The part of the budget that the missing rows cost.
    """
    ops, f = problem.sample, problem.divergence
    budget = ops.at_least(ops.tiny, ops.scalar(delta) - cost)
    if f.power is not None and f.power.steep:
        return solve_steep_budget(problem, f.power.exponent, cost, budget)
    if f.power is not None and delta >= SMALL_BUDGET:
        return _solve_power(problem, delta, cost, budget)

    floor = lowest_log_t(problem)
    high = highest_log_t(problem, budget, floor)
    thin = _solve_part(problem, delta, cost)
    start = start_temperature(ops, budget, f.curvature_one)[0] if thin is None else math.log(thin.t)

    def residual(v: Scalar, point: Point) -> tuple[Scalar, Scalar, Scalar]:
        used = ops.at_least(ops.tiny, point.divergence - cost)
        return ops.log(used / budget), point.slope / used, 0.0

    search = Search(residual, start, floor, high)
    return _find_nested(problem, search, ops.exp, ops.scalar(math.inf) if thin is None else thin.nu)


def _solve_part(problem: Problem, delta: float, cost: Scalar) -> Point | None:
    """The solution for a part of a large sample of the host, to start from."""
    sample = problem.sample
    part = thin_sample(sample) if isinstance(sample, HostSample) else None
    if part is None:
        return None
    return solve_budget(problem._replace(sample=part, largest=part.largest()), delta, cost)


def _solve_power(problem: Problem, delta: float, cost: Scalar, budget: Scalar) -> Point:
    """`solve_budget` for a power family, in the logarithm of its offset: max(D_f over budget, kappa over t) is 1."""
    ops, power, kappa = problem.sample, problem.divergence.power, problem.kappa
    assert power is not None  # only called for a power family
    falling, scale = power.scale > 0.0, abs(power.scale)

    def residual(v: Scalar, point: Point) -> tuple[Scalar, Scalar, Scalar]:
        used = ops.at_least(ops.tiny, point.divergence - cost)
        gap, derivative = ops.log(used / budget), point.slope / used
        if kappa == 0.0:
            return gap, derivative, 0.0
        short = math.log(kappa) - ops.log(point.t)
        return ops.select(short > gap, short, gap), ops.select(short > gap, -point.drift, derivative), 0.0

    if kappa > 0.0:
        floor = ops.log(ops.scalar(scale * kappa) if falling else scale * kappa * problem.tied**0.5) - 1e-9
    else:
        floor = ops.log(ops.smallest_positive()) - (0.0 if falling else DEPTH)
    start = _power_start(problem, power, delta, cost, budget)
    high = ops.at_least(floor, ops.log(problem.largest * (1.0 + scale / budget**0.5))) + 10.0
    search = Search(residual, start, floor, high)
    point: Point = find_root(ops, search, lambda v: power_point(problem, power, v), DEVICE_POWER)
    if isinstance(ops, HostSample) and falling and kappa == 0.0 and abs(residual(start, point)[0]) > COARSE:
        return solve_steep_budget(problem, power.exponent, cost, budget)  # doubles cannot place the offset
    return point


def _power_start(problem: Problem, power: Power, delta: float, cost: Scalar, budget: Scalar) -> Scalar:
    """The log offset to start from: of chi-square the solution, of a large sample that of a part, else an estimate."""
    exact = _chi2_start(problem, delta)
    if exact is not None:
        return exact
    thin = _solve_part(problem, delta, cost)
    if thin is not None:
        return math.log(abs(thin.nu + power.constant) * thin.t)
    ops, scale = problem.sample, abs(power.scale)
    s, mean = start_temperature(ops, budget, problem.divergence.curvature_one)
    t = ops.exp(s)
    if power.scale > 0.0:
        return ops.log(scale * t + mean)
    return ops.log(ops.at_least(0.1 * scale * t, scale * t - mean))


def _chi2_start(problem: Problem, delta: float) -> float | None:
    """The log offset of a small chi-square sample, without iterating."""
    sample = problem.sample
    if (
        problem.divergence.power != CHI2.power  # alpha(2) is it, too
        or not isinstance(sample, HostSample)
        or sample.size > CHUNK
        or problem.missing > 0.0
    ):
        return None
    ((x, mass, _),) = sample.chunks()
    t, nu = solve_chi2(x, mass, delta, problem.kappa)
    return math.log(-nu * t) if t > 0.0 else None


def solve_penalty(problem: Problem, penalty: float) -> tuple[Scalar, Point, Scalar]:
    """lam, its point and r_max of the penalised problem (eq:reformulation_opt_delta), V(r) = C r^2 / (1 - r).

    Stationary where lam = V'(r) / delta'(r) at D_f = delta(r); for KL that is KL(t) = asinh(lam / 2C). The root is
    sought in log lam, so that a lam far below kappa keeps its digits.
    """
    ops, f, kappa = problem.sample, problem.divergence, problem.kappa
    if f.power is not None and f.power.steep:
        return solve_steep_penalty(problem, f.power.exponent, penalty)

    def temperature(v: Scalar) -> Scalar:
        return ops.exp(v) + kappa

    def residual(v: Scalar, point: Point) -> tuple[Scalar, Scalar, Scalar]:
        price, per_divergence = log_marginal_price(ops, f, ops.at_least(ops.tiny, point.divergence))
        return price + math.log(penalty) - v, per_divergence * point.slope * (point.t - kappa) / point.t - 1.0, 0.0

    free = ops.log(
        penalty * loss_spread(ops, f.curvature_one)[1] / f.excess_zero**2
    )  # log(lam t^2) for a small divergence
    start = free / 3.0 if kappa == 0.0 else -ops.at_least(2.0 * math.log(kappa) - free, -free / 3.0)
    high = ops.at_least(ops.scalar(math.log(penalty)), ops.log(problem.largest)) + 10.0
    search = Search(residual, start, ops.scalar(-600.0), high)
    if ops.eager and not f.convex_penalty:  # a device settles for the minimum that it meets first
        search = _around_lowest(problem, search, temperature, penalty)
    if f is KL:
        point = find_root(ops, search, lambda v: kl_point(problem, temperature(v)), DEVICE_PENALTY)
    else:
        point = _find_nested(problem, search, temperature, ops.scalar(math.inf))
    chosen = ops.at_least(ops.tiny, point.divergence)
    return penalty * ops.exp(log_marginal_price(ops, f, chosen)[0]), point, rate_at(ops, f, chosen)


def _around_lowest(problem: Problem, search: Search, temperature: Callable[[Scalar], Scalar], penalty: float) -> Search:
    """The search narrowed to the lowest point of a grid in log lam: V need not be convex in delta (alpha > 2)."""
    ops, f = problem.sample, problem.divergence
    step = (search.high - search.start + 12.0) / (GRID - 1)
    least, lowest, nu = ops.scalar(math.inf), search.start, ops.scalar(math.inf)
    for k in range(GRID):
        v = search.high - k * step
        still = Search(lambda v, point: (ops.scalar(0.0), ops.scalar(-1.0), 0.0), v, v, v)
        point = _find_nested(problem, still, temperature, nu)
        nu, rate = point.nu, rate_at(ops, f, ops.at_least(ops.tiny, point.divergence))
        expected = ops.integrate(lambda xp, x: ((f.conjugate_prime(x * (-1.0 / point.t) - nu), 1),))[0]  # noqa: B023
        value = expected + problem.kappa * point.divergence + penalty_value(penalty, rate)
        lowest, least = ops.select(value < least, v, lowest), ops.select(value < least, value, least)
    return search._replace(start=lowest, floor=lowest - step, high=lowest + step)


def weight_ratio(f: Divergence, x: Any, point: Point, nu: Any) -> Any:
    """dQ/dP at a point, with the shift of each row: the weights of eq:KL_weights, and of eq:G_f in general."""
    back = -1.0 / point.t
    if f is KL:
        score = x * back
        score -= nu + 1.0
        return np.exp(score, score) if isinstance(score, np.ndarray) else torch.exp(score)
    if point.near is not None and f.power is not None:
        return steep_weights(namespace(x), x, f.power.exponent, point.near)
    return f.conjugate_prime(x * back - nu) / point.mass
