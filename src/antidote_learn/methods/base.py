"""The protocol of a training algorithm, and what the trainer lends to it.

A method has `Method.build` and `Method.step`. It may have any of four more functions, which the trainer looks for:
``stages(epochs)``, ``begin_stage(stage, ctx)``, ``begin_epoch(epoch, ctx)`` and ``relax_all(losses, labels)``; `Hooks`
says what each does where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from antidote_learn.data.streams import EpochPlan as EpochPlan
from antidote_learn.data.streams import Stream as Stream

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from antidote_learn._types import Batch, Relaxed, Visit


@dataclass(frozen=True, eq=False)
class Scores:
    """What a network says of every training sample, in their order, in evaluation mode.

    Attributes:
        losses: (N,) cross-entropy of the given label.
        probs: (N, K).
        features: (N, F) the input of the last layer; of a network that is not built in, its logits.
    """

    losses: Tensor
    probs: Tensor
    features: Tensor


@dataclass(frozen=True)
class Stage:
    """A part of a training that has epochs of its own.

    Attributes:
        name: For the user, and for `Method`'s own ``begin_stage``.
        epochs: How many; 0 is allowed. Those of all stages add up to the run's.
        schedule: Of the learning rate over this stage, as in "cosine" or "step:3" (an epoch of the stage); None for
            the run's, which counts through all stages.
        lr_scale: A factor on the learning rate.
    """

    name: str
    epochs: int
    schedule: str | None = None
    lr_scale: float = 1.0


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


class Stateful(Protocol):
    """Whatever has a state to be saved and put back: an objective, a module, a running mean."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """What it remembers."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> Any:
        """Puts `state_dict` back."""
        ...


class Context(Protocol):
    """What the trainer lends to a method.

    Networks, optimisers, buffers and whatever is kept are asked for in `Method.build` and exist from then on: a stage
    changes their values, never which there are. The trainer saves and restores all of them.

    Attributes:
        processes: How many processes train together.
        classes: K.
        samples: N, in the whole training set.
        epochs: Of the training, over all stages.
        epoch: The present one, from 0.
        progress: The fraction of the training that is done, before the present step.
        labels: (N,) as given, on the host.
        device: Where networks compute.
        generator: Draws on the host; the same in all processes, and a function of the seed and the step.
    """

    processes: int
    classes: int
    samples: int
    epochs: int
    epoch: int
    progress: float
    labels: Tensor
    device: torch.device

    @property
    def generator(self) -> torch.Generator:
        """See the attributes."""
        ...

    def network(self, role: str = "net") -> nn.Module:
        """A new network; those of different roles have different weights."""
        ...

    def copy_network(self, net: nn.Module, role: str) -> nn.Module:
        """A network with the same weights that no optimiser trains: for averaged weights."""
        ...

    def renew(self, net: nn.Module) -> None:
        """Gives a network new weights, and its optimisers no memory, as at the start of a training."""
        ...

    def optimizer(self, of: nn.Module | Sequence[nn.Parameter], *, lr: float | None = None) -> Optimizer:
        """The run's optimiser of a network, on the run's schedule; with ``lr``, AdamW at that constant rate."""
        ...

    def buffer(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor on the device that is saved with the networks; change it in place."""
        ...

    def keep(self, name: str, thing: Stateful) -> None:
        """Saves and restores what has a state of its own."""
        ...

    def predict_with(self, *nets: nn.Module, combine: Literal["logits", "probabilities"] = "probabilities") -> None:
        """Says which networks are the model: saved, loaded, scored and reported; without it the first one is.

        Of several, the mean of their logits or of their probabilities counts.
        """
        ...

    def update(self, loss: Tensor, *optimizers: Optimizer) -> None:
        """One step of each optimiser down the gradient of a loss, with the run's clipping."""
        ...

    def mean(self, losses: Tensor, batch: Batch) -> Tensor:
        """The mean over the whole batch, from each process's own (B,); to be minimised.

        Every process gives its own share of it, scaled so that gradients are right after averaging over processes.
        """
        ...

    def gather(self, rows: Tensor, batch: Batch) -> Tensor:
        """The rows of the whole batch, in order, from each process's own (B, ...); without gradients."""
        ...

    def score(self, net: nn.Module, *, view: str = "plain") -> Scores:
        """A network's view of the whole training set; a "weak" view is drawn anew at every call."""
        ...


class Method(Protocol):
    """A training algorithm."""

    def build(self, ctx: Context) -> None:
        """Asks for all networks, optimisers and buffers that any stage needs. Called once, also where a run resumes."""
        ...

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on one batch, or on one batch of each stream."""
        ...


class Hooks:
    """The functions that a method may have, and what happens where it does not have them."""

    def __init__(self, method: Method) -> None:
        self.method: Any = method

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """The stages of a training of so many epochs: one, where the method does not say."""
        if not hasattr(self.method, "stages"):
            return (Stage("training", epochs),)
        stages = tuple(self.method.stages(epochs))
        total = sum(stage.epochs for stage in stages)
        if total != epochs or any(stage.epochs < 0 for stage in stages):
            lengths = ", ".join(f"{stage.name} {stage.epochs}" for stage in stages)
            raise ValueError(f"the stages of a method must add up to {epochs} epochs; received {lengths}")
        return stages

    def begin_stage(self, stage: Stage, ctx: Context) -> None:
        """Before a stage's first epoch: an estimate from what was trained so far, new weights."""
        if hasattr(self.method, "begin_stage"):
            self.method.begin_stage(stage, ctx)

    def begin_epoch(self, epoch: int, ctx: Context) -> EpochPlan:
        """Before every epoch, from 0 on: what it visits; all samples where the method does not say."""
        plan: EpochPlan = self.method.begin_epoch(epoch, ctx) if hasattr(self.method, "begin_epoch") else EpochPlan()
        return plan

    def relax_all(self, losses: Tensor, labels: Tensor) -> Relaxed | None:
        """The weights of all training samples at the end, from their losses (N,); None where none is reweighted."""
        if not hasattr(self.method, "relax_all"):
            return None
        solved: Relaxed | None = self.method.relax_all(losses, labels)
        return solved
