"""The work of every process of a run: it estimates an unknown noise rate, trains, scores and writes the results."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from antidote_learn._types import FADED, NoisyLabels, Relaxed
from antidote_learn.core.transition_matrices import check_estimate
from antidote_learn.data.prepared import Prepared, true_transition
from antidote_learn.methods.base import Hooks, Method, Scores
from antidote_learn.methods.parameters import makes_plan
from antidote_learn.registry import MethodSpec, build_method
from antidote_learn.training.checkpoint import damage_told, write_bytes, write_json, write_rows, write_tensors
from antidote_learn.training.engine import Engine
from antidote_learn.training.estimation import NOISE_RATE, estimate_rate, transition_from_record
from antidote_learn.training.evaluate import hits, outputs, score_samples
from antidote_learn.training.given_transitions import asks_for_estimate
from antidote_learn.training.interrupts import gently
from antidote_learn.training.loop import Progress, Trainer, Training
from antidote_learn.training.plans import TrainingPlan
from antidote_learn.training.progress import Reporter, Silent
from antidote_learn.training.results import SNAPSHOTS, write_model
from antidote_learn.training.schedules import parse_schedule
from antidote_learn.training.specs import Spec, label_summary
from antidote_learn.training.transition_file import RunTransition, write_transition

ESTIMATE_ONLY = ("seconds", "transition")  # the entries of an estimate that the summary has elsewhere
TRAINING = 3  # the number of the training on all samples; those on the two halves are 1 and 2


@dataclass(frozen=True, eq=False)
class Job:
    """A run to carry out."""

    folder: Path
    spec: Spec
    data: Prepared
    method: MethodSpec
    network: str | nn.Module
    workers: int
    reporter: Reporter


def work(engine: Engine, job: Job) -> None:
    """Carries out the run, from the point that its folder has reached."""
    with gently():
        reporter = job.reporter if engine.rank == 0 else Silent()
        settings = job.spec.settings
        trainer = Trainer(engine, job.data, settings, reporter, network=job.network, workers=job.workers)
        try:
            _run(trainer, job)
        finally:
            trainer.reporter.close()


def _run(trainer: Trainer, job: Job) -> None:
    for note in job.data.notes:
        trainer.reporter.note(note)
    plan = _plan(trainer, job)
    method = build_method(plan.method, samples=trainer.samples)
    if plan.model is None:
        progress = trainer.on(plan.data).fit(
            main_training(trainer, job.folder),
            method,
            lambda progress, record: _end_epoch(trainer, job, plan, method, progress, record),
            lambda progress: _write_metrics(job.folder, progress),
        )
        progress.model = plan.combine(progress.model)
    else:
        progress = _fitted_progress(trainer, job, plan)
    scores = score_samples(progress.model, job.data, trainer.engine, workers=job.workers)
    if trainer.engine.rank == 0:
        _write_results(trainer, job, method, progress, scores, plan)
    trainer.engine.barrier()


def _plan(trainer: Trainer, job: Job) -> TrainingPlan:
    """The plan that the method makes, or the method itself, with what it must be told, on the run's labels."""
    maker = job.method.maker
    if maker is not None and makes_plan(maker):
        plan: TrainingPlan = maker(**job.method.parameters).plan_training(trainer, job.folder)
        return plan
    found = _estimate_if_unknown(trainer, job)
    with damage_told(job.folder / NOISE_RATE):
        return TrainingPlan(job.data, _with_estimates(trainer, job.method, found), found)


def _fitted_progress(trainer: Trainer, job: Job, plan: TrainingPlan) -> Progress:
    """The progress of a run whose model is fitted already: a single epoch."""
    assert plan.model is not None
    start = time.perf_counter()
    record = {"epoch": 1, "lr": 0.0, "loss": plan.decision["held_out_loss"]}
    progress = Progress(plan.model.to(trainer.engine.device), epoch=1, records=[record])
    _evaluate(trainer, job, plan.model, progress, record)
    record["seconds"] = time.perf_counter() - start + plan.decision["seconds"]
    trainer.reporter.epoch(record)
    return progress


