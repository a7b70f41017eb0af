"""KL: its moments at a temperature, where a search starts, and the one path by which the host weighs a sample.

The weights are exp(-x / t) over their mean (eq:KL_weights), so that everything is explicit in log t. Nearly every
training step is a call of `weigh_kl`; devices search in `solve_torch`, with the same moments.
"""

from __future__ import annotations

import math
from typing import Any

from antidote_learn._types import Status
from antidote_learn.core.divergences import KL
from antidote_learn.core.moments import Point, Problem
from antidote_learn.core.sample import Sample, Scalar
from antidote_learn.core.sample_numpy import CHUNK, HostSample
from antidote_learn.core.solution import ACCURACY, TOLERANCE, is_on_floor, raw_fields

HOST_LIMIT = 400  # steps of a search that may stop early, far more than any needs
NEAR = 0.05  # a residual log(D / delta) after which one Halley step suffices, with its error mended
SEEN = 2e-8  # share of delta by which weights may miss it without being mended
MENDED = 1e-4  # largest change of log t that is made to first order in written weights, which leaves its square
OFF_FLOOR = 1e-5  # distance of log t from the floor below which every step is evaluated
SMALLEST = 1e-300  # least variance to divide by
THIN_ABOVE, THIN_TO, THIN_BY = 2 * CHUNK, CHUNK // 2, 64  # larger samples start from a part: of so many, or one in 64
THIN_NEAR = 0.1  # `NEAR` of a thinned sample, whose root is off by some 0.01 anyway
DEPTH = 40.0  # distance by which log t may fall below the smallest gap between two losses when kappa = 0


def kl_moments(sample: Sample, missing: Scalar, t: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar, Scalar]:
    """KL at temperature t: (log of the mean of exp(-x/t), mean x/t, D, and its two derivatives in log t).

    The shift is a log-mean-exp (eq:KL_weights). In groups the first two are those of each.
    """
    back = -1.0 / t
    z_minus_one, first, second, third = sample.tilt_integrals(back)
    z_minus_one = z_minus_one - missing
    scale = back / (1.0 + z_minus_one)
    mean, square, log_z = first * scale, second * scale * back, sample.log1p(z_minus_one)
    variance = square - mean * mean
    bend = 2.0 * variance + third * scale * back * back - mean * (3.0 * square - 2.0 * mean * mean)
    if sample.grouped:
        return log_z, -mean, sample.total(mean - log_z), sample.total(-variance), sample.total(bend)
    return log_z, -mean, mean - log_z, -variance, bend


def kl_point(problem: Problem, t: Scalar) -> Point:
    """KL at temperature t, as a point."""
    log_z, mean, divergence, slope, _ = kl_moments(problem.sample, problem.missing, t)
    return Point(t, log_z - 1.0, 1.0, divergence, slope, mean, 1.0)


def loss_spread(sample: Sample, curvature: float = 1.0) -> tuple[Scalar, Scalar, Scalar]:
    """(mean, variance times 1 / f''(1), skewness) of the shifted losses; KL has f''(1) = 1."""
    mean, square, cube = sample.moments()
    variance = sample.at_least(sample.tiny, square - mean * mean)
    third = cube - mean * (3.0 * square - 2.0 * mean * mean)
    return mean, variance * curvature, third / variance / variance**0.5


def start_temperature(sample: Sample, budget: Scalar, curvature: float = 1.0) -> tuple[Scalar, Scalar]:
    """(log t, mean loss) to start from: D is about v^2 / 2 - g v^3 / 3, v = deviation / t, g the losses' skewness.

    The factor of g only matters for speed; it fits losses of six shapes at rates from 0.1 to 0.6.
    """
    mean, variance, skewness = loss_spread(sample, curvature)
    skewness = sample.at_least(0.0, 2.0 - sample.at_least(0.0, 2.0 - skewness))
    return 0.5 * sample.log(variance / (2.0 * budget)) - 0.5 * skewness * (2.0 * budget) ** 0.5, mean


def lowest_log_t(problem: Problem) -> Scalar:
    """The floor of log t: that of kappa, or for kappa = 0 far below the smallest gap between two losses."""
    ops, kappa = problem.sample, problem.kappa
    return ops.scalar(math.log(kappa)) if kappa > 0.0 else ops.log(ops.smallest_positive()) - DEPTH


def highest_log_t(problem: Problem, budget: Scalar, floor: Scalar) -> Scalar:
    """A bound above log t, since t_delta is at most max x / sqrt(8 delta)."""
    ops = problem.sample
    return ops.at_least(floor, ops.log(problem.largest) - 0.5 * ops.log(budget)) + 0.1


def weigh_kl(
    problem: Problem, sample: HostSample, delta: float, cost: float, out: Any, rows: Any, warm: float | None = None
) -> tuple[float, Status, dict[str, Any]]:
    """Writes the weights of a sample of the host to the ``rows`` (None: all) of ``out``.

    Args:
        problem: The inner problem, of a positive ``largest``; kappa = 0 needs delta below the D of the tied minimum.
        sample: The problem's sample.
        delta: The budget, above 0.
        cost: The part of the budget that the missing rows cost.
        out: (B,) the weights.
        rows: The rows of the sample in it, or None for all.
        warm: A temperature that is known to be near.

    Returns:
        (value, status, raw fields).
    """
    solved = try_kl(problem, sample, delta, cost, out, rows, NEAR, warm)
    if solved is None:
        solved = try_kl(problem, sample, delta, cost, out, rows, 0.0)
    assert solved is not None  # without trust it always ends
    return solved


