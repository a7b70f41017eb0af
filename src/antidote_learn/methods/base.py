"""The protocol of a training algorithm, and the context that the trainer lends to it.

A method has `Method.build` and `Method.step`. A method may also have ``stages(epochs)``, ``begin_stage(stage, ctx)``,
``begin_epoch(epoch, ctx)``, ``relax_all(losses, labels)`` and ``transition_estimate()``; `Hooks` says what happens
where one is missing.
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
    from antidote_learn.core.transition_matrices import TransitionEstimate

DECAY = 0.01  # the weight decay of AdamW, as torch has it by default


@dataclass(frozen=True, eq=False)
class Scores:
    """The outputs of a network in evaluation mode for every training sample, in the order of the samples.

    Attributes:
        losses: (N,) cross-entropies of the labels.
        probs: (N, K) probabilities of the classes.
        features: (N, F) inputs of the last layer; the logits, if the network is not built in.
    """

    losses: Tensor
    probs: Tensor
    features: Tensor


@dataclass(frozen=True)
class Stage:
    """A part of a training that has epochs of its own.

    Attributes:
        name: The name of the stage, for the user and for the method's ``begin_stage``.
        epochs: The number of epochs, which may be 0; those of all stages add up to the run's.
        schedule: The schedule of the learning rate over this stage, such as "cosine" or "step:3" (an epoch of the
            stage); None for the run's schedule, which counts through all stages.
        lr_scale: The factor on the learning rate.
    """

    name: str
    epochs: int
    schedule: str | None = None
    lr_scale: float = 1.0


@dataclass(frozen=True, eq=False)
class StepStats:
    """The figures of a step over the whole batch; tensors are read once an epoch, so that no step waits for a device.

    Attributes:
        loss: The value of the objective.
        numbers: Further figures, which are averaged over the epoch's steps.
    """

    loss: Tensor
    numbers: Mapping[str, Any]


class Objective(Protocol):
    """The objective that one network is trained on; an ``nn.Module`` has the last four of these functions.

    One that takes no weights of samples says ``takes_weights = False``.
    """

    def batch_loss(self, logits: Tensor, labels: Tensor, visit: Visit) -> Tensor:
        """The objective of the global batch, from (B, K) logits and (B,) labels or (B, K) probabilities.

        The gradient of the result, averaged over processes, is that of the global objective.
        """
        ...

    def figures(self) -> Mapping[str, Any]:
        """The figures of the last batch for the epoch's record, such as its temperature or its forgotten share."""
        ...

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed | None:
        """The weights of all training samples, from their losses (N,); None where none is reweighted."""
        ...

    def to(self, device: torch.device, /) -> Any:
        """Moves the state of the objective to a device."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters that the objective itself learns."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The state of the objective."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Puts the result of `state_dict` back."""
        ...


class Stateful(Protocol):
    """An object with a state to save and restore: an objective, a module, a running mean."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """The state to save."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> Any:
        """Puts the result of `state_dict` back."""
        ...


