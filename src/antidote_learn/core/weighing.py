"""The weights of a batch of losses: the inner problem set up, solved and written back, on the host or on a device."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antidote_learn._checks import check_losses, check_measure
from antidote_learn._types import Status
from antidote_learn.core.arrays import DeviceSample, HostSample
from antidote_learn.core.budgets import budget_of, penalty_value, rate_from_delta
from antidote_learn.core.divergences import KL, Divergence
from antidote_learn.core.points import TINY, Point, Problem
from antidote_learn.core.solvers import TOLERANCE, solve_budget, solve_penalty

SLACK = 1e-12  # with which budgets are compared
ACCURACY = 1e-6  # of D_f against delta


class Weighing(NamedTuple):
    """The solved inner problem, before it is attached to the graph of the losses."""

    weights: Tensor  # B q
    constant: Any  # what the value has beside mean(weights * losses)
    status: Status | Tensor
    masked: bool  # whether some rows must not be looked at, not even with weight 0
    divergence: Divergence
    raw: dict[str, Any]  # lam, rho, achieved, delta, threshold, in the precision of the solve
    mass: Tensor | None  # the reference measure as it was given


def weigh(
    losses: Tensor,
    f: Divergence,
    kappa: float,
    *,
    delta: float | None = None,
    penalty: float | None = None,
    measure: Tensor | None = None,
) -> Weighing:
    """Solves the inner problem; exactly one of ``delta`` and ``penalty`` is given. Nothing of it carries a gradient."""
    check_losses(losses)
    if measure is not None:
        check_measure(measure, losses)
        measure = measure.detach()
    losses = losses.detach()
    on_host = losses.device.type == "cpu" and type(losses) is Tensor and not torch.compiler.is_compiling()
    if losses.numel() == 0:
        return empty(losses, f, delta)
    return (_on_host if on_host else _on_device)(losses, f, kappa, delta, penalty, measure)


def empty(losses: Tensor, f: Divergence, delta: float | None) -> Weighing:
    """Nothing to weigh: the value is 0."""
    weights = torch.zeros_like(losses, dtype=_field_dtype(losses))
    raw = _raw(0.0, 0.0, 0.0, delta or 0.0, 0.0, f)
    return Weighing(weights, 0.0, Status.EMPTY, True, f, raw, None)


def _field_dtype(losses: Tensor) -> torch.dtype:
    return torch.float64 if losses.dtype == torch.float64 else torch.float32


def _raw(lam: Any, rho: Any, achieved: Any, delta: Any, threshold: Any, f: Divergence) -> dict[str, Any]:
    raw = {"lam": lam, "rho": None if f is KL else rho, "achieved": achieved, "delta": delta, "threshold": threshold}
    return {**raw, "r_max": lambda: rate_from_delta(delta, f)}


def _solution(problem: Problem, lam: Any, point: Point, low: Any, delta: Any, r_max: Any = None) -> dict[str, Any]:
    """The multipliers in the losses' own units."""
    f, t = problem.divergence, point.t
    rho = point.nu * t - low
    threshold = -rho - t * f.vanishing_score if math.isfinite(f.vanishing_score) else math.inf
    raw = _raw(lam, rho, problem.sample.at_least(point.divergence, 0.0), delta, threshold, f)
    return raw if r_max is None else {**raw, "r_max": r_max}


def _ratio(f: Divergence, x: Any, point: Point) -> Any:
    """dQ/dP at a point: the weights of eq:KL_weights, and of eq:G_f in general."""
    ratio = f.conjugate_prime(x * (-1.0 / point.t) - point.nu)
    return ratio if f is KL else ratio / point.mass


# ---- on the host ----------------------------------------------------------------------------------------------------


