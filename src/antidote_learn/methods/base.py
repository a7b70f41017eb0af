"""The protocol of a training algorithm, and what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from antidote_learn._types import Batch, Relaxed, Visit


@dataclass(frozen=True, eq=False)
class Scores:
    """What a network says of every training sample, in their order, in evaluation mode.

    Attributes:
        losses: (N,) cross-entropy of the given label.
        probs: (N, K).
        features: (N, F).
    """

    losses: Tensor
    probs: Tensor
    features: Tensor


@dataclass(frozen=True, eq=False)
class Plan:
    """What an epoch visits: the samples' positions, or None for all."""

    index: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class StepStats:
    """What a step reports, over the whole batch; tensors are read once an epoch, so that no step waits for a device.

    Attributes:
        loss: The objective.
        numbers: Further figures, averaged over the epoch's steps.
    """

    loss: Tensor
    numbers: Mapping[str, Any]


class Objective(Protocol):
    """What one network is trained on. Nobody asks which one it is; the methods of ``nn.Module`` give its state."""

    def batch_loss(self, logits: Tensor, labels: Tensor, visit: Visit) -> Tensor:
        """The objective of the global batch, from (B, K) logits and (B,) labels or (B, K) probabilities.

        Its gradient, averaged over processes, is that of the global objective.
        """
        ...

    def figures(self) -> Mapping[str, Any]:
        """Of the last batch, for the epoch's record: its temperature, the share that was forgotten."""
        ...

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed | None:
        """The weights of all training samples, from their losses (N,); None where none is reweighted."""
        ...

    def to(self, device: torch.device, /) -> Any:
        """Takes what it remembers to a device."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """What it learns itself."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What it remembers."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Puts `state_dict` back."""
        ...


class Context(Protocol):
    """What the trainer lends to a method."""

    processes: int
    classes: int
    samples: int
    progress: float  # the fraction of the training that is done, before the present step

    def network(self) -> tuple[nn.Module, Optimizer]:
        """A new network with its optimiser, on the device; further calls give networks with other weights."""
        ...

    def optimizer(self, parameters: Sequence[nn.Parameter], *, lr: float) -> Optimizer:
        """An optimiser of further parameters, with a learning rate of its own that no schedule changes."""
        ...

    def plain(self, net: nn.Module) -> nn.Module:
        """The network itself, without what keeps processes in step: to predict with."""
        ...

    def update(self, net: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
        """One optimiser step down the gradient of a loss, with the run's clipping."""
        ...

    def score(self, net: nn.Module) -> Scores:
        """The network's view of the whole training set."""
        ...


class Method(Protocol):
    """A training algorithm. The loop calls `build` once, and `load_state_dict` where it resumes."""

    def build(self, ctx: Context) -> None:
        """Makes networks and state."""
        ...

    def begin_epoch(self, epoch: int, ctx: Context) -> Plan:
        """Called before every epoch, from 0 on."""
        ...

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on one batch."""
        ...

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, K), in evaluation mode and without gradients."""
        ...

    def relax_all(self, losses: Tensor, labels: Tensor) -> Relaxed | None:
        """The weights of all training samples at the end, from their losses (N,); None where none is reweighted."""
        ...

    @property
    def parts(self) -> Mapping[str, tuple[nn.Module, Optimizer]]:
        """Networks and their optimisers by name; the first is the one to keep as the model."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """State beyond `parts`."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Puts `state_dict` back."""
        ...
