"""The inner problem on NumPy views of CPU tensors, where values can be looked at and cases decided."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.arrays import CHUNK, HostSample, extremes
from antidote_learn.core.budgets import budget_of, penalty_value
from antidote_learn.core.divergences import KL, Divergence
from antidote_learn.core.groups import in_groups
from antidote_learn.core.outcomes import ACCURACY, NEGLIGIBLE, SLACK, Weighing, on_floor, ratio_at, raw_fields, solution
from antidote_learn.core.points import Point, Problem
from antidote_learn.core.solvers import NEAR, SEEN, solve_budget, solve_kl_batch, solve_penalty
from antidote_learn.core.writing import Ratio, Solved, mended, written

WIDEST = 1e150  # distance of two losses whose square is a double
_NOTHING = contextlib.nullcontext()


def weigh_on_host(
    losses: Tensor,
    f: Divergence,
    kappa: float,
    delta: float | None,
    penalty: float | None,
    measure: Tensor | None,
    groups: Tensor | None = None,
    warm: float | None = None,
) -> Weighing:
    """Weighs in float64, a chunk at a time where the sample is large; bad values are refused."""
    values = (losses if losses.dtype in (torch.float32, torch.float64) else losses.float()).numpy()
    given = mass = None if measure is None else _normalised(measure)
    labels = None if groups is None or _alike(groups.numpy()) else groups.numpy()
    keep = None
    if mass is not None and not mass.all():
        keep = mass > 0.0
        values, mass = values[keep], mass[keep]
    low, high = extremes(values)
    missing: Any = 0.0
    if not (-math.inf < low and high < math.inf):
        values, mass, keep, missing = _without_infinite(values, mass, keep)
        low, high = extremes(values) if values.size else (math.inf, math.inf)
    if labels is None and mass is None and missing == 0.0 and f is KL and delta is not None:
        found = weigh_kl_batch(values, kappa, delta, (low, high))
        if found is not None:
            weights, value, status, raw = found
            return Weighing(torch.from_numpy(weights), value, status, KL, raw, measure)
    if high - low > WIDEST:
        raise ValueError(
            f"losses must lie within {WIDEST:g} of one another, got {low:g} ... {high:g}: look at the inputs"
        )
    out: Any = np.zeros(losses.numel(), np.float64 if losses.dtype == torch.float64 else np.float32)
    if values.size == 0:
        return _infinite(out, f, delta, measure, given)
    if labels is None:
        sample = HostSample(values, mass, low)
    else:
        sample, missing = in_groups(values, mass, given, keep, labels)
    cost = _cost(sample, f, missing)
    if delta is not None and cost > delta * (1.0 + SLACK):
        return _infinite(out, f, delta, measure, given)
    largest = sample.largest() if sample.grouped else high - low
    largest = largest if largest > NEGLIGIBLE else 0.0
    with _quiet(f, kappa, largest):
        tied = _tied_mass(sample, largest, missing) if f is not KL or kappa == 0.0 or largest == 0.0 else 0.0
        problem = Problem(sample, f, kappa, largest, missing, tied)
        if penalty is not None:
            solved = _penalised(problem, sample, penalty)
        else:
            assert delta is not None  # exactly one of the two is given
            solved = _budgeted(problem, sample, delta, cost, NEAR, warm)
        constant, status, raw, expected = written(
            kappa, sample, solved, lambda: _budgeted(problem, sample, solved.raw["delta"], cost, 0.0), out, keep
        )
    return Weighing(torch.from_numpy(out), sample.total(sample.low) + expected + constant, status, f, raw, measure)


def _alike(labels: Any) -> bool:
    """Whether all are in one group, which is the problem without groups."""
    first, last = extremes(labels)
    return bool(first == last)


def _infinite(out: Any, f: Divergence, delta: float | None, measure: Tensor | None, given: Any) -> Weighing:
    """All rows as they were: more of them are infinite than the budget can forget."""
    raw = raw_fields(math.inf, math.nan, 0.0, delta or 0.0, math.inf, f)
    out[:] = 1.0 if given is None else given * out.size
    return Weighing(torch.from_numpy(out), math.inf, Status.INFINITE, f, raw, measure)


def weigh_kl_batch(
    values: Any, kappa: float, delta: float, ends: tuple[float, float] | None = None
) -> tuple[Any, float, Status, dict[str, Any]] | None:
    """(weights, value, status, raw numbers) of nearly every training step, without detours; None where it is not one.

    A batch of finite losses that differ, all of the same mass, KL, a budget and a floor. ``ends`` are the smallest and
    the largest loss. Also None: a few steps are not enough, or the last of them missed the budget.
    """
    low, high = extremes(values) if ends is None else ends
    if not (NEGLIGIBLE < high - low < min(kappa * 1e300, WIDEST) and delta > 0.0 and values.size <= CHUNK):
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
        spread = square - expected * expected
        change = mended(t, delta, achieved, spread)
        if change is None:
            return None
        slope, t = change
        share = share * sample.line(slope / mass, (1.0 - slope * expected) / mass)
        achieved, expected = delta, expected + slope * spread
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


def _budgeted(
    problem: Problem, sample: HostSample, delta: float, cost: float, near: float, warm: float | None = None
) -> Solved:
    f, kappa, low = problem.divergence, problem.kappa, sample.low
    if delta == 0.0:
        raw = raw_fields(math.inf, math.nan, 0.0, 0.0, math.inf, f)
        return Solved(0.0, Status.PLAIN, raw, lambda x, part: np.ones_like(x))
    if problem.largest == 0.0:
        return _constant(problem, sample, delta)
    if kappa == 0.0:
        ratio, most, threshold = _coldest(problem, sample)
        if delta >= most * (1.0 - SLACK):
            return Solved(0.0, Status.LIMIT, raw_fields(0.0, -low, most, delta, threshold, f), ratio)
    point = solve_budget(problem, delta, cost, near, warm)
    slack = on_floor(point.t, kappa)
    unseen = f is KL and near > 0.0 and not slack
    raw = solution(problem, 0.0 if slack else point.t - kappa, point, low, delta)
    missed = raw["achieved"] - delta
    accurate = unseen or (missed if slack else abs(missed)) <= ACCURACY * delta
    status = Status.INACCURATE if not accurate else Status.FLOOR if slack else Status.BUDGET
    return Solved(kappa * raw["achieved"], status, raw, _ratio_at(f, sample, point), point if unseen else None)


def _ratio_at(f: Divergence, sample: HostSample, point: Point) -> Ratio:
    return lambda x, part: ratio_at(f, x, point, sample.at(point.nu, part))


def _penalised(problem: Problem, sample: HostSample, penalty: float) -> Solved:
    if problem.largest == 0.0:
        solved = _constant(problem, sample, None)
        return solved._replace(constant=solved.constant + penalty_value(penalty, problem.missing))
    lam, point, r_max = solve_penalty(problem, penalty)
    raw = solution(problem, lam, point, sample.low, max(point.divergence, 0.0), r_max)
    soft = problem.kappa * raw["achieved"] if problem.kappa > 0.0 else 0.0  # of a divergence that may be beyond doubles
    constant = soft + penalty_value(penalty, r_max)
    return Solved(constant, Status.BUDGET, raw, _ratio_at(problem.divergence, sample, point))


def _constant(problem: Problem, sample: HostSample, delta: float | None) -> Solved:
    """All finite losses are equal: they share the mass, and the budget has nothing to do."""
    f, kappa, tied = problem.divergence, problem.kappa, problem.tied
    achieved = _cost(sample, f, problem.missing)
    rho = -sample.low - kappa * f.f_prime(1.0 / tied)
    raw = raw_fields(0.0, rho, achieved, achieved if delta is None else delta, math.inf, f)
    if delta is None:
        raw["r_max"] = problem.missing
    return Solved(kappa * achieved, Status.FLOOR, raw, lambda x, part: np.ones_like(x) / sample.at(tied, part))


def _coldest(problem: Problem, sample: HostSample) -> tuple[Ratio, float, float]:
    """The limit t -> 0: dQ/dP as large as the domain (a, b) allows on the smallest losses; (dQ/dP, D_f, threshold)."""
    f, tied = problem.divergence, problem.tied
    if not f.bounded_ratio:
        most, threshold = _cost(sample, f, 1.0 - tied), float(np.max(sample.low))
        return lambda x, part: (x == 0.0) / sample.at(tied, part), most, threshold
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

    def ratio(x: Any, part: slice) -> Any:
        return np.where(x < pivot, b, np.where(x > pivot, a, at_pivot))

    divergence = float(np.sum(f.excess(ratio(x, slice(None)) - 1.0) * mass))
    if problem.missing > 0.0:
        divergence += f.excess_zero * problem.missing
    return ratio, divergence, math.inf if a > 0.0 else sample.low + float(pivot)


def _tied_mass(sample: HostSample, largest: float, missing: Any) -> Any:
    """The mass of the rows at the minimum."""
    if largest == 0.0:
        return 1.0 - missing
    if sample.grouped:
        return sample.integrate(lambda xp, x: ((xp.where(x == 0.0, 1.0, 0.0), 0),))[0]
    if sample.mass is None:
        return sum(int(np.count_nonzero(x == 0.0)) for x, _, _ in sample.chunks()) / sample.size
    return sum(float(mass[x == 0.0].sum()) for x, mass, _ in sample.chunks())


def _cost(sample: HostSample, f: Divergence, rate: Any) -> float:
    """What forgetting a mass costs at the least; infinite where f(0) is."""
    if sample.grouped:
        with np.errstate(divide="ignore"):
            return float(sample.total(budget_of(f, rate)))
    if rate <= 0.0:
        return 0.0
    return math.inf if math.isinf(f.f_zero) else float(budget_of(f, rate)) if rate < 1.0 else f.max_delta
