"""`Sample` in NumPy, for CPU tensors: a small one is held in arrays, a large one is read in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from antidote_learn.core.sample import Terms, power_terms

CHUNK = 8192  # rows that fit the cache, and for which BLAS starts no threads


@lru_cache(maxsize=64)
def ones(count: int, dtype: Any = np.float64) -> Any:
    """A shared array of ones that cannot be written to."""
    array = np.ones(count, dtype)
    array.flags.writeable = False
    return array


def extremes(values: Any) -> tuple[Any, Any]:
    """The smallest and the largest value, NaN if there is one; `argmin` is NumPy's quickest way for a small array."""
    return values.item(values.argmin()), values.item(values.argmax())


def _dot(array: Any, x: Any, power: int, mass: Any) -> float:
    """The sum of array * x^power * mass over a chunk."""
    if mass is not None:
        array = array * mass
    if power == 2:
        array = array * x
    return float(array.dot(x if power else ones(x.size)))


def _tilt_sums(x: Any, mass: Any, back: float) -> tuple[float, float, float, float]:
    """The sums of `tilt_terms` over a chunk, with one array of memory."""
    g = x * back
    np.expm1(g, g)
    z_minus_one = _dot(g, x, 0, mass)
    g += 1.0
    if mass is not None:
        g *= mass
    first = float(g.dot(x))
    g *= x
    second = float(g.dot(x))
    g *= x
    return z_minus_one, first, second, float(g.dot(x))


