"""Early-learning regularisation (Liu et al., 2020): every sample is held near its early predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn.methods.base import Context, StepStats

if TYPE_CHECKING:
    from antidote_learn._types import Batch

SMALLEST = 1e-4  # the least distance of probabilities from 0 and 1, as in the released code: the logarithm stays finite


@dataclass
class Elr:
    """ELR: cross-entropy, and a pull of every sample to the running mean of its predictions.

    Right labels are learned first. The running mean of a sample's predictions remembers that time, and the pull to it
    outweighs the gradient of a wrong label that would be memorised later. It is kept for every sample and class.

    Needs: nothing but labels, and memory for one number for each sample and class.
    When: the noise rate is unknown, and early predictions are mostly right; heavy noise breaks that.
    Reference: Liu et al., Early-Learning Regularization Prevents Memorization of Noisy Labels, NeurIPS 2020.

    Args:
        beta: The weight of the past in the running mean; the paper has 0.7 for CIFAR-10 and 0.9 for CIFAR-100.
        strength: The strength of the pull; 3 for CIFAR-10, 7 for CIFAR-100, 1 where one class is mistaken for another.
    """

    beta: float = 0.7
    strength: float = 3.0

    def __post_init__(self) -> None:
        """Refuses a beta outside [0, 1], and a negative strength."""
        if not 0.0 <= self.beta <= 1.0 or not self.strength >= 0.0:
            raise ValueError(f"elr needs beta in [0, 1] and strength >= 0, got {self.beta} and {self.strength}")

    def build(self, ctx: Context) -> None:
        """Asks for the network, and for a running mean of every sample, which starts at 0."""
        from torch import zeros

        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)
        self.targets = ctx.buffer("targets", zeros(ctx.samples, ctx.classes))

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on a batch; the running means move first, so that they contain the present predictions."""
        from torch.nn.functional import cross_entropy

        logits = self.net(batch.inputs)
        probs = logits.softmax(dim=1).clamp(SMALLEST, 1.0 - SMALLEST)
        index = ctx.gather(batch.index.to(ctx.device), batch)
        whole = ctx.gather(probs / probs.sum(dim=1, keepdim=True), batch)
        self.targets[index] = self.beta * self.targets[index] + (1.0 - self.beta) * whole
        pull = (1.0 - (self.targets[batch.index] * probs).sum(dim=1)).log()
        losses = cross_entropy(logits, batch.labels, reduction="none") + self.strength * pull
        loss = ctx.mean(losses, batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {})
