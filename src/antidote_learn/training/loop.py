"""The training loop: stages of epochs of steps, each a function of the seed, so that a killed run can be continued."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from antidote_learn._types import Batch
from antidote_learn.data.augment import Part
from antidote_learn.data.loaders import in_batches, part_of, read_ahead, shuffled
from antidote_learn.data.prepared import Prepared
from antidote_learn.methods.base import Method, Scores, StepStats
from antidote_learn.models import build_model, features_and_head
from antidote_learn.training.checkpoint import (
    damage_told,
    optimizer_tensors,
    read_tensors,
    restore_network,
    restore_optimizer,
    write_tensors,
)
from antidote_learn.training.engine import Engine, RunFailed, unwrapped
from antidote_learn.training.evaluate import outputs
from antidote_learn.training.interrupts import Interrupted, interrupted
from antidote_learn.training.progress import Reporter
from antidote_learn.training.schedules import learning_rate

SAVE_SECONDS = 5.0  # a checkpoint is written no more often than this,
SAVE_SHARE = 0.02  # and takes no more of the time than this


@dataclass(frozen=True)
class Settings:
    """How networks are trained, in every stage."""

    model: Any
    optimizer: str
    lr: float
    momentum: float
    nesterov: bool
    weight_decay: float
    clip: float
    batch_size: int
    warmup: float
    seed: int
    workers: int


@dataclass(frozen=True, eq=False)
class Stage:
    """A training from new weights.

    Attributes:
        name: For the user.
        number: Of the stage: another one has other weights and orders.
        index: (n,) positions of its samples in the training set.
        epochs: How many.
        factor: The schedule.
        checkpoint: Where its state lies.
    """

    name: str
    number: int
    index: NDArray[np.int64]
    epochs: int
    factor: Callable[[float], float]
    checkpoint: Path


@dataclass
class Progress:
    """How far a stage is: all that its checkpoint holds beside tensors of the method."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    sums: dict[str, Any] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Tensor] = field(default_factory=dict)
    plan: Tensor | None = None


