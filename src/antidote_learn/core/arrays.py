"""Where an iteration runs: NumPy on CPU tensors, torch while compiling and on accelerators.

A solver is written once. It takes a *sample* (shifted losses under a reference measure) which integrates functions
of the losses, and does its scalar arithmetic through the sample's scalar operations: `math` on the host, where a
loop may stop early, and torch on a device, where nothing may be read back and a loop runs its full length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch

Scalar = Any  # float on the host, 0-d tensor on a device
Terms = Callable[[Any, Any], tuple[tuple[Any, int], ...]]  # (namespace, losses x) -> (array, power of x) to integrate


class Sample(Protocol):
    """Shifted losses under a reference measure, with the arithmetic that belongs to where they are."""

    eager: bool
    grouped: bool  # whether integrals are taken within groups, an array of one number each (see `groups`)
    size: int
    streamed: bool  # whether the losses are read anew at every visit
    eps: float  # the unit of the last place
    tiny: float  # what stands in for a positive number that underflowed
    exp: Any
    log: Any
    log1p: Any
    expm1: Any

    def integrate(self, terms: Terms) -> list[Scalar]:
        """The integral of every array that ``terms`` gives, times its power of the loss, under the measure."""

    def moments(self) -> tuple[Scalar, Scalar, Scalar]:
        """The integrals of x, x^2 and x^3."""

    def tilted(self, back: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """With g = exp(back x): the integrals of g - 1, g x, g x^2 and g x^3."""

    def smallest_positive(self) -> Scalar:
        """The smallest shifted loss that is not zero."""

    def ordered(self) -> Any:
        """The shifted losses, the smallest first."""

    def ranked(self, ordered: Any, k: Scalar) -> Scalar:
        """The k-th of `ordered`, counted from 0."""

    def at_least(self, bound: Scalar, x: Scalar) -> Scalar:
        """The larger of the two; NaN goes to the bound."""

    def select(self, condition: Any, yes: Scalar, no: Scalar) -> Scalar:
        """``yes`` where the condition holds."""

    def scalar(self, value: float) -> Scalar:
        """A constant in the sample's arithmetic."""

    def branch(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """One of two steps of a search."""

    def stop(self, condition: Any) -> bool:
        """Whether a loop may end here."""

    def at(self, values: Any) -> Any:
        """What is known of every group, for every row; without groups the number itself."""

    def total(self, values: Any) -> Scalar:
        """What is known of every group, added up by their masses; without groups the number itself."""


CHUNK = 8192  # fits the cache, and stays below the size from which BLAS starts threads


@lru_cache(maxsize=64)
def ones(count: int, dtype: Any = np.float64) -> Any:
    """An array of ones that is shared, and cannot be written to."""
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


def raised(xp: Any, x: Any) -> tuple[tuple[Any, int], ...]:
    """The first three powers."""
    return (x, 0), (x, 1), (x, 2)


def tilt(back: Scalar) -> Terms:
    """With g = exp(back x): g - 1, g x, g x^2 and g x^3."""

    def terms(xp: Any, x: Any) -> tuple[tuple[Any, int], ...]:
        e = xp.expm1(x * back)
        g = e + 1.0
        gx = g * x
        return (e, 0), (g, 1), (gx, 1), (gx, 2)

    return terms


def _tilted_sums(x: Any, mass: Any, back: float) -> tuple[float, float, float, float]:
    """`tilt` summed over a chunk, with one array beside it."""
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
    """Losses shifted to minimum 0 under a measure ``mass``, both NumPy; large ones are visited a chunk at a time."""

    eager, grouped, eps, tiny = True, False, float(np.finfo(np.float64).eps), 1e-300
    exp, log = staticmethod(math.exp), staticmethod(math.log)
    log1p: Any = staticmethod(math.log1p)
    expm1 = staticmethod(math.expm1)
    # Built-in functions: a Python frame for each would take as long as the arithmetic.
    at_least = staticmethod(max)  # gives its first argument unless the second is larger, which NaN never is
    scalar, stop = staticmethod(float), staticmethod(bool)

    def __init__(self, losses: np.ndarray[Any, Any], mass: np.ndarray[Any, Any] | None, low: Any) -> None:
        self.losses, self.mass, self.low, self.size = losses, mass, low, losses.size
        self.norm: Any = float(losses.size) if mass is None else 1.0  # what a sum is divided by, to be an integral
        self.streamed = losses.size > CHUNK
        if not self.streamed:
            self._powers = powers = np.empty((3, self.size))  # the measure times the powers 1, 2 and 3 of the loss
            first, second, third = powers
            if mass is None:  # then the measure is 1, and what it integrates to is scaled
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
        """The integral of every array that ``terms`` gives, times its power of the loss, under the measure."""
        if not self.streamed:
            masses = (self._mass, *self._powers)
            return [float(array.dot(masses[power])) * self._scale for array, power in terms(np, self._x)]
        return self._total(
            [[_dot(array, x, power, mass) for array, power in terms(np, x)] for x, mass, _ in self._read()]
        )

    def _total(self, sums: Iterable[Iterable[float]]) -> list[float]:
        """The integrals, from the sums over every chunk."""
        return [math.fsum(column) / self.norm for column in zip(*sums, strict=True)]

    def moments(self) -> tuple[float, float, float]:
        """The integrals of x, x^2 and x^3."""
        if self.streamed:
            return tuple(self.integrate(raised))  # type: ignore[return-value]
        first, second, third = self._powers.dot(ones(self.size)).tolist()
        scale = self._scale
        return first * scale, second * scale, third * scale

    def tilted(self, back: float) -> tuple[float, float, float, float]:
        """With g = exp(back x): the integrals of g - 1, g x, g x^2 and g x^3."""
        if self.streamed:
            sums = [_tilted_sums(x, mass, back) for x, mass, _ in self._read()]
            return self._total(sums)  # type: ignore[return-value]
        e, scale = np.expm1(self._x * back), self._scale
        first, second, third = self._powers.dot(e + 1.0).tolist()
        return float(e.dot(self._mass)) * scale, first * scale, second * scale, third * scale

    def tilted_weights(self, back: float, shift: float) -> tuple[Any, float, float, float]:
        """(g = exp(back x - shift), its integral, the mean of x and x^2 under it), of a sample that is not streamed."""
        g = np.exp(self._x * back - shift)
        mass = float(g.dot(self._mass))
        first, second, _ = self._powers.dot(g).tolist()
        return g, mass * self._scale, first / mass, second / mass

    def line(self, slope: float, constant: float) -> Any:
        """The function slope x + constant, of a sample that is not streamed."""
        return self._x * slope + constant

    def smallest_positive(self) -> float:
        """The smallest shifted loss that is not zero."""
        return min((float(x[x > 0].min()) for x, _, _ in self.chunks() if x.any()), default=1.0)

    def ordered(self) -> Any:
        """The shifted losses, the smallest first."""
        return np.sort(np.concatenate([x for x, _, _ in self.chunks()]))

    def ranked(self, ordered: Any, k: float) -> float:
        """The k-th of `ordered`, counted from 0."""
        return float(ordered[int(k)])

    def thinned(self, size: int) -> HostSample | None:
        """Every k-th sample, about ``size`` of them, as a cheap picture of the whole; None where it would be none."""
        step = -(-self.size // size)
        losses = self.losses[::step]
        mass = None if self.mass is None else self.mass[::step] * (self.mass.sum() / self.mass[::step].sum())
        return HostSample(losses, mass, float(losses.min()))

    def largest(self) -> float:
        """The largest shifted loss."""
        return float(self.losses.max()) - float(self.low)

    def at(self, values: Any, part: slice = slice(None)) -> Any:
        """What is known of every group, for the rows of a chunk; without groups the number itself."""
        return values

    def summed(self, array: Any, part: slice) -> Any:
        """The sum over the rows of a chunk."""
        return float(array.dot(ones(array.size)))

    def total(self, values: Any) -> Any:
        """What is known of every group, added up by their masses; without groups the number itself."""
        return values

    @staticmethod
    def select(condition: bool, yes: float, no: float) -> float:
        """``yes`` where the condition holds."""
        return yes if condition else no

    @staticmethod
    def branch(condition: bool, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """One of two steps of a search."""
        return yes() if condition else no()


class DeviceSample:
    """The same in torch, with no host synchronisation; loops never stop early."""

    eager, grouped, streamed = False, False, False
    exp, log, log1p = staticmethod(torch.exp), staticmethod(torch.log), staticmethod(torch.log1p)
    expm1 = staticmethod(torch.expm1)

    def __init__(self, x: torch.Tensor, mass: torch.Tensor) -> None:
        self.x, self.mass, self.size = x, mass, x.numel()
        self.eps, self.tiny = torch.finfo(x.dtype).eps, max(1e-300, 2.0 * torch.finfo(x.dtype).tiny)
        first = mass * x
        self._masses = mass, first, first * x

    def integrate(self, terms: Terms) -> list[torch.Tensor]:
        """The integral of every array that ``terms`` gives, times its power of the loss, under the measure."""
        return [(array * self._masses[power]).sum(-1) for array, power in terms(torch, self.x)]

    def moments(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The integrals of x, x^2 and x^3."""
        return tuple(self.integrate(raised))  # type: ignore[return-value]

    def tilted(self, back: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """With g = exp(back x): the integrals of g - 1, g x, g x^2 and g x^3; of several ``back`` (G,) each (G,)."""
        return tuple(self.integrate(tilt(back.unsqueeze(-1) if back.dim() else back)))  # type: ignore[return-value]

    def smallest_positive(self) -> torch.Tensor:
        """The smallest shifted loss that is not zero."""
        least = torch.where(self.x > 0, self.x, math.inf).min()
        return torch.where(torch.isinf(least), 1.0, least)

    def ordered(self) -> torch.Tensor:
        """The shifted losses, the smallest first."""
        return torch.sort(self.x).values

    def ranked(self, ordered: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """The k-th of `ordered`, counted from 0."""
        return ordered.take(k.long())

    def share(self, mass: torch.Tensor) -> torch.Tensor:
        """The share of P that a part of its mass is; in groups, of each."""
        return mass.sum()

    def at(self, values: torch.Tensor) -> torch.Tensor:
        """What is known of every group, for every row; without groups the number itself."""
        return values

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """What is known of every group, added up by their masses; without groups the number itself."""
        return values

    @staticmethod
    def at_least(bound: Scalar, x: torch.Tensor) -> torch.Tensor:
        """The larger of the two; NaN goes to the bound."""
        return torch.where(x > bound, x, bound)

    @staticmethod
    def select(condition: torch.Tensor, yes: Scalar, no: Scalar) -> torch.Tensor:
        """``yes`` where the condition holds."""
        return torch.where(condition, yes, no)

    def scalar(self, value: float) -> torch.Tensor:
        """A constant in the sample's arithmetic."""
        return torch.full_like(self.mass[0], value)

    @staticmethod
    def branch(condition: torch.Tensor, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """Both of two steps of a search, and of every number the one that the condition says."""
        return _pick(condition, yes(), no())

    @staticmethod
    def stop(condition: torch.Tensor) -> bool:
        """Whether a loop may end here: never."""
        return False


def _pick(condition: torch.Tensor, yes: Any, no: Any) -> Any:
    """`torch.where` over (nested) named tuples of numbers."""
    if isinstance(yes, tuple):
        picked = [_pick(condition, a, b) for a, b in zip(yes, no, strict=True)]
        return tuple(picked) if type(yes) is tuple else type(yes)(*picked)
    return None if yes is None else torch.where(condition, yes, no)
