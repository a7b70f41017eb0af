"""One search for all: steps of Halley or Newton inside a bracket, and bisection where they fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from antidote_learn.core.kl import HOST_LIMIT
from antidote_learn.core.sample import Sample, Scalar
from antidote_learn.core.solution import TOLERANCE


class Search(NamedTuple):
    """A decreasing residual in v, which sets the temperature, with its root above ``floor`` or at it."""

    residual: Callable[[Scalar, Any], tuple[Scalar, Scalar, Scalar]]  # (v, point) -> residual, two derivatives in v
    start: Scalar
    floor: Scalar
    high: Scalar


Bracket = tuple[Scalar, Scalar, Scalar]  # low end, high end, and a bound below which the next residual is trusted


def halley(at_least: Callable[[Any, Any], Any], gap: Scalar, fall: Scalar, second: Scalar) -> Scalar:
    """The distance to the root of a residual that falls by ``fall``, by Halley's rule, at most 3.3 Newton steps."""
    newton = gap / fall
    return newton / at_least(0.3, 1.0 - 0.5 * newton * second / fall)


def take_step(
    ops: Sample,
    v: Scalar,
    floor: Scalar,
    bracket: Bracket,
    residual: tuple[Scalar, Scalar, Scalar],
) -> tuple[Scalar, Bracket, Any]:
    """One Halley step (Newton where the second derivative is unknown), or a bisection where that fails.

    Returns (v, bracket, whether v is the root). A step fails where it leaves the bracket or where the residual was not
    halved. A residual that is not positive at the floor has its root there (Case 1 of app:bisection_KL: lam = 0).
    """
    select, at_least = ops.select, ops.at_least
    gap, derivative, second = residual
    size, positive = abs(gap), gap > 0.0
    done = (size <= TOLERANCE) | ((v <= floor) & (gap <= 0.0))
    if ops.stop(done):
        return v, bracket, done
    low, high, limit = bracket
    low, high = select(positive, v, low), select(positive, high, v)
    newton = at_least(floor, v + halley(at_least, gap, at_least(ops.tiny, -derivative), second))
    good = (newton > low) & (newton < high) & (size < limit)
    following = at_least(floor, select(good, newton, 0.5 * (low + high)))
    done = done | (following == v)
    limit = select(good, 0.5 * size, ops.scalar(math.inf))
    return select(done, v, following), (low, high, limit), done


def find_root(ops: Sample, search: Search, evaluate: Callable[[Scalar], Any], length: int) -> Any:
    """Runs a search whose points are explicit; ``length`` is that of a loop that cannot stop early."""
    floor = search.floor
    v, bracket = ops.at_least(floor, search.start), (floor - 1.0, search.high, ops.scalar(math.inf))
    for _ in range(HOST_LIMIT if ops.eager else length):
        point = evaluate(v)
        v, bracket, done = take_step(ops, v, floor, bracket, search.residual(v, point))
        if ops.stop(done):
            break
    return point if ops.eager else evaluate(v)
