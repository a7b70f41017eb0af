"""F-Div (Wei and Liu, 2021): the network maximises the f-mutual information of its predictions and the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn.core.independent_pairs import GENERATORS
from antidote_learn.methods.base import Context, Stage, StepStats
from antidote_learn.methods.peer import Form, other_labels
from antidote_learn.methods.warm_up import WarmUp, take_plain_step

if TYPE_CHECKING:
    from antidote_learn._types import Batch


@dataclass
class FDiv:
    """F-Div: predictions and labels are made as dependent as they can be, in the sense of an f-divergence.

    The f-divergence is that between samples with their own labels and samples with labels of others. For total
    variation and uniform noise its maximum is at the classifier of the clean labels.

    Needs: nothing but labels.
    When: the noise is uniform, and its rate is unknown.
    Reference: Wei and Liu, When Optimizing f-Divergence is Robust with Label Noise, ICLR 2021.

    Args:
        generator: The divergence: total-variation, jensen-shannon, kl, pearson, jeffrey, reverse-kl, neyman or
            squared-hellinger.
        form: "sampled" draws one label for each sample, "expected" takes the mean over all labels.
        warmup: The share of epochs by plain cross-entropy.
    """

    generator: str = "total-variation"
    form: Form = "sampled"
    warmup: float = 0.2

    def __post_init__(self) -> None:
        """Refuses an unknown divergence, and a bad warm-up."""
        if self.generator not in GENERATORS:
            raise ValueError(f"f-div knows no generator {self.generator!r}; accepted: {', '.join(GENERATORS)}")
        self.warm_up = WarmUp("f-div", self.warmup)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """The warm-up and the training."""
        return self.warm_up.stages(epochs)

    def build(self, ctx: Context) -> None:
        """Asks for the network."""
        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on a batch, whose own inputs also meet the labels of others."""
        if self.warm_up.is_on(ctx):
            return take_plain_step(self.net, self.optimizer, batch, ctx)
        from antidote_learn.core.independent_pairs import divergence_losses

        others = other_labels(self.form, batch, ctx)
        probs = self.net(batch.inputs).softmax(dim=1)
        loss = ctx.mean(divergence_losses(probs, batch.labels, others, self.generator), batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {})
