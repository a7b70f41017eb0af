"""The context that the trainer lends to a method, and saves: networks, optimisers, buffers (`methods.base.Context`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from antidote_learn._types import Batch
from antidote_learn.data.batching import rank_slice
from antidote_learn.data.prepared import Prepared
from antidote_learn.data.streams import VIEWS
from antidote_learn.methods.base import DECAY, Scores, Stateful
from antidote_learn.models import Model, build_model
from antidote_learn.models.ensembles import Ensemble
from antidote_learn.presets.protocols import TrainingSettings
from antidote_learn.training.checkpoint import optimizer_tensors, restore_network, restore_optimizer
from antidote_learn.training.engine import Engine, plain_network
from antidote_learn.training.evaluate import score_samples


class TrainingContext:
    """The context of one training: `methods.base.Context` says what each function does.

    Args:
        engine: Devices and processes.
        data: The training set.
        settings: The settings of the training.
        network: The network to build.
        workers: The number of threads that decode image files.
        number: The number of the training in its run; another number gives other weights.
        epochs: The number of epochs over all stages.
    """

    def __init__(
        self,
        engine: Engine,
        data: Prepared,
        settings: TrainingSettings,
        *,
        network: Model,
        workers: int,
        number: int,
        epochs: int,
    ) -> None:
        self._engine, self._data, self._settings, self._number = engine, data, settings, number
        self._network, self._workers = network, workers
        self.processes, self.device = engine.processes, engine.device
        self.classes, self.samples, self.epochs = len(data.classes), len(data.labels), epochs
        self.labels = torch.from_numpy(data.labels)
        self.epoch, self.progress = 0, 0.0
        self.networks: dict[str, nn.Module] = {}
        self.optimizers: dict[str, Optimizer] = {}
        self.things: dict[str, Stateful] = {}
        self._scheduled: dict[Optimizer, nn.Module] = {}
        self._model: nn.Module | None = None
        self._seed, self._generator, self._looks = 0, torch.Generator(), 0
        self.set_seed(0)

    # --- functions that a method calls in `build` --------------------------------------------------------------------

    def network(self, role: str = "net") -> nn.Module:
        """Adds a network, whose weights follow from the seed, the training and the number of earlier networks."""
        seed = np.random.default_rng([self._settings.seed, self._number, len(self.networks), 3]).integers(2**62)
        net = self._engine.setup_network(self._build(int(seed)))
        return self._add_network(role, net)

    def copy_network(self, net: nn.Module, role: str) -> nn.Module:
        """Adds a copy of a network, which no optimiser trains."""
        copy = self._build(0).to(self.device).requires_grad_(False)
        copy.load_state_dict(plain_network(net).state_dict())
        return self._add_network(role, copy)

    def optimizer(
        self, of: nn.Module | Sequence[nn.Parameter], *, lr: float | None = None, weight_decay: float = DECAY
    ) -> Optimizer:
        """Adds an optimiser: the run's, on the run's schedule, or AdamW at a constant rate."""
        parameters = list(of.parameters()) if isinstance(of, nn.Module) else list(of)
        if lr is None:
            own = _run_optimizer(parameters, self._settings, self.device)
        else:
            own = AdamW(parameters, lr=lr, weight_decay=weight_decay)
        optimizer = self._engine.setup_optimizer(own)
        roles = [role for role, net in self.networks.items() if net is of and role not in self.optimizers]
        self.optimizers[roles[0] if roles and lr is None else f"optimizer{len(self.optimizers)}"] = optimizer
        if lr is None and isinstance(of, nn.Module):
            self._scheduled[optimizer] = of
        return optimizer

    def buffer(self, name: str, tensor: Tensor) -> Tensor:
        """Adds a tensor that is saved."""
        kept = _Kept(tensor.to(self.device))
        self.keep(name, kept)
        return kept.tensor

    def keep(self, name: str, thing: Stateful) -> None:
        """Adds an object whose state is saved."""
        if name in self.things or name in self.networks:
            raise ValueError(f"there is a {name!r} already: choose another name")
        self.things[name] = thing

    def predict_with(self, *nets: nn.Module, combine: Literal["logits", "probabilities"] = "probabilities") -> None:
        """Declares the networks that are the model."""
        plain = [plain_network(net) for net in nets]
        self._model = plain[0] if len(plain) == 1 else Ensemble(plain, combine=combine)

    def renew(self, net: nn.Module) -> None:
        """Gives a network new weights, which follow from the seed, the network's place and the epoch."""
        place = list(self.networks.values()).index(net)
        words = [self._settings.seed, self._number, place, self.epoch, 4]
        fresh = self._build(int(np.random.default_rng(words).integers(2**62)))
        plain_network(net).load_state_dict(fresh.state_dict())
        own = {id(parameter) for parameter in net.parameters()}
        for optimizer in self.optimizers.values():
            for parameter in [p for p in optimizer.state if id(p) in own]:
                del optimizer.state[parameter]

    # --- functions that a method calls in a step ---------------------------------------------------------------------

    @property
    def generator(self) -> torch.Generator:
        """The generator of the present step."""
        return self._generator

    def update(self, loss: Tensor, *optimizers: Optimizer) -> None:
        """Takes one step of each optimiser; gradients of parameters outside networks are averaged over processes."""
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        self._engine.backward(loss)
        for optimizer in optimizers:
            net = self._scheduled.get(optimizer)
            if net is None:
                self._engine.average_gradients(optimizer)
            elif self._settings.clip > 0.0:
                self._engine.clip(net, optimizer, self._settings.clip)
            optimizer.step()

    def mean(self, losses: Tensor, batch: Batch) -> Tensor:
        """The share of this process in the mean over the whole batch."""
        return losses.sum() * (self.processes / max(batch.total, 1))

    def gather(self, rows: Tensor, batch: Batch) -> Tensor:
        """The rows of the whole batch, in order, without gradients."""
        parts = [self._part(batch, rank) for rank in range(self.processes)]
        return self._engine.gather(rows.detach(), [part.stop - part.start for part in parts])

    def own_rows(self, rows: Tensor, batch: Batch) -> Tensor:
        """This process's own rows among those of the whole batch."""
        return rows[self._part(batch, self._engine.rank)]

    def score(self, net: nn.Module, *, view: str = "plain") -> Scores:
        """Scores the whole training set, and leaves the network in the mode that it was in."""
        if view not in VIEWS:
            raise ValueError(f"a view is one of {', '.join(VIEWS)}; received {view!r}")
        self._looks += 1
        words = np.random.SeedSequence((self._seed, self._looks)).generate_state(1, np.uint64)
        seed = None if view == "plain" else int(words[0]) >> 2
        was_training = net.training
        try:
            return score_samples(plain_network(net), self._data, self._engine, workers=self._workers, seed=seed)
        finally:
            net.train(was_training)

    # --- functions that the loop calls -------------------------------------------------------------------------------

    @property
    def model(self) -> nn.Module:
        """The network that predicts: the one that the method declared, or the first one."""
        return plain_network(next(iter(self.networks.values()))) if self._model is None else self._model

    def set_seed(self, seed: int) -> None:
        """Seeds everything that is drawn from now on."""
        self._seed, self._looks = seed, 0
        self._generator.manual_seed(seed)

    def set_rate(self, rate: float) -> None:
        """Sets the learning rate of the optimisers on the schedule; other optimisers keep their own rate."""
        for optimizer in self._scheduled:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def start_epoch(self, epoch: int) -> None:
        """Begins an epoch: networks are in training mode, copies in evaluation mode."""
        self.epoch = epoch
        trained = {id(net) for net in self._scheduled.values()}
        for net in self.networks.values():
            net.train(id(net) in trained)

    def align(self) -> None:
        """Gives every process the running means of the first one."""
        for net in self.networks.values():
            self._engine.align(plain_network(net))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors, and the numbers of the optimisers, for a checkpoint."""
        tensors, numbers = dict[str, Tensor](), dict[str, Any]()
        for name, thing in self.things.items():
            tensors |= {f"{name}.{key}": value for key, value in thing.state_dict().items()}
        for role, net in self.networks.items():
            tensors |= {f"{role}.net.{key}": value for key, value in plain_network(net).state_dict().items()}
        for name, optimizer in self.optimizers.items():
            found, numbers[name] = optimizer_tensors(optimizer, f"{name}.optimizer.")
            tensors |= found
        return tensors, numbers

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any], source: Path) -> None:
        """Puts the result of `state` back."""
        for role, net in self.networks.items():
            restore_network(plain_network(net), tensors, f"{role}.net.", source)
        for name, optimizer in self.optimizers.items():
            restore_optimizer(optimizer, tensors, numbers[name], f"{name}.optimizer.")
        for name, thing in self.things.items():
            thing.load_state_dict(tensors_under(f"{name}.", tensors))

    def _part(self, batch: Batch, rank: int) -> slice:
        """The rows of the whole batch that a process has."""
        return rank_slice(np.arange(batch.total), rank, self.processes)

    def _build(self, seed: int) -> nn.Module:
        net = build_model(self._network, shape=self._data.encoding.shape, classes=self.classes, seed=seed)
        if len(self._data.encoding.shape) == 3:
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return net

    def _add_network(self, role: str, net: nn.Module) -> nn.Module:
        if role in self.networks or role in self.things:
            raise ValueError(f"there is a network {role!r} already: give each a role of its own")
        self.networks[role] = net
        return net


class _Kept:
    """A tensor with `state_dict` and `load_state_dict`."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def state_dict(self) -> dict[str, Tensor]:
        return {"tensor": self.tensor}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.tensor.copy_(state["tensor"])


def tensors_under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, by their names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _run_optimizer(parameters: list[nn.Parameter], settings: TrainingSettings, device: torch.device) -> Optimizer:
    """The optimiser that the settings name."""
    fused = device.type in ("cpu", "cuda")
    if settings.optimizer == "adamw":
        return AdamW(parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=fused)
    return SGD(
        parameters,
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
        fused=fused,
    )
