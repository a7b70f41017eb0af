"""One network and one objective: cross-entropy, any robust loss, ANTIDOTE over the batch or over the data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from antidote_learn._types import Batch, PerSampleLoss
from antidote_learn.methods.base import Context, Plan, StepStats
from antidote_learn.nn.antidote import AntidoteLoss
from antidote_learn.nn.dataset import DatasetAntidoteLoss


class Single:
    """Trains one network on the mean of a per-sample loss, or on ANTIDOTE.

    Args:
        objective: An `AntidoteLoss`, a `DatasetAntidoteLoss` for all training samples, or a function
            (logits, labels) -> (B,).
        sample_weight: (N,) the weight of every training sample, 1 on average: the reference measure; None for equal.
    """

    def __init__(
        self, objective: AntidoteLoss | DatasetAntidoteLoss | PerSampleLoss, sample_weight: Tensor | None = None
    ) -> None:
        self.objective, self.sample_weight = objective, sample_weight

    def build(self, ctx: Context) -> None:
        """Makes the network, and takes what is remembered to its device."""
        self.net, self.optimizer = ctx.network()
        self.plain = ctx.plain(self.net)
        if isinstance(self.objective, DatasetAntidoteLoss):
            self.objective.to(next(self.plain.parameters()).device)

    def begin_epoch(self, epoch: int, ctx: Context) -> Plan:
        """Every epoch visits all samples."""
        self.net.train()
        return Plan()

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """The global batch's objective; its gradient is right after averaging over processes, however it is split."""
        loss, figures = self._loss(self.net(batch.inputs), batch, ctx)
        ctx.update(self.net, self.optimizer, loss)
        return StepStats(loss.detach(), figures)

    def _loss(self, logits: Tensor, batch: Batch, ctx: Context) -> tuple[Tensor, dict[str, Any]]:
        objective = self.objective
        weight = None if self.sample_weight is None else self.sample_weight[batch.index].to(logits.device)
        if isinstance(objective, DatasetAntidoteLoss):
            objective.set_progress(ctx.progress)
            loss = objective(logits, batch.labels, index=batch.index, sample_weight=weight)
            return loss, _figures(objective)
        if isinstance(objective, AntidoteLoss):
            loss = objective(logits, batch.labels, sample_weight=weight)
            return loss, _figures(objective)
        losses = objective(logits, batch.labels)
        return (losses if weight is None else losses * weight).sum() * (ctx.processes / batch.total), {}

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
        """What the objective remembers."""
        return dict(self.objective.state_dict()) if isinstance(self.objective, DatasetAntidoteLoss) else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Puts it back."""
        if isinstance(self.objective, DatasetAntidoteLoss):
            self.objective.load_state_dict(state)


def _figures(objective: AntidoteLoss | DatasetAntidoteLoss) -> dict[str, Any]:
    """The temperature t = lam + kappa and the share that was forgotten, of all that was relaxed together."""
    solved = objective.last
    assert solved is not None  # the loss was just called
    whole = solved.scope or solved
    return {"temperature": whole.raw["lam"] + objective.kappa, "forgotten": whole.forgotten}
