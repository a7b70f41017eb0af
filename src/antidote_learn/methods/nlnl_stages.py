"""NLNL's stages (Kim et al., 2019): negative learning, selection, and training on what was selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antidote_learn.methods.base import Context, EpochPlan, Stage, StepStats

if TYPE_CHECKING:
    from torch import Tensor

    from antidote_learn._types import Batch

SHARES = (3 / 13, 3 / 13, 3 / 13, 2 / 13, 2 / 13)  # the stages' shares of the epochs: 720, 720, 720, 480 and 480
NAMES = ("negative", "selected negative", "selected positive", "confident set", "soft labels")
SCHEDULES = ("constant", "constant", "constant", "cosine", "cosine")  # of the learning rate, in each stage
SMALLEST = 1e-7  # the least 1 - p inside the logarithm, where float32 has no smaller step
WINDOW = 10  # epochs: the averages of predictions reach this far back


@dataclass
class NlnlStages:
    """NLNL in its five stages: learn what a sample is not, select, and train anew on what was selected.

    The first stage makes a random wrong class unlikely, for every sample. The second does so for samples whose label is
    likelier than chance. The third is cross-entropy on samples whose label is likelier than `sure`. In the fourth a new
    network learns these samples alone. In the fifth another one learns the averaged predictions of the fourth stage,
    for all samples.

    Needs: nothing but labels, and many epochs.
    When: there is time; the loss `nlnl` alone is its first stage.
    Reference: Kim et al., NLNL: Negative Learning for Noisy Labels, ICCV 2019.

    Args:
        sure: The probability above which a label is believed.
    """

    sure: float = 0.5

    def __post_init__(self) -> None:
        """Refuses a probability outside [0, 1)."""
        if not 0.0 <= self.sure < 1.0:
            raise ValueError(f"nlnl-stages needs sure in [0, 1), got {self.sure}")

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """The five stages in the published proportions; a fresh network has a schedule of its own."""
        ends = [round(sum(SHARES[: number + 1]) * epochs) for number in range(len(SHARES))]
        lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        return tuple(Stage(*parts) for parts in zip(NAMES, lengths, SCHEDULES, strict=True))

    def build(self, ctx: Context) -> None:
        """Asks for the network, running means of its predictions, the targets of the last stage, and a selection."""
        from torch import full, ones, zeros

        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)
        self.average = ctx.buffer("average", full((ctx.samples, ctx.classes), 1.0 / ctx.classes))
        self.seen = ctx.buffer("seen", zeros(ctx.samples))
        self.targets = ctx.buffer("targets", zeros(ctx.samples, ctx.classes))
        self.chosen = ctx.buffer("chosen", ones(ctx.samples))

    def begin_stage(self, stage: Stage, ctx: Context) -> None:
        """Before each of the last two stages: keeps what was learned, and renews the network and the means."""
        if stage.name in NAMES[3:]:
            self._choose(self.sure if stage.name == NAMES[3] else 0.0, ctx)
            self.targets.copy_(self.average)
            self.seen.zero_()
            ctx.renew(self.net)

    def begin_epoch(self, epoch: int, ctx: Context) -> EpochPlan:
        """Selects the samples of the epoch, in the second and the third stage."""
        stage = self._stage(ctx)
        if stage in NAMES[1:3]:
            self._choose(1.0 / ctx.classes if stage == NAMES[1] else self.sure, ctx)
        return EpochPlan()

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on the chosen samples of a batch, and adds the predictions of all of them to their means."""
        from torch.nn.functional import cross_entropy

        logits = self.net(batch.inputs)
        index = batch.index.to(ctx.device)
        self._remember(logits.detach().softmax(dim=1), batch, ctx)
        stage = self._stage(ctx)
        if stage == NAMES[4]:
            losses = cross_entropy(logits, self.targets[index], reduction="none") * self._balance(index)
        elif stage in NAMES[:2]:
            losses = self._negative_losses(logits, batch, ctx) * self.chosen[index]
        else:
            losses = cross_entropy(logits, batch.labels, reduction="none") * self.chosen[index]
        loss = ctx.mean(losses, batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {"kept": self.chosen.double().mean()})

    def _stage(self, ctx: Context) -> str:
        """The name of the present stage."""
        end = 0
        for stage in self.stages(ctx.epochs):
            end += stage.epochs
            if ctx.epoch < end:
                return stage.name
        return NAMES[-1]

    def _choose(self, least: float, ctx: Context) -> None:
        """Chooses the samples whose label has at least this mean probability; all if there is none."""
        likely = self.average.gather(1, ctx.labels.to(ctx.device)[:, None])[:, 0] >= least
        self.chosen.copy_(likely if likely.any() else ~likely)

    def _remember(self, probs: Tensor, batch: Batch, ctx: Context) -> None:
        """Adds predictions to the running means: the plain mean at first, later one that fades."""
        index, whole = ctx.gather(batch.index.to(ctx.device), batch), ctx.gather(probs, batch)
        self.seen[index] += 1.0
        share = 1.0 / self.seen[index].clamp(max=WINDOW)
        self.average[index] += share[:, None] * (whole - self.average[index])

    def _negative_losses(self, logits: Tensor, batch: Batch, ctx: Context) -> Tensor:
        """-log(1 - p) of a random class that is not the label (B,)."""
        from torch import randint

        steps = randint(1, ctx.classes, (batch.total,), generator=ctx.generator)
        others = (batch.labels + ctx.own_rows(steps, batch).to(ctx.device)) % ctx.classes
        probs = logits.softmax(dim=1).gather(1, others[:, None])[:, 0]
        return -(1.0 - probs).clamp_min(SMALLEST).log()

    def _balance(self, index: Tensor) -> Tensor:
        """The weight of each sample's likeliest class: the largest class has 1, smaller ones have more."""
        from torch import bincount

        likeliest = self.targets.argmax(dim=1)
        counts = bincount(likeliest, minlength=self.targets.shape[1]).clamp(min=1)
        return (counts.max() / counts)[likeliest[index]]
