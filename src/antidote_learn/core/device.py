"""The inner problem in torch, while compiling and on accelerators: nothing is read back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.arrays import DeviceSample
from antidote_learn.core.budgets import ONE_MINUS, budget_of, penalty_value
from antidote_learn.core.divergences import KL, Divergence
from antidote_learn.core.groups import in_groups_on_device
from antidote_learn.core.outcomes import (
    ACCURACY,
    NEGLIGIBLE,
    SLACK,
    Weighing,
    field_dtype,
    on_floor,
    ratio_at,
    raw_fields,
    solution,
)
from antidote_learn.core.points import Problem
from antidote_learn.core.solvers import solve_budget, solve_penalty


def weigh_on_device(
    losses: Tensor,
    f: Divergence,
    kappa: float,
    delta: float | None,
    penalty: float | None,
    measure: Tensor | None,
    groups: Tensor | None = None,
) -> Weighing:
    """Weighs without a host synchronisation; NaN goes through to the value, and the status says so."""
    exact = torch.float32 if losses.device.type == "mps" else torch.float64
    values, whole = losses.to(exact), torch.full_like(losses, 1.0 / losses.numel(), dtype=exact)
    if measure is not None:
        total = measure.to(exact).sum()
        whole = torch.where(total > 0.0, measure.to(exact) / torch.where(total > 0.0, total, 1.0), 0.0)
    present = whole > 0.0
    finite = present & torch.isfinite(values)
    if groups is None:
        low = torch.where(finite, values, math.inf).amin()
        lows = low = torch.where(torch.isfinite(low), low, 0.0)
        sample = DeviceSample(torch.where(finite, values - low, 0.0), torch.where(finite, whole, 0.0))
    else:
        sample, low, lows = in_groups_on_device(values, whole, finite, groups)
    missing = sample.share(torch.where(present & ~finite, whole, 0.0))
    tied = sample.share(torch.where(finite & (values == lows), whole, 0.0))
    largest = sample.at_least(sample.tiny, sample.x.max())
    problem = Problem(sample, f, kappa, largest, missing, sample.at_least(sample.tiny, tied))
    solved = _penalised(problem, sample.x, low, penalty) if delta is None else _budgeted(problem, sample.x, low, delta)
    cost = sample.total(_cost(f, missing))
    solved = _where(sample.x.max() <= NEGLIGIBLE, _constant(problem, sample.x, low, cost, delta, penalty), solved)
    beyond = ~finite.any() if delta is None else ~finite.any() | (cost > delta * (1.0 + SLACK))
    solved = _where(beyond, _alike(sample.x, f, Status.INFINITE, math.inf, delta), solved)
    solved = _where(~present.any(), _alike(sample.x, f, Status.EMPTY, 0.0, delta), solved)
    wrong = (present & (torch.isnan(values) | (values == -math.inf))).any()
    status = torch.where(wrong, int(Status.NAN), solved.status)
    kept = finite | (status == int(Status.INFINITE))
    weights = torch.where(kept, solved.ratio, 0.0) * whole * values.numel()
    dtype = field_dtype(losses)
    constant = torch.where(wrong, math.nan, solved.constant).to(dtype)
    raw = {**solved.raw, "rho": None} if f is KL else solved.raw
    return Weighing(weights.to(dtype), constant, status, f, raw, measure)


class Solved(NamedTuple):
    """One of the cases that may hold: dQ/dP, what the value has beside the weighted losses, the status, the rest."""

    ratio: Tensor
    constant: Any
    status: Any
    raw: dict[str, Any]


def _where(condition: Tensor, yes: Solved, no: Solved) -> Solved:
    """What the host decides by `if` is selected here."""
    raw = {name: torch.where(condition, yes.raw[name], no.raw[name]) for name in no.raw if name != "r_max"}
    rate = no.raw["r_max"]
    raw["r_max"] = rate if callable(rate) else torch.where(condition, yes.raw["r_max"], rate)
    return Solved(
        torch.where(condition, yes.ratio, no.ratio),
        torch.where(condition, yes.constant, no.constant),
        torch.where(condition, yes.status, no.status),
        raw,
    )


def _alike(x: Tensor, f: Divergence, status: Status, lam: float, delta: float | None) -> Solved:
    """All rows as they were: too many of them are infinite, or there are none."""
    raw = _numbers(x, f, lam, math.nan, 0.0, delta or 0.0, math.inf if lam > 0.0 else 0.0)
    if delta is None:
        raw["r_max"] = 0.0
    return Solved(torch.ones_like(x), 0.0 * x[0], torch.full_like(x[0], int(status), dtype=torch.int64), raw)


def _numbers(x: Tensor, f: Divergence, lam: Any, rho: Any, achieved: Any, delta: Any, threshold: Any) -> dict[str, Any]:
    """`raw_fields` of tensors, with a shift for KL too, so that cases can be selected."""
    raw = raw_fields(lam, rho, achieved, delta, threshold, f)
    raw["rho"] = rho
    return {
        name: value if callable(value) else torch.as_tensor(value, dtype=x.dtype, device=x.device)
        for name, value in raw.items()
    }


def _constant(
    problem: Problem, x: Tensor, low: Tensor, cost: Tensor, delta: float | None, penalty: float | None
) -> Solved:
    """All finite losses are equal: they share the mass, and the budget has nothing to do."""
    f, kappa, missing = problem.divergence, problem.kappa, problem.missing
    status = torch.full_like(low, int(Status.PLAIN if delta == 0.0 else Status.FLOOR), dtype=torch.int64)
    rho = -low - kappa * f.f_prime(1.0 / problem.tied)
    raw = _numbers(x, f, math.inf if delta == 0.0 else 0.0, rho, cost, cost if delta is None else delta, math.inf)
    constant = kappa * cost
    if penalty is not None:
        raw["r_max"] = missing
        constant = constant + penalty_value(penalty, missing)
    return Solved(torch.ones_like(x) / problem.sample.at(problem.tied), constant, status, raw)


def _penalised(problem: Problem, x: Tensor, low: Tensor, penalty: float | None) -> Solved:
    assert penalty is not None  # exactly one of the two is given
    lam, point, r_max = solve_penalty(problem, penalty)
    raw = solution(problem, lam, point, low, torch.clamp(point.divergence, min=0.0), r_max)
    numbers = _numbers(
        x, problem.divergence, lam, point.nu * point.t - low, raw["achieved"], raw["delta"], raw["threshold"]
    )
    status = torch.full_like(low, int(Status.BUDGET), dtype=torch.int64)
    constant = penalty_value(penalty, r_max)
    if problem.kappa > 0.0:
        constant = constant + problem.kappa * raw["achieved"]
    return Solved(ratio_at(problem.divergence, x, point, point.nu), constant, status, {**numbers, "r_max": r_max})


def _budgeted(problem: Problem, x: Tensor, low: Tensor, delta: float) -> Solved:
    sample, f, kappa = problem.sample, problem.divergence, problem.kappa
    if delta == 0.0:
        status = torch.full_like(low, int(Status.PLAIN), dtype=torch.int64)
        raw = _numbers(x, f, math.inf, math.nan, 0.0, 0.0, math.inf)
        return Solved(torch.ones_like(x), torch.zeros_like(low), status, raw)
    point = solve_budget(problem, delta, sample.total(_cost(f, problem.missing)))
    slack = on_floor(point.t, kappa)
    raw = solution(problem, torch.where(slack, 0.0, point.t - kappa), point, low, delta)
    missed = raw["achieved"] - delta
    off = torch.where(slack, missed, missed.abs()) > ACCURACY * delta
    status = torch.where(off, int(Status.INACCURATE), torch.where(slack, int(Status.FLOOR), int(Status.BUDGET)))
    numbers = _numbers(x, f, raw["lam"], point.nu * point.t - low, raw["achieved"], delta, raw["threshold"])
    solved = Solved(ratio_at(f, x, point, sample.at(point.nu)), kappa * raw["achieved"], status, numbers)
    if kappa > 0.0 or math.isinf(f.f_zero):
        return solved
    most = sample.total(budget_of(f, 1.0 - problem.tied))
    limit = Solved(
        (x <= 0.0) / sample.at(problem.tied),
        torch.zeros_like(low),
        torch.full_like(low, int(Status.LIMIT), dtype=torch.int64),
        _numbers(x, f, 0.0, -low, most, delta, low),
    )
    return _where(delta >= most * (1.0 - SLACK), limit, solved)


def _cost(f: Divergence, missing: Tensor) -> Tensor:
    """What forgetting the missing mass costs at the least; infinite where f(0) is."""
    if math.isinf(f.f_zero):
        return torch.where(missing > 0.0, math.inf, 0.0).to(missing.dtype)
    return torch.where(missing > 0.0, budget_of(f, torch.clamp(missing, max=ONE_MINUS)), 0.0)
