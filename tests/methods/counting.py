"""A method that ends with a transition matrix: the shares of given labels within each predicted class, as counted."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from antidote_learn import TransitionEstimate
from antidote_learn.methods import StepStats


@dataclass
class Counting:
    """Plain cross-entropy that counts which labels the classes have that it predicts."""

    start: float = 1.0  # the count that every pair of classes begins with

    def build(self, ctx: Any) -> None:
        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)
        self.counts = ctx.buffer("counts", torch.zeros(ctx.classes, ctx.classes, dtype=torch.float64))

    def step(self, batch: Any, ctx: Any) -> StepStats:
        logits = self.net(batch.inputs)
        predicted, given = (ctx.gather(rows, batch) for rows in (logits.argmax(dim=1), batch.labels))
        self.counts.index_put_((predicted, given), torch.tensor(1.0, dtype=torch.float64), accumulate=True)
        loss = ctx.mean(cross_entropy(logits, batch.labels, reduction="none"), batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {})

    def transition_estimate(self) -> TransitionEstimate:
        counts = self.counts.cpu().numpy()
        shares = (counts + self.start) / (counts + self.start).sum(axis=1, keepdims=True)
        errors = np.full_like(shares, np.nan)
        errors[1:] = np.sqrt(shares * (1.0 - shares) / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))[1:]
        return TransitionEstimate(shares, counts.sum(axis=1).astype(np.int64), errors, "counted")
