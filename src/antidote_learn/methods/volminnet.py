"""VolMinNet (Li et al., 2021): the network and the transition matrix of least volume are learned together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from antidote_learn.core.transition_matrices import TransitionEstimate
from antidote_learn.methods.base import Context, StepStats

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn._types import Batch

START = 0.52  # the share of wrong labels that T starts with: that of the published start for 10 and for 100 classes


@dataclass
class VolMinNet:
    """VolMinNet: T is learned with the network, and kept as close to the identity as the labels allow.

    The loss is that of Forward correction, and a small multiple of log |det T|, which draws T together. There is no
    warm-up and no anchor point.

    Needs: nothing but labels.
    When: as Forward, if neither T nor samples that are surely of one class are at hand.
    Reference: Li et al., Provably End-to-end Label-Noise Learning without Anchor Points, ICML 2021.

    Args:
        strength: The factor of log |det T|.
        lr: The learning rate of T.
    """

    strength: float = 1e-4
    lr: float = 0.01

    def __post_init__(self) -> None:
        """Refuses a negative factor, and a learning rate that is not positive."""
        if not 0.0 <= self.strength < float("inf") or not 0.0 < self.lr < float("inf"):
            raise ValueError(f"volminnet needs strength >= 0 and lr > 0, got {self.strength} and {self.lr}")

    def build(self, ctx: Context) -> None:
        """Asks for the network and for T, whose entries outside the diagonal start alike."""
        import torch

        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)
        odds = min(START / (1.0 - START) / (ctx.classes - 1), 0.9)  # a sigmoid stays below 1
        start = torch.full((ctx.classes, ctx.classes), float(np.log(odds / (1.0 - odds))), device=ctx.device)
        self.scores = torch.nn.ParameterList([start])
        self.matrix_optimizer = ctx.optimizer(list(self.scores.parameters()), lr=self.lr, weight_decay=0.0)
        ctx.keep("scores", self.scores)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains the network and T on a batch."""
        from torch.nn.functional import nll_loss

        from antidote_learn.core.transition_losses import forward_logits

        matrix = self.matrix()
        volume = matrix.slogdet().logabsdet
        logs = forward_logits(self.net(batch.inputs), matrix)
        loss = ctx.mean(nll_loss(logs, batch.labels, reduction="none"), batch) + self.strength * volume
        ctx.update(loss, self.optimizer, self.matrix_optimizer)
        return StepStats(loss.detach(), {"noise_rate": 1.0 - matrix.detach().diagonal().mean()})

    def matrix(self) -> Tensor:
        """T: the diagonal before scaling is 1, the other entries lie between 0 and 1."""
        entries: Tensor = self.scores[0].sigmoid().clone()
        entries.fill_diagonal_(1.0)
        return entries / entries.sum(dim=1, keepdim=True)

    def transition_estimate(self) -> TransitionEstimate:
        """The learned T, which no single samples carry."""
        found = self.matrix().detach().cpu().double().numpy()
        return TransitionEstimate(
            found / found.sum(axis=1, keepdims=True),
            np.zeros(len(found), dtype=np.int64),
            np.full_like(found, np.nan),
            source="learned",
        )
