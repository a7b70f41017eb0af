"""One network and one objective: cross-entropy, any robust loss, ANTIDOTE over the batch or over the data set."""

from __future__ import annotations

from torch import Tensor
from torch.optim import Optimizer

from antidote_learn._types import Batch, Relaxed, Visit
from antidote_learn.methods.base import Context, Objective, StepStats

MULTIPLIER_LR = 1e-3  # the learning rate of an objective's own parameters: that of the multipliers in the authors' code


class OneNetwork:
    """Trains one network on one objective, together with the parameters of the objective itself.

    Args:
        objective: The objective of the network.
        sample_weight: (N,) weights of the training samples, 1 on average: the reference measure; None for equal ones.
    """

    def __init__(self, objective: Objective, sample_weight: Tensor | None = None) -> None:
        self.objective, self.sample_weight = objective, sample_weight
        self.optimizers: list[Optimizer] = []

    def build(self, ctx: Context) -> None:
        """Asks for the network, and moves the state of the objective to the device."""
        self.net = ctx.network()
        self.optimizers = [ctx.optimizer(self.net)]
        self.objective.to(ctx.device)
        learned = list(self.objective.parameters())
        if learned:
            self.optimizers.append(ctx.optimizer(learned, lr=MULTIPLIER_LR))
        ctx.keep("method", self.objective)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on the global batch; the gradient, averaged over processes, does not depend on the batch's split."""
        logits = self.net(batch.inputs)
        weight = None if self.sample_weight is None else self.sample_weight[batch.index].to(logits.device)
        return self.learn(logits, batch.labels, weight, batch, ctx)

    def learn(self, logits: Tensor, labels: Tensor, weight: Tensor | None, batch: Batch, ctx: Context) -> StepStats:
        """Takes a step on logits and labels that a method may have changed; ``weight`` (B,) is their measure."""
        visit = Visit(batch.index, weight, ctx.progress, ctx.processes / batch.total)
        loss = self.objective.batch_loss(logits, labels, visit)
        ctx.update(loss, *self.optimizers)
        return StepStats(loss.detach(), self.objective.figures())

    def relax_all(self, losses: Tensor, labels: Tensor) -> Relaxed | None:
        """The objective's relaxation of all training samples together; None where none is reweighted."""
        return self.objective.relax_all(losses, labels, self.sample_weight)
