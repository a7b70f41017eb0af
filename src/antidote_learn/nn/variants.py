"""Variants for reproduction: the objective as other code computes it, and objectives that the paper compares."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn

from antidote_learn._checks import check_number, check_penalty
from antidote_learn._types import PerSampleLoss, Relaxed, Visit
from antidote_learn.core.budgets import budget_of, penalty_value, require_forgetting
from antidote_learn.core.divergences import KL, Divergence, divergence_of
from antidote_learn.core.relaxation import dual_objective, relax
from antidote_learn.core.tensors import at_least_float32
from antidote_learn.nn.distributed import active_group, gather_losses
from antidote_learn.nn.elements import outside_autocast, per_sample_loss

LAMBDA_START = 0.1  # the first multiplier, as in the authors' CIFAR script
LAMBDA_RESET = 0.01  # the multiplier after a negative one, as in the authors' code


class _Variant(nn.Module, ABC):
    """A base loss for each sample, and an objective over them in training; the plain mean in ``eval()``."""

    takes_weights = False  # a method that weighs samples asks for this before it trains

    def __init__(self, kappa: float, divergence: Divergence | str, base_loss: str | PerSampleLoss | nn.Module) -> None:
        super().__init__()
        self.kappa = check_number("kappa", kappa, 0.0)
        self.divergence = divergence_of(divergence)
        self.base_loss = per_sample_loss(base_loss)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The objective of a batch of logits."""
        return self.relax(self.base_loss(input, target))

    def batch_loss(self, logits: Tensor, labels: Tensor, visit: Visit) -> Tensor:
        """The objective of a training step (`methods.base.Objective`), over the global batch."""
        if visit.weight is not None:
            raise ValueError("the variants of reproduction take no weights of samples: leave sample_weight out")
        with outside_autocast(logits):
            losses = self.base_loss(at_least_float32(logits), labels)
        return self.relax(_everyone(losses))

    def figures(self) -> dict[str, Any]:
        """The multiplier or the budget, where it is learned."""
        return {}

    def relax(self, losses: Tensor) -> Tensor:
        """The objective of a batch of losses."""
        return self.objective(losses) if self.training else losses.mean()

    @abstractmethod
    def objective(self, losses: Tensor) -> Tensor:
        """The training objective."""

    @abstractmethod
    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed:
        """The weights that the present budget gives to all samples, from their losses (N,)."""


def _everyone(losses: Tensor) -> Tensor:
    """The losses of the global batch; the gradient of this process's own is multiplied by how many there are."""
    group = active_group("auto")
    if group is None:
        return losses
    everyone = gather_losses(losses, None, group)
    own = cast(Tensor, _Scaled.apply(losses, everyone.world_size))  # type: ignore[no-untyped-call]
    others, local = everyone.losses.to(losses.dtype), everyone.local
    return torch.cat([others[: local.start], own, others[local.stop :]])


