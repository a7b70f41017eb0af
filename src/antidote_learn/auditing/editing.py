"""Editors write a data file with other labels and fewer rows, and keep the rest of it as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from antidote_learn.auditing.decisions import Change, Decisions, match_decisions
from antidote_learn.data.labels import label_words, names_of, sort_class_names
from antidote_learn.data.safety import SEPARATORS
from antidote_learn.data.tabular import all_arrays, label_columns, name_in_errors, read_frame, read_npz


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


class TableFile:
    """A .csv or .tsv file, compressed or not; cells that do not change stay as they are written.

    Args:
        path: The file.
        label: The column of the labels, as `read_table` takes it.
    """

    def __init__(self, path: Path, label: str | None) -> None:
        frame, columns = _read_with_labels(path, label)
        ending = next(end for end in SEPARATORS if path.name.lower().endswith(end))
        packed = {"method": "gzip", "mtime": 0} if "gz" in ending else None  # no time: equal tables are equal bytes
        self._form: dict[str, Any] = {"sep": SEPARATORS[ending], "compression": packed}
        rows = pd.read_csv(
            path, dtype="str", na_filter=False, index_col=False, header=None, skipinitialspace=True, **self._form
        )
        self._header, self._cells = rows.iloc[:1], rows.iloc[1:].reset_index(drop=True)
        self._at = list(frame.columns).index(columns[0])
        self.words, self.spelled = _label_names(frame[columns[0]]), dict[str, Any]()
        for name in columns:
            at = list(frame.columns).index(name)
            _note_spelling(self.spelled, _label_names(frame[name]), self._cells[at].tolist())

    def write(self, path: Path, changes: Sequence[Change]) -> None:
        """See `Editor.write`."""
        cells = self._cells.copy()
        for change in changes:
            if change.new_label is not None:
                cells.iat[change.index, self._at] = self.spelled[change.new_label]
        kept = cells[_remaining_rows(changes, len(cells))]
        pd.concat([self._header, kept]).to_csv(path, index=False, header=False, **self._form)

    def cells(self, row: int) -> list[str]:
        """See `Editor.cells`."""
        return [str(cell) for cell in self._cells.iloc[row]]


class ParquetFile:
    """A .parquet file; it keeps its schema and the metadata of other programs.

    Args:
        path: The file.
        label: The column of the labels, as `read_table` takes it.
    """

    def __init__(self, path: Path, label: str | None) -> None:
        frame, columns = _read_with_labels(path, label)
        self._table, self._target = parquet.read_table(path), columns[0]
        self.words, self.spelled = _label_names(frame[columns[0]]), dict[str, Any]()
        for name in columns:
            _note_spelling(self.spelled, _label_names(frame[name]), self._table[name].to_pylist())

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
    """

    def __init__(self, path: Path, label: str | None) -> None:
        read_npz(path)  # raises an error that says what is wrong with the file
        self._arrays = all_arrays(path)
        self.words, self.spelled = label_words(self._arrays["y"], "y", len(self._arrays["y"])), dict[str, Any]()
        for name in ("y", "clean_labels"):
            if name in self._arrays:
                values = self._arrays[name]
                _note_spelling(self.spelled, label_words(values, name, len(values)), values)

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


EDITORS: dict[str, Callable[[Path, str | None], Editor]] = {
    **dict.fromkeys(SEPARATORS, TableFile),
    ".parquet": ParquetFile,
    ".npz": ArraysFile,
}


def review_of_file(given: pd.DataFrame, source: Path, suffix: str, label: str | None) -> tuple[Editor, Decisions]:
    """Opens the file and matches the decisions with it; decisions that do not fit are a ValueError."""
    edited = EDITORS[suffix](source, label)
    with name_in_errors(source):
        return edited, match_decisions(given, edited.words, sort_class_names({*edited.spelled}))


def _read_with_labels(path: Path, label: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Reads the table as an audit does, and the names of its columns of given and, if it has them, clean labels."""
    frame = read_frame(path)
    with name_in_errors(path):
        return frame, [name for name in label_columns(frame, label, None) if name is not None]


def _label_names(values: pd.Series[Any]) -> NDArray[np.object_]:
    """Returns the labels' names; the row of an unreadable image may lack one."""
    return names_of(values.infer_objects()).to_numpy(dtype=object)


def _note_spelling(spelled: dict[str, Any], words: NDArray[np.object_], values: Sequence[Any] | NDArray[Any]) -> None:
    """Notes the spelling that each class has in its first row."""
    for word, value in zip(words, values, strict=True):
        if isinstance(word, str):
            spelled.setdefault(word, value)


def _remaining_rows(changes: Sequence[Change], rows: int) -> NDArray[np.bool_]:
    kept = np.ones(rows, dtype=bool)
    kept[[change.index for change in changes if change.new_label is None]] = False
    return kept
