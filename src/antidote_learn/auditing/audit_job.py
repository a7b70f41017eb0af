"""The work of an audit in its folder: it estimates the noise rate, trains networks, scores rows and writes tables."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from antidote_learn._types import ImageFiles, Inputs
from antidote_learn.auditing.audit_result import Audit, build_audit, write_audit
from antidote_learn.auditing.counts import fewest_contradicted
from antidote_learn.auditing.cross_training import Evidence, collect_evidence
from antidote_learn.auditing.cuts import Cut
from antidote_learn.auditing.embeddings import Embeddable, all_embeddings
from antidote_learn.auditing.features import neighbour_features, same_rows, with_embeddings
from antidote_learn.auditing.issue_table import AuditRows, names_array
from antidote_learn.auditing.judges import WORDS, doubt_encoder, has_weights, judges_of, own_judge, predict_by_judges
from antidote_learn.auditing.neighbours import nearest_rows
from antidote_learn.auditing.progress_tellers import progress_teller
from antidote_learn.auditing.scores import LabelScores, score
from antidote_learn.auditing.weighted_judges import score_judges
from antidote_learn.core.beliefs import Beliefs
from antidote_learn.data.prepared import Prepared
from antidote_learn.presets.protocols import TrainingSettings
from antidote_learn.training.checkpoint import write_bytes
from antidote_learn.training.engine import Engine
from antidote_learn.training.estimation import estimate_rate
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
    judges: str = ""
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
        judges: The classifiers that the user adds.
        source: The rows of the table that the samples are from, in the same order; None if there is none.
        network: The network, or its name.
        about: Entries of the summary that are known before the audit.
        cut: The wish how many rows to flag.
        with_columns: Whether ``issues.csv`` carries the columns of the data.
        reporter: The listener to the progress.
    """

    folder: Path
    spec: AuditSpec
    given: Prepared
    data: Prepared
    embeddable: Embeddable | None
    names: tuple[Any, ...]
    inputs: Inputs
    judges: Sequence[Any]
    source: pd.DataFrame | None
    network: str | nn.Module
    about: dict[str, Any]
    cut: Cut
    with_columns: bool
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
    features = neighbour_features(data)
    who, ordinary = _ask_judges(job, data, features)
    trainer = Trainer(engine, data, job.spec.settings, reporter, network=job.network, workers=WORKERS)
    rate = estimate_rate(trainer, folder)
    for warning in rate["warnings"]:
        reporter.note(warning)
    evidence = collect_evidence(trainer, folder, rate=rate["rate"], epochs=job.spec.settings.epochs)
    around = nearest_rows(features, progress_teller(reporter, "nearest rows"))
    scores = _score_rows(job, data, evidence, ordinary, around)
    rows = AuditRows(data.labels, job.names, data.index, around, same_rows(job.given, job.inputs), _extra_columns(job))
    words = [said for name, said in zip(who, ordinary, strict=True) if name == WORDS]
    contradicted = fewest_contradicted([evidence.held_out, *words], data.labels)
    about = {**job.about, "judges": ["networks", "nearest rows", *who], **_doubt(job, evidence, who, ordinary)}
    own: dict[str, Any] = {"inputs": job.inputs, "source": job.source}
    found = build_audit(rows, scores, rate["rate"], contradicted, job.cut, about=about, **own)
    write_audit(folder, found, with_columns=job.with_columns)
    write_bytes(folder / "done", time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime()).encode())
    shutil.rmtree(folder / "checkpoint")
    return found


def _ask_judges(job: AuditJob, data: Prepared, features: NDArray[np.float32]) -> tuple[list[str], list[Beliefs]]:
    """Returns the names and the predictions of ordinary classifiers; those that the user adds are the last."""
    judges = [*judges_of(job.given, features), *(own_judge(judge, features) for judge in job.judges)]
    if not judges:
        return [], []
    seed, tell = job.spec.settings.seed, progress_teller(job.reporter, "other judges")
    return [judge.name for judge in judges], predict_by_judges(
        judges, data.labels, len(data.classes), seed=seed, tell=tell
    )


def _doubt(job: AuditJob, evidence: Evidence, who: list[str], ordinary: list[Beliefs]) -> dict[str, str]:
    """Returns advice, after a note of it, where the encoder of texts tells less about the labels than their words."""
    if job.embeddable is None or WORDS not in who:
        return {}
    words = ordinary[who.index(WORDS)]
    advice = doubt_encoder(job.spec.encoder, job.given.labels, evidence.held_out, words)
    if advice:
        job.reporter.note(advice)
    return {"advice": advice}


def _score_rows(
    job: AuditJob, data: Prepared, evidence: Evidence, ordinary: list[Beliefs], around: NDArray[np.int64]
) -> LabelScores:
    """Returns the scores of all rows."""
    labels, count, tell = data.labels, len(data.classes), progress_teller(job.reporter, "scores")
    if has_weights(job.given):
        return score_judges(
            labels,
            count,
            robust=(evidence.held_out,),
            ordinary=ordinary,
            around=around,
            trained_on=evidence.in_training,
            tell=tell,
        )
    return score(
        labels,
        count,
        said=(evidence.held_out, *ordinary),
        around=around,
        trained_on=evidence.in_training,
        trust=evidence.in_training.of(labels),
        tell=tell,
    )


def _embed_inputs(job: AuditJob) -> Prepared:
    """Returns the data as the networks read them, embedded if they must be."""
    if job.embeddable is None:
        return job.data
    tell = progress_teller(job.reporter, f"embeddings by {job.embeddable.encoder.name}")
    return with_embeddings(job.data, all_embeddings(job.embeddable, job.folder, tell, job.reporter.note))


def _extra_columns(job: AuditJob) -> dict[str, Any]:
    """Returns the further columns of the table: image files, clean labels."""
    extra: dict[str, Any] = {"file": list(job.inputs.names)} if isinstance(job.inputs, ImageFiles) else {}
    if job.data.clean_labels is not None:
        extra["clean_label"] = names_array(job.names)[job.data.clean_labels]
    return extra