def try_kl(
    problem: Problem,
    sample: HostSample,
    delta: float,
    cost: float,
    out: Any,
    rows: Any,
    trust: float,
    warm: float | None = None,
) -> tuple[float, Status, dict[str, Any]] | None:
    """`weigh_kl` with the last step of the search unseen, from a residual of ``trust`` on; None where it missed.

    The weights show which D they have, and are mended to D = delta to first order, or not at all where that is too far.
    """
    kappa, slope, spread = problem.kappa, 0.0, 0.0
    t, shift, achieved = _find_temperature(problem, sample, delta, cost, trust, warm)
    tilt, mass, mean, square = sample.write_tilt(out, rows, -1.0 / t, shift)
    if achieved is None:
        achieved = sample.total(-mean / t - sample.log1p(mass - 1.0) - shift)
    slack = is_on_floor(t, kappa)
    if not slack and abs(achieved - delta) > SEEN * delta:
        spread = sample.total(square - mean * mean)
        change = (achieved - delta) / max(spread, SMALLEST) * t * t  # of log t, in which D has the slope -Var x / t^2
        if abs(change) < MENDED:
            slope, t, achieved = change / t, t * math.exp(change), delta
        elif trust > 0.0:
            return None
    sample.finish_weights(out, rows, tilt, slope / mass, (1.0 - slope * mean) / mass)
    achieved = achieved if achieved > 0.0 else 0.0
    missed = achieved - delta if slack else abs(achieved - delta)
    status = Status.INACCURATE if missed > ACCURACY * delta else Status.FLOOR if slack else Status.BUDGET
    raw = raw_fields(0.0 if slack else t - kappa, None, achieved, delta, math.inf, KL)
    return sample.total(sample.low) + (sample.total(mean) + slope * spread) + kappa * achieved, status, raw


def _find_temperature(
    problem: Problem, sample: HostSample, delta: float, cost: float, trust: float, warm: float | None
) -> tuple[float, Any, float | None]:
    """(t, log of the mean of exp(-x/t), D) where D(t) = delta, or at t = kappa where the budget is not used up.

    The steps are Halley's inside a bracket, and bisections where they leave it or, after the sample's ``free_steps``,
    do not halve the residual. From a residual below ``trust`` on the next step is not evaluated: D is None, and the
    shift is known to first order only.
    """
    missing, budget = problem.missing, max(sample.tiny, delta - cost)
    floor = lowest_log_t(problem)
    start = math.log(warm) if warm is not None else None
    if start is None and sample.size > THIN_ABOVE:
        start = _thin_start(problem, sample, delta, cost)
    v = max(floor, start_temperature(sample, budget)[0] if start is None else start)
    low, high, limit = floor - 1.0, highest_log_t(problem, budget, floor), math.inf
    tiny, free = sample.tiny, sample.free_steps
    for step in range(HOST_LIMIT):
        log_z, mean, divergence, slope, bend = kl_moments(sample, missing, math.exp(v))
        used = max(tiny, divergence - cost)
        gap, slope = math.log(used / budget), slope / used
        size = abs(gap)
        if v <= floor and gap <= 0.0:  # Case 1 of app:bisection_KL: lam = 0
            break
        if gap > 0.0:
            low = v
        else:
            high = v
        fall = max(tiny, -slope)
        newton = gap / fall  # `steps.halley` is written out here, since a call takes its time
        following = max(floor, v + newton / max(0.3, 1.0 - 0.5 * newton * (bend / used - slope * slope) / fall))
        if low < following < high and (size < limit or step < free):
            limit = 0.5 * size
            if size <= trust and following > floor + OFF_FLOOR:
                origin = sample.shift_origin
                return math.exp(following), (log_z - origin + mean * (following - v)) + origin, None
        else:
            following, limit = max(floor, 0.5 * (low + high)), math.inf
        if size <= TOLERANCE or following == v:
            break
        v = following
    return problem.kappa if v <= floor and problem.kappa > 0.0 else math.exp(v), log_z, divergence


def _thin_start(problem: Problem, sample: HostSample, delta: float, cost: float) -> float | None:
    """The log t that solves a part of a large sample, to start from; None where there is no such part."""
    part = thin_sample(sample)
    if part is None:
        return None
    thin = problem._replace(sample=part, largest=part.largest())
    return math.log(_find_temperature(thin, part, delta, cost, THIN_NEAR, None)[0])


def thin_sample(sample: HostSample) -> HostSample | None:
    """A part of a large sample, to start from; None of a small one, and where the part has equal losses."""
    if sample.size <= THIN_ABOVE:
        return None
    part = sample.thin(max(THIN_TO, sample.size // THIN_BY))
    return None if part is None or part.largest() == 0.0 else part
