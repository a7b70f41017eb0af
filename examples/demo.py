"""Digits with 40 % wrong labels: cross-entropy against ANTIDOTE.

    python examples/demo.py            # under a minute on a laptop; writes demo/digits.png

Protocol. scikit-learn's 1797 handwritten digits, a stratified quarter held out for testing. Exactly 40 % of the
training labels are replaced by another class, drawn uniformly. The same network is trained twice from the same weights
on the same batches; only the loss differs. ANTIDOTE is told the noise rate. The accuracy is that of the last epoch on
the clean test set, which serves for nothing else: no early stopping, no choice of an epoch or of a setting.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

from antidote_learn import AntidoteLoss, delta_from_rate, relax

NOISE_RATE = 0.4
SEEDS = (0, 1, 2)
EPOCHS = 60
BATCH_SIZE = 128
CRITERIA: dict[str, Callable[[], nn.Module]] = {
    "cross-entropy": nn.CrossEntropyLoss,
    "ANTIDOTE": lambda: AntidoteLoss(noise_rate=NOISE_RATE),
}

words = Console(stderr=True)


class Digits(NamedTuple):
    """Images `(N, 64)` and labels `(N,)`; `wrong` marks the training labels that were replaced."""

    images: Tensor
    labels: Tensor
    wrong: Tensor
    test_images: Tensor
    test_labels: Tensor


class Outcome(NamedTuple):
    """What one training left behind: test accuracy in percent and the final loss of every training sample."""

    accuracy: float
    losses: Tensor


def noisy_digits(seed: int) -> Digits:
    """Digits with `NOISE_RATE` of the training labels moved to another class."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16, labels, test_size=0.25, stratify=labels, random_state=seed)
    train_images, test_images = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    clean, test_labels = (torch.tensor(part) for part in split[2:])

    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(clean), generator=generator)[: round(NOISE_RATE * len(clean))]
    given = clean.clone()
    given[chosen] = (clean[chosen] + torch.randint(1, 10, chosen.shape, generator=generator)) % 10
    return Digits(train_images, given, given != clean, test_images, test_labels)


def train(criterion: nn.Module, data: Digits, seed: int, after_epoch: Callable[[], None]) -> Outcome:
    """An ordinary training loop: nothing in it knows which loss it minimises."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(),
        nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(),
        nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=EPOCHS * 2 // 3, gamma=0.1)
    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(data.labels)), BATCH_SIZE):
            optimizer.zero_grad()
            criterion(model(data.images[batch]), data.labels[batch]).backward()
            optimizer.step()
        scheduler.step()
        after_epoch()

    model.eval()
    with torch.no_grad():
        correct = model(data.test_images).argmax(dim=1) == data.test_labels
        losses = F.cross_entropy(model(data.images).double(), data.labels, reduction="none")
    return Outcome(100 * correct.double().mean().item(), losses)


def draw(outcomes: dict[str, Outcome], wrong: Tensor, path: Path) -> None:
    """Losses of correctly and wrongly labelled training samples, and the weights ANTIDOTE gives them."""
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    middle.sharey(left)
    for axis, (name, outcome) in zip((left, middle), outcomes.items(), strict=True):
        histogram(axis, outcome.losses.clamp(min=1e-10), wrong, np.logspace(-10, 2, 61).tolist())
        title(axis, f"Losses under {name}", f"{outcome.accuracy:.1f} % of the test set correct")
        axis.set(xscale="log", xlabel="loss of a training sample")

    weights = relax(outcomes["ANTIDOTE"].losses, delta_from_rate(NOISE_RATE), kappa=0.05).weights
    forgotten = 100 * (weights[wrong] < 0.05).double().mean().item()
    histogram(right, weights, wrong, np.linspace(0, 1.05 * weights.max().item(), 46).tolist())
    title(right, "Weights under ANTIDOTE", f"{forgotten:.0f} % of the wrong labels weigh less than 0.05")
    right.set(xlabel="weight of a training sample (mean 1)", xticks=[0, 0.5, 1, 1.5])

    left.set(ylabel="number of training samples")
    left.legend(frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def histogram(axis: Axes, values: Tensor, wrong: Tensor, bins: list[float]) -> None:
    """Two histograms over common bins, in colours that the colour-blind can tell apart."""
    for label, chosen, colour in (("label correct", ~wrong, "#0072B2"), ("label wrong", wrong, "#D55E00")):
        fill, counted = (colour, 0.35), values[chosen].numpy()
        axis.hist(counted, bins=bins, label=label, histtype="stepfilled", fc=fill, ec=colour, lw=1.5)
    axis.spines[["top", "right"]].set_visible(False)


def title(axis: Axes, text: str, note: str) -> None:
    """A bold line, and a quiet one below it."""
    axis.set_title(text, loc="left", fontweight="bold", pad=24)
    axis.annotate(note, (0, 1.03), xycoords="axes fraction", color="0.3")


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yields `advance(task)`: a bar with the time left on a terminal, nothing otherwise."""
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=words, transient=True, disable=not words.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda description: bar.update(task, advance=1, description=description)


def run(path: Path) -> None:
    """Trains with every loss on every seed, prints the accuracies and draws the first seed."""
    words.print(f"digits with {NOISE_RATE:.0%} of the training labels wrong, {len(SEEDS)} seeds", highlight=False)
    accuracies: dict[str, list[float]] = {name: [] for name in CRITERIA}
    with progress(len(SEEDS) * len(CRITERIA) * EPOCHS) as advance:
        for seed in SEEDS:
            data = noisy_digits(seed)
            outcomes = {}
            for name, criterion in CRITERIA.items():
                outcomes[name] = train(criterion(), data, seed, partial(advance, f"{name}, seed {seed}"))
                accuracies[name].append(outcomes[name].accuracy)
                words.print(f"seed {seed}, {name}: {outcomes[name].accuracy:.1f} % of the test set", highlight=False)
            if seed == SEEDS[0]:
                draw(outcomes, data.wrong, path)

    print(f"{'test accuracy (%)':<18}{'mean':>6}" + "".join(f"{f'seed {seed}':>8}" for seed in SEEDS))
    for name, values in accuracies.items():
        print(f"{name:<18}{mean(values):>6.1f}" + "".join(f"{value:>8.1f}" for value in values))
    words.print(f"picture: {path}", highlight=False)


def main() -> int:
    """Parses the command line and runs the demo."""
    parser = argparse.ArgumentParser(description="Digits with 40 % wrong labels: cross-entropy against ANTIDOTE.")
    parser.add_argument("--out", type=Path, default=Path("demo/digits.png"), help="where the picture goes")
    path = parser.parse_args().out
    torch.set_num_threads(1)  # the network is so small that more threads only wait for each other
    try:
        run(path)
    except KeyboardInterrupt:
        words.print("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
