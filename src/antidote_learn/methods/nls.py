"""Negative label smoothing (Wei et al., 2022): after a warm-up, the labels are made sharper than they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn.methods.base import Context, Stage, StepStats
from antidote_learn.methods.warm_up import WarmUp, take_plain_step

if TYPE_CHECKING:
    from antidote_learn._types import Batch


@dataclass
class Nls:
    """Negative label smoothing: the network is pushed away from all classes that are not its label's.

    With a rate r < 0 the target of the label is above 1 and that of the others below 0. The loss would have no lower
    bound, so that probabilities are held above 1e-5 inside its logarithm, and the learning rate is cut.

    Needs: nothing but labels.
    When: there is much noise; with little noise a positive rate, ordinary smoothing, is better.
    Reference: Wei et al., To Smooth or Not? When Label Smoothing Meets Noisy Labels, ICML 2022.

    Args:
        rate: The smoothing rate r, below 1; published ones lie between -8 and 0.8.
        warmup: The share of epochs by plain cross-entropy.
        lr_scale: The factor on the learning rate after the warm-up.
    """

    rate: float = -0.4
    warmup: float = 0.5
    lr_scale: float = 0.1

    def __post_init__(self) -> None:
        """Refuses a rate out of range, a bad warm-up, and a factor that is not positive."""
        if not -float("inf") < self.rate < 1.0 or not 0.0 < self.lr_scale < float("inf"):
            raise ValueError(f"nls needs rate < 1 and lr_scale > 0, got {self.rate} and {self.lr_scale}")
        self.warm_up = WarmUp("nls", self.warmup)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """The warm-up, and the training at a lower learning rate."""
        return self.warm_up.stages(epochs, lr_scale=self.lr_scale)

    def build(self, ctx: Context) -> None:
        """Asks for the network."""
        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on a batch, by plain cross-entropy in the warm-up."""
        if self.warm_up.is_on(ctx):
            return take_plain_step(self.net, self.optimizer, batch, ctx)
        from antidote_learn.core.independent_pairs import smooth_label_losses

        loss = ctx.mean(smooth_label_losses(self.net(batch.inputs), batch.labels, self.rate), batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {})
