"""The solution of an inner problem, wherever it was solved, and the tolerances that decide how it ended."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.budgets import rate_from_delta
from antidote_learn.core.divergences import KL, Divergence
from antidote_learn.core.moments import Point, Problem

TOLERANCE = 1e-9  # of log(D_f / delta), where a search stops
SLACK = 1e-12  # relative, with which budgets are compared
ACCURACY = 1e-6  # of D_f against delta; a solution that misses by more is INACCURATE
NEGLIGIBLE = 1e-140  # losses that differ by less are equal: their squares underflow


class Solution(NamedTuple):
    """The solved inner problem, before it is attached to the graph of the losses."""

    weights: Tensor  # B q
    value: Any  # the optimum; on a device without its part mean(weights * losses)
    status: Status | Tensor
    divergence: Divergence
    raw: dict[str, Any]  # lam, rho, achieved, delta, threshold, in the precision of the solve
    mass: Tensor | None  # the reference measure as the caller gave it


def field_dtype(losses: Tensor) -> torch.dtype:
    """The type of a result's fields: float64 for float64 losses, float32 otherwise."""
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


def point_fields(problem: Problem, lam: Any, point: Point, low: Any, delta: Any, r_max: Any = None) -> dict[str, Any]:
    """The numbers of a solution at a point, in the losses' own units."""
    f, t = problem.divergence, point.t
    rho = point.nu * t - low
    threshold = -rho - t * f.vanishing_score if math.isfinite(f.vanishing_score) else math.inf
    raw = raw_fields(lam, rho, problem.sample.at_least(0.0, point.divergence), delta, threshold, f)
    if r_max is not None:
        raw["r_max"] = r_max
    return raw


def is_on_floor(t: Any, kappa: float) -> Any:
    """Whether a temperature is kappa, up to the tolerance of the search."""
    return t <= kappa * (1.0 + 2.0 * TOLERANCE)
