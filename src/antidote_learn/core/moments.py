"""Moments of the weights at one temperature, D_f and its slope: for power families and for any f (KL: see `kl`).

The losses are shifted to minimum 0 (``x``), and ``nu`` = rho / t belongs to the shifted losses.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from antidote_learn.core.divergences import Divergence, Power
from antidote_learn.core.sample import Sample, Scalar

Integrands = tuple[tuple[Any, int], ...]


class Problem(NamedTuple):
    """The inner problem over a sample of shifted losses."""

    sample: Sample
    divergence: Divergence
    kappa: float
    largest: Scalar  # the largest shifted loss, positive where a solver is called
    missing: Scalar  # mass of the rows that must weigh nothing (infinite losses); in groups, of each
    tied: Scalar  # mass of the rows at the minimum; in groups, of each; not read for KL with kappa > 0


class Point(NamedTuple):
    """The distribution at one temperature and shift."""

    t: Scalar
    nu: Scalar
    mass: Scalar  # mean weight, 1 at the right shift
    divergence: Scalar  # D_f(Q_t || P)
    slope: Scalar  # derivative of D_f in the variable of the search (log t for a general f)
    drift: Scalar  # d nu / d log t; for a power family d log t / d v
    curvature: Scalar  # mean of 1 / f''(weights), for a general f
    near: tuple[Scalar, Scalar, Scalar] | None = None  # (pivot, v, log mass) of a steep power: see `pivots`


def power_point(problem: Problem, power: Power, v: Scalar) -> Point:
    """A power family, f'(w) = c + s w^(1/p), at the offset o = exp(v), which makes the temperature explicit.

    The weights are u^p / mean(u^p), u = max(1 - x / o, 0) for s > 0 and 1 + x / o for s < 0, and
    t = o mean(u^p)^(1/p) / |s|.
    """
    ops, p, offset = problem.sample, power.exponent, problem.sample.exp(v)
    sign, scale = (1.0, power.scale) if power.scale > 0.0 else (-1.0, -power.scale)
    back = -sign / offset

    def terms(xp: Any, x: Any) -> Integrands:
        u = x * back + 1.0
        if sign > 0.0:
            alive = u > 0.0
            u = xp.where(alive, u, 0.0)
            below = u ** (p - 1.0) if p > 1.0 else xp.where(alive, xp.where(alive, u, 1.0) ** (p - 1.0), 0.0)
            g = below * u
            return (g, 0), (g * u, 0), (below, 0)
        g = u**p
        return (g, 0), (g * u, 0), (g / u, 0)

    mass, first, below = ops.integrate(terms)
    mass = ops.at_least(ops.tiny, mass)
    root = ops.exp(ops.log(mass) / p)  # |s| t / o
    first, below = first / mass, below / mass
    divergence = power.scale / (1.0 + 1.0 / p) * (first / root - 1.0)  # the mean of w^(1 + 1/p) is first / root
    slope = sign * p * scale / root * (1.0 - first * below)
    return Point(offset * root / scale, -sign * scale / root - power.constant, 1.0, divergence, slope, below, 1.0)


def general_point(problem: Problem, t: Scalar, nu: Scalar) -> Point:
    """Any strictly convex f at temperature t and shift nu."""
    ops, f, back = problem.sample, problem.divergence, -1.0 / t

    def terms(xp: Any, x: Any) -> Integrands:
        a = x * back
        w = f.conjugate_prime(a - nu)  # eq:G_f, stationary in rho where the mean weight is 1
        h = f.curvature(w)
        ha = h * a
        return (w, 0), (h, 0), (ha, 0), (ha * a, 0), (f.excess(w - 1.0), 0)

    mass, h, ha, haa, excess = ops.integrate(terms)
    h = ops.at_least(ops.tiny, h)
    if f.excess_zero < math.inf:  # else missing rows cannot be forgotten, and the caller has refused them
        excess = excess + f.excess_zero * problem.missing
    return Point(t, nu, mass, excess, ha * ha / h - haa, -ha / h, h)


def shift_bracket(problem: Problem, t: Scalar) -> tuple[Scalar, Scalar]:
    """The range of the shift: the largest weight is at least 1 / (1 - missing) and at most 1 / tied."""
    ops, f = problem.sample, problem.divergence
    high = ops.scalar(-1.0) * f.f_prime(1.0 / (1.0 - problem.missing))
    return ops.at_least(high - problem.largest / t, -1.0 * f.f_prime(1.0 / problem.tied)), high
