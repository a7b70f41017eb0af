"""The record of a grid's cell, and the training run that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antidote_learn.bench.classifiers import build_classifier, is_classifier, score_classifier
from antidote_learn.bench.layout import RECORD, RUN, Cell
from antidote_learn.training.checkpoint import check_held, read_json, write_sealed
from antidote_learn.training.engine import RunFailed
from antidote_learn.training.interrupts import Interrupted
from antidote_learn.training.prepare import prepare_run
from antidote_learn.training.resolve import resolve_request
from antidote_learn.training.runs import train
from antidote_learn.training.specs import read_spec, spec_fields

SETTINGS = (
    "protocol", "model", "optimizer", "lr", "schedule", "epochs", "batch_size", "weight_decay", "clip", "augment",
    "samples",
)  # fmt: skip

NUMBER = (int, float)
FIGURES: dict[str, type | tuple[type, ...]]
# The entries, with their types, in the record of a run that ended well.
FIGURES = {"last": NUMBER, "best": NUMBER, "seconds": NUMBER, "against": str, "settings": dict}


def record_of(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """Reads the record of a cell in a grid's folder; None if the cell has not ended."""
    path = folder / cell.name / RECORD
    if not path.exists():
        return None
    record = read_json(path, {"noise": str, "seed": int})
    check_held(path, record, {"error": str} if "error" in record else FIGURES)
    named = {"method": cell.method, "cell": cell.name}  # methods of two names may be the same run
    return {**record, **named} if _lasts(record) else None


def run_cell(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """Trains a cell, from its checkpoint if there is one, and writes its record; None if the user stopped it.

    A run that breaks down (its loss is no number) leaves a record with its error. A run that lacks a file, room on the
    disk or memory returns such a record, too, but does not write it: the next call tries again.
    """
    known = record_of(cell, folder)
    if known is not None:
        return known
    place = folder / cell.name
    try:
        found = _fit_cell(cell) if is_classifier(cell.method) else _train_cell(cell, place)
    except Interrupted:
        return None
    except Exception as error:
        found = {"error": error_line(error)}
    record = {"method": cell.method, "trained": cell.concrete_method, "noise": cell.noise, "seed": cell.seed, **found}
    if _lasts(record):
        place.mkdir(parents=True, exist_ok=True)
        write_sealed(place / RECORD, record)
    return {**record, "cell": cell.name}


def error_line(error: Exception) -> str:
    """The kind and the message of an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def check_cell(cell: Cell) -> None:
    """Raises a ValueError or FileNotFoundError if the run cannot begin; writes nothing."""
    prepare_run(resolve_request(cell.request))


def _lasts(record: Mapping[str, Any]) -> bool:
    """Tells whether another try would end alike: the run ended, or broke down by itself."""
    return "error" not in record or record["error"].startswith(f"{RunFailed.__name__}:")


def _fit_cell(cell: Cell) -> dict[str, Any]:
    """Fits a classifier on the rows that a network would read."""
    job = prepare_run(resolve_request(cell.request))
    spec, noise = spec_fields(job.spec), job.data.noise
    return {
        **score_classifier(build_classifier(cell.method, seed=cell.seed), job.data),
        "realised": None if noise is None else noise.rate,
        "noise_rate": None,
        "settings": {key: spec[key] for key in SETTINGS},
    }


def _train_cell(cell: Cell, place: Path) -> dict[str, Any]:
    options = dict(cell.options)
    run = train(
        cell.data, method=cell.method, noise=cell.noise, seed=cell.seed, out=place / RUN, resume=True, **options
    )
    summary, (spec, _) = run.summary, read_spec(run.folder)
    rate = summary["noise_rate"]
    return {
        **{key: summary["accuracy"][key] for key in ("last", "best", "best_epoch", "against")},
        "seconds": summary["seconds"],
        "realised": summary["noise"]["realised"],
        "noise_rate": None if rate is None else {key: rate[key] for key in ("rate", "low", "high")},
        **({"last_top5": summary["accuracy"]["last_top5"]} if "last_top5" in summary["accuracy"] else {}),
        **({"transition": summary["transition"]} if "transition" in summary else {}),
        "settings": {key: spec[key] for key in SETTINGS},
    }
