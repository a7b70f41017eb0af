"""A method of a user's own: each batch trains on its samples of smallest loss, as many as there may be right ones."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from antidote_learn.methods.base import EpochPlan, StepStats


@dataclass
class SmallLoss:
    """Trains on the samples of each batch whose losses are smallest."""

    noise_rate: float | str = "auto"  # what `train` estimates where it is not given

    def build(self, ctx):
        self.net, self.optimizer = ctx.network()
        self.plain = ctx.plain(self.net)

    def begin_epoch(self, epoch, ctx):
        self.net.train()
        return EpochPlan()

    def step(self, batch, ctx):
        losses = F.cross_entropy(self.net(batch.inputs), batch.labels, reduction="none")
        kept = max(1, round((1.0 - self.noise_rate) * len(losses)))
        loss = losses.topk(kept, largest=False).values.mean()
        ctx.update(self.net, self.optimizer, loss)
        return StepStats(loss.detach(), {"kept": kept / len(losses)})

    @torch.no_grad()
    def predict(self, inputs):
        return self.plain.eval()(inputs)

    def relax_all(self, losses, labels):
        return None

    @property
    def parts(self):
        return {"net": (self.net, self.optimizer)}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass
