"""Three trainings judge every row: two on halves predict the other half, one on all rows predicts before it learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from antidote_learn._types import Batch, Relaxed
from antidote_learn.core.beliefs import Beliefs, MeanBeliefs
from antidote_learn.methods.base import Context, Method, StepStats
from antidote_learn.methods.one_network import OneNetwork
from antidote_learn.nn.dataset import DatasetAntidoteLoss
from antidote_learn.training.estimation import add_judgement, restore_mean
from antidote_learn.training.loop import Progress, Trainer, Training
from antidote_learn.training.schedules import parse_schedule

EPOCHS = 10  # the default epochs of each training
LAST = 0.8  # the share of the epochs after which the learning rate falls to a tenth
BATCHES = 7  # batches in an epoch, within the limits of the batch size, so that few rows give enough steps
SMALLEST_BATCH, LARGEST_BATCH = 16, 128  # limits of the batch size; 128 is the usual batch size of a run
HALVES, WHOLE = (4, 5), 6  # numbers of the trainings, which seed them; the noise rate and runs have others


@dataclass(frozen=True, eq=False)
class Evidence:
    """Predictions for each row, in the mean over epochs.

    Attributes:
        held_out: The predictions of a network that never saw the row.
        in_training: The predictions of a network that trains on all rows, each made before it learns from the row.
    """

    held_out: Beliefs
    in_training: Beliefs


def judging_batch_size(rows: int) -> int:
    """Returns the batch size of the short trainings."""
    return min(max(rows // BATCHES, SMALLEST_BATCH), LARGEST_BATCH)


def robust_method(rate: float, trainer: Trainer) -> OneNetwork:
    """Returns the method that trains the networks of an audit, at an estimated share of wrong labels."""
    return OneNetwork(DatasetAntidoteLoss(trainer.samples, noise_rate=rate))


def collect_evidence(trainer: Trainer, folder: Path, *, rate: float, epochs: int) -> Evidence:
    """Trains the three networks, starting from the checkpoints in the folder."""
    held_out = predict_halves(trainer, folder, rate=rate, epochs=epochs)
    said = RecordingMethod(robust_method(rate, trainer), trainer.data.labels, trainer.classes)
    trainer.fit(_stage("all rows", WHOLE, np.arange(trainer.samples), epochs, folder), said)
    return Evidence(held_out, said.beliefs.mean)


def predict_halves(trainer: Trainer, folder: Path, *, rate: float, epochs: int) -> Beliefs:
    """Trains two networks robustly, one on each half of the rows, and returns what each says of the other half."""
    count = trainer.samples
    index = np.random.default_rng([trainer.settings.seed, 5]).permutation(count)
    first, second = index[: count // 2], index[count // 2 :]
    held_out = Beliefs.blank(count, trainer.classes)
    for number, (own, other) in enumerate(((second, first), (first, second))):
        stage = _stage(f"held-out predictions, half {number + 1} of 2", HALVES[number], own, epochs, folder)
        found = _predict_other_half(trainer, robust_method(rate, trainer), stage, other)
        held_out.classes[other], held_out.probs[other] = found.classes, found.probs
    return held_out


def _stage(name: str, number: int, index: NDArray[np.int64], epochs: int, folder: Path) -> Training:
    factor = parse_schedule(f"step:{LAST}", epochs=1)
    return Training(name, number, index, epochs, factor, folder / "checkpoint" / f"stage{number}.safetensors")


def _predict_other_half(trainer: Trainer, method: Method, stage: Training, other: NDArray[np.int64]) -> Beliefs:
    """Trains on a stage's rows, and returns the mean over epochs of the predictions for other rows."""
    mean = MeanBeliefs(trainer.data.labels[other], trainer.classes)

    def judge(progress: Progress, record: dict[str, Any]) -> None:
        add_judgement(trainer, other, mean, progress)

    restore_mean(mean, trainer.fit(stage, method, judge))
    return mean.mean


class RecordingMethod:
    """A method that also keeps the mean of its network's predictions for each row in training.

    Args:
        method: A method with one network.
        labels: (N,) given labels.
        classes: K, the number of classes.
    """

    def __init__(self, method: OneNetwork, labels: NDArray[np.int64], classes: int) -> None:
        self.method, self.beliefs = method, MeanBeliefs(labels, classes)
        self.logits = torch.empty(0)

    def build(self, ctx: Context) -> None:
        """Builds the network, and listens to its outputs."""
        self.method.build(ctx)
        ctx.keep("said", self)
        self.hearing = self.method.net.register_forward_hook(self._hear)

    def _hear(self, net: nn.Module, inputs: Any, logits: Tensor) -> None:
        self.logits = logits.detach()

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Takes the method's step, and keeps the predictions from before it."""
        stats = self.method.step(batch, ctx)
        self.beliefs.add(batch.index.numpy(), self.logits.float().softmax(dim=1).cpu().numpy())
        return stats

    def relax_all(self, losses: Tensor, labels: Tensor) -> Relaxed | None:
        """Returns the method's own relaxation."""
        return self.method.relax_all(losses, labels)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the predictions so far."""
        return {key: torch.from_numpy(array) for key, array in self.beliefs.state().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Puts the predictions of `state_dict` back."""
        self.beliefs.restore({key: tensor.numpy() for key, tensor in state.items()})
