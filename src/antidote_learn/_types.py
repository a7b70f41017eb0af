"""The values that flow between the parts of the package."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from antidote_learn.core.divergences import Divergence

PerSampleLoss = Callable[[Tensor, Tensor], Tensor]
"""(logits, targets) -> losses, one for each sample."""

FADED = 0.05
"""Where weights never vanish, a sample whose likelihood ratio is below this counts as forgotten."""


class Status(enum.IntEnum):
    """How a relaxation ended."""

    BUDGET = 0
    """The budget is used up: lam > 0 and D_f = delta."""
    FLOOR = 1
    """The soft penalty kappa keeps D_f below the budget: lam = 0 (also where all losses are equal)."""
    LIMIT = 2
    """kappa = 0 and the budget allows all weight on the smallest losses: uniform on those that tie."""
    PLAIN = 3
    """delta = 0: the plain mean."""
    EMPTY = 4
    """There was no sample to weigh; the value is 0."""
    INFINITE = 5
    """More losses are infinite than the budget can forget: the value is infinite."""
    NAN = 6
    """A loss is NaN, and so is the value (only while compiling or on an accelerator; elsewhere an error)."""
    INACCURATE = 7
    """The budget was missed by more than 1e-6 of it."""


@dataclass(eq=False)  # not frozen: a frozen one takes longer to make than a step of the solver
class Relaxed:
    """The solution of the relaxed problem over a batch; all but ``value`` is detached.

    Attributes:
        value: The optimum, 0-d, differentiable in the losses (once).
        weights: (B,), B times the optimal distribution q: their mean is 1.
        lam: The multiplier of the budget.
        rho: The shift of the losses (None for KL, where it is eliminated).
        achieved: D_f(Q || P) at the optimum.
        delta: The budget; of a penalised problem the one that was chosen.
        status: How it ended, a `Status` (a tensor of its number while compiling or on an accelerator).
    """

    value: Tensor
    weights: Tensor
    status: Status | Tensor
    divergence: Divergence
    raw: dict[str, Any]
    mass: Tensor | None = None
    scope: Relaxed | None = None  # the global solution, of which this holds one process's rows

    def _scalar(self, name: str) -> Tensor:
        return torch.as_tensor(self.raw[name], dtype=self.weights.dtype, device=self.weights.device)

    @property
    def lam(self) -> Tensor:
        """The multiplier of the budget; 0 where the budget is slack, +inf for delta = 0."""
        return self._scalar("lam")

    @property
    def rho(self) -> Tensor | None:
        """The multiplier of the mass; None for KL."""
        return None if self.raw["rho"] is None else self._scalar("rho")

    @property
    def achieved(self) -> Tensor:
        """D_f(Q || P)."""
        return self._scalar("achieved")

    @property
    def delta(self) -> Tensor:
        """The budget."""
        return self._scalar("delta")

    @property
    def residual(self) -> Tensor:
        """|achieved - delta| / delta where the budget binds, else 0; in the precision of the solve."""
        raw, binds = self.raw, self.status == int(Status.BUDGET)
        error = abs(raw["achieved"] - raw["delta"]) / raw["delta"] if raw["delta"] != 0 else 0.0
        return torch.where(torch.as_tensor(binds), torch.as_tensor(error), 0.0)

    @property
    def r_max(self) -> Tensor:
        """The largest fraction of the mass that the budget could forget (eq:delta_rmax)."""
        rate = self.raw["r_max"]
        return torch.as_tensor(rate() if callable(rate) else rate, dtype=self.weights.dtype, device=self.weights.device)

    @property
    def threshold(self) -> Tensor:
        """Losses above it weigh nothing; +inf where weights never vanish."""
        return self._scalar("threshold")

    def _ratio(self) -> tuple[Tensor, Tensor]:
        """(dQ/dP, P) over all samples that were relaxed together."""
        if self.scope is not None:
            return self.scope._ratio()
        count = max(self.weights.numel(), 1)
        if self.mass is None:
            return self.weights, torch.full_like(self.weights, 1.0 / count)
        mass = self.mass.to(self.weights.dtype)
        p = mass / mass.sum()
        return torch.where(p > 0, self.weights / (count * torch.where(p > 0, p, 1.0)), 0.0), p

    @property
    def total(self) -> Tensor | int:
        """The total of the reference measure: the number of samples where all weigh alike."""
        if self.scope is not None:
            return self.scope.total
        return self.weights.numel() if self.mass is None else self.mass.sum()

    @property
    def ess(self) -> Tensor:
        """The effective number of samples, 1 / sum q^2; a sample of base weight 2 counts as two."""
        ratio, p = self._ratio()
        return self.total / (p * ratio * ratio).sum()

    @property
    def forgotten(self) -> Tensor:
        """The share of P that weighs nothing (less than 0.05 of its mass where weights never vanish)."""
        ratio, p = self._ratio()
        gone = ratio <= 0.0 if math.isfinite(self.divergence.vanishing_score) else ratio < FADED
        return (p * gone).sum()

    def detach(self) -> Relaxed:
        """The same with a value that carries no gradient."""
        return replace(self, value=self.value.detach())
