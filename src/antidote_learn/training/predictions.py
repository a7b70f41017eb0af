"""Predictions of a finished run for new data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from antidote_learn.data.load import open_inputs
from antidote_learn.data.safety import check_name
from antidote_learn.data.spreadsheets import defuse_table
from antidote_learn.data.text_forms import Note, TextForm
from antidote_learn.training.checkpoint import replacing
from antidote_learn.training.results import Run

SUFFIXES = (".csv", ".parquet")  # the kinds of files that predictions are written to


def predict_table(
    folder: Path, data: str, *, which: str, model: str | None, root: Any, form: TextForm, note: Note
) -> pd.DataFrame:
    """The predictions, with the columns ``row, label, probability`` and a column ``p:CLASS`` for each class."""
    run = Run.read(folder, which=which, model=model)
    inputs, names = open_inputs(data, strings=run.strings, image=run.image, root=root, form=form, note=note)
    probs = run.predict_proba(inputs)
    best = probs.argmax(axis=1)
    table = pd.DataFrame({"row": names, "label": [run.classes[k] for k in best], "probability": probs.max(axis=1)})
    each = pd.DataFrame(probs, columns=[f"p:{name}" for name in run.classes])
    return pd.concat([table, each], axis=1)


def check_output_file(path: Path) -> None:
    """Refuses a file that predictions cannot be written to, before they are made."""
    check_name(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"predictions are written as {' or '.join(SUFFIXES)}, got {path.name!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; make it first")


def predictions_text(table: pd.DataFrame) -> str:
    """The table as CSV for spreadsheets: a cell that a spreadsheet would execute begins with an apostrophe."""
    return str(defuse_table(table).to_csv(index=False))


def write_predictions(table: pd.DataFrame, path: Path) -> None:
    """Writes a .csv or .parquet file, whole or not at all."""
    with replacing(path) as temporary:
        if path.suffix.lower() == ".csv":
            temporary.write_text(predictions_text(table), encoding="utf-8", newline="")
        else:
            table.to_parquet(temporary, index=False)