class Trainer:
    """The context that methods see (`methods.base.Context`), and the loop around them."""

    def __init__(self, engine: Engine, data: Prepared, settings: Settings, reporter: Reporter) -> None:
        self.engine, self.data, self.settings, self.reporter = engine, data, settings, reporter
        self.processes, self.classes, self.samples = engine.processes, len(data.classes), len(data.labels)
        self.progress = 0.0
        self._labels = torch.from_numpy(data.labels)
        self._stage, self._networks, self._next_save = 0, 0, 0.0
        self._scheduled: list[Optimizer] = []

    def network(self) -> tuple[nn.Module, Optimizer]:
        """A new network and its optimiser; the weights depend on the seed, the stage and the number of the call."""
        seed = int(np.random.default_rng([self.settings.seed, self._stage, self._networks, 3]).integers(2**62))
        self._networks += 1
        net = build_model(self.settings.model, shape=self.data.encoding.shape, classes=self.classes, seed=seed)
        if len(self.data.encoding.shape) == 3:
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        net, optimizer = self.engine.setup(net, _optimizer(net, self.settings, self.engine))
        self._scheduled.append(optimizer)
        return net, optimizer

    def optimizer(self, parameters: Sequence[nn.Parameter], *, lr: float) -> Optimizer:
        """AdamW with its own rate."""
        return AdamW(parameters, lr=lr)

    def update(self, net: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
        """One optimiser step."""
        optimizer.zero_grad(set_to_none=True)
        self.engine.backward(loss)
        if self.settings.clip > 0.0:
            self.engine.clip(net, optimizer, self.settings.clip)
        optimizer.step()

    def plain(self, net: nn.Module) -> nn.Module:
        """The network without what the engine put around it."""
        return unwrapped(net)

    def _targets(self, index: Tensor) -> Tensor:
        """The labels of some samples, or what is believed of them."""
        if self.data.soft is None:
            return self._labels[index]
        return torch.from_numpy(self.data.soft.dense(index.numpy())).float()

    def score(self, net: nn.Module) -> Scores:
        """Losses, probabilities and features of the whole training set."""
        features, head = features_and_head(unwrapped(net).eval())
        found = outputs(features, self.data.rows, self.data.preparation, self.engine, workers=self.settings.workers)
        with torch.no_grad():
            logits = head.cpu()(found)
            head.to(self.engine.device)
        return Scores(F.cross_entropy(logits, self._labels, reduction="none"), logits.softmax(dim=1), found)

    def fit(
        self,
        stage: Stage,
        method: Method,
        after_epoch: Callable[[Progress, dict[str, Any]], None],
        after_save: Callable[[Progress], None] = lambda progress: None,
    ) -> Progress:
        """Trains a stage to its end, from its checkpoint if there is one.

        Args:
            stage: What to train.
            method: How.
            after_epoch: Adds figures to an epoch's record, and tensors to `Progress.extra`.
            after_save: Called in the first process when a checkpoint was written.

        Raises:
            Interrupted: The user stopped it; the checkpoint holds all of it.
            RunFailed: The loss is no longer finite.
        """
        self._stage, self._networks, self._scheduled = stage.number, 0, []
        method.build(self)
        progress = self._restored(stage, method)
        self.reporter.stage(stage.name, epochs=stage.epochs, done=progress.epoch)
        self._next_save = time.perf_counter() + SAVE_SECONDS

        def save() -> None:
            self._save(stage, method, progress, after_save)

        while progress.epoch < stage.epochs:
            self._epoch(stage, method, progress, save)
            after_epoch(progress, progress.records[-1])
            if progress.epoch == stage.epochs or self.engine.largest(self._asked()):
                save()
            self.reporter.epoch(progress.records[-1])
        return progress

    def _asked(self) -> int:
        """2 if the user asked to stop, 1 if a checkpoint is due, else 0."""
        return 2 if interrupted() else int(time.perf_counter() >= self._next_save)

    def _epoch(self, stage: Stage, method: Method, progress: Progress, save: Callable[[], None]) -> None:
        """One epoch, or what is left of it."""
        if progress.step == 0:
            index = method.begin_epoch(progress.epoch, self).index
            progress.plan = None if index is None else torch.from_numpy(index)
        clock = time.perf_counter() - progress.seconds
        for batch, seen, total in self._batches(stage, method, progress):
            stats = self._step(method, batch, progress.epoch)
            _add(progress.sums, batch.total, {"loss": stats.loss, **stats.numbers})
            progress.step += 1
            progress.seconds = time.perf_counter() - clock
            self.reporter.step(epoch=progress.epoch, samples=seen, total=total)
            asked = self.engine.largest(self._asked())
            if asked:
                save()
            if asked > 1:
                raise Interrupted
        progress.records.append(self._record(stage, progress))
        progress.epoch, progress.step, progress.seconds = progress.epoch + 1, 0, 0.0
        progress.sums, progress.plan = {}, None
        self.engine.align(unwrapped(next(iter(method.parts.values()))[0]))

    def _step(self, method: Method, batch: Batch, epoch: int) -> StepStats:
        try:
            return method.step(batch, self)
        except ValueError as error:  # an objective that refuses losses which are not numbers
            raise RunFailed(f"epoch {epoch + 1}: {error} (a lower --lr may help)") from error

    def _batches(self, stage: Stage, method: Method, progress: Progress) -> Iterator[tuple[Batch, int, int]]:
        """(batch, samples seen with it, samples of the epoch) from where the epoch stands."""
        settings, engine, epoch = self.settings, self.engine, progress.epoch
        visited = stage.index if progress.plan is None else stage.index[progress.plan.numpy()]
        order = visited[shuffled(len(visited), seed=_seeds(1, settings.seed, stage.number)[0], epoch=epoch)]
        batches = in_batches(order, batch_size=settings.batch_size, processes=engine.processes)
        parts = [part_of(batch, engine.rank, engine.processes) for batch in batches]
        first = progress.step
        mine = [batch[part] for batch, part in zip(batches, parts, strict=True)]
        seen = sum(len(batch) for batch in batches[:first])
        seeds = _seeds(len(batches), settings.seed, stage.number, epoch)
        draws = torch.Generator()
        for step, raw in enumerate(read_ahead(self.data.rows, mine[first:], workers=settings.workers), start=first):
            draws.manual_seed(seeds[step])
            engine.seed(seeds[step])
            self.progress = (epoch + step / len(batches)) / stage.epochs
            self._set_rate(stage, epoch, step / len(batches))
            seen += len(batches[step])
            index = torch.from_numpy(mine[step])
            part = Part(parts[step].start, len(batches[step]))
            inputs = self.data.preparation(raw.to(engine.device), draws, part)
            yield Batch(inputs, self._targets(index).to(engine.device), index, len(batches[step])), seen, len(order)

    def _set_rate(self, stage: Stage, epoch: int, within: float) -> None:
        """The learning rate of the networks; what has a rate of its own keeps it."""
        rate = learning_rate(
            self.settings.lr,
            stage.factor,
            epoch=epoch,
            within=within,
            epochs=stage.epochs,
            warmup=self.settings.warmup,
        )
        for optimizer in self._scheduled:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def _record(self, stage: Stage, progress: Progress) -> dict[str, Any]:
        figures = self._averaged(progress.sums)
        weight = figures.pop("samples")
        figures = {name: value / weight for name, value in figures.items()}
        if not math.isfinite(figures["loss"]):
            raise RunFailed(
                f"the loss is {figures['loss']} in epoch {progress.epoch + 1}: lower --lr, or look at the inputs"
            )
        rate = learning_rate(
            self.settings.lr,
            stage.factor,
            epoch=progress.epoch,
            within=0.0,
            epochs=stage.epochs,
            warmup=0.0,
        )
        finite = {name: value for name, value in figures.items() if math.isfinite(value)}  # JSON has no infinity
        return {"epoch": progress.epoch + 1, "lr": rate, **finite, "seconds": progress.seconds}

    def _averaged(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """Sums of the whole batches: a process may know its own samples' share only, scaled to be right on average."""
        numbers = [float(value) for value in sums.values()]
        if self.processes > 1:
            total = self.engine.total(torch.tensor(numbers, dtype=torch.float64, device=self.engine.device))
            numbers = (total / self.processes).tolist()
        return dict(zip(sums, numbers, strict=True))

    def _save(self, stage: Stage, method: Method, progress: Progress, after_save: Callable[[Progress], None]) -> None:
        """Writes the checkpoint, in the first process; the others wait for it."""
        start = time.perf_counter()
        progress.sums = self._averaged(progress.sums)
        if self.engine.rank == 0:
            write_tensors(stage.checkpoint, *_state(method, progress))
            after_save(progress)
        self.engine.barrier()
        now = time.perf_counter()
        self._next_save = now + max(SAVE_SECONDS, (now - start) / SAVE_SHARE)

    def _restored(self, stage: Stage, method: Method) -> Progress:
        if not stage.checkpoint.exists():
            return Progress()
        tensors, state = read_tensors(stage.checkpoint)
        with damage_told(stage.checkpoint):
            for name, (net, optimizer) in method.parts.items():
                restore_network(unwrapped(net), tensors, f"{name}.net.", stage.checkpoint)
                restore_optimizer(optimizer, tensors, state["optimizers"][name], f"{name}.optimizer.")
            method.load_state_dict(_under("method.", tensors))
            progress = Progress(**state["progress"], extra=_under("extra.", tensors), plan=tensors.get("plan"))
            if not len(progress.records) == progress.epoch <= stage.epochs or progress.step < 0:
                raise ValueError(f"it has {len(progress.records)} records of {progress.epoch} epochs")
            return progress


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _state(method: Method, progress: Progress) -> tuple[dict[str, Tensor], Any]:
    """All that `Trainer._restored` needs."""
    tensors, numbers = {f"method.{k}": v for k, v in method.state_dict().items()}, {}
    for name, (net, optimizer) in method.parts.items():
        tensors |= {f"{name}.net.{k}": v for k, v in unwrapped(net).state_dict().items()}
        found, numbers[name] = optimizer_tensors(optimizer, f"{name}.optimizer.")
        tensors |= found
    tensors |= {f"extra.{k}": v for k, v in progress.extra.items()}
    if progress.plan is not None:
        tensors["plan"] = progress.plan
    names = ("epoch", "step", "seconds", "records", "sums")
    return tensors, {"optimizers": numbers, "progress": {name: getattr(progress, name) for name in names}}


def _optimizer(net: nn.Module, settings: Settings, engine: Engine) -> Optimizer:
    fused = engine.device.type in ("cpu", "cuda")
    if settings.optimizer == "adamw":
        return AdamW(net.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=fused)
    return SGD(
        net.parameters(),
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
        fused=fused,
    )


def _add(sums: dict[str, Any], samples: int, figures: Mapping[str, Any]) -> None:
    """Adds to sums over samples; tensors stay on their device."""
    sums["samples"] = sums.get("samples", 0.0) + samples
    for name, value in figures.items():
        sums[name] = sums.get(name, 0.0) + (value.double() if isinstance(value, Tensor) else value) * samples


def _seeds(count: int, *numbers: int) -> list[int]:
    """Seeds that follow from some numbers."""
    words = np.random.SeedSequence(numbers).generate_state(count, np.uint64)
    return [int(word) >> 2 for word in words]
