"""MixUp (Zhang et al., 2018): training on mixtures of two samples and of their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from antidote_learn.methods.base import Context, Objective, StepStats
from antidote_learn.methods.corrections import check_objective

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn._types import Batch


@dataclass
class MixUp:
    """MixUp: every input is blended with another one of its batch, and so are their losses.

    Each sample has one mixed loss, so that any objective can follow: `mixup:objective=antidote` forgets mixtures whose
    loss is large.

    Needs: nothing but labels.
    When: images or features that may be averaged, as a cheap addition to any objective.
    Reference: Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.

    Args:
        alpha: Both parameters of the Beta distribution of the share of the first sample; 32 for heavy noise.
        objective: The objective of the mixtures: a loss, or a method with an objective.
    """

    alpha: float = 1.0
    objective: str | Objective = "ce"

    def __post_init__(self) -> None:
        """Refuses a parameter of the Beta distribution that is not positive."""
        if not 0.0 < self.alpha < float("inf"):
            raise ValueError(f"mixup needs alpha > 0, got {self.alpha}")

    def build(self, ctx: Context) -> None:
        """Asks for the network."""
        from antidote_learn.methods.one_network import OneNetwork

        self.one = OneNetwork(check_objective(self.objective))
        self.one.build(ctx)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on the batch mixed with itself in another order, which is one order over all processes."""
        import torch
        from torch.nn.functional import one_hot

        seed = int(torch.randint(2**62, (1,), generator=ctx.generator))
        share = float(np.random.default_rng(seed).beta(self.alpha, self.alpha))
        order = torch.randperm(batch.total, generator=ctx.generator)

        def blend(rows: Tensor) -> Tensor:
            whole = ctx.gather(rows, batch)
            return share * rows + (1.0 - share) * ctx.own_rows(whole[order.to(whole.device)], batch)

        targets = batch.labels if batch.labels.is_floating_point() else one_hot(batch.labels, ctx.classes).float()
        return self.one.learn(self.one.net(blend(batch.inputs)), blend(targets), None, batch, ctx)

    def relax_all(self, losses: Tensor, labels: Tensor) -> Any:
        """The objective's weights of all training samples, unmixed."""
        return self.one.relax_all(losses, labels)
