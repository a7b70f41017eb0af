"""Editors of text files: all bytes stay that no decision is about."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from antidote_learn.auditing.decisions import Change
from antidote_learn.auditing.spelling import label_names, note_spelling, read_with_labels
from antidote_learn.auditing.written_rows import (
    MARK,
    cell_in_hand,
    splice,
    written_cells,
    written_lines,
    written_rows,
    written_value,
)
from antidote_learn.data.parsing import PACKED, form_of_file, open_text
from antidote_learn.data.text_forms import TextForm


class _TextFile:
    """The text of a file, which is written with other words in some places."""

    def __init__(self, path: Path, given: TextForm) -> None:
        self._is_packed = path.name.lower().endswith(PACKED)
        self._form = form_of_file(path, given)
        with open_text(path) as file:
            content: bytes = file.read()
        self._text = content.decode(str(self._form.encoding))
        if self._text.encode(str(self._form.encoding)) != content:
            raise ValueError(f"{path.name} is not written as others write {self._form.encoding}: save it as UTF-8")

    def _splice_of(self, change: Change) -> tuple[int, int, str]:
        """Returns where a change begins and ends, and the words that it puts there."""
        raise NotImplementedError

    def write(self, path: Path, changes: Sequence[Change]) -> None:
        """See `Editor.write`; equal texts are equal bytes."""
        text = splice(self._text, sorted(self._splice_of(change) for change in changes))
        content = text.encode(str(self._form.encoding))
        path.write_bytes(gzip.compress(content, mtime=0) if self._is_packed else content)


class TableFile(_TextFile):
    """A text file of rows and columns, compressed or not; every byte stays that no decision is about.

    Args:
        path: The file.
        label: The column of the labels, as `read_table` takes it.
        form: The form of the text, as far as it is given.
    """

    def __init__(self, path: Path, label: str | None, form: TextForm) -> None:
        frame, columns = read_with_labels(path, label, form)
        super().__init__(path, form)
        self._separator, names = str(self._form.separator), list(frame.columns)
        self._at = names.index(columns[0])
        options: dict[str, Any] = {"dtype": "str", "na_filter": False, "index_col": False, "skipinitialspace": True}
        raw = pd.read_csv(io.StringIO(self._text.removeprefix(MARK)), sep=self._separator, **options)
        self._labels = raw.iloc[:, self._at].tolist()
        self._rows = written_rows(self._text, self._separator)[1:]
        if len(self._rows) != len(frame):
            raise ValueError(f"{path.name} is parted into rows in a way that cannot be kept: write it again")
        self.words, self.spelled = label_names(frame[columns[0]]), dict[str, Any]()
        for name in columns:
            note_spelling(self.spelled, label_names(frame[name]), raw.iloc[:, names.index(name)].tolist())

    def _splice_of(self, change: Change) -> tuple[int, int, str]:
        row = self._rows[change.index]
        if change.new_label is None:
            return row.start, row.end, ""
        cell = written_cells(self._text, row, self._separator)[self._at]
        if cell.value != self._labels[change.index]:
            raise ValueError(f"row {change.index} is written in a way that cannot be kept: write the file again")
        return cell.start, cell.end, cell_in_hand(self.spelled[change.new_label], cell, self._separator)

    def cells(self, row: int) -> list[str]:
        """See `Editor.cells`."""
        return [cell.value for cell in written_cells(self._text, self._rows[row], self._separator)]


class LinesFile(_TextFile):
    """A .jsonl file; every byte stays that no decision is about.

    Args:
        path: The file.
        label: The name of the labels, as `read_table` takes it.
        form: The form of the text, of which the encoding counts.
    """

    def __init__(self, path: Path, label: str | None, form: TextForm) -> None:
        frame, columns = read_with_labels(path, label, form)
        super().__init__(path, form)
        self._target = columns[0]
        self._rows = written_lines(self._text)
        self.words, self.spelled = label_names(frame[self._target]), dict[str, Any]()
        for name in columns:
            words = pd.Series(label_names(frame[name])).dropna().drop_duplicates()
            note_spelling(self.spelled, words.to_numpy(), [self._written(int(row), name) for row in words.index])

    def _written(self, row: int, name: str) -> str:
        start, end = self._place(row, name)
        return self._text[start:end]

    def _place(self, row: int, name: str) -> tuple[int, int]:
        found = written_value(self._text, self._rows[row], name)
        assert found is not None  # the row has a label
        return found

    def _splice_of(self, change: Change) -> tuple[int, int, str]:
        if change.new_label is None:
            row = self._rows[change.index]
            return row.start, row.end, ""
        return (*self._place(change.index, self._target), self.spelled[change.new_label])

    def cells(self, row: int) -> list[str]:
        """See `Editor.cells`; a line is one cell."""
        return [self._text[self._rows[row].start : self._rows[row].end].strip()]
