"""One cell of a grid is made: the training run, and the record it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antidote_learn.bench.layout import RECORD, Cell
from antidote_learn.training.checkpoint import check_held, read_json, write_sealed
from antidote_learn.training.engine import RunFailed
from antidote_learn.training.interrupts import Interrupted
from antidote_learn.training.plans import plan_run
from antidote_learn.training.runs import train
from antidote_learn.training.specs import read_spec

SETTINGS = (
    "protocol", "model", "optimizer", "lr", "schedule", "epochs", "batch_size", "weight_decay", "clip", "augment",
    "samples",
)  # fmt: skip

NUMBER = (int, float)
FIGURES: dict[str, type | tuple[type, ...]]
FIGURES = {"last": NUMBER, "best": NUMBER, "seconds": NUMBER, "against": str, "settings": dict}  # of a run that ended


def record_of(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """What a cell that has ended left in a grid's folder; None where it has not."""
    path = folder / cell.name / RECORD
    if not path.exists():
        return None
    record = read_json(path, {"noise": str, "seed": int})
    check_held(path, record, {"error": str} if "error" in record else FIGURES)
    return {**record, "method": cell.method} if _lasts(record) else None  # two names may stand for the same run


def run_cell(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """Makes the run, from its checkpoint if there is one, and writes its record; None where the user stopped it.

    A run that breaks down (its loss is no number) is a record with its error. One that fails for lack of a file, of
    room on the disk or of memory is told in the same way, but not written down: the next call tries it again.
    """
    known = record_of(cell, folder)
    if known is not None:
        return known
    place = folder / cell.name
    try:
        found = _train_cell(cell, place)
    except Interrupted:
        return None
    except Exception as error:
        found = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
    record = {"method": cell.method, "trained": cell.concrete_method, "noise": cell.noise, "seed": cell.seed, **found}
    if _lasts(record):
        place.mkdir(parents=True, exist_ok=True)
        write_sealed(place / RECORD, record)
    return record


def check_cell(cell: Cell) -> None:
    """ValueError or FileNotFoundError where the run cannot begin; nothing is written."""
    plan_run(cell.request)


def _lasts(record: Mapping[str, Any]) -> bool:
    """Whether another try would end alike: the run ended, or broke down of itself."""
    return "error" not in record or record["error"].startswith(f"{RunFailed.__name__}:")


def _train_cell(cell: Cell, place: Path) -> dict[str, Any]:
    options = dict(cell.options)
    run = train(
        cell.data, method=cell.method, noise=cell.noise, seed=cell.seed, out=place / "run", resume=True, **options
    )
    summary, (spec, _) = run.summary, read_spec(run.folder)
    rate = summary["noise_rate"]
    return {
        **{key: summary["accuracy"][key] for key in ("last", "best", "best_epoch", "against")},
        "seconds": summary["seconds"],
        "realised": summary["noise"]["realised"],
        "noise_rate": None if rate is None else {key: rate[key] for key in ("rate", "low", "high")},
        "settings": {key: spec[key] for key in SETTINGS},
    }
