"""The inner problem in torch, while compiling and on accelerators: nothing is read back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.budgets import ONE_MINUS, budget_of, penalty_value
from antidote_learn.core.divergences import KL, Divergence
from antidote_learn.core.groups import group_on_device
from antidote_learn.core.kl import highest_log_t, kl_moments, kl_point, lowest_log_t
from antidote_learn.core.moments import Point, Problem
from antidote_learn.core.sample import Scalar
from antidote_learn.core.sample_torch import DeviceSample
from antidote_learn.core.solution import (
    ACCURACY,
    NEGLIGIBLE,
    SLACK,
    Solution,
    field_dtype,
    is_on_floor,
    point_fields,
    raw_fields,
)
from antidote_learn.core.solvers import solve_budget, solve_penalty, weight_ratio
from antidote_learn.core.steps import Bracket, take_step

SECTIONS, CUTS = 2, 8  # how often, and into how many parts, the bracket of KL is cut before its steps
KL_STEPS, KL_STEPS_COLD, COLD = 2, 6, 1e-3  # steps of KL after the cuts, and where kappa is below COLD


def solve_on_device(
    losses: Tensor,
    f: Divergence,
    kappa: float,
    delta: float | None,
    penalty: float | None,
    measure: Tensor | None,
    groups: Tensor | None = None,
) -> Solution:
    """Solves without a host synchronisation; NaN goes through to the value, and the status says so."""
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
        sample, low, lows = group_on_device(values, whole, finite, groups)
    missing = sample.share(torch.where(present & ~finite, whole, 0.0))
    tied = sample.share(torch.where(finite & (values == lows), whole, 0.0))
    largest = sample.at_least(sample.tiny, sample.x.max())
    problem = Problem(sample, f, kappa, largest, missing, sample.at_least(sample.tiny, tied))
    solved = (
        _penalty_case(problem, sample.x, low, penalty) if delta is None else _budget_case(problem, sample.x, low, delta)
    )
    cost = sample.total(_least_cost(f, missing))
    solved = _select_case(
        sample.x.max() <= NEGLIGIBLE, _equal_losses_case(problem, sample.x, low, cost, delta, penalty), solved
    )
    beyond = ~finite.any() if delta is None else ~finite.any() | (cost > delta * (1.0 + SLACK))
    solved = _select_case(beyond, _uniform_case(sample.x, f, Status.INFINITE, math.inf, delta), solved)
    solved = _select_case(~present.any(), _uniform_case(sample.x, f, Status.EMPTY, 0.0, delta), solved)
    wrong = (present & (torch.isnan(values) | (values == -math.inf))).any()
    status = torch.where(wrong, int(Status.NAN), solved.status)
    kept = finite | (status == int(Status.INFINITE))
    weights = torch.where(kept, solved.ratio, 0.0) * whole * values.numel()
    dtype = field_dtype(losses)
    constant = torch.where(wrong, math.nan, solved.constant).to(dtype)
    raw = {**solved.raw, "rho": None} if f is KL else solved.raw
    return Solution(weights.to(dtype), constant, status, f, raw, measure)


class Alternative(NamedTuple):
    """One of the cases that may hold."""

    ratio: Tensor  # dQ/dP
    constant: Any  # the value without the weighted losses
    status: Any
    raw: dict[str, Any]


def _select_case(condition: Tensor, yes: Alternative, no: Alternative) -> Alternative:
    """The case ``yes`` where the condition holds, else ``no``: the host decides it by `if`."""
    raw = {name: torch.where(condition, yes.raw[name], no.raw[name]) for name in no.raw if name != "r_max"}
    rate = no.raw["r_max"]
    raw["r_max"] = rate if callable(rate) else torch.where(condition, yes.raw["r_max"], rate)
    return Alternative(
        torch.where(condition, yes.ratio, no.ratio),
        torch.where(condition, yes.constant, no.constant),
        torch.where(condition, yes.status, no.status),
        raw,
    )


def _uniform_case(x: Tensor, f: Divergence, status: Status, lam: float, delta: float | None) -> Alternative:
    """The case that leaves all rows as they were: too many of them are infinite, or there are none."""
    raw = _tensor_fields(x, f, lam, math.nan, 0.0, delta or 0.0, math.inf if lam > 0.0 else 0.0)
    if delta is None:
        raw["r_max"] = 0.0
    return Alternative(torch.ones_like(x), 0.0 * x[0], torch.full_like(x[0], int(status), dtype=torch.int64), raw)


def _tensor_fields(
    x: Tensor, f: Divergence, lam: Any, rho: Any, achieved: Any, delta: Any, threshold: Any
) -> dict[str, Any]:
    """`raw_fields` as tensors, with a shift for KL too, so that cases can be selected."""
    raw = raw_fields(lam, rho, achieved, delta, threshold, f)
    raw["rho"] = rho
    return {
        name: value if callable(value) else torch.as_tensor(value, dtype=x.dtype, device=x.device)
        for name, value in raw.items()
    }


def _equal_losses_case(
    problem: Problem, x: Tensor, low: Tensor, cost: Tensor, delta: float | None, penalty: float | None
) -> Alternative:
    """The case that all finite losses are equal: they share the mass, and the budget has nothing to do."""
    f, kappa, missing = problem.divergence, problem.kappa, problem.missing
    status = torch.full_like(low, int(Status.PLAIN if delta == 0.0 else Status.FLOOR), dtype=torch.int64)
    rho = -low - kappa * f.f_prime(1.0 / problem.tied)
    raw = _tensor_fields(x, f, math.inf if delta == 0.0 else 0.0, rho, cost, cost if delta is None else delta, math.inf)
    constant = kappa * cost
    if penalty is not None:
        raw["r_max"] = missing
        constant = constant + penalty_value(penalty, missing)
    return Alternative(torch.ones_like(x) / problem.sample.at(problem.tied), constant, status, raw)


def _penalty_case(problem: Problem, x: Tensor, low: Tensor, penalty: float | None) -> Alternative:
    assert penalty is not None  # exactly one of the two is given
    lam, point, r_max = solve_penalty(problem, penalty)
    raw = point_fields(problem, lam, point, low, torch.clamp(point.divergence, min=0.0), r_max)
    numbers = _tensor_fields(
        x, problem.divergence, lam, point.nu * point.t - low, raw["achieved"], raw["delta"], raw["threshold"]
    )
    status = torch.full_like(low, int(Status.BUDGET), dtype=torch.int64)
    constant = penalty_value(penalty, r_max)
    if problem.kappa > 0.0:
        constant = constant + problem.kappa * raw["achieved"]
    return Alternative(
        weight_ratio(problem.divergence, x, point, point.nu), constant, status, {**numbers, "r_max": r_max}
    )


def _budget_case(problem: Problem, x: Tensor, low: Tensor, delta: float) -> Alternative:
    sample, f, kappa = problem.sample, problem.divergence, problem.kappa
    if delta == 0.0:
        status = torch.full_like(low, int(Status.PLAIN), dtype=torch.int64)
        raw = _tensor_fields(x, f, math.inf, math.nan, 0.0, 0.0, math.inf)
        return Alternative(torch.ones_like(x), torch.zeros_like(low), status, raw)
    cost = sample.total(_least_cost(f, problem.missing))
    point = _solve_kl(problem, delta, cost) if f is KL else solve_budget(problem, delta, cost)
    slack = is_on_floor(point.t, kappa)
    raw = point_fields(problem, torch.where(slack, 0.0, point.t - kappa), point, low, delta)
    missed = raw["achieved"] - delta
    off = torch.where(slack, missed, missed.abs()) > ACCURACY * delta
    status = torch.where(off, int(Status.INACCURATE), torch.where(slack, int(Status.FLOOR), int(Status.BUDGET)))
    numbers = _tensor_fields(x, f, raw["lam"], point.nu * point.t - low, raw["achieved"], delta, raw["threshold"])
    solved = Alternative(weight_ratio(f, x, point, sample.at(point.nu)), kappa * raw["achieved"], status, numbers)
    if kappa > 0.0 or math.isinf(f.f_zero):
        return solved
    most = sample.total(budget_of(f, 1.0 - problem.tied))
    limit = Alternative(
        (x <= 0.0) / sample.at(problem.tied),
        torch.zeros_like(low),
        torch.full_like(low, int(Status.LIMIT), dtype=torch.int64),
        _tensor_fields(x, f, 0.0, -low, most, delta, low),
    )
    return _select_case(delta >= most * (1.0 - SLACK), limit, solved)


def _least_cost(f: Divergence, missing: Tensor) -> Tensor:
    """The least budget that forgets the missing mass; infinite where f(0) is."""
    if math.isinf(f.f_zero):
        return torch.where(missing > 0.0, math.inf, 0.0).to(missing.dtype)
    return torch.where(missing > 0.0, budget_of(f, torch.clamp(missing, max=ONE_MINUS)), 0.0)


def _solve_kl(problem: Problem, delta: float, cost: Scalar) -> Point:
    """The point of KL with D(t) = delta, or t = kappa: the bracket is cut, then a fixed number of steps is taken."""
    sample, missing = problem.sample, problem.missing
    assert isinstance(sample, DeviceSample)  # the host's way is `kl.weigh_kl`
    budget = sample.at_least(sample.tiny, sample.scalar(delta) - cost)
    floor = lowest_log_t(problem)
    high = highest_log_t(problem, budget, floor)
    v, bracket = _cut_bracket(sample, missing, budget + cost, floor, high)
    for _ in range(KL_STEPS if problem.kappa >= COLD else KL_STEPS_COLD):
        _, _, divergence, slope, bend = kl_moments(sample, missing, sample.exp(v))
        used = sample.at_least(sample.tiny, divergence - cost)
        slope = slope / used
        residual = sample.log(used / budget), slope, bend / used - slope * slope
        v, bracket, _ = take_step(sample, v, floor, bracket, residual)
    return kl_point(problem, sample.exp(v))


def _cut_bracket(
    sample: DeviceSample, missing: Scalar, budget: Scalar, floor: Scalar, high: Scalar
) -> tuple[Scalar, Bracket]:
    """(start, bracket) of KL from D at evenly spaced log t, all at once: a loop that cannot stop early needs it."""
    steps = torch.arange(CUTS, dtype=floor.dtype, device=floor.device)
    if sample.grouped:
        steps = steps.unsqueeze(-1)
    low, width = floor, high - floor
    for _ in range(SECTIONS):
        width = width / CUTS
        divergence = kl_moments(sample, missing, torch.exp(low + steps * width))[2]
        low = low + width * torch.clamp((divergence > budget).sum() - 1, min=0)
    at_floor = low <= floor
    bracket = (sample.select(at_floor, floor - 1.0, low), low + width, sample.scalar(math.inf))
    return sample.select(at_floor, floor, low + 0.5 * width), bracket
