"""What a solved inner problem is made of, wherever it was solved."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.budgets import rate_from_delta
from antidote_learn.core.divergences import KL, Divergence, namespace
from antidote_learn.core.pivots import steep_weights
from antidote_learn.core.points import Point, Problem
from antidote_learn.core.steps import TOLERANCE

SLACK = 1e-12  # with which budgets are compared
ACCURACY = 1e-6  # of D_f against delta
NEGLIGIBLE = 1e-140  # losses that differ by less are equal: their squares underflow


class Weighing(NamedTuple):
    """The solved inner problem, before it is attached to the graph of the losses."""

    weights: Tensor  # B q
    value: Any  # of the optimum; on a device what it has beside mean(weights * losses)
    status: Status | Tensor
    divergence: Divergence
    raw: dict[str, Any]  # lam, rho, achieved, delta, threshold, in the precision of the solve
    mass: Tensor | None  # the reference measure as it was given


def field_dtype(losses: Tensor) -> torch.dtype:
    """The type of what is returned: float64 for float64 losses, float32 otherwise."""
    return torch.float64 if losses.dtype == torch.float64 else torch.float32


def raw_fields(lam: Any, rho: Any, achieved: Any, delta: Any, threshold: Any, f: Divergence) -> dict[str, Any]:
    """The numbers of a solution, in the precision of the solve; r_max is computed when it is asked for."""
    return {
        "lam": lam,
        "rho": None if f is KL else rho,
        "achieved": achieved,
        "delta": delta,
        "threshold": threshold,
        "r_max": lambda: rate_from_delta(delta, f),
    }


def solution(problem: Problem, lam: Any, point: Point, low: Any, delta: Any, r_max: Any = None) -> dict[str, Any]:
    """The multipliers in the losses' own units."""
    f, t = problem.divergence, point.t
    rho = point.nu * t - low
    threshold = -rho - t * f.vanishing_score if math.isfinite(f.vanishing_score) else math.inf
    raw = raw_fields(lam, rho, problem.sample.at_least(0.0, point.divergence), delta, threshold, f)
    if r_max is not None:
        raw["r_max"] = r_max
    return raw


def ratio_at(f: Divergence, x: Any, point: Point, nu: Any) -> Any:
    """dQ/dP at a point, with the shift of each row: the weights of eq:KL_weights, and of eq:G_f in general."""
    back = -1.0 / point.t
    if f is KL:
        score = x * back
        score -= nu + 1.0
        return np.exp(score, score) if isinstance(score, np.ndarray) else torch.exp(score)
    if point.near is not None and f.power is not None:
        return steep_weights(namespace(x), x, f.power.exponent, point.near)
    return f.conjugate_prime(x * back - nu) / point.mass


def on_floor(t: Any, kappa: float) -> Any:
    """Whether a temperature is kappa, up to the tolerance of the search."""
    return t <= kappa * (1.0 + 2.0 * TOLERANCE)
