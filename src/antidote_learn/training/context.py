"""What the trainer lends to a method, and saves for it: networks, optimisers, buffers (`methods.base.Context`)."""

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
from antidote_learn.methods.base import Scores, Stateful
from antidote_learn.models import build_model
from antidote_learn.models.ensembles import Ensemble
from antidote_learn.training.checkpoint import optimizer_tensors, restore_network, restore_optimizer
from antidote_learn.training.engine import Engine, unwrapped
from antidote_learn.training.evaluate import score_samples


class TrainingContext:
    """The context of one training: `methods.base.Context` says what each function does.

    Args:
        engine: Devices and processes.
        data: The training set.
        settings: How networks are trained.
        number: Of the training: another one has other weights.
        epochs: Over all stages.
    """

    def __init__(self, engine: Engine, data: Prepared, settings: Any, *, number: int, epochs: int) -> None:
        self._engine, self._data, self._settings, self._number = engine, data, settings, number
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

    # --- what a method asks for in `build` -------------------------------------------------------------------------

    def network(self, role: str = "net") -> nn.Module:
        """A new network; its weights depend on the seed, the training and how many there are already."""
        seed = np.random.default_rng([self._settings.seed, self._number, len(self.networks), 3]).integers(2**62)
        net = self._engine.setup_network(self._build(int(seed)))
        return self._add_network(role, net)

    def copy_network(self, net: nn.Module, role: str) -> nn.Module:
        """A copy that no optimiser trains."""
        copy = self._build(0).to(self.device).requires_grad_(False)
        copy.load_state_dict(unwrapped(net).state_dict())
        return self._add_network(role, copy)

    def optimizer(self, of: nn.Module | Sequence[nn.Parameter], *, lr: float | None = None) -> Optimizer:
        """The run's optimiser, which the schedule moves; or AdamW at a rate of its own."""
        parameters = list(of.parameters()) if isinstance(of, nn.Module) else list(of)
        own = AdamW(parameters, lr=lr) if lr is not None else _run_optimizer(parameters, self._settings, self.device)
        optimizer = self._engine.setup_optimizer(own)
        roles = [role for role, net in self.networks.items() if net is of and role not in self.optimizers]
        self.optimizers[roles[0] if roles and lr is None else f"optimizer{len(self.optimizers)}"] = optimizer
        if lr is None and isinstance(of, nn.Module):
            self._scheduled[optimizer] = of
        return optimizer

    def buffer(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor that is saved."""
        kept = _Kept(tensor.to(self.device))
        self.keep(name, kept)
        return kept.tensor

    def keep(self, name: str, thing: Stateful) -> None:
        """Something with a state that is saved."""
        if name in self.things or name in self.networks:
            raise ValueError(f"there is a {name!r} already: choose another name")
        self.things[name] = thing

    def predict_with(self, *nets: nn.Module, combine: Literal["logits", "probabilities"] = "probabilities") -> None:
        """Which networks are the model."""
        plain = [unwrapped(net) for net in nets]
        self._model = plain[0] if len(plain) == 1 else Ensemble(plain, combine=combine)

    def renew(self, net: nn.Module) -> None:
        """New weights, which depend on the seed, the network's role and the epoch."""
        place = list(self.networks.values()).index(net)
        words = [self._settings.seed, self._number, place, self.epoch, 4]
        fresh = self._build(int(np.random.default_rng(words).integers(2**62)))
        unwrapped(net).load_state_dict(fresh.state_dict())
        own = {id(parameter) for parameter in net.parameters()}
        for optimizer in self.optimizers.values():
            for parameter in [p for p in optimizer.state if id(p) in own]:
                del optimizer.state[parameter]

    # --- what it uses in a step -------------------------------------------------------------------------------------

    @property
    def generator(self) -> torch.Generator:
        """Seeded for the step."""
        return self._generator

    def update(self, loss: Tensor, *optimizers: Optimizer) -> None:
        """One step of each optimiser; gradients of what is no network are averaged over processes here."""
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
        """The mean over the whole batch, this process's share of it."""
        return losses.sum() * (self.processes / max(batch.total, 1))

    def gather(self, rows: Tensor, batch: Batch) -> Tensor:
        """The rows of the whole batch."""
        whole = np.arange(batch.total)
        parts = [rank_slice(whole, rank, self.processes) for rank in range(self.processes)]
        return self._engine.gather(rows.detach(), [part.stop - part.start for part in parts])

    def score(self, net: nn.Module, *, view: str = "plain") -> Scores:
        """The whole training set; the network trains on afterwards as it did before."""
        if view not in VIEWS:
            raise ValueError(f"a view is one of {', '.join(VIEWS)}; received {view!r}")
        self._looks += 1
        words = np.random.SeedSequence((self._seed, self._looks)).generate_state(1, np.uint64)
        seed = None if view == "plain" else int(words[0]) >> 2
        was_training = net.training
        try:
            return score_samples(unwrapped(net), self._data, self._engine, workers=self._settings.workers, seed=seed)
        finally:
            net.train(was_training)

    # --- what the loop does with it -----------------------------------------------------------------------------------

    @property
    def model(self) -> nn.Module:
        """What predicts."""
        return unwrapped(next(iter(self.networks.values()))) if self._model is None else self._model

    def set_seed(self, seed: int) -> None:
        """What is drawn from now on is a function of this number."""
        self._seed, self._looks = seed, 0
        self._generator.manual_seed(seed)

    def set_rate(self, rate: float) -> None:
        """The learning rate of the networks; what has a rate of its own keeps it."""
        for optimizer in self._scheduled:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def start_epoch(self, epoch: int) -> None:
        """Networks are in training mode, but for copies."""
        self.epoch = epoch
        trained = {id(net) for net in self._scheduled.values()}
        for net in self.networks.values():
            net.train(id(net) in trained)

    def align(self) -> None:
        """Every process has the first one's running means."""
        for net in self.networks.values():
            self._engine.align(unwrapped(net))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """(tensors, numbers of the optimisers) for a checkpoint."""
        tensors, numbers = dict[str, Tensor](), dict[str, Any]()
        for name, thing in self.things.items():
            tensors |= {f"{name}.{key}": value for key, value in thing.state_dict().items()}
        for role, net in self.networks.items():
            tensors |= {f"{role}.net.{key}": value for key, value in unwrapped(net).state_dict().items()}
        for name, optimizer in self.optimizers.items():
            found, numbers[name] = optimizer_tensors(optimizer, f"{name}.optimizer.")
            tensors |= found
        return tensors, numbers

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any], source: Path) -> None:
        """Puts `state` back."""
        for role, net in self.networks.items():
            restore_network(unwrapped(net), tensors, f"{role}.net.", source)
        for name, optimizer in self.optimizers.items():
            restore_optimizer(optimizer, tensors, numbers[name], f"{name}.optimizer.")
        for name, thing in self.things.items():
            thing.load_state_dict(tensors_under(f"{name}.", tensors))

    def _build(self, seed: int) -> nn.Module:
        net = build_model(self._settings.model, shape=self._data.encoding.shape, classes=self.classes, seed=seed)
        if len(self._data.encoding.shape) == 3:
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return net

    def _add_network(self, role: str, net: nn.Module) -> nn.Module:
        if role in self.networks or role in self.things:
            raise ValueError(f"there is a network {role!r} already: give each a role of its own")
        self.networks[role] = net
        return net


class _Kept:
    """A tensor with the functions of a state."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def state_dict(self) -> dict[str, Tensor]:
        return {"tensor": self.tensor}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.tensor.copy_(state["tensor"])


def tensors_under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _run_optimizer(parameters: list[nn.Parameter], settings: Any, device: torch.device) -> Optimizer:
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
