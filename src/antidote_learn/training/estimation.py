"""The estimate of an unknown noise rate: two halves of the data, each judged by a network trained on the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antidote_learn.core.beliefs import MeanBeliefs, blocks
from antidote_learn.core.losses.likelihood import cross_entropy
from antidote_learn.core.rates import doubt as doubt_about
from antidote_learn.core.rates import rate_of_predictions, too_few
from antidote_learn.core.transition_matrices import TransitionEstimate, check_estimate, transition_of_predictions
from antidote_learn.methods.one_network import OneNetwork
from antidote_learn.nn.mean import MeanLoss
from antidote_learn.training.checkpoint import read_json, write_sealed
from antidote_learn.training.evaluate import predict_logits
from antidote_learn.training.loop import Progress, Trainer, Training

NOISE_RATE = "noise_rate.json"  # the file of an estimate
HELD_OUT = "held-out predictions"  # the source of a transition matrix that is estimated here
WARM_UP = 6  # the epochs of a training on one half
MOST_SAMPLES = 20_000  # the most samples that an estimate uses


def estimate_rate(trainer: Trainer, folder: Path, *, matrix: bool = False) -> dict[str, Any]:
    """Estimates the noise rate and its interval (see `estimate_noise_rate`), and continues an interrupted estimate.

    Each half of at most `MOST_SAMPLES` samples is trained on for `WARM_UP` epochs, with plain cross-entropy at the
    initial learning rate.

    Args:
        trainer: The trainer.
        folder: The run's folder.
        matrix: Whether to estimate the transition matrix, too.
    """
    result = folder / NOISE_RATE
    if result.exists():
        return read_json(
            result, {"rate": float, "low": float, "high": float, "seconds": (int, float), "warnings": list}
        )
    files = [folder / "checkpoint" / f"half{number}.safetensors" for number in (1, 2)]
    doubt = too_few(trainer.data.labels, trainer.classes)
    record = _unknown_rate(trainer.classes, doubt) if doubt else _estimate_from_halves(trainer, files, matrix=matrix)
    if trainer.engine.rank == 0:
        write_sealed(result, record)
        for file in files:
            file.unlink(missing_ok=True)
    trainer.engine.barrier()
    return record


def transition_from_record(record: dict[str, Any], classes: int) -> TransitionEstimate:
    """The transition matrix of an estimate; the identity where there were too few rows for one."""
    found = record.get("transition")
    if found is None:
        none = np.zeros(classes, dtype=np.int64)
        return TransitionEstimate(np.eye(classes), none, np.full((classes, classes), np.nan), source=HELD_OUT)
    matrix, errors = (np.array(found[key], dtype=np.float64) for key in ("matrix", "standard_errors"))
    samples = np.array(found["samples"], dtype=np.int64)
    return check_estimate(TransitionEstimate(matrix, samples, errors, source=HELD_OUT), classes=classes)


def _transition_record(found: TransitionEstimate) -> dict[str, Any]:
    return {
        "matrix": found.transition.tolist(),
        "samples": found.samples.tolist(),
        "standard_errors": found.standard_errors.tolist(),
    }


def _estimate_from_halves(trainer: Trainer, files: list[Path], *, matrix: bool) -> dict[str, Any]:
    """The record of an estimate from two halves, each judged by a network that is trained on the other."""
    count = min(trainer.samples, MOST_SAMPLES)
    index = np.random.default_rng([trainer.settings.seed, 4]).permutation(trainer.samples)[:count]
    first, second = index[: count // 2], index[count // 2 :]
    judged = [_judge_half(trainer, 1, second, first, files[0]), _judge_half(trainer, 2, first, second, files[1])]
    predicted, confidence, late = (
        np.concatenate(parts, axis=-1) for parts in zip(*(j[0] for j in judged), strict=True)
    )
    labels = trainer.data.labels[index]
    estimate = rate_of_predictions(predicted, confidence, late, labels, trainer.classes)
    found = transition_of_predictions(predicted, confidence, labels, trainer.classes) if matrix else None
    return {
        "rate": estimate.rate,
        "low": estimate.low,
        "high": estimate.high,
        "per_class": [None if np.isnan(rate) else float(rate) for rate in estimate.per_class],  # JSON has no NaN
        "agreement": estimate.agreement,
        "instability": estimate.instability,
        "steady": estimate.steady,
        "samples": count,
        "warnings": [] if estimate.identifiable else [doubt_about(estimate, trainer.classes)],
        "seconds": sum(seconds for _, seconds in judged),
        **({} if found is None else {"transition": _transition_record(found)}),
    }


def _unknown_rate(classes: int, doubt: str) -> dict[str, Any]:
    """The record for data with too few rows for an estimate."""
    unknown = dict.fromkeys(("agreement", "instability", "steady"))
    interval = {"rate": 0.0, "low": 0.0, "high": 1.0 - 1.0 / classes}
    return {**interval, "per_class": [None] * classes, **unknown, "samples": 0, "warnings": [doubt], "seconds": 0.0}


def _judge_half(trainer: Trainer, number: int, own: Any, other: Any, checkpoint: Path) -> tuple[Any, float]:
    """Trains a network on its own half, and returns its judgement of the other half, with the seconds of the training.

    The judgement is the class of the largest mean probability over epochs (M,), that probability (M,), and the
    likeliest class after each late epoch (L, M).
    """
    method, mean = OneNetwork(MeanLoss(cross_entropy)), MeanBeliefs(trainer.data.labels[other], trainer.classes)

    def judge(progress: Progress, record: dict[str, Any]) -> None:
        likeliest = add_judgement(trainer, other, mean, progress)
        progress.extra[f"likeliest{progress.epoch}"] = torch.from_numpy(likeliest)

    name = f"noise rate, half {number} of 2"
    training = Training(name, number, own, WARM_UP, _flat_schedule, checkpoint)
    progress = trainer.fit(training, method, judge)
    restore_mean(mean, progress)
    late = [progress.extra[f"likeliest{epoch + 1}"].numpy() for epoch in range(WARM_UP // 3, WARM_UP)]
    said = (mean.classes[:, 0].astype(np.int64), mean.sums[:, 0] / WARM_UP, np.stack(late))
    return said, sum(record["seconds"] for record in progress.records)


def add_judgement(
    trainer: Trainer, index: NDArray[np.int64], mean: MeanBeliefs, progress: Progress
) -> NDArray[np.int64]:
    """Adds the model's predictions for the rows at ``index`` to their mean, which `Progress.extra` keeps.

    Returns:
        (M,) the present likeliest class of each row.
    """
    restore_mean(mean, progress)
    data, likeliest = trainer.data, np.empty(len(index), dtype=np.int64)
    for rows in blocks(len(index), trainer.classes):
        logits = predict_logits(progress.model, data, trainer.engine, index=index[rows], workers=trainer.workers)
        probs = logits.softmax(dim=1).numpy()
        likeliest[rows] = probs.argmax(axis=1)
        mean.add(np.arange(rows.start, rows.stop), probs)
    progress.extra |= {f"mean.{key}": torch.from_numpy(array) for key, array in mean.state().items()}
    return likeliest


def restore_mean(mean: MeanBeliefs, progress: Progress) -> None:
    """Restores the mean from `Progress.extra`, if a mean is there."""
    stored = {key: progress.extra[f"mean.{key}"].numpy() for key in mean.state() if f"mean.{key}" in progress.extra}
    if stored:
        mean.restore(stored)


def _flat_schedule(u: float) -> float:
    return 1.0
