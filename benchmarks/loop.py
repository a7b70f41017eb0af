"""What the training loop costs beside forward, backward and optimiser step, and what ANTIDOTE costs beside CE.

    python benchmarks/loop.py [--quick]

Prints one JSON. Ratios are medians over interleaved repetitions: an epoch of the trainer (order, batches, augmentation,
normalisation, figures, checkpoint; no evaluation) against a bare loop over the same batches, ready in memory, with the
same network, loss, clipping and optimiser. The network's own time varies by more than the loop costs, so that the share
of an epoch outside its steps is measured by itself, too; and for the convolutional network ANTIDOTE and CE are compared
step by step on the same batches, since all else of their epochs is the same. The pipeline is compared with torch's
DataLoader over per-image Pillow transforms, as published code has it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from solver import in_turn
from torch import nn
from torch.utils.data import DataLoader, Dataset

from antidote_learn import AntidoteLoss, Arrays
from antidote_learn.data.batching import cut_batches
from antidote_learn.data.builtin import load_named
from antidote_learn.data.prepared import Prepared, prepare
from antidote_learn.methods.one_network import OneNetwork
from antidote_learn.nn.mean import MeanLoss
from antidote_learn.presets.protocols import TrainingSettings
from antidote_learn.training.engine import Engine, plain_network
from antidote_learn.training.loop import Trainer, Training, _Fit
from antidote_learn.training.progress import Silent

TARGETS = {
    "cnn8_outside_steps": 0.05,
    "mlp_loop_beyond_bare": 0.30,
    "cnn8_antidote_over_ce": 1.02,
    "mlp_antidote_over_ce": 1.5,
}
CLIP = 5.0


def images(count: int) -> Prepared:
    """CIFAR-shaped noise: the cost does not depend on what the images show."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, count)
    arrays = Arrays("cifar10", pixels, labels, tuple("0123456789"), labels, pixels[:128], labels[:128], True)
    return prepare(arrays, noise="none", noise_seed=0, seed=0, subset=None, recipe="cifar10")


def digits() -> Prepared:
    """The embedded digits with noise."""
    return prepare(load_named("digits"), noise="symmetric:0.4", noise_seed=0, seed=0, subset=None, recipe="fitted")


def objective(method: str) -> Any:
    return AntidoteLoss(noise_rate=0.4) if method == "antidote" else MeanLoss(plain_losses)


def plain_losses(logits: Any, labels: Any) -> Any:
    return F.cross_entropy(logits, labels, reduction="none")


class Epochs:
    """Epochs of the trainer, one at a call."""

    def __init__(self, data: Prepared, model: str, method: str, folder: Path) -> None:
        settings = TrainingSettings(
            protocol="features",
            model=model,
            optimizer="sgd",
            lr=0.01,
            momentum=0.9,
            weight_decay=1e-4,
            clip=CLIP,
            schedule="constant",
            schedule_epochs=1,
            epochs=10**6,
            batch_size=128,
            recipe="fitted",
        )
        trainer = Trainer(Engine(), data, settings, Silent(), workers=2)
        everything, checkpoint = np.arange(len(data.labels)), folder / f"{method}.safetensors"
        training = Training("training", 3, everything, settings.epochs, lambda u: 1.0, checkpoint)
        self.method = OneNetwork(objective(method))
        self.fit = _Fit(trainer, training, self.method, lambda progress: None)
        self.fit.next_save = float("inf")
        (self.stage,) = self.fit.stages
        self.inside, self.whole, step = 0.0, 0.0, self.method.step

        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            stats = step(*arguments)
            self.inside += time.perf_counter() - start
            return stats

        self.method.step = timed  # type: ignore[method-assign]

    def __call__(self) -> None:
        start = time.perf_counter()
        self.fit._train_epoch(self.stage)
        self.whole += time.perf_counter() - start


def step_ratio(a: Epochs, b: Epochs, epochs: int) -> float:
    """The median over batches of a's time for one step over b's, each of them first at every other batch."""
    ratios = []
    for batch, _, _ in (item for _ in range(epochs) for item in b.fit._batches(b.stage)):
        spent = {}
        for one in (a, b) if len(ratios) % 2 else (b, a):
            start = time.perf_counter()
            one.method.step(batch, one.fit.ctx)
            spent[one] = time.perf_counter() - start
        ratios.append(spent[a] / spent[b])
    return statistics.median(ratios)


