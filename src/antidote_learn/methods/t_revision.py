"""T-Revision (Xia et al., 2019): the estimated transition matrix is corrected while the network learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn.core.transition_matrices import TransitionEstimate
from antidote_learn.methods.base import Context, Stage, StepStats
from antidote_learn.methods.corrections import WARM_UP
from antidote_learn.methods.noise_model import NoiseModel, Source
from antidote_learn.methods.warm_up import WarmUp, take_plain_step

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn._types import Batch

# The factor on the learning rate while T is revised. The weights then depend on the network, and a loss can also be
# lowered by a weight near 0: published code takes a rate so small that this does not happen.
REVISION_SCALE = 0.1


@dataclass
class TRevision:
    """T-Revision: reweighting by an estimated T, and then by a T that is learned with the network.

    A first T is estimated. Importance reweighting trains with it for the first half of the training. In the second
    half a matrix that is added to T is learned, too; rows stay probabilities.

    Needs: nothing but labels; a first T may be given.
    When: no sample is surely of one class, so that anchor points mislead.
    Reference: Xia et al., Are Anchor Points Really Indispensable in Label-Noise Learning?, NeurIPS 2019.

    Args:
        transition: The first T: "auto" (from held-out predictions, before the training), an estimator for the end of
            the warm-up (anchor as published, anchor-max, dual-t, confident, audit), a file, or "injected".
        lr: The learning rate of the matrix that is added to T.
        warmup: The share of epochs before T is estimated.
    """

    transition: Source = "auto"
    lr: float = 1e-4
    warmup: float = WARM_UP

    def __post_init__(self) -> None:
        """Refuses a bad warm-up, and a learning rate that is not positive."""
        if not 0.0 < self.lr < float("inf"):
            raise ValueError(f"t-revision needs lr > 0, got {self.lr}")
        self.noise = NoiseModel(self.transition)
        self.warm_up = WarmUp("t-revision", self.warmup if self.noise.is_estimated else 0.0)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """A warm-up, reweighting by T, and the revision of T."""
        first, rest = self.warm_up.stages(epochs)
        half = rest.epochs // 2
        return (first, Stage("reweighting", rest.epochs - half), Stage("revision", half, lr_scale=REVISION_SCALE))

    def build(self, ctx: Context) -> None:
        """Asks for the network, T, and the matrix that is added to it."""
        from torch import nn, zeros

        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)
        self.noise.build(ctx)
        self.slack = nn.ParameterList([zeros(ctx.classes, ctx.classes, device=ctx.device)])
        self.slack_optimizer = ctx.optimizer(list(self.slack.parameters()), lr=self.lr, weight_decay=0.0)
        ctx.keep("slack", self.slack)

    def begin_stage(self, stage: Stage, ctx: Context) -> None:
        """Estimates T after the warm-up."""
        if self.noise.is_estimated and stage.name == "reweighting":
            self.noise.estimate(self.net, ctx)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains plainly, then by weights, and at last by weights whose gradient reaches T."""
        if self.warm_up.is_on(ctx):
            return take_plain_step(self.net, self.optimizer, batch, ctx)
        from torch.nn.functional import cross_entropy

        from antidote_learn.core.transition_losses import importance_weights

        revises = ctx.epoch >= ctx.epochs - self.stages(ctx.epochs)[2].epochs
        logits = self.net(batch.inputs)
        weights = importance_weights(logits, batch.labels, self.revised_matrix())
        losses = cross_entropy(logits, batch.labels, reduction="none")
        loss = ctx.mean((weights if revises else weights.detach()) * losses, batch)
        ctx.update(loss, self.optimizer, *([self.slack_optimizer] if revises else []))
        return StepStats(loss.detach(), {})

    def revised_matrix(self) -> Tensor:
        """T with what was added to it; rows are probabilities."""
        moved: Tensor = (self.noise.matrix + self.slack[0]).clamp_min(0.0)
        return moved / moved.sum(dim=1, keepdim=True)

    def transition_estimate(self) -> TransitionEstimate:
        """The revised T."""
        return self.noise.record(self.revised_matrix())
