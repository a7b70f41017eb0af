"""MeanLoss: the mean of any per-sample loss, as an objective to train a network on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from antidote_learn._types import PerSampleLoss, Relaxed, Visit
from antidote_learn.core.losses.grammar import build_closed_form, loss_function
from antidote_learn.core.losses.likelihood import cross_entropy


class MeanLoss(nn.Module):
    """The plain mean over the global batch: cross-entropy, and every robust loss that forgets nothing.

    A loss by name has its gradient in closed form on the CPU. Cross-entropy has not: torch's own is quicker.

    Args:
        loss: A loss by name, as "gce:q=0.5" or "nce+rce", or a function (logits, labels) -> (B,).
    """

    def __init__(self, loss: str | PerSampleLoss) -> None:
        super().__init__()
        self.function = loss_function(loss) if isinstance(loss, str) else loss
        self.closed_form = None
        if isinstance(loss, str) and self.function is not cross_entropy:
            self.closed_form = build_closed_form(loss)

    def batch_loss(self, logits: Tensor, labels: Tensor, visit: Visit) -> Tensor:
        """This process's part of the mean, scaled so that the average over processes is the mean of all."""

        def sum_losses(logits: Tensor) -> Tensor:
            losses = self.function(logits, labels)
            return (losses if visit.weight is None else losses * visit.weight).sum() * visit.scale

        if self.closed_form is not None and visit.weight is None:
            node = self.closed_form.attach(logits, labels, visit.scale, sum_losses)
            if node is not None:
                return node
        return sum_losses(logits)

    def figures(self) -> Mapping[str, Any]:
        """No figures beside the loss."""
        return {}

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed | None:
        """No relaxation: all samples weigh alike."""
        return None
