"""The work of an audit in its folder: it estimates the noise rate, trains networks, scores rows and writes tables."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from antidote_learn._types import ImageFiles, Inputs
from antidote_learn.auditing.audit_result import Audit, build_audit, write_audit
from antidote_learn.auditing.cross_training import Evidence, collect_evidence
from antidote_learn.auditing.embeddings import Embeddable, all_embeddings
from antidote_learn.auditing.features import is_plain_table, neighbour_features, same_rows, with_embeddings
from antidote_learn.auditing.issue_table import AuditRows, names_array
from antidote_learn.auditing.judges import FEWEST_ROWS, JUDGES, MOST_CLASSES, predict_by_judges
from antidote_learn.auditing.neighbours import nearest_rows
from antidote_learn.auditing.scores import LabelScores, score
from antidote_learn.auditing.weighted_judges import score_judges
from antidote_learn.data.prepared import Prepared
from antidote_learn.presets.protocols import TrainingSettings
from antidote_learn.training.checkpoint import write_bytes
from antidote_learn.training.engine import Engine
from antidote_learn.training.estimation import estimate_rate
from antidote_learn.training.interrupts import Interrupted, is_interrupted
from antidote_learn.training.loop import Trainer
from antidote_learn.training.progress import Reporter

WORKERS = 2  # threads that decode image files, as many as `train` has by default


@dataclass(frozen=True)
class AuditSpec:
    """The settings that determine the numbers of an audit."""

    data: str
    data_hash: str
    classes: int
    samples: int
    subset: int | None
    noise: str
    noise_seed: int
    encoder: str
    settings: TrainingSettings
    label: str = ""
    exclude: str = ""
    features: str = ""
    kind: ClassVar[str] = "audit"
    article: ClassVar[str] = "an"
    unwritten: ClassVar[tuple[str, ...]] = ("protocol", "schedule", "schedule_epochs")  # an audit has its own schedule


@dataclass(frozen=True, eq=False)
class AuditJob:
    """An audit to carry out.

    Attributes:
        folder: The audit's folder.
        spec: The settings that determine its numbers.
        given: The data as they were given.
        data: The data as the networks read them; inputs that are still to be embedded are as they were given.
        embeddable: The images or texts to embed first; None if there are none.
        names: The class names, in the user's own type.
        inputs: The samples as they were given, in the order of the rows.
        network: The network, or its name.
        about: Entries of the summary that are known before the audit.
        cut: The limits on flagged rows, ``max_flagged`` and ``fdr``.
        reporter: The listener to the progress.
    """

    folder: Path
    spec: AuditSpec
    given: Prepared
    data: Prepared
    embeddable: Embeddable | None
    names: tuple[Any, ...]
    inputs: Inputs
    network: str | nn.Module
    about: dict[str, Any]
    cut: dict[str, Any]
    reporter: Reporter


def run_audit(engine: Engine, job: AuditJob) -> Audit:
    """Carries out the audit, starting from the checkpoints in its folder."""
    try:
        return _audit_rows(engine, job)
    finally:
        job.reporter.close()


def _audit_rows(engine: Engine, job: AuditJob) -> Audit:
    reporter, folder = job.reporter, job.folder
    for note in job.given.notes:
        reporter.note(note)
    data = _embed_inputs(job)
    trainer = Trainer(engine, data, job.spec.settings, reporter, network=job.network, workers=WORKERS)
    rate = estimate_rate(trainer, folder)
    for warning in rate["warnings"]:
        reporter.note(warning)
    evidence = collect_evidence(trainer, folder, rate=rate["rate"], epochs=job.spec.settings.epochs)
    features = neighbour_features(data)
    around = nearest_rows(features, _progress_teller(reporter, "nearest rows"))
    scores, who = _score_rows(job, data, evidence, features, around)
    rows = AuditRows(data.labels, job.names, data.index, around, same_rows(job.given, job.inputs), _extra_columns(job))
    contradicted = int((evidence.held_out.classes[:, 0] != data.labels).sum())
    about = {**job.about, "judges": who}
    found = build_audit(rows, scores, rate["rate"], contradicted, **job.cut, about=about, inputs=job.inputs)
    write_audit(folder, found)
    write_bytes(folder / "done", time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime()).encode())
    shutil.rmtree(folder / "checkpoint")
    return found


def _score_rows(
    job: AuditJob, data: Prepared, evidence: Evidence, features: NDArray[np.float32], around: NDArray[np.int64]
) -> tuple[LabelScores, list[str]]:
    """Returns the scores of all rows, and who judged; tables have further judges."""
    labels, count, reporter = data.labels, len(data.classes), job.reporter
    who = ["networks", "nearest rows"]
    if is_plain_table(job.given.encoding) and count <= MOST_CLASSES and len(labels) >= FEWEST_ROWS:
        seed, tell = job.spec.settings.seed, _progress_teller(reporter, "other judges")
        ordinary = predict_by_judges(features, labels, count, seed=seed, tell=tell)
        scores = score_judges(
            labels,
            count,
            robust=(evidence.held_out,),
            ordinary=ordinary,
            around=around,
            trained_on=evidence.in_training,
            tell=_progress_teller(reporter, "scores"),
        )
        return scores, [*who, *JUDGES]
    scores = score(
        labels,
        count,
        said=(evidence.held_out,),
        around=around,
        trained_on=evidence.in_training,
        trust=evidence.in_training.of(labels),
        tell=_progress_teller(reporter, "scores"),
    )
    return scores, who


def _embed_inputs(job: AuditJob) -> Prepared:
    """Returns the data as the networks read them, embedded if they must be."""
    if job.embeddable is None:
        return job.data
    tell = _progress_teller(job.reporter, f"embeddings by {job.embeddable.encoder.name}")
    return with_embeddings(job.data, all_embeddings(job.embeddable, job.folder, tell, job.reporter.note))


def _extra_columns(job: AuditJob) -> dict[str, Any]:
    """Returns the further columns of the table: image files, clean labels."""
    extra: dict[str, Any] = {"file": list(job.inputs.names)} if isinstance(job.inputs, ImageFiles) else {}
    if job.data.clean_labels is not None:
        extra["clean_label"] = names_array(job.names)[job.data.clean_labels]
    return extra


def _progress_teller(reporter: Reporter, name: str) -> Callable[[int, int], None]:
    """Returns a function that reports progress outside of trainings and stops the audit after Ctrl-C."""
    reporter.stage(name, epochs=1, done=0)

    def tell(done: int, total: int) -> None:
        reporter.step(epoch=0, samples=done, total=total)
        if is_interrupted():
            raise Interrupted

    return tell
