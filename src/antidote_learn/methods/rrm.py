"""Rockafellian relaxation (Chen et al., 2024): samples of large loss leave the mean, by total variation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn._checks import check_number
from antidote_learn.methods.base import Context, EpochPlan, StepStats
from antidote_learn.methods.parameters import Rate, rate_number

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn._types import Batch


@dataclass
class Rrm:
    """Rockafellian relaxation: weights within a total-variation ball are chosen anew between epochs.

    The exact weights are 0 for the share of samples with the largest losses, and their mass goes to the smallest loss.
    The weights in use move only a part of the way to them, so that no single sample takes over.

    Needs: the noise rate (estimated if it is not given), or a penalty.
    When: as ANTIDOTE, if samples are to be kept or dropped as a whole.
    Reference: Chen et al., Mitigating the Impact of Labeling Errors on Training via Rockafellian Relaxation, 2024.

    Args:
        noise_rate: The share of samples that is left out.
        penalty: The price of total variation: samples leave whose loss is more than twice this above the smallest.
        damping: The part of the way that weights move to their exact values, in (0, 1].
        every: The number of epochs between two choices of weights.
        warmup: The share of epochs with equal weights.
    """

    noise_rate: Rate | None = None
    penalty: float | None = None
    damping: float = 0.5
    every: int = 1
    warmup: float = 0.1

    def __post_init__(self) -> None:
        """Refuses parameters out of range."""
        if not 0.0 < self.damping <= 1.0 or self.every < 1 or not 0.0 <= self.warmup < 1.0:
            raise ValueError(
                "rrm needs damping in (0, 1], every >= 1 and warmup in [0, 1), "
                f"got {self.damping}, {self.every} and {self.warmup}"
            )
        if self.penalty is not None:
            check_number("penalty", self.penalty, 0.0)
        if self.noise_rate is not None and not isinstance(self.noise_rate, str) and not 0.0 <= self.noise_rate < 1.0:
            raise ValueError(f"noise_rate must be in [0, 1), got {self.noise_rate!r}; 20 % is 0.2")

    def build(self, ctx: Context) -> None:
        """Asks for the network, and for the weight of every sample."""
        from torch import ones

        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)
        self.weights = ctx.buffer("weights", ones(ctx.samples))

    def begin_epoch(self, epoch: int, ctx: Context) -> EpochPlan:
        """Moves the weights a part of the way to those of the present losses."""
        if epoch and ctx.progress >= self.warmup and epoch % self.every == 0:
            losses = ctx.score(self.net).losses.to(ctx.device)
            self.weights.lerp_(self.relax_all(losses, ctx.labels).to(self.weights), self.damping)
        return EpochPlan()

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on weighted samples."""
        from torch.nn.functional import cross_entropy

        losses = cross_entropy(self.net(batch.inputs), batch.labels, reduction="none")
        loss = ctx.mean(self.weights[batch.index.to(ctx.device)] * losses, batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {"forgotten": (self.weights < 0.5).double().mean()})

    def relax_all(self, losses: Tensor, labels: Tensor) -> Tensor:
        """The exact weights of all training samples for their losses (N,)."""
        from antidote_learn.core.total_variation import total_variation_weights

        return total_variation_weights(losses, rate=rate_number(self.noise_rate), penalty=self.penalty)