class _Scaled(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number: processes average theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


class _Budgeted(_Variant):
    """A variant of a given budget."""

    def __init__(
        self,
        delta: float,
        *,
        kappa: float = 0.05,
        divergence: Divergence | str = "kl",
        base_loss: str | PerSampleLoss | nn.Module = "ce",
    ) -> None:
        super().__init__(kappa, divergence, base_loss)
        self.delta = check_number("delta", delta, 0.0)

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed:
        """One exact relaxation."""
        return relax(losses, self.delta, kappa=self.kappa, divergence=self.divergence, base_weight=measure)


class LaggedLambda(_Variant):
    """G_KL with the multiplier of the previous batch, solved after the step, as the authors' released code does.

    Limits: delta = 0 is the mean; lam + kappa = 0, which kappa = 0 may lead to, is the smallest loss.

    Args:
        delta: The budget.
        kappa: The soft penalty.
        base_loss: As for `AntidoteLoss`.
        start: The multiplier of the first batch: 0.1 as in the authors' CIFAR script; their WebVision script has 1.
    """

    lam: Tensor

    def __init__(
        self,
        delta: float,
        *,
        kappa: float = 0.05,
        base_loss: str | PerSampleLoss | nn.Module = "ce",
        start: float = LAMBDA_START,
    ) -> None:
        """Checks and stores."""
        super().__init__(kappa, KL, base_loss)
        self.delta = check_number("delta", delta, 0.0)
        self.start = check_number("start", start, 0.0)
        first = self.start if self.delta > 0.0 else math.inf
        self.register_buffer("lam", torch.tensor(first, dtype=torch.float64))

    def objective(self, losses: Tensor) -> Tensor:
        """G_KL at the stale multiplier; then the multiplier of this batch is stored."""
        if self.delta == 0.0:
            return losses.mean()
        stale = self.lam.to(losses.dtype)
        fresh = relax(losses.detach(), self.delta, kappa=self.kappa)
        self.lam = torch.where(torch.isfinite(fresh.lam), fresh.lam, self.start).to(self.lam.dtype)
        defined = stale + self.kappa > 0.0
        dual = dual_objective(losses, torch.where(defined, stale, 1.0), delta=self.delta, kappa=self.kappa)
        return torch.where(defined, dual, losses.amin())

    def figures(self) -> dict[str, Any]:
        """The temperature that the next batch will have."""
        return {"temperature": self.lam + self.kappa}

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed:
        """One exact relaxation."""
        return relax(losses, self.delta, kappa=self.kappa, base_weight=measure)


class _Ascent(torch.autograd.Function):
    """The identity, whose gradient has the other sign: a minimiser ascends."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return -grad


class GradientLambda(_Budgeted):
    """G_f with multipliers that are parameters and ascend while the network descends.

    Give ``parameters()`` of this module to an optimiser beside the network's.

    Args:
        delta: The budget.
        kappa: The soft penalty.
        divergence: A record or a name; all but KL have a second parameter rho.
        base_loss: As for `AntidoteLoss`.
    """

    def __init__(
        self,
        delta: float,
        *,
        kappa: float = 0.05,
        divergence: Divergence | str = "kl",
        base_loss: str | PerSampleLoss | nn.Module = "ce",
    ) -> None:
        """The multiplier lam starts at 0.1 and rho at -5, as in the authors' code."""
        super().__init__(delta, kappa=kappa, divergence=divergence, base_loss=base_loss)
        self.lam = nn.Parameter(torch.tensor(LAMBDA_START))
        self.rho = None if self.divergence is KL else nn.Parameter(torch.tensor(-5.0))

    def objective(self, losses: Tensor) -> Tensor:
        """G_f at the present multipliers; a negative lam is put back to 0.01 first."""
        with torch.no_grad():
            self.lam.copy_(torch.where(self.lam < 0.0, LAMBDA_RESET, self.lam))
        lam = _Ascent.apply(self.lam)  # type: ignore[no-untyped-call]
        rho = None if self.rho is None else _Ascent.apply(self.rho)  # type: ignore[no-untyped-call]
        return dual_objective(losses, lam, rho, delta=self.delta, kappa=self.kappa, divergence=self.divergence)

    def figures(self) -> dict[str, Any]:
        """The present temperature."""
        return {"temperature": self.lam.detach() + self.kappa}


class LearnedBudget(_Variant):
    """The penalised variant with r_max a parameter beside theta: app:delta_penalized_opt taken literally.

    `relax_penalized` solves for r_max in every batch instead.

    Args:
        penalty: C of V(r) = C r^2 / (1 - r).
        kappa: The soft penalty.
        divergence: A record or a name.
        base_loss: As for `AntidoteLoss`.
        start: The first r_max.
    """

    def __init__(
        self,
        penalty: float,
        *,
        kappa: float = 0.05,
        divergence: Divergence | str = "kl",
        base_loss: str | PerSampleLoss | nn.Module = "ce",
        start: float = 0.2,
    ) -> None:
        """r_max is the sigmoid of the parameter ``logit``."""
        super().__init__(kappa, divergence, base_loss)
        require_forgetting(self.divergence)
        self.penalty = check_penalty(penalty)
        if not 0.0 < start < 1.0:
            raise ValueError(f"start must be in (0, 1), got {start!r}")
        self.logit = nn.Parameter(torch.logit(torch.tensor(start)))

    def objective(self, losses: Tensor) -> Tensor:
        """The relaxed value at the present r_max plus its penalty, with the envelope gradient in both."""
        r = torch.sigmoid(self.logit)
        delta = budget_of(self.divergence, r)
        relaxed = relax(losses, float(delta.detach()), kappa=self.kappa, divergence=self.divergence)
        price: Tensor = penalty_value(self.penalty, r)
        slope: Tensor = relaxed.lam * (delta - delta.detach())
        return relaxed.value - slope + price

    def figures(self) -> dict[str, Any]:
        """The present r_max."""
        return {"r_max": torch.sigmoid(self.logit.detach())}

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed:
        """One exact relaxation at the budget that was learned."""
        delta = float(budget_of(self.divergence, torch.sigmoid(self.logit.detach())))
        return relax(losses, delta, kappa=self.kappa, divergence=self.divergence, base_weight=measure)


class Interpolated(_Budgeted):
    """The ablation's mix: share * ANTIDOTE + (1 - share) * mean of the base loss.

    Args:
        share: The part of ANTIDOTE, in [0, 1].
        delta: The budget.
        kappa: The soft penalty.
        divergence: A record or a name.
        base_loss: As for `AntidoteLoss`.
    """

    def __init__(
        self,
        share: float,
        delta: float,
        *,
        kappa: float = 0.05,
        divergence: Divergence | str = "kl",
        base_loss: str | PerSampleLoss | nn.Module = "ce",
    ) -> None:
        """Checks and stores."""
        super().__init__(delta, kappa=kappa, divergence=divergence, base_loss=base_loss)
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be in [0, 1], got {share!r}")
        self.share = share

    def objective(self, losses: Tensor) -> Tensor:
        """The convex combination."""
        relaxed = relax(losses, self.delta, kappa=self.kappa, divergence=self.divergence)
        return self.share * relaxed.value + (1.0 - self.share) * losses.mean()


class MaxSide(_Budgeted):
    """The opposite sign: max over Q of E_Q[L] - kappa D_f(Q || P) in the ball, distributionally robust optimisation.

    It puts its weight on the largest losses, which the paper argues against for noisy labels.

    Args:
        delta: The budget.
        kappa: The soft penalty.
        divergence: A record or a name.
        base_loss: As for `AntidoteLoss`.
    """

    def objective(self, losses: Tensor) -> Tensor:
        """The largest expected loss, -relax(-L)."""
        return -relax(-losses, self.delta, kappa=self.kappa, divergence=self.divergence).value

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed:
        """The largest losses weigh most."""
        return relax(-losses, self.delta, kappa=self.kappa, divergence=self.divergence, base_weight=measure)
