"""The noise rate of a data set, when nobody knows it: two halves, each judged by a network trained on the other."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from antidote_learn.core.losses.likelihood import cross_entropy
from antidote_learn.core.rates import estimate_noise_rate
from antidote_learn.methods.single import Single
from antidote_learn.training.checkpoint import read_json, write_json
from antidote_learn.training.evaluate import outputs
from antidote_learn.training.loop import Progress, Stage, Trainer

WARM_UP = 6  # epochs
MOST_SAMPLES = 20_000
MOST_NUMBERS = 20_000_000  # probabilities that are kept for one epoch


def estimated_rate(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """The estimate with its interval (design of `estimate_noise_rate`); continued where it was interrupted.

    Plain cross-entropy at the initial learning rate, `WARM_UP` epochs on each half, at most `MOST_SAMPLES` samples.
    """
    result = folder / "noise_rate.json"
    if result.exists():
        found: dict[str, Any] = read_json(result)
        return found
    data, seed = trainer.data, trainer.settings.seed
    count = min(trainer.samples, MOST_SAMPLES, max(MOST_NUMBERS // trainer.classes, 2))
    index = np.random.default_rng([seed, 4]).permutation(trainer.samples)[:count]
    middle = count // 2
    first, second = index[:middle], index[middle:]
    files = [folder / "checkpoint" / f"half{number}.safetensors" for number in (1, 2)]
    judged = [_judged(trainer, 1, second, first, files[0]), _judged(trainer, 2, first, second, files[1])]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimate = estimate_noise_rate(np.concatenate([probs for probs, _ in judged], axis=1), data.labels[index])
    record = {
        "rate": estimate.rate,
        "low": estimate.low,
        "high": estimate.high,
        "per_class": [None if np.isnan(rate) else float(rate) for rate in estimate.per_class],  # JSON has no NaN
        "agreement": estimate.agreement,
        "instability": estimate.instability,
        "steady": estimate.steady,
        "samples": count,
        "warnings": [str(warning.message) for warning in caught],
        "seconds": sum(seconds for _, seconds in judged),
    }
    if trainer.engine.rank == 0:
        write_json(result, record)
        for file in files:
            file.unlink(missing_ok=True)
    trainer.engine.barrier()
    return record


def _judged(trainer: Trainer, number: int, own: Any, other: Any, checkpoint: Path) -> tuple[Any, float]:
    """(W, M, K) probabilities of the other half after every epoch of training on one's own, and the seconds it took."""
    data, method = trainer.data, Single(cross_entropy)

    def judge(progress: Progress, record: dict[str, Any]) -> None:
        logits = outputs(
            method.predict,
            data.rows,
            data.preparation,
            trainer.engine,
            index=other,
            workers=trainer.settings.workers,
        )
        progress.extra[f"probs{progress.epoch}"] = logits.softmax(dim=1)

    name = f"noise rate, half {number} of 2"
    stage = Stage(name, number, own, WARM_UP, _constant, checkpoint)
    progress = trainer.fit(stage, method, judge)
    probs = torch.stack([progress.extra[f"probs{epoch + 1}"] for epoch in range(WARM_UP)]).numpy()
    return probs, sum(record["seconds"] for record in progress.records)


def _constant(u: float) -> float:
    return 1.0
