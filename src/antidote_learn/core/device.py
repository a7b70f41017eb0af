"""The inner problem in torch, while compiling and on accelerators: nothing is read back."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.arrays import DeviceSample
from antidote_learn.core.budgets import budget_of, penalty_value
from antidote_learn.core.divergences import Divergence
from antidote_learn.core.outcomes import (
    ACCURACY,
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
    losses: Tensor, f: Divergence, kappa: float, delta: float | None, penalty: float | None, measure: Tensor | None
) -> Weighing:
    """Weighs without a host synchronisation; NaN goes through to the value, and the status says so."""
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
    positive = sample.at_least(largest, sample.tiny)
    problem = Problem(sample, f, kappa, positive, missing, sample.at_least(tied, sample.tiny))
    ratio, constant, status, raw = _solve_device(problem, sample.x, low, delta, penalty)
    weights = (
        torch.where(status == int(Status.INFINITE), whole, torch.where(finite, ratio, 0.0) * whole) * values.numel()
    )
    status = torch.where(nan, int(Status.NAN), status)
    constant = torch.where(nan, math.nan, constant)
    dtype = field_dtype(losses)
    return Weighing(weights.to(dtype), constant.to(dtype), status, f, raw, measure)


def _solve_device(
    problem: Problem, x: Tensor, low: Tensor, delta: float | None, penalty: float | None
) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
    """(dQ/dP, constant, status, raw); what the host decides by `if` is selected here."""
    f, kappa = problem.divergence, problem.kappa
    zero = torch.zeros_like(low)
    if delta == 0.0:
        status = torch.where(problem.missing > 0.0, int(Status.INFINITE), int(Status.PLAIN))
        return torch.ones_like(x), zero, status, raw_fields(zero + math.inf, zero, zero, zero, zero + math.inf, f)
    if penalty is not None:
        lam, point, r_max = solve_penalty(problem, penalty)
        raw = solution(problem, lam, point, low, torch.clamp(point.divergence, min=0.0), r_max)
        constant = kappa * raw["achieved"] + penalty_value(penalty, r_max)
        return ratio_at(f, x, point), constant, torch.full_like(low, int(Status.BUDGET), dtype=torch.int64), raw
    assert delta is not None  # exactly one of the two is given
    none = problem.missing <= 0.0
    cost = torch.where(none, 0.0, math.inf if math.isinf(f.f_zero) else budget_of(f, problem.missing))
    point = solve_budget(problem, delta, cost)
    slack = on_floor(point.t, kappa)
    raw = solution(problem, torch.where(slack, 0.0, point.t - kappa), point, low, delta)
    off = (raw["achieved"] - delta).abs() > ACCURACY * delta
    status = torch.where(slack, int(Status.FLOOR), torch.where(off, int(Status.INACCURATE), int(Status.BUDGET)))
    ratio, constant = ratio_at(f, x, point), kappa * raw["achieved"]
    if kappa == 0.0 and math.isfinite(f.f_zero):
        most = budget_of(f, 1.0 - problem.tied)
        limit = delta >= most * (1.0 - SLACK)
        status = torch.where(limit, int(Status.LIMIT), status)
        ratio = torch.where(limit, (x <= 0.0) / problem.tied, ratio)
        constant = torch.where(limit, 0.0, constant)
        for name, at_limit in (("lam", 0.0), ("achieved", most), ("threshold", low)):
            raw[name] = torch.where(limit, at_limit, raw[name])
    return ratio, constant, torch.where(cost > delta * (1.0 + SLACK), int(Status.INFINITE), status), raw
