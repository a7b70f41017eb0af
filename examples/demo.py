"""Digits with 40 % wrong labels: cross-entropy against ANTIDOTE.

    python examples/demo.py            # under a minute on a laptop; writes demo/digits.png

Protocol. scikit-learn's 1797 handwritten digits, 500 of them for testing. Four in ten of the 1297 training labels are
replaced by another class, drawn uniformly. Seeds 0, 1 and 2 of noise, weights and order; with each, the same network is
trained twice on the same labels with the package's settings `features`, and only the method differs. ANTIDOTE is told
nothing: it estimates the noise rate from the noisy labels. 30 epochs were settled on by cross-entropy alone, because it
has memorised by then (it predicts 99 % of the training labels, wrong ones included), before ANTIDOTE's accuracy was
looked at. The figure is that of the last epoch on the test samples, which serve for nothing else here.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from rich.progress import track

from antidote_learn import Run, train
from antidote_learn.bench.plots import draw_losses, draw_weights, new_figure, save
from antidote_learn.training.interrupts import Interrupted

EPOCHS = 30
SEEDS = (0, 1, 2)
METHODS = {"cross-entropy": "ce", "ANTIDOTE": "antidote"}

words = Console(stderr=True, highlight=False)


def trained(folder: Path) -> dict[str, list[Run]]:
    """The runs of every method, one for each seed; those that are in the folder already are only read."""
    runs: dict[str, list[Run]] = {name: [] for name in METHODS}
    cells = [(name, seed) for seed in SEEDS for name in METHODS]
    for name, seed in track(cells, "training", console=words):
        out = folder / f"{METHODS[name]}-seed{seed}"
        run = train(
            "digits", noise="symmetric:0.4", method=METHODS[name], epochs=EPOCHS, seed=seed, out=out, resume=True
        )
        runs[name].append(run)
        words.print(f"{name}, seed {seed}: {run.summary['accuracy']['last']:.1f} % of the test set")
    return runs


def draw(ce: Run, antidote: Run, path: Path) -> None:
    """Losses of right and wrong labels under both methods, and the weights ANTIDOTE gives them."""
    figure = new_figure(7.0)
    axes = figure.subplot_mosaic([["ce"], ["antidote"], ["weights"]])
    draw_losses(axes["ce"], ce)
    draw_losses(axes["antidote"], antidote)
    draw_weights(axes["weights"], antidote)
    save(figure, path)


def table(runs: dict[str, list[Run]]) -> None:
    """Accuracies, and the rates that were estimated."""
    rows = {name: [run.summary["accuracy"]["last"] for run in found] for name, found in runs.items()}
    rows["estimated rate"] = [100 * run.summary["noise_rate"]["rate"] for run in runs["ANTIDOTE"]]
    print(f"{'test accuracy (%)':<18}{'mean':>6}" + "".join(f"{f'seed {seed}':>8}" for seed in SEEDS))
    for name, values in rows.items():
        print(f"{name:<18}{mean(values):>6.1f}" + "".join(f"{value:>8.1f}" for value in values))


def main() -> int:
    """Parses the command line and runs the demo."""
    parser = argparse.ArgumentParser(description="Digits with 40 % wrong labels: cross-entropy against ANTIDOTE.")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the runs and the picture")
    folder = parser.parse_args().out
    torch.set_num_threads(1)  # the network is so small that more threads only wait for each other
    try:
        runs = trained(folder / "runs")
    except (KeyboardInterrupt, Interrupted):
        words.print("interrupted; the same command continues")
        return 130
    draw(runs["cross-entropy"][0], runs["ANTIDOTE"][0], folder / "digits.png")
    table(runs)
    words.print(f"picture: {folder / 'digits.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
