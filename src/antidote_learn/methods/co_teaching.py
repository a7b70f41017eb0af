"""Co-teaching (Han et al., 2018): two networks, each trained on the samples that the other one finds easy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn.methods.base import Context, StepStats
from antidote_learn.methods.parameters import Rate, rate_number

if TYPE_CHECKING:
    from antidote_learn._types import Batch


@dataclass
class CoTeaching:
    """Co-teaching: two networks, each trained on the samples of smallest loss of the other.

    A network learns what is easy before it memorises wrong labels. Two networks start differently and err differently,
    so that neither confirms its own errors. The share that is left out of each batch rises from 0 to the noise rate.
    The first network is the model.

    Needs: the noise rate (estimated if it is not given).
    When: there are time and memory for two networks.
    Reference: Han et al., Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels, NeurIPS
        2018.

    Args:
        noise_rate: The share of each batch that is left out in the end: a number in [0, 1), "auto" or "injected".
        ramp: The number of epochs over which that share rises from 0.
    """

    noise_rate: Rate | None = None
    ramp: int = 10

    def __post_init__(self) -> None:
        """Refuses a ramp of less than one epoch."""
        if self.ramp < 1:
            raise ValueError(f"co-teaching needs ramp >= 1, got {self.ramp}")

    def build(self, ctx: Context) -> None:
        """Asks for the two networks."""
        self.nets = [ctx.network("first"), ctx.network("second")]
        self.optimizers = [ctx.optimizer(net) for net in self.nets]

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains each network on the samples that the other one chooses."""
        from torch.nn.functional import cross_entropy

        from antidote_learn.core.selection import small_loss_weights

        share = 1.0 - self.left_out(ctx.epoch)
        losses = [cross_entropy(net(batch.inputs), batch.labels, reduction="none") for net in self.nets]
        easy = [small_loss_weights(own, ctx.gather(own, batch), share=share) for own in losses]
        loss = ctx.mean(easy[1] * losses[0], batch) + ctx.mean(easy[0] * losses[1], batch)
        ctx.update(loss, *self.optimizers)
        return StepStats(loss.detach() / 2, {"kept": share})

    def left_out(self, epoch: int) -> float:
        """The share of a batch that is left out, R(T) of the paper, which rises linearly at first."""
        rate = rate_number(self.noise_rate) or 0.0
        return rate * min(1.0, epoch / max(1, self.ramp - 1))
