"""A warm-up: the first part of a training is plain cross-entropy, so that the network has learned something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn.methods.base import Context, Stage, StepStats

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from antidote_learn._types import Batch


@dataclass(frozen=True)
class WarmUp:
    """The first epochs of a training.

    Attributes:
        method: The name of the method, for messages.
        share: The share of all epochs, in [0, 1); at least one epoch if it is positive.
    """

    method: str
    share: float

    def __post_init__(self) -> None:
        """Refuses a share outside [0, 1)."""
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"{self.method} needs warmup in [0, 1), the share of epochs; got {self.share}")

    def length(self, epochs: int) -> int:
        """The number of epochs of the warm-up, which leaves at least one."""
        if self.share == 0.0:
            return 0
        if epochs < 2:
            raise ValueError(f"{self.method} needs 2 epochs or more, the first ones for its warm-up; got {epochs}")
        return min(max(1, round(self.share * epochs)), epochs - 1)

    def stages(self, epochs: int, *, schedule: str | None = None, lr_scale: float = 1.0) -> tuple[Stage, ...]:
        """The warm-up and the rest; schedule and lr_scale are those of the rest."""
        first = self.length(epochs)
        return (Stage("warm-up", first), Stage("training", epochs - first, schedule, lr_scale))

    def is_on(self, ctx: Context) -> bool:
        """Whether the present epoch belongs to the warm-up."""
        return ctx.epoch < self.length(ctx.epochs)


def take_plain_step(net: nn.Module, optimizer: Optimizer, batch: Batch, ctx: Context) -> StepStats:
    """Trains on a batch by plain cross-entropy."""
    from torch.nn.functional import cross_entropy

    loss = ctx.mean(cross_entropy(net(batch.inputs), batch.labels, reduction="none"), batch)
    ctx.update(loss, optimizer)
    return StepStats(loss.detach(), {})