class HostSample:
    """Losses shifted to minimum 0 under a measure ``mass`` (None: uniform), both NumPy arrays."""

    free_steps = 4  # steps of KL that need not halve the residual, as the start is good
    shift_origin: float = 0.0  # constant that is taken off the shift of KL while it moves
    eager, grouped, eps, tiny = True, False, float(np.finfo(np.float64).eps), 1e-300
    exp, log = staticmethod(math.exp), staticmethod(math.log)
    log1p: Any = staticmethod(math.log1p)
    expm1 = staticmethod(math.expm1)
    # Built-in functions: a Python frame for each would take as long as the arithmetic.
    at_least = staticmethod(max)  # gives its first argument unless the second is larger, which NaN never is
    scalar, stop = staticmethod(float), staticmethod(bool)
    total: Any = staticmethod(float)  # without groups the number itself

    def __init__(self, losses: np.ndarray[Any, Any], mass: np.ndarray[Any, Any] | None, low: Any) -> None:
        self.losses, self.mass, self.low, self.size = losses, mass, low, losses.size
        self.norm: Any = float(losses.size) if mass is None else 1.0  # a sum over it is an integral
        self.streamed = losses.size > CHUNK
        if not self.streamed:
            self._powers = powers = np.empty((3, self.size))  # the measure times the powers 1, 2 and 3 of the loss
            first, second, third = powers
            if mass is None:  # the measure is 1, and integrals are scaled
                self._x, self._mass, self._scale = first, ones(self.size), 1.0 / self.size
                np.subtract(losses, low, first, dtype=np.float64)
            else:
                self._x, self._mass, self._scale = np.subtract(losses, low, dtype=np.float64), mass, 1.0
                np.multiply(self._x, mass, first)
            np.multiply(first, self._x, second)
            np.multiply(second, self._x, third)

    def chunks(self) -> Iterable[tuple[Any, Any, slice]]:
        """(shifted losses, mass or None where it is uniform, slice) of every chunk, float64."""
        if not self.streamed:
            return ((self._x, self.mass, slice(0, self.size)),)
        return self._read()

    def _read(self) -> Iterator[tuple[Any, Any, slice]]:
        for start in range(0, self.size, CHUNK):
            part = slice(start, start + CHUNK)
            x = np.subtract(self.losses[part], self.low, dtype=np.float64)
            yield x, None if self.mass is None else self.mass[part], part

    def integrate(self, terms: Terms) -> list[float]:
        """The integral under the measure of every array that ``terms`` gives, times its power of the loss."""
        if not self.streamed:
            masses = (self._mass, *self._powers)
            return [float(array.dot(masses[power])) * self._scale for array, power in terms(np, self._x)]
        return self._integrals(
            [[_dot(array, x, power, mass) for array, power in terms(np, x)] for x, mass, _ in self._read()]
        )

    def _integrals(self, sums: Iterable[Iterable[float]]) -> list[float]:
        """The integrals, from the sums over every chunk."""
        return [math.fsum(column) / self.norm for column in zip(*sums, strict=True)]

    def moments(self) -> tuple[float, float, float]:
        """The integrals of x, x^2 and x^3."""
        if self.streamed:
            return tuple(self.integrate(power_terms))  # type: ignore[return-value]
        first, second, third = self._powers.dot(ones(self.size)).tolist()
        scale = self._scale
        return first * scale, second * scale, third * scale

    def tilt_integrals(self, back: float) -> tuple[float, float, float, float]:
        """The integrals of g - 1, g x, g x^2 and g x^3, with g = exp(back x)."""
        if self.streamed:
            sums = [_tilt_sums(x, mass, back) for x, mass, _ in self._read()]
            return self._integrals(sums)  # type: ignore[return-value]
        e, scale = np.expm1(self._x * back), self._scale
        first, second, third = self._powers.dot(e + 1.0).tolist()
        return float(e.dot(self._mass)) * scale, first * scale, second * scale, third * scale

    def write_tilt(self, out: Any, rows: Any, back: float, shift: Any) -> tuple[Any, Any, Any, Any]:
        """Begins the weights g = exp(back x - shift) of the ``rows`` (None: all) of ``out``; `finish_weights` ends it.

        Returns:
            (g of a small sample or None, the integral of g, the means of x and x^2 under it).
        """
        if not self.streamed:
            g = np.exp(self._x * back - shift)
            mass = float(g.dot(self._mass))
            first, second, _ = self._powers.dot(g).tolist()
            return g, mass * self._scale, first / mass, second / mass

        def ratio(x: Any, part: slice) -> Any:
            score = x * back
            score -= self.at(shift, part)
            return np.exp(score, score)

        mass, first, second = self.write_weights(out, rows, ratio)
        return None, mass, first / mass, second / mass

    def finish_weights(self, out: Any, rows: Any, tilt: Any, slope: Any, constant: Any) -> None:
        """Multiplies the weights that `write_tilt` began by slope x + constant, and writes them to ``out``."""
        if tilt is None and not self.grouped and slope == 0.0:
            out *= constant
            return
        if tilt is None:
            for x, _, part in self._read():
                factor = x * self.at(slope, part) + self.at(constant, part)
                out[part if rows is None else rows[part]] *= factor
            return
        tilt *= self._x * slope + constant if slope else constant
        if self.mass is not None:
            tilt *= self.mass * out.size
        out[... if rows is None else rows] = tilt

    def write_weights(self, out: Any, rows: Any, ratio: Callable[[Any, slice], Any]) -> tuple[Any, Any, Any]:
        """Writes B q to the ``rows`` (None: all) of ``out``, from dQ/dP = ratio(x, slice) of every chunk.

        Returns:
            The integrals of 1, x and x^2 under Q.
        """
        moments: Any = [0.0, 0.0, 0.0]
        for x, mass, part in self.chunks():
            share = ratio(x, part) if mass is None else ratio(x, part) * mass
            out[part if rows is None else rows[part]] = share if mass is None else share * out.size
            for power in range(3):
                moments[power] = moments[power] + self.sum_rows(share, part)
                share *= x
        return moments[0] / self.norm, moments[1] / self.norm, moments[2] / self.norm

    def smallest_positive(self) -> float:
        """The smallest shifted loss that is not zero."""
        return min((float(x[x > 0].min()) for x, _, _ in self.chunks() if x.any()), default=1.0)

    def sort(self) -> Any:
        """The shifted losses, the smallest first."""
        return np.sort(np.concatenate([x for x, _, _ in self.chunks()]))

    def at_rank(self, ascending: Any, k: float) -> float:
        """The k-th of sorted losses, counted from 0."""
        return float(ascending[int(k)])

    def thin(self, size: int) -> HostSample | None:
        """Every k-th sample, about ``size`` of them, as a cheap picture of the whole; None where it would be none."""
        step = -(-self.size // size)
        losses = self.losses[::step]
        mass = None if self.mass is None else self.mass[::step] * (self.mass.sum() / self.mass[::step].sum())
        return HostSample(losses, mass, float(losses.min()))

    def largest(self) -> float:
        """The largest shifted loss."""
        return float(self.losses.max()) - float(self.low)

    def at(self, values: Any, part: slice = slice(None)) -> Any:
        """One number a row of a chunk from one number a group; without groups the number itself."""
        return values

    def sum_rows(self, array: Any, part: slice) -> Any:
        """The sum over the rows of a chunk; in groups, of each group."""
        return float(array.dot(ones(array.size)))

    @staticmethod
    def select(condition: bool, yes: float, no: float) -> float:
        """The number ``yes`` where the condition holds, else ``no``."""
        return yes if condition else no

    @staticmethod
    def branch(condition: bool, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """The result of one of two steps of a search."""
        return yes() if condition else no()
