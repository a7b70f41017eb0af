"""The inner problem on NumPy views of CPU tensors, where values can be looked at and cases decided by `if`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.budgets import budget_of, penalty_value
from antidote_learn.core.divergences import KL, Divergence
from antidote_learn.core.groups import group_on_host
from antidote_learn.core.kl import weigh_kl
from antidote_learn.core.moments import Point, Problem
from antidote_learn.core.sample_numpy import HostSample, extremes
from antidote_learn.core.solution import ACCURACY, NEGLIGIBLE, SLACK, Solution, is_on_floor, point_fields, raw_fields
from antidote_learn.core.solvers import solve_budget, solve_penalty, weight_ratio

WIDEST = 1e150  # distance of two losses whose square is a double
ROUNDING = 1e-13  # of a mean weight, which is not worth a normalisation
_NOTHING = contextlib.nullcontext()

Ratio = Callable[[Any, slice], Any]  # (shifted losses of a chunk, their rows) -> dQ/dP


class Outcome(NamedTuple):
    """The case that holds, before its weights are written."""

    constant: float  # the value without the weighted losses
    status: Status
    raw: dict[str, Any]
    ratio: Ratio


def solve_on_host(
    losses: Tensor,
    f: Divergence,
    kappa: float,
    delta: float | None,
    penalty: float | None,
    measure: Tensor | None,
    groups: Tensor | None = None,
    warm: float | None = None,
) -> Solution:
    """Solves in float64, a chunk at a time where the sample is large; bad values are refused."""
    values = (losses if losses.dtype in (torch.float32, torch.float64) else losses.float()).numpy()
    given = mass = None if measure is None else _unit_measure(measure)
    labels = None if groups is None else groups.numpy()
    keep = None
    if mass is not None and not mass.all():
        keep = mass > 0.0
        values, mass = values[keep], mass[keep]
    if labels is not None and _is_one_group(labels if keep is None else labels[keep]):
        labels = None
    low, high = extremes(values)
    missing: Any = 0.0
    if not (-math.inf < low and high < math.inf):
        values, mass, keep, missing = _finite_rows(values, mass, keep)
        low, high = extremes(values) if values.size else (math.inf, math.inf)
    if high - low > WIDEST:
        raise ValueError(
            f"losses must lie within {WIDEST:g} of one another, got {low:g} ... {high:g}: look at the inputs"
        )
    out: Any = np.zeros(losses.numel(), np.float64 if losses.dtype == torch.float64 else np.float32)
    if values.size == 0:
        return _infinite_solution(out, f, delta, measure, given)
    if labels is None:
        sample = HostSample(values, mass, low)
    else:
        sample, missing = group_on_host(values, mass, given, keep, labels)
    cost = _cost_of_missing(sample, f, missing)
    if delta is not None and cost > delta * (1.0 + SLACK):
        return _infinite_solution(out, f, delta, measure, given)
    largest = sample.largest() if sample.grouped else high - low
    largest = largest if largest > NEGLIGIBLE else 0.0
    rows = None if keep is None else np.flatnonzero(keep)
    with _quiet(f, kappa, largest):
        tied = _mass_at_minimum(sample, largest, missing) if f is not KL or kappa == 0.0 or largest == 0.0 else 0.0
        problem = Problem(sample, f, kappa, largest, missing, tied)
        if penalty is not None:
            outcome = _find_penalty_outcome(problem, sample, penalty)
        else:
            assert delta is not None  # exactly one of the two is given
            special = _find_special_outcome(problem, sample, delta)
            if special is None and f is KL:
                value, status, raw = weigh_kl(problem, sample, delta, cost, out, rows, warm)
                return Solution(torch.from_numpy(out), value, status, f, raw, measure)
            outcome = special or _find_budget_outcome(problem, sample, delta, cost)
        value = sample.total(sample.low) + _write_outcome(sample, outcome, out, rows) + outcome.constant
    return Solution(torch.from_numpy(out), value, outcome.status, f, outcome.raw, measure)


def _write_outcome(sample: HostSample, outcome: Outcome, out: Any, rows: Any) -> float:
    """Writes the weights; the expected shifted loss."""
    mass, expected, _ = sample.write_weights(out, rows, outcome.ratio)
    if np.max(abs(mass - 1.0)) > ROUNDING:  # the last place of a shift may decide digits of the weights
        expected /= mass
        sample.finish_weights(out, rows, None, 0.0 * mass, 1.0 / mass)
    return float(sample.total(expected))


def _is_one_group(labels: Any) -> bool:
    """Whether all rows that have mass are in one group, which is the problem without groups."""
    first, last = extremes(labels)
    return bool(first == last)


def _infinite_solution(out: Any, f: Divergence, delta: float | None, measure: Tensor | None, given: Any) -> Solution:
    """The reference measure as the weights: more rows are infinite than the budget can forget."""
    raw = raw_fields(math.inf, math.nan, 0.0, delta or 0.0, math.inf, f)
    out[:] = 1.0 if given is None else given * out.size
    return Solution(torch.from_numpy(out), math.inf, Status.INFINITE, f, raw, measure)


def _quiet(f: Divergence, kappa: float, largest: float) -> contextlib.AbstractContextManager[Any]:
    """A context without warnings of overflows; an empty one where none can occur, since NumPy is slower inside."""
    return _NOTHING if f is KL and largest < kappa * 1e300 else np.errstate(all="ignore")


def _unit_measure(measure: Tensor) -> Any:
    """The measure with sum 1, float64; None for a uniform one."""
    mass = measure.double().numpy()
    if mass[0] > 0.0 and (mass == mass[0]).all() and mass[0] < math.inf:
        return None  # so that results are bit for bit those without a measure
    total = float(mass.sum())
    if not (mass >= 0.0).all() or not 0.0 < total < math.inf:
        bad = int((~(mass >= 0.0)).sum())
        what = f"{bad} of {mass.size} negative or NaN" if bad else f"a sum of {total:g}"
        raise ValueError(f"base_weight must be finite and >= 0 with at least one positive entry, got {what}")
    return mass / total


def _finite_rows(values: Any, mass: Any, keep: Any) -> tuple[Any, Any, Any, float]:
    """(values, mass, rows, missing mass) of the finite rows: the mass of +inf rows stays in P and is missing."""
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


def _find_special_outcome(problem: Problem, sample: HostSample, delta: float) -> Outcome | None:
    """The outcome of a problem that needs no search; None where one is needed."""
    f, kappa, low = problem.divergence, problem.kappa, sample.low
    if delta == 0.0:
        raw = raw_fields(math.inf, math.nan, 0.0, 0.0, math.inf, f)
        return Outcome(0.0, Status.PLAIN, raw, lambda x, part: np.ones_like(x))
    if problem.largest == 0.0:
        return _equal_losses_outcome(problem, sample, delta)
    if kappa == 0.0:
        ratio, most, threshold = _coldest(problem, sample)
        if delta >= most * (1.0 - SLACK):
            return Outcome(0.0, Status.LIMIT, raw_fields(0.0, -low, most, delta, threshold, f), ratio)
    return None


def _find_budget_outcome(problem: Problem, sample: HostSample, delta: float, cost: float) -> Outcome:
    """The outcome of a search for a budget, of any f but KL."""
    f, kappa = problem.divergence, problem.kappa
    point = solve_budget(problem, delta, cost)
    slack = is_on_floor(point.t, kappa)
    raw = point_fields(problem, 0.0 if slack else point.t - kappa, point, sample.low, delta)
    missed = raw["achieved"] - delta
    accurate = (missed if slack else abs(missed)) <= ACCURACY * delta
    status = Status.INACCURATE if not accurate else Status.FLOOR if slack else Status.BUDGET
    return Outcome(kappa * raw["achieved"], status, raw, _ratio_at_point(f, sample, point))


def _ratio_at_point(f: Divergence, sample: HostSample, point: Point) -> Ratio:
    return lambda x, part: weight_ratio(f, x, point, sample.at(point.nu, part))


def _find_penalty_outcome(problem: Problem, sample: HostSample, penalty: float) -> Outcome:
    if problem.largest == 0.0:
        outcome = _equal_losses_outcome(problem, sample, None)
        return outcome._replace(constant=outcome.constant + penalty_value(penalty, problem.missing))
    lam, point, r_max = solve_penalty(problem, penalty)
    raw = point_fields(problem, lam, point, sample.low, max(point.divergence, 0.0), r_max)
    soft = problem.kappa * raw["achieved"] if problem.kappa > 0.0 else 0.0  # D_f may be beyond doubles
    constant = soft + penalty_value(penalty, r_max)
    return Outcome(constant, Status.BUDGET, raw, _ratio_at_point(problem.divergence, sample, point))


def _equal_losses_outcome(problem: Problem, sample: HostSample, delta: float | None) -> Outcome:
    """The outcome where all finite losses are equal: they share the mass, and the budget has nothing to do."""
    f, kappa, tied = problem.divergence, problem.kappa, problem.tied
    achieved = _cost_of_missing(sample, f, problem.missing)
    rho = -sample.low - kappa * f.f_prime(1.0 / tied)
    raw = raw_fields(0.0, rho, achieved, achieved if delta is None else delta, math.inf, f)
    if delta is None:
        raw["r_max"] = problem.missing
    return Outcome(kappa * achieved, Status.FLOOR, raw, lambda x, part: np.ones_like(x) / sample.at(tied, part))


def _coldest(problem: Problem, sample: HostSample) -> tuple[Ratio, float, float]:
    """The limit t -> 0: dQ/dP as large as the domain (a, b) allows on the smallest losses; (dQ/dP, D_f, threshold)."""
    f, tied = problem.divergence, problem.tied
    if not f.bounded_ratio:
        most, threshold = _cost_of_missing(sample, f, 1.0 - tied), float(np.max(sample.low))
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


def _mass_at_minimum(sample: HostSample, largest: float, missing: Any) -> Any:
    """The mass of the rows at the minimum."""
    if largest == 0.0:
        return 1.0 - missing
    if sample.grouped:
        return sample.integrate(lambda xp, x: ((xp.where(x == 0.0, 1.0, 0.0), 0),))[0]
    if sample.mass is None:
        return sum(int(np.count_nonzero(x == 0.0)) for x, _, _ in sample.chunks()) / sample.size
    return sum(float(mass[x == 0.0].sum()) for x, mass, _ in sample.chunks())


def _cost_of_missing(sample: HostSample, f: Divergence, rate: Any) -> float:
    """The least budget that forgets a mass; infinite where f(0) is."""
    if sample.grouped:
        with np.errstate(divide="ignore"):
            return float(sample.total(budget_of(f, rate)))
    if rate <= 0.0:
        return 0.0
    return math.inf if math.isinf(f.f_zero) else float(budget_of(f, rate)) if rate < 1.0 else f.max_delta