def main_training(trainer: Trainer, folder: Path) -> Training:
    """The training on all samples, after those that estimate the rate."""
    settings = trainer.settings
    return Training(
        "training",
        TRAINING,
        np.arange(trainer.samples),
        settings.epochs,
        parse_schedule(settings.schedule, epochs=settings.schedule_epochs),
        folder / "checkpoint" / "training.safetensors",
    )


def _estimate_if_unknown(trainer: Trainer, job: Job) -> dict[str, Any] | None:
    matrix = asks_for_estimate(job.method)
    if job.method.rate != "auto" and not matrix:
        return None
    found = estimate_rate(trainer, job.folder, matrix=matrix)
    for warning in found["warnings"]:
        trainer.reporter.note(warning)
    trainer.reporter.note(
        f"estimated noise rate {found['rate']:.3f}, between {found['low']:.3f} and {found['high']:.3f}"
    )
    return found


def _with_estimates(trainer: Trainer, method: MethodSpec, found: dict[str, Any] | None) -> MethodSpec:
    """The method with the estimated rate and transition matrix in place of the words that ask for them."""
    if found is None:
        return method
    if asks_for_estimate(method):
        method = method.with_parameters(transition=transition_from_record(found, trainer.classes))
    return method.with_rate(found["rate"]) if method.rate == "auto" else method


def _end_epoch(
    trainer: Trainer, job: Job, plan: TrainingPlan, method: Method, progress: Progress, record: dict[str, Any]
) -> None:
    """Adds figures to the epoch's record, and keeps the losses of all samples where they were asked for."""
    model = plan.combine(progress.model)
    _evaluate(trainer, job, model, progress, record)
    if str(progress.epoch) not in job.spec.snapshots.split(","):
        return
    scores = score_samples(model, job.data, trainer.engine, workers=job.workers)
    if trainer.engine.rank == 0:
        folder = job.folder / SNAPSHOTS
        folder.mkdir(exist_ok=True)
        write_rows(folder / f"epoch{progress.epoch:04d}.parquet", samples_table(job.data, scores, method))


def _evaluate(trainer: Trainer, job: Job, model: nn.Module, progress: Progress, record: dict[str, Any]) -> None:
    """Adds the figures on the test samples to the epoch's record, and keeps the weights of the best epoch."""
    data = job.data
    logits = outputs(model.eval(), data.test_rows, data.preparation, trainer.engine, workers=job.workers)
    labels = torch.from_numpy(data.test_labels)
    record["top1"] = hits(logits, labels, top=1)
    if trainer.classes > 5:
        record["top5"] = hits(logits, labels, top=5)
    if record["top1"] > max((earlier["top1"] for earlier in progress.records[:-1]), default=-1.0):
        progress.extra = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


def _write_metrics(folder: Path, progress: Progress) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in progress.records)
    write_bytes(folder / "metrics.jsonl", lines.encode())


def _write_results(
    trainer: Trainer, job: Job, method: Method, progress: Progress, scores: Scores, plan: TrainingPlan
) -> None:
    """Writes metrics, model, samples, the transition matrix if there is one, and summary, and `done` last.

    Metrics are written once more, as a kill may have come between the last checkpoint and its metrics.
    """
    folder, best, transition = job.folder, _best(progress), _run_transition(method, job.data)
    _write_metrics(folder, progress)
    write_tensors(folder / "model" / "last.safetensors", progress.model.state_dict(), {"epoch": progress.epoch})
    write_tensors(folder / "model" / "best.safetensors", progress.extra, {"epoch": best["epoch"]})
    write_model(folder / "model", job.spec, job.data, progress.model)
    write_rows(folder / "samples.parquet", samples_table(job.data, scores, method))
    if transition is not None:
        write_transition(folder, transition, job.data.classes)
    write_json(folder / "summary.json", summary(job, progress, plan, transition))
    write_bytes(folder / "done", time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime()).encode())


