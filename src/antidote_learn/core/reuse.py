"""A solved relaxation (KL) in a few numbers, which weigh later losses without a second look at all samples."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from antidote_learn._types import Relaxed, Status
from antidote_learn.core.divergences import KL
from antidote_learn.core.groups import compact
from antidote_learn.core.solution import raw_fields

FIGURES = 5  # numbers of a kept solution beside those of its groups

Floats = npt.NDArray[np.float64]


class KeptSolution(NamedTuple):
    """The numbers that give the weights of a solved problem: dQ/dP = exp((low_g - L) / t) / mean_g in group g.

    Attributes:
        temperature: t.
        kappa: The floor of t.
        status: The status of the solution.
        delta: The budget.
        achieved: KL(Q || P).
        groups: (G,) the groups' labels, in their order.
        low: (G,) the smallest loss of each.
        mean: (G,) the mean of exp((low_g - L) / t) in each.
    """

    temperature: float
    kappa: float
    status: float
    delta: float
    achieved: float
    groups: Floats
    low: Floats
    mean: Floats

    @classmethod
    def from_numbers(cls, numbers: list[float]) -> KeptSolution:
        """The solution that `numbers` stored."""
        temperature, kappa, status, delta, achieved, *rest = numbers
        groups, low, mean = np.array(rest).reshape(3, -1)
        return cls(temperature, kappa, status, delta, achieved, groups, low, mean)

    def numbers(self) -> list[float]:
        """The whole solution as numbers, to be stored."""
        return [*self[:FIGURES], *np.concatenate(self[FIGURES:]).tolist()]

    def ratio(self, losses: Tensor, labels: Tensor) -> Tensor:
        """(B,) dQ/dP of losses in groups; no more than a group's smallest loss had, and 1 in a group that is new."""
        own = labels.numpy()
        place = np.searchsorted(self.groups, own).clip(max=len(self.groups) - 1)
        score = np.minimum(self.low[place] - losses.numpy(), 0.0) / self.temperature
        return torch.from_numpy(np.where(self.groups[place] == own, np.exp(score) / self.mean[place], 1.0))

    def as_relaxed(self, ratio: Tensor, measure: Tensor) -> Relaxed:
        """The solution as these samples (B,) see it, with the multiplier and the figures that all samples had."""
        lam = self.temperature - self.kappa
        raw = raw_fields(lam, None, self.achieved, self.delta, math.inf, KL)
        weights = ratio * measure * (len(ratio) / measure.sum())
        return Relaxed(weights.new_zeros(()), weights, Status(int(self.status)), KL, raw, measure)


def keep_solution(whole: Relaxed, losses: Tensor, measure: Tensor, labels: Tensor, kappa: float) -> KeptSolution | None:
    """The solution over these samples, on the host, to be used again; None where all weight is on the smallest losses.

    Args:
        whole: The solution.
        losses: (N,) that it was solved for.
        measure: (N,); rows of measure 0 are absent.
        labels: (N,) their groups.
        kappa: Of the problem.
    """
    raw = whole.raw
    t = raw["lam"] + kappa
    if t <= 0.0:
        return None
    x, mass, own = _present(measure.numpy(), losses.numpy(), labels.numpy())
    place, count = compact(own)
    groups, low = np.empty(count), np.full(count, math.inf)
    groups[place] = own
    np.minimum.at(low, place, x)
    share = np.exp((low[place] - x) / t) * mass
    mean = np.bincount(place, share, count) / np.bincount(place, mass, count)
    return KeptSolution(t, kappa, float(whole.status), raw["delta"], raw["achieved"], groups, low, mean)


def _present(mass: Any, losses: Any, labels: Any) -> tuple[Floats, Floats, Any]:
    """(losses, mass, labels) of the rows with mass, in double precision."""
    there = mass > 0.0
    return losses[there].astype(np.float64), mass[there].astype(np.float64), labels[there]
