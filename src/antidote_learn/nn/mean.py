"""MeanLoss: the mean of any per-sample loss, as an objective to train a network on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from antidote_learn._types import PerSampleLoss, Relaxed, Visit


class MeanLoss(nn.Module):
    """The plain mean over the global batch: cross-entropy, and every robust loss that forgets nothing.

    Args:
        function: (logits, labels) -> (B,).
    """

    def __init__(self, function: PerSampleLoss) -> None:
        super().__init__()
        self.function = function

    def batch_loss(self, logits: Tensor, labels: Tensor, visit: Visit) -> Tensor:
        """This process's part of the mean, scaled so that the average over processes is the mean of all."""
        losses = self.function(logits, labels)
        return (losses if visit.weight is None else losses * visit.weight).sum() * visit.scale

    def figures(self) -> Mapping[str, Any]:
        """Nothing beside the loss."""
        return {}

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed | None:
        """No sample is reweighted."""
        return None
