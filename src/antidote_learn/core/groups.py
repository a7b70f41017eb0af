"""Samples in groups that keep their mass, Q(g) = P(g): the relaxation is then within each, at one temperature for all.

Q has the conditional distributions Q_g, and KL(Q || P) = sum_g p_g KL(Q_g || P_g). A grouped sample therefore shifts
the losses of each group to minimum 0 and integrates under P_g: an integral is an array of one number for each group,
which `total` adds up by their masses p_g. The searches of `solvers` see nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn.core.sample import Scalar, Terms, power_terms, tilt_terms
from antidote_learn.core.sample_numpy import CHUNK, HostSample
from antidote_learn.core.sample_torch import DeviceSample

FEW = 1 << 16  # labels up to this, or the number of samples, are looked up in a table and not sorted
HELD = 64 * CHUNK  # samples up to which the shifted losses are kept in memory
ROWS_A_GROUP = 32  # mean rows of a group in a thinned sample that is a picture of the whole


def compact(labels: Any) -> tuple[Any, int]:
    """Group labels as 0 ... G - 1, each of which occurs, and G."""
    labels = labels.astype(np.int64, copy=False)
    if labels.min() < 0 or labels.max() >= max(FEW, labels.size):
        found, labels = np.unique(labels, return_inverse=True)
        return labels, found.size
    occurs = np.bincount(labels) > 0
    if not occurs.all():
        labels = (np.cumsum(occurs) - 1)[labels]
    return labels, int(np.count_nonzero(occurs))


def ranks(labels: Tensor) -> Tensor:
    """Group labels as numbers from 0 on, in their order, without reading any of them back."""
    ordered, order = torch.sort(labels)
    new = torch.ones_like(ordered)
    new[0] = 0
    new[1:] = ordered[1:] != ordered[:-1]
    return torch.empty_like(labels).scatter_(0, order, new.cumsum(0))


def _central(sample: Any) -> tuple[Scalar, Scalar, Scalar]:
    """The integrals of y, y^2 and y^3, y the distance of a loss from the mean of its group."""
    mean, square, cube = sample.integrate(power_terms)
    variance, third = square - mean * mean, cube - mean * (3.0 * square - 2.0 * mean * mean)
    return sample.scalar(0.0), sample.total(variance), sample.total(third)


def _times(array: Any, x: Any, power: int, mass: Any) -> Any:
    """The array times x^power mass."""
    for _ in range(power):
        array = array * x
    return array if mass is None else array * mass


class GroupedHostSample(HostSample):
    """Losses in groups under a measure ``mass`` (None: all alike), NumPy; visited a chunk at a time.

    Args:
        losses: (B,), finite.
        mass: (B,) or None.
        labels: (B,), each group's number.
        norm: (G,), the mass of each group, that of rows which must weigh nothing included.
        shares: (G,), the same, with sum 1.
    """

    grouped, streamed = True, True
    free_steps = 0  # the start knows one spread of losses, not that of each group
    shift_origin = 1.0  # f'(1) of KL, which the shift of a general f has taken off
    log1p = staticmethod(np.log1p)

    def __init__(self, losses: Any, mass: Any, labels: Any, norm: Any, shares: Any) -> None:
        low = np.full(norm.size, math.inf, losses.dtype)  # the type of the losses, for which NumPy is quick
        np.minimum.at(low, labels, losses)
        self.losses, self.mass, self.low, self.size = losses, mass, low.astype(np.float64), losses.size
        self.labels, self.norm, self.shares = labels, norm, shares
        self._held = self._shift(slice(None)) if self.size <= HELD else None

    def _shift(self, part: slice) -> Any:
        return self.losses[part] - self.low[self.labels[part]]

    def _read(self) -> Iterator[tuple[Any, Any, slice]]:
        step = max(CHUNK, self.norm.size)
        for start in range(0, self.size, step):
            part = slice(start, start + step)
            x = self._shift(part) if self._held is None else self._held[part]
            yield x, None if self.mass is None else self.mass[part], part

    def integrate(self, terms: Terms) -> list[Any]:
        """(G,) for every array that ``terms`` gives: its integral, times its power of the loss, under each P_g."""
        found: list[Any] = []
        for x, mass, part in self._read():
            sums = [self.sum_rows(_times(array, x, power, mass), part) for array, power in terms(np, x)]
            found = [a + b for a, b in zip(found, sums, strict=True)] if found else sums
        return [column / self.norm for column in found]

    def moments(self) -> tuple[float, float, float]:
        """The integrals of y, y^2 and y^3, y the distance of a loss from the mean of its group."""
        return _central(self)

    def tilt_integrals(self, back: float) -> tuple[Any, Any, Any, Any]:
        """The integrals of g - 1, g x, g x^2 and g x^3 in each group, with g = exp(back x)."""
        return tuple(self.integrate(tilt_terms(back)))

    def largest(self) -> float:
        """The largest shifted loss."""
        return max(float(x.max()) for x, _, _ in self._read())

    def at(self, values: Any, part: slice = slice(None)) -> Any:
        """One number a row of a chunk from one number a group."""
        return values[self.labels[part]]

    def sum_rows(self, array: Any, part: slice) -> Any:
        """(G,), the sums over the rows of a chunk."""
        return np.bincount(self.labels[part], array, self.norm.size)

    def total(self, values: Any) -> float:
        """The sum over groups of a number times the group's mass."""
        return float(self.shares.dot(values))

    def thin(self, size: int) -> GroupedHostSample | None:
        """Every k-th sample; None where the groups are too small for that."""
        if size < ROWS_A_GROUP * self.norm.size:
            return None
        step = -(-self.size // size)
        whole, labels = self.integrate(lambda xp, x: ((np.ones_like(x), 0),))[0], self.labels[::step]
        mass = None if self.mass is None else self.mass[::step]
        norm = np.bincount(labels, mass, self.norm.size) / whole  # without rows that must weigh nothing
        return GroupedHostSample(self.losses[::step], mass, labels, np.where(norm > 0.0, norm, 1.0), self.shares)


def group_on_host(values: Any, mass: Any, given: Any, keep: Any, labels: Any) -> tuple[GroupedHostSample, Any]:
    """The sample in its groups, and the share of each group's mass that is not in it: its losses are infinite.

    Args:
        values: (K,), the finite losses.
        mass: (K,), theirs, or None.
        given: (B,), the measure of all rows, or None.
        keep: (B,), which of them the values are, or None for all.
        labels: (B,), the groups.
    """
    if given is not None and not given.all():  # rows without mass are absent, and make no group
        there = given > 0.0
        given, labels, keep = given[there], labels[there], keep[there]
    labels, count = compact(labels)
    norm = np.bincount(labels, given, count).astype(np.float64)
    missing = np.zeros(count)
    if keep is not None and not keep.all():
        lost = ~keep
        missing = np.bincount(labels[lost], None if given is None else given[lost], count) / norm
        labels, norm = labels[keep], norm / norm.sum()
    return GroupedHostSample(values, mass, labels, norm, norm / norm.sum()), missing


class GroupedDeviceSample(DeviceSample):
    """Losses in groups, in torch: there is room for as many groups as samples, and absent groups have no mass.

    Args:
        x: (B,), shifted losses.
        mass: (B,), 0 for rows which must weigh nothing.
        labels: (B,), each group's number, below B.
        norm: (B,), the mass of each group.
    """

    grouped = True

    def __init__(self, x: Tensor, mass: Tensor, labels: Tensor, norm: Tensor) -> None:
        super().__init__(x, mass)
        self.labels, self.shares, self.norm = labels, norm, torch.where(norm > 0.0, norm, 1.0)

    def integrate(self, terms: Terms) -> list[Tensor]:
        """(..., B) for every array that ``terms`` gives: its integral, times its power of the loss, under each P_g."""
        return [self.share(array * self._masses[power]) for array, power in terms(torch, self.x)]

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """The integrals of y, y^2 and y^3, y the distance of a loss from the mean of its group."""
        return _central(self)

    def tilt_integrals(self, back: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The integrals of g - 1, g x, g x^2, g x^3 in each group, with g = exp(back x); ``back`` is () or (T, 1)."""
        return tuple(self.integrate(tilt_terms(back)))  # type: ignore[return-value]

    def share(self, mass: Tensor) -> Tensor:
        """(..., B), the share of each P_g that a part of its mass is."""
        return torch.zeros_like(mass).index_add(-1, self.labels, mass) / self.norm

    def at(self, values: Tensor) -> Tensor:
        """One number a row from one number a group."""
        return values[self.labels]

    def total(self, values: Tensor) -> Tensor:
        """The sum over groups of a number times the group's mass."""
        return (torch.where(self.shares > 0.0, values, 0.0) * self.shares).sum(-1)


def group_on_device(
    values: Tensor, mass: Tensor, finite: Tensor, groups: Tensor
) -> tuple[GroupedDeviceSample, Tensor, Tensor]:
    """The sample in its groups, the largest of the groups' smallest losses, and (B,) that of each row's group."""
    labels = ranks(groups.long())
    norm = torch.zeros_like(mass).index_add(0, labels, mass)
    low = torch.full_like(values, math.inf)
    low = low.scatter_reduce(0, labels, torch.where(finite, values, math.inf), "amin")
    highest = torch.where(torch.isfinite(low), low, -math.inf).amax()
    lows = torch.where(torch.isfinite(low), low, 0.0)[labels]
    x, kept = torch.where(finite, values - lows, 0.0), torch.where(finite, mass, 0.0)
    return GroupedDeviceSample(x, kept, labels, norm), highest, lows
