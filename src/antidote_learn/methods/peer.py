"""Peer loss (Liu and Guo, 2020): cross-entropy of the labels minus that of labels that were drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from antidote_learn.methods.base import Context, StepStats
from antidote_learn.methods.warm_up import WarmUp

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn._types import Batch

Form = Literal["sampled", "expected"]
"""How labels that do not belong to a sample are taken: drawn from the training set, or all of them by their shares."""


@dataclass
class Peer:
    """Peer loss: the network is punished for agreeing with labels that belong to other samples.

    What can be learned without looking at a sample cancels out, and so does symmetric noise. The weight of the
    punishment rises linearly after the warm-up.

    Needs: nothing but labels.
    When: the noise is uniform, and its rate is unknown.
    Reference: Liu and Guo, Peer Loss Functions: Learning from Noisy Labels without Knowing Noise Rates, ICML 2020.

    Args:
        alpha: The weight of the punishment at the end.
        form: "sampled" draws one label for each sample, "expected" takes the mean over all labels.
        warmup: The share of epochs without punishment.
    """

    alpha: float = 1.0
    form: Form = "sampled"
    warmup: float = 0.1

    def __post_init__(self) -> None:
        """Refuses a negative weight, and a bad warm-up."""
        if not 0.0 <= self.alpha < float("inf"):
            raise ValueError(f"peer needs alpha >= 0, got {self.alpha}")
        WarmUp("peer", self.warmup)

    def build(self, ctx: Context) -> None:
        """Asks for the network."""
        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on a batch, whose own inputs also meet the labels of others."""
        from antidote_learn.core.independent_pairs import peer_losses

        alpha = self.alpha * max(0.0, (ctx.progress - self.warmup) / (1.0 - self.warmup))
        losses = peer_losses(self.net(batch.inputs), batch.labels, other_labels(self.form, batch, ctx), alpha)
        loss = ctx.mean(losses, batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {"alpha": alpha})


def other_labels(form: Form, batch: Batch, ctx: Context) -> Tensor:
    """Labels (B,) that are drawn from the training set, or the shares (K,) of all labels in it."""
    import torch

    if form == "expected":
        return (torch.bincount(ctx.labels, minlength=ctx.classes) / ctx.samples).to(ctx.device)
    drawn = torch.randint(ctx.samples, (batch.total,), generator=ctx.generator)
    return ctx.own_rows(ctx.labels[drawn], batch).to(ctx.device)
