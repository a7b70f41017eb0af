"""Independent answers: the primal problem by CVXPY, roots by SciPy, slow loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

Array = npt.NDArray[np.float64]


def f_value(name: str, w: float) -> float:
    """f(w), written down a second time from the definitions."""
    if name == "kl":
        return w * math.log(w) if w > 0 else 0.0
    if name == "js":
        return 0.5 * ((w * math.log(w) if w > 0 else 0.0) - (w + 1) * math.log((w + 1) / 2))
    if name == "hellinger":
        return 0.5 * (math.sqrt(w) - 1) ** 2
    a = 2.0 if name == "chi2" else float(name.removeprefix("alpha:"))
    return (w**a - 1) / (a * (a - 1))


def divergence_value(name: str, q: Array, p: Array) -> float:
    """D_f(Q || P) by its definition, a loop over the samples of positive mass."""
    return sum(pi * f_value(name, qi / pi) for qi, pi in zip(q, p, strict=True) if pi > 0)


def divergence_expression(name: str, q: Any, p: Array) -> Any:
    """D_f(Q || P) as a CVXPY expression, for p > 0."""
    if name == "kl":
        return cp.sum(cp.rel_entr(q, p))
    if name == "js":
        middle = (q + p) / 2
        return cp.sum(cp.rel_entr(q, middle) + cp.rel_entr(p, middle)) / 2
    if name == "hellinger":
        return 1 - cp.sum(cp.multiply(np.sqrt(p), cp.sqrt(q)))
    a = 2.0 if name == "chi2" else float(name.removeprefix("alpha:"))
    return (cp.sum(cp.multiply(p ** (1 - a), cp.power(q, a))) - 1) / (a * (a - 1))


def primal(
    losses: Array,
    delta: float,
    kappa: float,
    name: str,
    mass: Array | None = None,
    groups: npt.NDArray[np.int64] | None = None,
) -> tuple[float, Array]:
    """(optimum, distribution) of min E_Q[L] + kappa D_f(Q || P), D_f(Q || P) <= delta, by an interior-point solver.

    With groups also Q(g) = P(g) for each of them.
    """
    p = np.full(losses.size, 1 / losses.size) if mass is None else mass / mass.sum()
    q = cp.Variable(losses.size, nonneg=True)
    divergence = divergence_expression(name, q, p)
    groups = np.zeros(losses.size, dtype=np.int64) if groups is None else groups
    kept = [cp.sum(q[groups == g]) == p[groups == g].sum() for g in np.unique(groups)]
    problem = cp.Problem(cp.Minimize(losses @ q + kappa * divergence), [*kept, divergence <= delta])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value), np.clip(q.value, 0, None)


def kl_temperature(losses: Array, delta: float) -> float:
    """The root of KL(softmax(-L / t) || uniform) = delta by SciPy's Brent, in log t."""

    def gap(s: float) -> float:
        z = -(losses - losses.min()) / math.exp(s)
        q = np.exp(z) / np.exp(z).sum()
        return float(sum(v * math.log(v * losses.size) for v in q if v > 0)) - delta

    return math.exp(brentq(gap, -30, 30, xtol=1e-14, rtol=1e-14))


def grouped_kl(losses: Array, mass: Array, groups: npt.NDArray[np.int64], t: float) -> tuple[Array, float]:
    """(dQ/dP, KL(Q || P)) at a temperature, a loop over groups: in each exp(-L/t) over its mean."""
    ratio, divergence, p = np.zeros_like(losses), 0.0, mass / mass.sum()
    for g in np.unique(groups):
        own = groups == g
        if p[own].sum() == 0:
            continue
        tilted = np.exp(-(losses[own] - losses[own & (mass > 0)].min()) / t) * (mass[own] > 0)
        ratio[own] = tilted * p[own].sum() / (tilted @ p[own])
        q = ratio[own] * p[own]
        divergence += float(np.sum(q * np.log(np.where(q > 0, ratio[own], 1.0))))
    return ratio, divergence


def grouped_temperature(losses: Array, mass: Array, groups: npt.NDArray[np.int64], delta: float) -> float:
    """The root of sum_g p_g KL_g(t) = delta by SciPy's Brent, in log t."""
    return math.exp(
        brentq(lambda s: grouped_kl(losses, mass, groups, math.exp(s))[1] - delta, -12, 30, xtol=1e-14, rtol=1e-14)
    )


def central_difference(function: Callable[[Array], float], x: Array, step: float = 1e-6) -> Array:
    """The gradient of a function of a vector, one coordinate at a time."""
    grad = np.empty_like(x)
    for i in range(x.size):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        grad[i] = (function(up) - function(down)) / (2 * step)
    return grad
