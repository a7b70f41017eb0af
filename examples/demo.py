"""Digits with 40 % wrong labels: cross-entropy against ANTIDOTE, and an audit that says which ones are wrong.

    python examples/demo.py            # about a minute; writes demo/digits.png and demo/audit/review.html

Protocol. scikit-learn's 1797 handwritten digits, 500 of them for testing. Four in ten of the 1297 training labels are
replaced by another class, drawn uniformly. Seeds 0, 1 and 2 of noise, weights and order; with each, the same network is
trained twice on the same labels with the package's settings `features`, and only the method differs. ANTIDOTE is told
nothing: it estimates the noise rate from the noisy labels. 30 epochs were settled on by cross-entropy alone, because it
has memorised by then (it predicts 99 % of the training labels, wrong ones included), before ANTIDOTE's accuracy was
looked at. The figure is that of the last epoch on the test samples, which serve for nothing else here. The audit is of
the training labels of seed 0, of which it, too, is told nothing.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from rich.progress import track

from antidote_learn import Run, audit, train
from antidote_learn.bench.plots import draw_losses, draw_weights, new_figure, save
from antidote_learn.training.interrupts import Interrupted

NOISE = "symmetric:0.4"
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
        run = train("digits", noise=NOISE, method=METHODS[name], epochs=EPOCHS, seed=seed, out=out, resume=True)
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


def audited(folder: Path) -> None:
    """Which of the noisy labels look wrong, how many of these are, and the page to look at them."""
    words.print("auditing the labels of seed 0 ...")
    found = audit("digits", noise=NOISE, seed=SEEDS[0], encoder="none", out=folder, resume=True)
    wrong = found.table["given_label"] != found.table["clean_label"]
    flagged = found.table["is_label_issue"]
    right = int((flagged & wrong).sum())
    print(f"\naudit: {flagged.sum()} of {len(flagged)} labels look wrong; {right} of them are, of {wrong.sum()} in all")
    print(f"to look at them, open in a browser: {folder / 'review.html'}")


def main() -> int:
    """Parses the command line and runs the demo."""
    parser = argparse.ArgumentParser(description="Digits with 40 % wrong labels: cross-entropy against ANTIDOTE.")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the runs, the picture and the audit")
    folder = parser.parse_args().out
    torch.set_num_threads(1)  # the network is so small that more threads only wait for each other
    try:
        runs = trained(folder / "runs")
        draw(runs["cross-entropy"][0], runs["ANTIDOTE"][0], folder / "digits.png")
        table(runs)
        words.print(f"picture: {folder / 'digits.png'}")
        audited(folder / "audit")
    except (KeyboardInterrupt, Interrupted):
        words.print("interrupted; the same command continues")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