def plain_epoch(net: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[Any]) -> None:
    """Forward, loss, backward, clipping, step."""
    net.train()
    for inputs, labels in batches:
        loss = F.cross_entropy(net(inputs), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()


class Bare:
    """The same epoch with everything at hand."""

    def __init__(self, data: Prepared, model: str, epochs: Epochs) -> None:
        net = epochs.fit.ctx.network("bare")
        optimizer = epochs.fit.ctx.optimizer(net)
        self.net, self.optimizer = plain_network(net), getattr(optimizer, "optimizer", optimizer)
        order = np.arange(len(data.labels))
        labels = torch.from_numpy(data.labels)
        draws = torch.Generator().manual_seed(0)
        self.batches = [
            (data.preparation(data.rows.take(index), draws), labels[index])
            for index in cut_batches(order, batch_size=128)
        ]

    def __call__(self) -> None:
        plain_epoch(self.net, self.optimizer, self.batches)


class PillowImages(Dataset[tuple[torch.Tensor, int]]):
    """One image at a time through Pillow: crop, flip, tensor, normalise."""

    def __init__(self, data: Prepared, pixels: Any) -> None:
        self.pixels, self.labels, self.rng = pixels, data.labels, np.random.default_rng(0)
        self.mean = torch.tensor(data.preparation.mean).view(3, 1, 1)
        self.std = torch.tensor(data.preparation.std).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        image = Image.fromarray(self.pixels[i].transpose(1, 2, 0))
        padded = Image.new("RGB", (40, 40))
        padded.paste(image, (4, 4))
        left, top, mirrored = self.rng.integers((9, 9, 2))
        image = padded.crop((left, top, left + 32, top + 32))
        if mirrored:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        tensor = torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy()).float() / 255
        return (tensor - self.mean) / self.std, int(self.labels[i])


class Plain:
    """An epoch as published code has it: DataLoader, Pillow, the same network and optimiser."""

    def __init__(self, data: Prepared, bare: Bare, workers: int) -> None:
        pixels = data.rows.array  # type: ignore[attr-defined]
        self.loader = DataLoader(PillowImages(data, pixels), batch_size=128, shuffle=True, num_workers=workers)
        self.net, self.optimizer = bare.net, bare.optimizer

    def __call__(self) -> None:
        plain_epoch(self.net, self.optimizer, self.loader)


def over(times: dict[str, list[float]], a: str, b: str) -> float:
    """The median of ratios of neighbours in time."""
    return statistics.median(x / y for x, y in zip(times[a], times[b], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a narrower network and fewer repetitions")
    options = parser.parse_args()
    width, repeats = (0.25, 3) if options.quick else (1.0, 5)
    ratios: dict[str, float] = {}
    seconds: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, data, model, times in (
            ("cnn8", images(1280), f"cnn8:width={width}", repeats),
            ("mlp", digits(), "mlp", 20 * repeats),
        ):
            ce, antidote = (Epochs(data, model, method, Path(folder)) for method in ("ce", "antidote"))
            bare = Bare(data, model, ce)
            calls: dict[str, Callable[[], None]] = {"ce": ce, "bare": bare, "antidote": antidote}
            if name == "cnn8":
                calls["dataloader"] = Plain(data, bare, 0)
            taken = in_turn(calls, times)
            ratios[f"{name}_outside_steps"] = 1.0 - ce.inside / ce.whole
            ratios[f"{name}_loop_beyond_bare"] = over(taken, "ce", "bare") - 1.0
            ratios[f"{name}_antidote_over_ce"] = over(taken, "antidote", "ce")
            if name == "cnn8":
                ratios["cnn8_antidote_over_ce"] = step_ratio(antidote, ce, times)
                ratios["cnn8_dataloader_over_loop"] = over(taken, "dataloader", "ce")
            seconds[name] = {key: statistics.median(value) for key, value in taken.items()}
    report = {
        "ratios": {key: round(value, 4) for key, value in ratios.items()},
        "targets": {key: {"at_most": bound, "met": ratios[key] <= bound} for key, bound in TARGETS.items()},
        "epoch_seconds": {key: {k: round(v, 5) for k, v in value.items()} for key, value in seconds.items()},
        "images_per_second": {key: round(1280 / value) for key, value in seconds["cnn8"].items()},
        "protocol": {"width": width, "repeats": repeats, "threads": torch.get_num_threads()},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
