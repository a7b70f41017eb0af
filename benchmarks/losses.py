"""Speed of every loss, forward and backward, as a ratio to `F.cross_entropy` in the same interleaved run.

    python benchmarks/losses.py [--quick]

Prints one JSON. A figure is the mean over batches of the median over repetitions; contenders are timed in turn, small
batches in bursts.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from solver import interleaved

from antidote_learn import loss
from antidote_learn.core.losses import LOSSES
from antidote_learn.presets import cases

TARGETS = {(128, 10): 3.0, (1024, 1000): 2.0}
SUMS = {f"preset:{case.row}": case.loss for case in cases() if case.data == "cifar10" and "+" in case.loss}


def steps(shape: tuple[int, int], seed: int) -> dict[str, Callable[[], Any]]:
    """Forward and backward of every loss on one batch."""
    generator = torch.Generator().manual_seed(seed)
    logits = (2.0 * torch.randn(shape, generator=generator)).requires_grad_()
    labels = torch.randint(0, shape[1], shape[:1], generator=generator)

    def step(function: Any) -> Callable[[], None]:
        def run() -> None:
            logits.grad = None
            function(logits, labels).backward()

        return run

    named = {name: step(loss(name)) for name in LOSSES}
    sums = {name: step(loss(text)) for name, text in SUMS.items()}
    return {"F.cross_entropy": step(F.cross_entropy), **named, **sums}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer batches and repetitions")
    quick = parser.parse_args().quick
    report: dict[str, Any] = {}
    for shape, most in TARGETS.items():
        burst = 10 if shape[0] == 128 else 1
        medians = [interleaved(steps(shape, seed), 7 if quick else 15, burst) for seed in range(4 if quick else 20)]
        times = {name: statistics.fmean(median[name] for median in medians) for name in medians[0]}
        ratios = {name: round(time / times["F.cross_entropy"], 3) for name, time in times.items()}
        report[f"{shape[0]}x{shape[1]}"] = {
            "over_cross_entropy": ratios,
            "at_most": most,
            "missed": [name for name, ratio in ratios.items() if ratio > most and name in LOSSES],
            "cross_entropy_microseconds": round(times["F.cross_entropy"] * 1e6, 1),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
