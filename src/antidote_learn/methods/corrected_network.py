"""One network that learns from corrected logits, labels or weights: the training of every correction by T."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from antidote_learn._types import Batch
from antidote_learn.core.transition_losses import (
    backward_targets,
    bounded_logits,
    draw_dirichlet_weights,
    forward_logits,
    importance_weights,
)
from antidote_learn.core.transition_matrices import TransitionEstimate, check_transition
from antidote_learn.methods.base import Context, Objective, Stage, StepStats
from antidote_learn.methods.noise_model import NoiseModel
from antidote_learn.methods.one_network import OneNetwork
from antidote_learn.methods.warm_up import WarmUp, take_plain_step


class Corrected(NamedTuple):
    """What an objective learns from: logits (B, K), labels (B,) or targets (B, K), and weights (B,) or None."""

    logits: Tensor
    labels: Tensor
    weight: Tensor | None = None


Correction = Callable[[Tensor, Batch, Tensor, Context], Corrected]
"""A function of logits (B, K), their batch, the transition matrix (K, K) and the context."""


class CorrectedNetwork:
    """Trains one network by an objective, after a warm-up if the transition matrix must be estimated.

    Args:
        name: The name of the method.
        noise: The transition matrix.
        objective: The objective of the network.
        correct: The correction.
        warmup: The share of epochs before the matrix is estimated.
        invertible: Whether the correction needs the inverse of the matrix.
    """

    def __init__(
        self,
        name: str,
        noise: NoiseModel,
        objective: Objective,
        correct: Correction,
        *,
        warmup: float,
        invertible: bool = False,
    ) -> None:
        self.noise, self.correct, self.invertible = noise, correct, invertible
        self.one = OneNetwork(objective)
        self.warm_up = WarmUp(name, warmup if noise.is_estimated else 0.0)
        if invertible and noise.known_matrix is not None:
            check_transition(noise.known_matrix, invertible=True)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """A warm-up if the matrix must be estimated, and the training."""
        return self.warm_up.stages(epochs)

    def build(self, ctx: Context) -> None:
        """Asks for the network and the matrix."""
        self.one.build(ctx)
        self.noise.build(ctx)

    def begin_stage(self, stage: Stage, ctx: Context) -> None:
        """Estimates the matrix after the warm-up."""
        if self.noise.is_estimated and stage.name == "training":
            self.noise.estimate(self.one.net, ctx)
            check_transition(self.noise.record().transition, invertible=self.invertible)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on a batch: plainly in the warm-up, corrected later."""
        if self.warm_up.is_on(ctx):
            return take_plain_step(self.one.net, self.one.optimizers[0], batch, ctx)
        corrected = self.correct(self.one.net(batch.inputs), batch, self.noise.matrix, ctx)
        return self.one.learn(*corrected, batch, ctx)

    def relax_all(self, losses: Tensor, labels: Tensor) -> Any:
        """The objective's weights of all training samples; its losses here are those before the correction."""
        return self.one.relax_all(losses, labels)

    def transition_estimate(self) -> TransitionEstimate:
        """The matrix as it was used."""
        return self.noise.record()


def correct_forward(logits: Tensor, batch: Batch, transition: Tensor, ctx: Context) -> Corrected:
    """Forward correction: log-probabilities of the given labels take the place of the logits."""
    return Corrected(forward_logits(logits, transition), batch.labels)


def correct_backward(logits: Tensor, batch: Batch, transition: Tensor, ctx: Context) -> Corrected:
    """Backward correction: rows of the inverse matrix take the place of the labels, which may be negative."""
    return Corrected(bounded_logits(logits), backward_targets(batch.labels, transition))


def reweight(logits: Tensor, batch: Batch, transition: Tensor, ctx: Context) -> Corrected:
    """Importance reweighting: samples weigh as much as their labels are likely to be right."""
    return Corrected(logits, batch.labels, importance_weights(logits.detach(), batch.labels, transition))


def resample_by(alpha: float) -> Correction:
    """RENT: weights are drawn, with a concentration ``alpha``; the draw is one over the whole batch."""

    def resample(logits: Tensor, batch: Batch, transition: Tensor, ctx: Context) -> Corrected:
        weights = importance_weights(logits.detach(), batch.labels, transition)
        drawn = draw_dirichlet_weights(ctx.gather(weights, batch), alpha, ctx.generator)
        return Corrected(logits, batch.labels, ctx.own_rows(drawn, batch))

    return resample