class Context(Protocol):
    """The context that the trainer lends to a method.

    A method asks for all networks, optimisers, buffers and kept objects in `Method.build`. A stage changes their
    values, and adds or removes none. The trainer saves and restores all of them.

    Attributes:
        processes: The number of processes that train together.
        classes: K, the number of classes.
        samples: N, the number of samples in the whole training set.
        epochs: The number of epochs over all stages.
        epoch: The present epoch, from 0.
        progress: The fraction of the training that is done, before the present step.
        labels: (N,) labels of the training set, on the host.
        device: The device of the networks.
        generator: The generator of draws on the host, the same in all processes: a function of the seed and the step.
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
        """The generator of the present step."""
        ...

    def network(self, role: str = "net") -> nn.Module:
        """A new network; networks of different roles have different weights."""
        ...

    def copy_network(self, net: nn.Module, role: str) -> nn.Module:
        """A copy of a network, which no optimiser trains: for averaged weights."""
        ...

    def renew(self, net: nn.Module) -> None:
        """Gives a network new weights, and clears its optimisers' memory, as at the start of a training."""
        ...

    def optimizer(
        self, of: nn.Module | Sequence[nn.Parameter], *, lr: float | None = None, weight_decay: float = DECAY
    ) -> Optimizer:
        """The run's optimiser of a network, on the run's schedule; with ``lr``, AdamW at that constant rate.

        ``weight_decay`` is that of AdamW; the run's optimiser has the run's own.
        """
        ...

    def buffer(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor on the device that is saved with the networks; change it in place."""
        ...

    def keep(self, name: str, thing: Stateful) -> None:
        """Saves and restores an object that has a state of its own."""
        ...

    def predict_with(self, *nets: nn.Module, combine: Literal["logits", "probabilities"] = "probabilities") -> None:
        """Declares the networks that are the model, which is saved, loaded and scored; by default the first network.

        Several networks predict with the mean of their logits or of their probabilities.
        """
        ...

    def update(self, loss: Tensor, *optimizers: Optimizer) -> None:
        """Takes one step of each optimiser down the gradient of a loss, with the run's clipping."""
        ...

    def mean(self, losses: Tensor, batch: Batch) -> Tensor:
        """The mean over the whole batch, from each process's own losses (B,); it is to be minimised.

        Every process gets its own share, scaled so that gradients are right after averaging over processes.
        """
        ...

    def gather(self, rows: Tensor, batch: Batch) -> Tensor:
        """The rows of the whole batch, in order and without gradients, from each process's own rows (B, ...)."""
        ...

    def own_rows(self, rows: Tensor, batch: Batch) -> Tensor:
        """This process's own rows (B, ...) among the rows of the whole batch: the inverse of `gather`."""
        ...

    def score(self, net: nn.Module, *, view: str = "plain") -> Scores:
        """The scores of the whole training set by a network; a "weak" view is drawn anew at every call."""
        ...


class Method(Protocol):
    """A training algorithm."""

    def build(self, ctx: Context) -> None:
        """Asks for all networks, optimisers and buffers that any stage needs; called once, also when a run resumes."""
        ...

    def step(self, batch: Batch, ctx: Context) -> StepStats:
        """Trains on one batch, or on one batch of each stream."""
        ...


class Hooks:
    """The optional functions of a method, with a default for each."""

    def __init__(self, method: Method) -> None:
        self.method: Any = method

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """The stages of a training; a single stage if the method names none."""
        if not hasattr(self.method, "stages"):
            return (Stage("training", epochs),)
        stages = tuple(self.method.stages(epochs))
        total = sum(stage.epochs for stage in stages)
        if total != epochs or any(stage.epochs < 0 for stage in stages):
            lengths = ", ".join(f"{stage.name} {stage.epochs}" for stage in stages)
            raise ValueError(f"the stages of a method must add up to {epochs} epochs; received {lengths}")
        return stages

    def begin_stage(self, stage: Stage, ctx: Context) -> None:
        """Lets the method act before a stage's first epoch: estimate from the training so far, or renew weights."""
        if hasattr(self.method, "begin_stage"):
            self.method.begin_stage(stage, ctx)

    def begin_epoch(self, epoch: int, ctx: Context) -> EpochPlan:
        """The plan of an epoch, made before it begins; all samples if the method makes no plan."""
        plan: EpochPlan = self.method.begin_epoch(epoch, ctx) if hasattr(self.method, "begin_epoch") else EpochPlan()
        return plan

    def relax_all(self, losses: Tensor, labels: Tensor) -> Relaxed | Tensor | None:
        """The weights of all training samples at the end, from their losses (N,); None where none is reweighted.

        They are a relaxation, or plain weights (N,) with mean 1, of which those that are 0 are forgotten.
        """
        if not hasattr(self.method, "relax_all"):
            return None
        solved: Relaxed | Tensor | None = self.method.relax_all(losses, labels)
        return solved

    def transition_estimate(self) -> TransitionEstimate | None:
        """The transition matrix that the method ended with; asked for in the first process, after the training."""
        if not hasattr(self.method, "transition_estimate"):
            return None
        found: TransitionEstimate | None = self.method.transition_estimate()
        return found
