"""One network and one objective: cross-entropy, any robust loss, ANTIDOTE (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from antidote_learn._types import Batch, PerSampleLoss
from antidote_learn.methods.base import Context, Plan, StepStats
from antidote_learn.nn.antidote import AntidoteLoss


class Single:
    """Trains one network on the mean of a per-sample loss, or on `AntidoteLoss`.

    Args:
        objective: An `AntidoteLoss`, or a function (logits, labels) -> (B,).
    """

    def __init__(self, objective: AntidoteLoss | PerSampleLoss) -> None:
        self.objective = objective

    def build(self, ctx: Context) -> None:
        """Makes the network."""
        self.net, self.optimizer = ctx.network()
        self.plain = ctx.plain(self.net)

    def begin_epoch(self, epoch: int, ctx: Context) -> Plan:
        """Every epoch visits all samples."""
        self.net.train()
        return Plan()

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """The global batch's objective; its gradient is right after averaging over processes, however it is split."""
        logits = self.net(batch.inputs)
        if isinstance(self.objective, AntidoteLoss):
            loss = self.objective(logits, batch.labels)
            stats = StepStats(loss.detach(), _figures(self.objective))
        else:
            loss = self.objective(logits, batch.labels).sum() * (ctx.processes / batch.total)
            stats = StepStats(loss.detach(), {})
        ctx.update(self.net, self.optimizer, loss)
        return stats

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, K)."""
        self.plain.eval()
        logits: Tensor = self.plain(inputs)
        return logits

    @property
    def parts(self) -> Mapping[str, tuple[nn.Module, Optimizer]]:
        """The network."""
        return {"net": (self.net, self.optimizer)}

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing beside the network."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to put back."""


def _figures(objective: AntidoteLoss) -> dict[str, Any]:
    """The temperature t = lam + kappa and the share that was forgotten, of the whole batch."""
    solved = objective.last
    assert solved is not None  # the loss was just called
    whole = solved.scope or solved
    return {"temperature": whole.raw["lam"] + objective.kappa, "forgotten": whole.forgotten}
