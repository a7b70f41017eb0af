"""A toy of DivideMix's shape: two networks, two streams for each, two views, a posterior, an average."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from antidote_learn.methods import EpochPlan, Stage, StepStats, Stream
from antidote_learn.nn.averaging import update_average


@dataclass
class TwoStreams:
    """Each network trains on what the other one finds easy, and agrees with itself on the rest."""

    warmup: int = 2

    def stages(self, epochs):
        mixing = epochs - self.warmup
        return [
            Stage("warm-up", self.warmup),
            Stage("mixing", mixing - 1, schedule="cosine"),
            Stage("fine-tuning", 1, lr_scale=0.1),
        ]

    def build(self, ctx):
        self.nets = [ctx.network("first"), ctx.network("second")]
        self.optimizers = [ctx.optimizer(net) for net in self.nets]
        self.average = ctx.copy_network(self.nets[0], "average")
        self.posterior = ctx.buffer("posterior", torch.zeros(2, ctx.samples))
        self.mixing = ctx.buffer("mixing", torch.zeros(()))
        self.bias = torch.nn.Parameter(ctx.buffer("bias", torch.zeros(ctx.classes)))
        self.bias_optimizer = ctx.optimizer([self.bias], lr=0.01)
        ctx.predict_with(*self.nets, self.average, combine="logits")

    def begin_stage(self, stage, ctx):
        self.mixing.fill_(float(stage.name != "warm-up"))
        if stage.name == "mixing":
            ctx.renew(self.nets[1])

    def begin_epoch(self, epoch, ctx):
        if not self.mixing:
            return EpochPlan()
        streams = []
        for number, net in enumerate(self.nets):
            scores = ctx.score(net, view="weak")
            self.posterior[number] = torch.sigmoid(scores.losses.mean() - scores.losses).to(ctx.device)
            easy = self.posterior[number].cpu() > 0.5
            own = F.one_hot(ctx.labels, ctx.classes) * self.posterior[number].cpu()[:, None]
            targets = own + scores.probs * (1.0 - self.posterior[number].cpu())[:, None]
            index = easy.nonzero()[:, 0]
            streams += [
                Stream(f"labelled{number}", index.numpy(), targets[index], views=("weak", "weak"), batch_size=16),
                Stream(f"unlabelled{number}", (~easy).nonzero()[:, 0].numpy(), views=("weak", "plain"), batch_size=8),
            ]
        return EpochPlan(tuple(streams), steps=7)

    def step(self, batch, ctx):
        loss = self.mixed_loss(batch, ctx) if self.mixing else self.plain_loss(batch, ctx)
        ctx.update(loss, *self.optimizers, self.bias_optimizer)
        update_average(self.average, self.nets[0], decay=0.9)
        return StepStats(loss.detach(), {"sure": self.posterior.mean()})

    def plain_loss(self, batch, ctx):
        logits = [net(batch.inputs) for net in self.nets]
        return sum(ctx.mean(F.cross_entropy(z + self.bias, batch.labels, reduction="none"), batch) for z in logits)

    def mixed_loss(self, batch, ctx):
        share = torch.rand((), generator=ctx.generator)
        streams = {"labelled0": batch, **batch.further_streams}
        total = 0.0
        for number, net in enumerate(self.nets):
            known, unknown = streams[f"labelled{1 - number}"], streams[f"unlabelled{1 - number}"]
            mixed = share * known.views[0] + (1.0 - share) * known.views[1]
            total = total + ctx.mean(F.cross_entropy(net(mixed) + self.bias, known.labels, reduction="none"), known)
            one, two = (net(view).softmax(dim=1) for view in unknown.views)
            total = total + ctx.mean((one - two).square().sum(dim=1), unknown)
        return total
