"""Editors write a data file with other labels and fewer rows, and keep the rest of it as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from antidote_learn.auditing.decisions import Change, Decisions, match_decisions
from antidote_learn.auditing.spelling import label_names, note_spelling, read_with_labels
from antidote_learn.auditing.text_editing import LinesFile, TableFile
from antidote_learn.data.labels import label_words, sort_class_names
from antidote_learn.data.safety import LINES, PARQUET, SEPARATORS
from antidote_learn.data.tabular import all_arrays, name_in_errors, read_npz
from antidote_learn.data.text_forms import UNKNOWN, TextForm


class Editor(Protocol):
    """A file that can be written anew.

    Attributes:
        words: (N,) names of its labels.
        spelled: The file's own spelling of each class, by the name of the class.
    """

    words: NDArray[np.object_]
    spelled: dict[str, Any]

    def write(self, path: Path, changes: Sequence[Change]) -> None:
        """Writes the file with the changes."""
        ...

    def cells(self, row: int) -> list[str]:
        """Returns the cells of a row as text, for the log; arrays have none."""
        ...


class ParquetFile:
    """A .parquet file; it keeps its schema and the metadata of other programs.

    Args:
        path: The file.
        label: The column of the labels, as `read_table` takes it.
        form: Not used, as the file is no text.
    """

    def __init__(self, path: Path, label: str | None, form: TextForm) -> None:
        frame, columns = read_with_labels(path, label, form)
        self._table, self._target = parquet.read_table(path), columns[0]
        self.words, self.spelled = label_names(frame[columns[0]]), dict[str, Any]()
        for name in columns:
            note_spelling(self.spelled, label_names(frame[name]), self._table[name].to_pylist())

    def write(self, path: Path, changes: Sequence[Change]) -> None:
        """See `Editor.write`."""
        at = self._table.schema.get_field_index(self._target)
        values = self._table[self._target].to_pylist()
        for change in changes:
            if change.new_label is not None:
                values[change.index] = self.spelled[change.new_label]
        field = self._table.schema.field(at)
        table = self._table.set_column(at, field, pa.array(values, type=field.type))
        parquet.write_table(table.filter(pa.array(_remaining_rows(changes, len(values)))), path)

    def cells(self, row: int) -> list[str]:
        """See `Editor.cells`."""
        return [str(column[row].as_py()) for column in self._table.columns]


class ArraysFile:
    """A .npz file; a dropped row leaves every array of as many rows, except the arrays of the test part.

    Args:
        path: The file.
        label: Not used, as the labels of a .npz file are its ``y``.
        form: Not used, as the file is no text.
    """

    def __init__(self, path: Path, label: str | None, form: TextForm) -> None:
        read_npz(path)  # raises an error that says what is wrong with the file
        self._arrays = all_arrays(path)
        self.words, self.spelled = label_words(self._arrays["y"], "y", len(self._arrays["y"])), dict[str, Any]()
        for name in ("y", "clean_labels"):
            if name in self._arrays:
                values = self._arrays[name]
                note_spelling(self.spelled, label_words(values, name, len(values)), values)

    def write(self, path: Path, changes: Sequence[Change]) -> None:
        """See `Editor.write`."""
        new = {change.index: self.spelled[change.new_label] for change in changes if change.new_label is not None}
        labels = self._arrays["y"]
        if new:
            values = np.array(list(new.values()))
            labels = labels.astype(np.result_type(labels, values))
            labels[list(new)] = values
        kept, rows = _remaining_rows(changes, len(labels)), len(labels)
        written = {
            name: array[kept] if array.ndim and len(array) == rows and name not in ("X_test", "y_test") else array
            for name, array in {**self._arrays, "y": labels}.items()
        }
        with open(path, "wb") as file:
            np.savez(file, **written)

    def cells(self, row: int) -> list[str]:
        """See `Editor.cells`."""
        return []


EDITORS: dict[str, Callable[[Path, str | None, TextForm], Editor]] = {
    **dict.fromkeys(SEPARATORS, TableFile),
    LINES: LinesFile,
    PARQUET: ParquetFile,
    ".npz": ArraysFile,
}


@dataclass(frozen=True)
class DataKind:
    """The kind of data that decisions are applied to.

    Attributes:
        suffix: The end of a file's name; empty for a folder of images.
        label: The column of the labels of a table, if it is named.
        form: The form of a text file, as far as it is given.
    """

    suffix: str
    label: str | None = None
    form: TextForm = UNKNOWN


def review_of_file(given: pd.DataFrame, source: Path, kind: DataKind) -> tuple[Editor, Decisions]:
    """Opens the file and matches the decisions with it; decisions that do not fit are a ValueError."""
    edited = EDITORS[kind.suffix](source, kind.label, kind.form)
    with name_in_errors(source):
        return edited, match_decisions(given, edited.words, sort_class_names({*edited.spelled}))


def _remaining_rows(changes: Sequence[Change], rows: int) -> NDArray[np.bool_]:
    kept = np.ones(rows, dtype=bool)
    kept[[change.index for change in changes if change.new_label is None]] = False
    return kept