def _on_host(
    losses: Tensor, f: Divergence, kappa: float, delta: float | None, penalty: float | None, measure: Tensor | None
) -> Weighing:
    with np.errstate(all="ignore"):
        values = (losses if losses.dtype in (torch.float32, torch.float64) else losses.float()).numpy()
        mass = None if measure is None else _normalised(measure)
        keep = None
        if mass is not None and not mass.all():
            keep = mass > 0.0
            values, mass = values[keep], mass[keep]
        low, high = float(values.min()), float(values.max())
        missing = 0.0
        if not math.isfinite(low) or not math.isfinite(high):
            values, mass, keep, missing = _without_infinite(values, mass, keep)
            low, high = (float(values.min()), float(values.max())) if values.size else (math.inf, math.inf)
        out = np.zeros(losses.numel(), np.float64 if losses.dtype == torch.float64 else np.float32)
        constant, status, raw, ratios = _solve_host(values, mass, low, high - low, missing, f, kappa, delta, penalty)
        if status is Status.INFINITE:
            out[:] = 1.0 if measure is None else _normalised(measure) * out.size
        else:
            _write(out, keep, ratios)
    return Weighing(torch.from_numpy(out), constant, status, keep is not None, f, raw, measure)


def _normalised(measure: Tensor) -> Any:
    mass = measure.double().numpy()
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


def _solve_host(
    values: Any, mass: Any, low: float, largest: float, missing: float,
    f: Divergence, kappa: float, delta: float | None, penalty: float | None,
) -> tuple[float, Status, dict[str, Any], Any]:  # fmt: skip
    """(constant, status, raw, chunks of the weights B q over the rows that are kept)."""
    cost = _cost(f, missing)
    if values.size == 0 or (delta is not None and cost > delta * (1.0 + SLACK)):
        return 0.0, Status.INFINITE, _raw(math.inf, math.nan, 0.0, delta or 0.0, math.inf, f), None
    sample = HostSample(values, mass, low)
    tied = _tied_mass(sample) if f is not KL or kappa == 0.0 else 0.0
    if largest == 0.0:
        tied = 1.0 - missing
    problem = Problem(sample, f, kappa, max(largest, TINY), missing, tied)
    if delta == 0.0:
        raw = _raw(math.inf, math.nan, 0.0, 0.0, math.inf, f)
        return 0.0, Status.PLAIN, raw, _chunks(sample, lambda x: np.ones_like(x))
    if largest == 0.0 or (delta is not None and kappa == 0.0 and delta >= _cost(f, 1.0 - tied) * (1.0 - SLACK)):
        achieved = _cost(f, 1.0 - tied)
        status = Status.FLOOR if largest == 0.0 else Status.LIMIT
        chosen = achieved if delta is None else delta
        rho = -low - kappa * float(f.f_prime(1.0 / tied))
        raw = _raw(0.0, rho, achieved, chosen, low if status is Status.LIMIT else math.inf, f)
        constant = kappa * achieved
        if penalty is not None:
            raw["r_max"] = 1.0 - tied
            constant += penalty_value(penalty, 1.0 - tied)
        return constant, status, raw, _chunks(sample, lambda x: (x == 0.0) / tied)
    if penalty is not None:
        lam, point, r_max = solve_penalty(problem, penalty)
        raw = _solution(problem, lam, point, low, max(point.divergence, 0.0), r_max)
        constant, status = kappa * raw["achieved"] + penalty_value(penalty, r_max), Status.BUDGET
    else:
        assert delta is not None  # exactly one of the two is given
        point = solve_budget(problem, delta, cost)
        slack = point.t <= kappa * (1.0 + 2.0 * TOLERANCE) or (
            f.bounded_ratio and point.divergence < delta * (1.0 - ACCURACY)
        )
        raw = _solution(problem, 0.0 if slack else point.t - kappa, point, low, delta)
        accurate = abs(raw["achieved"] - delta) <= ACCURACY * delta
        status = Status.FLOOR if slack else Status.BUDGET if accurate else Status.INACCURATE
        constant = kappa * raw["achieved"]
    return constant, status, raw, _chunks(sample, lambda x: _ratio(f, x, point))


def _tied_mass(sample: HostSample) -> float:
    return sum(float(mass[x == 0.0].sum()) for x, mass, _ in sample.chunks())


def _cost(f: Divergence, rate: float) -> float:
    """What forgetting a mass costs at the least; infinite where f(0) is."""
    if rate <= 0.0:
        return 0.0
    return math.inf if math.isinf(f.f_zero) else float(budget_of(f, rate)) if rate < 1.0 else f.max_delta


def _chunks(sample: HostSample, ratio: Any) -> Any:
    uniform = sample.mass is None
    return ((part, ratio(x) if uniform else ratio(x) * mass, uniform) for x, mass, part in sample.chunks())


