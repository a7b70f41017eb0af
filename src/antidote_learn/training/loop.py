"""The training loop over stages, epochs and steps; each step follows from the seed, so that a killed run can go on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from antidote_learn._types import Batch
from antidote_learn.data.augment import Part
from antidote_learn.data.batching import Share, cut_plan, plan_from_state, plan_state
from antidote_learn.data.loaders import read_ahead
from antidote_learn.data.prepared import Prepared
from antidote_learn.data.streams import EpochPlan, Stream
from antidote_learn.methods.base import Hooks, Method, Stage, StepStats
from antidote_learn.models import Model
from antidote_learn.presets.protocols import TrainingSettings
from antidote_learn.training.checkpoint import damage_told, read_tensors, write_tensors
from antidote_learn.training.context import TrainingContext, tensors_under
from antidote_learn.training.engine import Engine, RunFailed
from antidote_learn.training.interrupts import Interrupted, is_interrupted
from antidote_learn.training.progress import Reporter
from antidote_learn.training.schedules import learning_rate, parse_schedule

SAVE_SECONDS = 5.0  # the shortest time between two checkpoints
SAVE_SHARE = 0.02  # the largest share of the time that goes into checkpoints


@dataclass(frozen=True, eq=False)
class Training:
    """A training from new weights.

    Attributes:
        name: The name that the user sees.
        number: The number of the training in its run; another number gives other weights and orders.
        index: (n,) positions of the samples in the training set.
        epochs: The number of epochs over all stages of the method.
        factor: The schedule of the learning rate, as `parse_schedule` gives it.
        checkpoint: The file of the training's state.
    """

    name: str
    number: int
    index: NDArray[np.int64]
    epochs: int
    factor: Callable[[float], float]
    checkpoint: Path


@dataclass
class Progress:
    """The progress of a training: its model, and all that its checkpoint holds beside the state of the method."""

    model: nn.Module
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    sums: dict[str, Any] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Tensor] = field(default_factory=dict)
    plan: EpochPlan = field(default_factory=EpochPlan)


AfterEpoch = Callable[[Progress, dict[str, Any]], None]
AfterSave = Callable[[Progress], None]


class Trainer:
    """Trains methods on the data of a run, one training after the other.

    Args:
        engine: Devices and processes.
        data: The training set.
        settings: The settings of the training.
        reporter: The reporter of the progress.
        network: The network; None for the one that the settings name.
        workers: The number of threads that decode image files.
    """

    def __init__(
        self,
        engine: Engine,
        data: Prepared,
        settings: TrainingSettings,
        reporter: Reporter,
        *,
        network: Model | None = None,
        workers: int = 0,
    ) -> None:
        self.engine, self.data, self.settings, self.reporter = engine, data, settings, reporter
        self.network, self.workers = settings.model if network is None else network, workers
        self.classes, self.samples = len(data.classes), len(data.labels)

    def on(self, data: Prepared) -> Trainer:
        """The same trainer on other labels of the same samples, or on other rows of them."""
        if data is self.data:
            return self
        return Trainer(self.engine, data, self.settings, self.reporter, network=self.network, workers=self.workers)

    def fit(
        self,
        training: Training,
        method: Method,
        after_epoch: AfterEpoch = lambda progress, record: None,
        after_save: AfterSave = lambda progress: None,
    ) -> Progress:
        """Trains to the end, from the checkpoint if there is one.

        Args:
            training: The training to carry out.
            method: The method to train with.
            after_epoch: A function that adds figures to an epoch's record, and tensors to `Progress.extra`.
            after_save: A function that the first process calls when a checkpoint was written.

        Raises:
            Interrupted: The user stopped the training; the checkpoint holds all progress.
            RunFailed: The loss is no longer finite.
        """
        return _Fit(self, training, method, after_save).run(after_epoch)


class _Fit:
    """A training in progress."""

    def __init__(self, trainer: Trainer, training: Training, method: Method, after_save: AfterSave) -> None:
        self.engine, self.data, self.settings = trainer.engine, trainer.data, trainer.settings
        self.reporter, self.training, self.method, self.after_save = trainer.reporter, training, method, after_save
        self.hooks = Hooks(method)
        self.stages = [stage for stage in self.hooks.stages(training.epochs) if stage.epochs]
        self.starts = [0, *accumulate(stage.epochs for stage in self.stages)]
        self.workers = trainer.workers
        self.ctx = TrainingContext(
            self.engine,
            self.data,
            self.settings,
            network=trainer.network,
            workers=trainer.workers,
            number=training.number,
            epochs=training.epochs,
        )
        method.build(self.ctx)
        self.progress = self._restore()
        self.next_save = 0.0

    def run(self, after_epoch: AfterEpoch) -> Progress:
        """Trains to the last epoch."""
        progress, last = self.progress, self.training.epochs
        self._announce(self.stages[min(self._place(), len(self.stages) - 1)])
        self.next_save = time.perf_counter() + SAVE_SECONDS
        while progress.epoch < last:
            stage = self.stages[self._place()]
            self._train_epoch(stage)
            after_epoch(progress, progress.records[-1])
            if progress.epoch == last or self.engine.largest(self._request()):
                self._save()
            self.reporter.epoch(progress.records[-1])
            if progress.epoch in self.starts[1:-1]:
                self._announce(self.stages[self._place()])
        return progress

    def _place(self) -> int:
        """The number of the present stage, from 0."""
        return sum(start <= self.progress.epoch for start in self.starts[1:])

    def _announce(self, stage: Stage) -> None:
        own = f", {stage.name}" if len(self.stages) > 1 else ""
        self.reporter.stage(f"{self.training.name}{own}", epochs=self.training.epochs, done=self.progress.epoch)

    def _request(self) -> int:
        """2 if the user asked to stop, 1 if a checkpoint is due, else 0."""
        return 2 if is_interrupted() else int(time.perf_counter() >= self.next_save)

    def _train_epoch(self, stage: Stage) -> None:
        """Trains for one epoch, or for the rest of one."""
        progress, ctx = self.progress, self.ctx
        ctx.start_epoch(progress.epoch)
        if progress.step == 0:
            self._plan_epoch(stage)
        clock = time.perf_counter() - progress.seconds
        for batch, seen, total in self._batches(stage):
            stats = self._take_step(batch)
            _add(progress.sums, batch.total, {"loss": stats.loss, **stats.numbers})
            progress.step += 1
            progress.seconds = time.perf_counter() - clock
            self.reporter.step(epoch=progress.epoch, samples=seen, total=total)
            request = self.engine.largest(self._request())
            if request:
                self._save()
            if request > 1:
                raise Interrupted
        progress.records.append(self._record(stage))
        progress.epoch, progress.step, progress.seconds = progress.epoch + 1, 0, 0.0
        progress.sums, progress.plan = {}, EpochPlan()
        ctx.align()

    def _plan_epoch(self, stage: Stage) -> None:
        """Lets the method begin the epoch, and the stage if it is new; the draws are a function of the epoch."""
        epoch = self.progress.epoch
        self.ctx.progress = epoch / self.training.epochs
        self.ctx.set_seed(_seeds(1, self.settings.seed, self.training.number, epoch, 1)[0])
        self._set_rate(stage, epoch, 0.0)
        try:
            if epoch == self.starts[self._place()]:
                self.hooks.begin_stage(stage, self.ctx)
            self.progress.plan = self.hooks.begin_epoch(epoch, self.ctx)
        except ValueError as error:  # an estimate was refused
            raise RunFailed(f"epoch {epoch + 1}: {error}") from error

    def _take_step(self, batch: Batch) -> StepStats:
        try:
            return self.method.step(batch, self.ctx)
        except ValueError as error:  # an objective refused losses that are not numbers
            raise RunFailed(f"epoch {self.progress.epoch + 1}: {error} (a lower `lr` may help)") from error

    def _batches(self, stage: Stage) -> Iterator[tuple[Batch, int, int]]:
        """Yields the epoch's remaining batches, each with the samples of the first stream seen so far, and in all."""
        settings, engine, training = self.settings, self.engine, self.training
        epoch, first, plan = self.progress.epoch, self.progress.step, self.progress.plan
        words = [[], *([number] for number in range(1, len(plan.streams)))]
        shares = cut_plan(
            plan,
            training.index,
            seeds=[_seeds(1, settings.seed, training.number, *more)[0] for more in words],
            epoch=epoch,
            batch_size=settings.batch_size,
            rank=engine.rank,
            processes=engine.processes,
        )
        totals = [step[0].total for step in shares]
        seen, total = sum(totals[:first]), sum(totals)
        seeds = _seeds(len(shares), settings.seed, training.number, epoch)
        wanted = [np.concatenate([share.index for share in step]) for step in shares[first:]]
        for step, raw in enumerate(read_ahead(self.data.rows, wanted, workers=self.workers), start=first):
            engine.seed(seeds[step])
            self.ctx.set_seed(seeds[step])
            self.ctx.progress = (epoch + step / len(shares)) / training.epochs
            self._set_rate(stage, epoch, step / len(shares))
            seen += totals[step]
            yield self._batch(plan, shares[step], raw.to(engine.device), seeds[step]), seen, total

    def _batch(self, plan: EpochPlan, shares: list[Share], raw: Tensor, seed: int) -> Batch:
        """The batch of the first stream, which holds those of the other streams; ``raw`` has the rows of all."""
        pieces = torch.split(raw, [len(share.index) for share in shares])
        first, *others = (
            self._stream_batch(stream, share, piece, _view_seeds(seed, number, len(stream.views)))
            for number, (stream, share, piece) in enumerate(zip(plan.streams, shares, pieces, strict=True))
        )
        if not others:
            return first
        named = {stream.name: batch for stream, batch in zip(plan.streams[1:], others, strict=True)}
        return Batch(first.inputs, first.labels, first.index, first.total, first.further_views, named)

    def _stream_batch(self, stream: Stream, share: Share, raw: Tensor, seeds: list[int]) -> Batch:
        part = Part(share.start, share.total)
        views = [
            self.data.preparation(raw, torch.Generator().manual_seed(seed) if view == "weak" else None, part)
            for view, seed in zip(stream.views, seeds, strict=True)
        ]
        index = torch.from_numpy(share.index)
        labels = self._labels(index) if stream.targets is None else stream.targets.cpu()[torch.from_numpy(share.places)]
        return Batch(views[0], labels.to(self.engine.device), index, share.total, tuple(views[1:]))

    def _labels(self, index: Tensor) -> Tensor:
        """The labels of some samples, or the probabilities that are believed of their classes."""
        if self.data.soft is None:
            return self.ctx.labels[index]
        return torch.from_numpy(self.data.soft.dense(index.numpy())).float()

    def _rate(self, stage: Stage, epoch: int, within: float, warmup: float) -> float:
        """The learning rate of a step, by the stage's schedule where it has one."""
        factor, epochs = self.training.factor, self.training.epochs
        if stage.schedule is not None:
            factor, epochs = parse_schedule(stage.schedule, epochs=stage.epochs), stage.epochs
            epoch -= self.starts[self.stages.index(stage)]
        rate = learning_rate(self.settings.lr, factor, epoch=epoch, within=within, epochs=epochs, warmup=warmup)
        return rate * stage.lr_scale

    def _set_rate(self, stage: Stage, epoch: int, within: float) -> None:
        self.ctx.set_rate(self._rate(stage, epoch, within, self.settings.warmup))

    def _record(self, stage: Stage) -> dict[str, Any]:
        progress = self.progress
        figures = self._averages(progress.sums)
        weight = figures.pop("samples")
        figures = {name: value / weight for name, value in figures.items()}
        if not math.isfinite(figures["loss"]):
            raise RunFailed(
                f"the loss is {figures['loss']} in epoch {progress.epoch + 1}: lower `lr`, or look at the inputs"
            )
        finite = {name: value for name, value in figures.items() if math.isfinite(value)}  # JSON has no infinity
        own = {"stage": stage.name} if len(self.stages) > 1 else {}
        rate = self._rate(stage, progress.epoch, 0.0, 0.0)
        return {"epoch": progress.epoch + 1, **own, "lr": rate, **finite, "seconds": progress.seconds}

    def _averages(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """The sums in the mean over processes; a process may know only its own share, scaled to be right on average."""
        numbers = [float(value) for value in sums.values()]
        if self.engine.processes > 1:
            total = self.engine.total(torch.tensor(numbers, dtype=torch.float64, device=self.engine.device))
            numbers = (total / self.engine.processes).tolist()
        return dict(zip(sums, numbers, strict=True))

    def _save(self) -> None:
        """Writes the checkpoint in the first process, while the others wait."""
        start = time.perf_counter()
        self.progress.sums = self._averages(self.progress.sums)
        if self.engine.rank == 0:
            write_tensors(self.training.checkpoint, *self._state())
            self.after_save(self.progress)
        self.engine.barrier()
        now = time.perf_counter()
        self.next_save = now + max(SAVE_SECONDS, (now - start) / SAVE_SHARE)

    def _state(self) -> tuple[dict[str, Tensor], Any]:
        """The tensors and the JSON value that `_restore` needs."""
        progress = self.progress
        tensors, numbers = self.ctx.state()
        streams, plan = plan_state(progress.plan)
        tensors |= {f"extra.{key}": tensor for key, tensor in progress.extra.items()}
        tensors |= {f"plan.{key}": tensor for key, tensor in streams.items()}
        names = ("epoch", "step", "seconds", "records", "sums")
        figures = {name: getattr(progress, name) for name in names}
        return tensors, {"optimizers": numbers, "progress": figures, "plan": plan}

    def _restore(self) -> Progress:
        checkpoint = self.training.checkpoint
        if not checkpoint.exists():
            return Progress(self.ctx.model)
        tensors, state = read_tensors(checkpoint)
        with damage_told(checkpoint):
            self.ctx.restore(tensors, state["optimizers"], checkpoint)
            extra = tensors_under("extra.", tensors)
            plan = plan_from_state(tensors_under("plan.", tensors), state["plan"]) if "plan" in state else EpochPlan()
            progress = Progress(self.ctx.model, **state["progress"], extra=extra, plan=plan)
            if not len(progress.records) == progress.epoch <= self.training.epochs or progress.step < 0:
                raise ValueError(f"it has {len(progress.records)} records of {progress.epoch} epochs")
            return progress


def _add(sums: dict[str, Any], samples: int, figures: Mapping[str, Any]) -> None:
    """Adds the figures of a batch to sums over samples; tensors stay on their device."""
    sums["samples"] = sums.get("samples", 0.0) + samples
    for name, value in figures.items():
        sums[name] = sums.get(name, 0.0) + (value.double() if isinstance(value, Tensor) else value) * samples


def _seeds(count: int, *numbers: int) -> list[int]:
    """Seeds that follow from the numbers."""
    words = np.random.SeedSequence(numbers).generate_state(count, np.uint64)
    return [int(word) >> 2 for word in words]


def _view_seeds(seed: int, stream: int, views: int) -> list[int]:
    """The seed of each view of a stream's batch; the first view of the first stream has the step's own seed."""
    return [seed if stream == view == 0 else _seeds(1, seed, stream, view)[0] for view in range(views)]
