"""One network and one objective: cross-entropy, any robust loss, ANTIDOTE over the batch or over the data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from antidote_learn._types import Batch, Relaxed, Visit
from antidote_learn.methods.base import Context, Objective, Plan, StepStats

MULTIPLIER_LR = 1e-3  # of what an objective itself learns: the learning rate of the multipliers in the authors' code


class OneNetwork:
    """Trains one network on one objective, and beside it what the objective itself learns.

    Args:
        objective: What the network is trained on.
        sample_weight: (N,) the weight of every training sample, 1 on average: the reference measure; None for equal.
    """

    def __init__(self, objective: Objective, sample_weight: Tensor | None = None) -> None:
        self.objective, self.sample_weight = objective, sample_weight
        self.own: Optimizer | None = None

    def build(self, ctx: Context) -> None:
        """Makes the network, and takes what is remembered to its device."""
        self.net, self.optimizer = ctx.network()
        self.plain = ctx.plain(self.net)
        self.objective.to(next(self.plain.parameters()).device)
        learned = list(self.objective.parameters())
        self.own = ctx.optimizer(learned, lr=MULTIPLIER_LR) if learned else None

    def begin_epoch(self, epoch: int, ctx: Context) -> Plan:
        """Every epoch visits all samples."""
        self.net.train()
        return Plan()

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """The global batch's objective; its gradient is right after averaging over processes, however it is split."""
        logits = self.net(batch.inputs)
        weight = None if self.sample_weight is None else self.sample_weight[batch.index].to(logits.device)
        visit = Visit(batch.index, weight, ctx.progress, ctx.processes / batch.total)
        loss = self.objective.batch_loss(logits, batch.labels, visit)
        if self.own is not None:
            self.own.zero_grad(set_to_none=True)
        ctx.update(self.net, self.optimizer, loss)
        if self.own is not None:
            self.own.step()
        return StepStats(loss.detach(), self.objective.figures())

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, K)."""
        self.plain.eval()
        logits: Tensor = self.plain(inputs)
        return logits

    def relax_all(self, losses: Tensor, labels: Tensor) -> Relaxed | None:
        """What the objective makes of all training samples together."""
        return self.objective.relax_all(losses, labels, self.sample_weight)

    @property
    def parts(self) -> Mapping[str, tuple[nn.Module, Optimizer]]:
        """The network; and the objective, where it learns."""
        parts: dict[str, tuple[nn.Module, Optimizer]] = {"net": (self.net, self.optimizer)}
        return parts if self.own is None else {**parts, "objective": (cast(nn.Module, self.objective), self.own)}

    def state_dict(self) -> dict[str, Tensor]:
        """What the objective remembers, where it is not among the parts."""
        return dict(self.objective.state_dict()) if self.own is None else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Puts it back."""
        if self.own is None:
            self.objective.load_state_dict(state)
