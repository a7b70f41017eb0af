"""The inner problem on NumPy views of CPU tensors, where values can be looked at and cases decided."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.arrays import CHUNK, HostSample, extremes, ones
from antidote_learn.core.budgets import budget_of, penalty_value
from antidote_learn.core.divergences import KL, Divergence
from antidote_learn.core.outcomes import ACCURACY, NEGLIGIBLE, SLACK, Weighing, on_floor, ratio_at, raw_fields, solution
from antidote_learn.core.points import Point, Problem
from antidote_learn.core.solvers import MENDED, NEAR, SEEN, solve_budget, solve_kl_batch, solve_penalty

ROUNDING = 1e-13  # of a mean weight
SMALLEST = 1e-300  # variance to divide by
_NOTHING = contextlib.nullcontext()


def weigh_on_host(
    losses: Tensor, f: Divergence, kappa: float, delta: float | None, penalty: float | None, measure: Tensor | None
) -> Weighing:
    """Weighs in float64, a chunk at a time where the sample is large; bad values are refused."""
    values = (losses if losses.dtype in (torch.float32, torch.float64) else losses.float()).numpy()
    given = mass = None if measure is None else _normalised(measure)
    keep = None
    if mass is not None and not mass.all():
        keep = mass > 0.0
        values, mass = values[keep], mass[keep]
    low, high = extremes(values)
    missing = 0.0
    if not (-math.inf < low and high < math.inf):
        values, mass, keep, missing = _without_infinite(values, mass, keep)
        low, high = extremes(values) if values.size else (math.inf, math.inf)
    if mass is None and missing == 0.0 and f is KL and delta is not None:
        found = weigh_kl_batch(values, kappa, delta, (low, high))
        if found is not None:
            weights, value, status, raw = found
            return Weighing(torch.from_numpy(weights), value, status, KL, raw, measure)
    out: Any = np.zeros(losses.numel(), np.float64 if losses.dtype == torch.float64 else np.float32)
    cost = _cost(f, missing)
    if values.size == 0 or (delta is not None and cost > delta * (1.0 + SLACK)):
        raw = raw_fields(math.inf, math.nan, 0.0, delta or 0.0, math.inf, f)
        out[:] = 1.0 if given is None else given * out.size
        return Weighing(torch.from_numpy(out), math.inf, Status.INFINITE, f, raw, measure)
    sample = HostSample(values, mass, low)
    largest = high - low if high - low > NEGLIGIBLE else 0.0
    with _quiet(f, kappa, largest):
        tied = _tied_mass(sample, largest, missing) if f is not KL or kappa == 0.0 or largest == 0.0 else 0.0
        problem = Problem(sample, f, kappa, largest, missing, tied)
        if penalty is not None:
            solved = _penalised(problem, sample, penalty)
        else:
            assert delta is not None  # exactly one of the two is given
            solved = _budgeted(problem, sample, delta, cost, NEAR)
        constant, status, raw, expected = _written(problem, sample, solved, cost, out, keep)
    return Weighing(torch.from_numpy(out), low + expected + constant, status, f, raw, measure)


def weigh_kl_batch(
    values: Any, kappa: float, delta: float, ends: tuple[float, float] | None = None
) -> tuple[Any, float, Status, dict[str, Any]] | None:
    """(weights, value, status, raw numbers) of nearly every training step, without detours; None where it is not one.

    A batch of finite losses that differ, all of the same mass, KL, a budget and a floor. ``ends`` are the smallest and
    the largest loss. Also None: a few steps are not enough, or the last of them missed the budget.
    """
    low, high = extremes(values) if ends is None else ends
    if not (NEGLIGIBLE < high - low < kappa * 1e300 and delta > 0.0 and values.size <= CHUNK):
        return None
    sample = HostSample(values, None, low)
    found = solve_kl_batch(Problem(sample, KL, kappa, high - low, 0.0, 0.0), delta)
    if found is None:
        return None
    t, log_z = found
    slack = on_floor(t, kappa)
    share, mass, expected, square = sample.tilted_weights(-1.0 / t, log_z)
    achieved = -expected / t - math.log(mass) - log_z
    if slack or abs(achieved - delta) <= SEEN * delta:
        share *= 1.0 / mass
    else:
        mended = _mended(t, delta, achieved, expected, square)
        if mended is None:
            return None
        slope, constant, t, expected = mended
        achieved, share = delta, share * sample.line(slope / mass, constant / mass)
    weights = share.astype(values.dtype)
    raw = raw_fields(0.0 if slack else t - kappa, None, achieved if achieved > 0.0 else 0.0, delta, math.inf, KL)
    value = low + expected + kappa * raw["achieved"]
    return weights, value, Status.FLOOR if slack else Status.BUDGET, raw


def _quiet(f: Divergence, kappa: float, largest: float) -> contextlib.AbstractContextManager[Any]:
    """No warnings of overflows that are meant; not entered where there are none, since NumPy is slower inside."""
    harmless = f is KL and largest < kappa * 1e300
    return _NOTHING if harmless else np.errstate(all="ignore")


def _normalised(measure: Tensor) -> Any:
    mass = measure.double().numpy()
    if mass[0] > 0.0 and (mass == mass[0]).all() and mass[0] < math.inf:
        return None  # bit for bit what no measure gives
    total = float(mass.sum())
    if not (mass >= 0.0).all() or not 0.0 < total < math.inf:
        bad = int((~(mass >= 0.0)).sum())
        what = f"{bad} of {mass.size} negative or NaN" if bad else f"a sum of {total:g}"
        raise ValueError(f"base_weight must be finite and >= 0 with at least one positive entry, got {what}")
    return mass / total


def _without_infinite(values: Any, mass: Any, keep: Any) -> tuple[Any, Any, Any, float]:
    """The finite rows; +inf rows keep their mass in P, which is then missing from the sample."""
    wrong = np.isnan(values) | (values == -np.inf)
    if wrong.any():
        nan = int(np.isnan(values).sum())
        raise ValueError(
            f"losses must be finite or +inf, got {nan} NaN and {int(wrong.sum()) - nan} -inf among {values.size}; "
            "look at the inputs and the learning rate, or give such rows base weight 0"
        )
    finite = values < np.inf
    if mass is None:
        mass = np.full(values.size, 1.0 / values.size)
    whole = finite if keep is None else keep.copy()
    if keep is not None:
        whole[keep] = finite
    return values[finite], mass[finite], whole, float(mass[~finite].sum())


class Solved(NamedTuple):
    """The case that holds: what the value has beside the weighted losses, and dQ/dP over the shifted losses."""

    constant: float
    status: Status
    raw: dict[str, Any]
    ratio: Callable[[Any], Any]
    unseen: Point | None = None  # a point that was stepped to and not evaluated


def _written(
    problem: Problem, sample: HostSample, solved: Solved, cost: float, out: Any, keep: Any
) -> tuple[float, Status, dict[str, Any], float]:
    """Writes the weights; (constant, status, raw numbers, expected shifted loss).

    An unseen point of KL is seen here, through the mass and the moments of its weights. If it missed the budget by
    little, the weights are mended, else it is solved for once more, without a step that is taken on trust.
    """
    constant, status, raw, ratio, point = solved
    mass, expected, square = _write(out, keep, sample, ratio)
    if point is not None:
        delta, t, expected = raw["delta"], point.t, expected / mass
        raw["achieved"] = achieved = -expected / t - math.log(mass) - (point.nu + 1.0)
        if abs(achieved - delta) > SEEN * delta:
            mended = _mended(t, delta, achieved, expected, square / mass)
            if mended is None:
                return _written(problem, sample, _budgeted(problem, sample, delta, cost, 0.0), cost, out, keep)
            slope, constant, t, expected = mended
            _multiply(out, keep, sample, slope / mass, constant / mass)
            raw["achieved"], raw["lam"] = delta, t - problem.kappa
            return problem.kappa * delta, status, raw, expected
        constant = problem.kappa * raw["achieved"]
    elif abs(mass - 1.0) > ROUNDING:  # the last place of a shift may decide digits of the weights
        expected /= mass
    else:
        return constant, status, raw, expected
    out *= 1.0 / mass
    return constant, status, raw, expected


def _mended(
    t: float, delta: float, achieved: float, expected: float, square: float
) -> tuple[float, float, float, float] | None:
    """From weights of KL with D = achieved to D = delta: (a, b, t, E x), each weight times a x + b; None if too far.

    To first order in log t, in which D has the slope -Var x / t^2: a weight changes by the share change (x - E x) / t.
    """
    spread = square - expected * expected
    change = (achieved - delta) / max(spread, SMALLEST) * t * t
    if not abs(change) < MENDED:
        return None
    slope = change / t
    return slope, 1.0 - slope * expected, t * math.exp(change), expected + slope * spread


def _budgeted(problem: Problem, sample: HostSample, delta: float, cost: float, near: float) -> Solved:
    f, kappa, low = problem.divergence, problem.kappa, sample.low
    if delta == 0.0:
        return Solved(0.0, Status.PLAIN, raw_fields(math.inf, math.nan, 0.0, 0.0, math.inf, f), np.ones_like)
    if problem.largest == 0.0:
        return _constant(problem, sample, delta)
    if kappa == 0.0:
        ratio, most, threshold = _coldest(problem, sample)
        if delta >= most * (1.0 - SLACK):
            return Solved(0.0, Status.LIMIT, raw_fields(0.0, -low, most, delta, threshold, f), ratio)
    point = solve_budget(problem, delta, cost, near)
    slack = on_floor(point.t, kappa)
    unseen = f is KL and near > 0.0 and not slack
    raw = solution(problem, 0.0 if slack else point.t - kappa, point, low, delta)
    accurate = unseen or abs(raw["achieved"] - delta) <= ACCURACY * delta
    status = Status.FLOOR if slack else Status.BUDGET if accurate else Status.INACCURATE
    return Solved(kappa * raw["achieved"], status, raw, lambda x: ratio_at(f, x, point), point if unseen else None)


def _penalised(problem: Problem, sample: HostSample, penalty: float) -> Solved:
    if problem.largest == 0.0:
        solved = _constant(problem, sample, None)
        return solved._replace(constant=solved.constant + penalty_value(penalty, problem.missing))
    lam, point, r_max = solve_penalty(problem, penalty)
    raw = solution(problem, lam, point, sample.low, max(point.divergence, 0.0), r_max)
    constant = problem.kappa * raw["achieved"] + penalty_value(penalty, r_max)
    return Solved(constant, Status.BUDGET, raw, lambda x: ratio_at(problem.divergence, x, point))


def _constant(problem: Problem, sample: HostSample, delta: float | None) -> Solved:
    """All finite losses are equal: they share the mass, and the budget has nothing to do."""
    f, kappa, tied = problem.divergence, problem.kappa, problem.tied
    achieved = _cost(f, problem.missing)
    rho = -sample.low - kappa * float(f.f_prime(1.0 / tied))
    raw = raw_fields(0.0, rho, achieved, achieved if delta is None else delta, math.inf, f)
    if delta is None:
        raw["r_max"] = problem.missing
    return Solved(kappa * achieved, Status.FLOOR, raw, lambda x: np.full_like(x, 1.0 / tied))


def _coldest(problem: Problem, sample: HostSample) -> tuple[Callable[[Any], Any], float, float]:
    """The limit t -> 0: dQ/dP as large as the domain (a, b) allows on the smallest losses; (dQ/dP, D_f, threshold)."""
    f, tied = problem.divergence, problem.tied
    if not f.bounded_ratio:
        return lambda x: (x == 0.0) / tied, _cost(f, 1.0 - tied), sample.low
    a, b = f.domain
    x = np.concatenate([x for x, _, _ in sample.chunks()])
    mass = np.full(x.size, 1.0 / x.size) if sample.mass is None else sample.mass
    order = np.argsort(x)
    total = np.cumsum(mass[order])
    rest = a * (total[-1] - total)
    enough = np.flatnonzero((b * total if b < math.inf else np.full_like(total, math.inf)) + rest >= 1.0)
    pivot = x[order][enough[0]] if enough.size else x.max()
    below, above = float(mass[x < pivot].sum()), float(mass[x > pivot].sum())
    at_pivot = (1.0 - (b * below if below > 0.0 else 0.0) - a * above) / float(mass[x == pivot].sum())

    def ratio(x: Any) -> Any:
        return np.where(x < pivot, b, np.where(x > pivot, a, at_pivot))

    divergence = float(np.sum(f.excess(ratio(x) - 1.0) * mass))
    if problem.missing > 0.0:
        divergence += f.excess_zero * problem.missing
    return ratio, divergence, math.inf if a > 0.0 else sample.low + float(pivot)


def _tied_mass(sample: HostSample, largest: float, missing: float) -> float:
    """The mass of the rows at the minimum."""
    if largest == 0.0:
        return 1.0 - missing
    if sample.mass is None:
        return sum(int(np.count_nonzero(x == 0.0)) for x, _, _ in sample.chunks()) / sample.size
    return sum(float(mass[x == 0.0].sum()) for x, mass, _ in sample.chunks())


def _cost(f: Divergence, rate: float) -> float:
    """What forgetting a mass costs at the least; infinite where f(0) is."""
    if rate <= 0.0:
        return 0.0
    return math.inf if math.isinf(f.f_zero) else float(budget_of(f, rate)) if rate < 1.0 else f.max_delta


def _write(out: Any, keep: Any, sample: HostSample, ratio: Callable[[Any], Any]) -> tuple[float, float, float]:
    """Writes B q into ``out``, a chunk at a time; rows that are not kept stay 0. The integrals of 1, x and x^2 in Q."""
    rows = None if keep is None else np.flatnonzero(keep)
    mass = expected = square = 0.0
    for x, p, part in sample.chunks():
        share = ratio(x) if p is None else ratio(x) * p
        out[part if rows is None else rows[part]] = share if p is None else share * out.size
        mass += float(share.dot(ones(x.size)))
        expected += float(share.dot(x))
        share *= x
        square += float(share.dot(x))
    scale = sample.size if sample.mass is None else 1
    return mass / scale, expected / scale, square / scale


def _multiply(out: Any, keep: Any, sample: HostSample, slope: float, constant: float) -> None:
    """Multiplies the weights in ``out`` by slope x + constant."""
    rows = None if keep is None else np.flatnonzero(keep)
    for x, _, part in sample.chunks():
        x = x * slope
        x += constant
        out[part if rows is None else rows[part]] *= x