def _write(out: Any, keep: Any, ratios: Any) -> None:
    """B q into ``out``, a chunk at a time; rows that are not kept stay 0."""
    rows = None if keep is None else np.flatnonzero(keep)
    for part, ratio, uniform in ratios:
        target = part if rows is None else rows[part]
        out[target] = ratio if uniform else ratio * out.size


# ---- on a device or while compiling ---------------------------------------------------------------------------------


def _on_device(
    losses: Tensor, f: Divergence, kappa: float, delta: float | None, penalty: float | None, measure: Tensor | None
) -> Weighing:
    exact = torch.float32 if losses.device.type == "mps" else torch.float64
    values = losses.to(exact)
    whole = torch.full_like(values, 1.0 / values.numel()) if measure is None else measure.to(exact)
    whole = whole if measure is None else whole / whole.sum()
    present = whole > 0.0
    finite = present & torch.isfinite(values)
    nan = (present & torch.isnan(values)).any()
    low = torch.where(finite, values, math.inf).amin()
    low = torch.where(torch.isfinite(low), low, 0.0)
    sample = DeviceSample(torch.where(finite, values - low, 0.0), torch.where(finite, whole, 0.0))
    missing = torch.where(present & ~finite, whole, 0.0).sum()
    largest = sample.x.max()
    tied = torch.where(finite & (values == low), whole, 0.0).sum()
    problem = Problem(sample, f, kappa, sample.at_least(largest, TINY), missing, sample.at_least(tied, TINY))
    ratio, constant, status, raw = _solve_device(problem, sample.x, low, delta, penalty)
    weights = (
        torch.where(status == int(Status.INFINITE), whole, torch.where(finite, ratio, 0.0) * whole) * values.numel()
    )
    status = torch.where(nan, int(Status.NAN), status)
    constant = torch.where(nan, math.nan, constant)
    dtype = _field_dtype(losses)
    return Weighing(weights.to(dtype), constant.to(dtype), status, True, f, raw, measure)


def _solve_device(
    problem: Problem, x: Tensor, low: Tensor, delta: float | None, penalty: float | None
) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
    """(dQ/dP, constant, status, raw); what the host decides by `if` is selected here."""
    f, kappa = problem.divergence, problem.kappa
    zero = torch.zeros_like(low)
    if delta == 0.0:
        status = torch.where(problem.missing > 0.0, int(Status.INFINITE), int(Status.PLAIN))
        return torch.ones_like(x), zero, status, _raw(zero + math.inf, zero, zero, zero, zero + math.inf, f)
    if penalty is not None:
        lam, point, r_max = solve_penalty(problem, penalty)
        raw = _solution(problem, lam, point, low, torch.clamp(point.divergence, min=0.0), r_max)
        constant = kappa * raw["achieved"] + penalty_value(penalty, r_max)
        return _ratio(f, x, point), constant, torch.full_like(low, int(Status.BUDGET), dtype=torch.int64), raw
    assert delta is not None  # exactly one of the two is given
    none = problem.missing <= 0.0
    cost = torch.where(none, 0.0, math.inf if math.isinf(f.f_zero) else budget_of(f, problem.missing))
    point = solve_budget(problem, delta, cost)
    slack = point.t <= kappa * (1.0 + 2.0 * TOLERANCE)
    raw = _solution(problem, torch.where(slack, 0.0, point.t - kappa), point, low, delta)
    off = (raw["achieved"] - delta).abs() > ACCURACY * delta
    status = torch.where(slack, int(Status.FLOOR), torch.where(off, int(Status.INACCURATE), int(Status.BUDGET)))
    ratio, constant = _ratio(f, x, point), kappa * raw["achieved"]
    if kappa == 0.0 and math.isfinite(f.f_zero):
        most = budget_of(f, 1.0 - problem.tied)
        limit = delta >= most * (1.0 - SLACK)
        status = torch.where(limit, int(Status.LIMIT), status)
        ratio = torch.where(limit, (x <= 0.0) / problem.tied, ratio)
        constant = torch.where(limit, 0.0, constant)
        for name, at_limit in (("lam", 0.0), ("achieved", most), ("threshold", low)):
            raw[name] = torch.where(limit, at_limit, raw[name])
    return ratio, constant, torch.where(cost > delta * (1.0 + SLACK), int(Status.INFINITE), status), raw