def _run_transition(method: Method, data: Prepared) -> RunTransition | None:
    """The transition matrix of a method that has one, beside the true one."""
    found = Hooks(method).transition_estimate()
    if found is None:
        return None
    return RunTransition(check_estimate(found, classes=len(data.classes)), true_transition(data))


def _best(progress: Progress) -> dict[str, Any]:
    """The record of the first epoch with the highest figure on the test samples."""
    return max(progress.records, key=lambda record: record["top1"])


def samples_table(data: Prepared, scores: Scores, method: Method) -> pd.DataFrame:
    """The table of the training samples; the weights are those of one relaxation over all samples."""
    labels = torch.from_numpy(data.labels)
    solved = Hooks(method).relax_all(scores.losses, labels)
    plain = torch.ones_like(scores.losses) if solved is None else solved
    weights = plain if isinstance(plain, Tensor) else plain.weights
    names = np.array(data.classes)
    columns: dict[str, Any] = {"index": data.index, "given_label": names[data.labels]}
    if data.clean_labels is not None:
        columns["clean_label"] = names[data.clean_labels]
    columns |= {
        "predicted_label": names[scores.probs.argmax(dim=1).numpy()],
        "probability": scores.probs.gather(1, labels[:, None])[:, 0].numpy(),
        "loss": scores.losses.numpy(),
        "weight": weights.numpy(),
        "forgotten": _forgotten(solved, weights),
    }
    return pd.DataFrame(columns)


def _forgotten(solved: Relaxed | Tensor | None, weights: Tensor) -> Any:
    if solved is None:
        return np.zeros(len(weights), dtype=bool)
    vanishes = isinstance(solved, Tensor) or np.isfinite(solved.divergence.vanishing_score)
    return (weights <= 0.0 if vanishes else weights < FADED).numpy()


def summary(job: Job, progress: Progress, plan: TrainingPlan, transition: RunTransition | None) -> dict[str, Any]:
    """The summary of a run, which the command line prints as JSON."""
    data, last, best, rate = job.data, progress.records[-1], _best(progress), plan.rate
    accuracy = {
        "last": last["top1"],
        "best": best["top1"],
        "best_epoch": best["epoch"],
        "against": "clean" if data.test_is_clean else "given",
        "selection": "the best epoch is the one with the highest figure on the test samples themselves: optimistic",
    }
    if "top5" in last:
        accuracy["last_top5"] = last["top5"]
    return {
        "method": job.spec.method,
        "data": job.spec.data,
        **label_summary(data.label),
        "noise": _noise_summary(job.spec.noise, data),
        "noise_rate": None if rate is None else {key: value for key, value in rate.items() if key not in ESTIMATE_ONLY},
        **({} if transition is None else {"transition": _transition_summary(transition)}),
        **({"decision": dict(plan.decision)} if plan.decision else {}),
        "accuracy": accuracy,
        "test": "held out" if data.held_out else "given",
        "samples": len(data.labels),
        "notes": list(data.notes),
        "epochs": progress.epoch,
        "seconds": sum(record["seconds"] for record in progress.records) + (rate or {}).get("seconds", 0.0),
        "out": str(job.folder),
    }


def _transition_summary(transition: RunTransition) -> dict[str, Any]:
    return {"source": transition.estimate.source, "total_variation": transition.total_variation}


def _noise_summary(spec: str, data: Prepared) -> dict[str, Any]:
    known = data.noise
    if known is None:  # the hash identifies the labels of training, with or without noise
        truth = data.labels if data.clean_labels is None else data.clean_labels
        known = NoisyLabels(data.labels, truth, lambda: np.eye(len(data.classes)), 0.0, spec, None)
    realised = None if data.clean_labels is None else known.rate
    return {
        "spec": spec,
        "realised": realised,
        "expected": None if data.noise is None else known.expected,
        "hash": known.hash,
    }
