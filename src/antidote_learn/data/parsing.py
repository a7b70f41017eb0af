"""Tables in files, each opened as a source: its columns' names first, then the table."""

from __future__ import annotations

import gzip
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from pyarrow import parquet

from antidote_learn.data.json_lines import parse_lines
from antidote_learn.data.number_marks import decimal_mark, with_numbers
from antidote_learn.data.safety import (
    GROWTH,
    LINES,
    PARQUET,
    SEPARATORS,
    WORKBOOK,
    TableFault,
    check_excel,
    check_room,
    check_table_room,
    table_suffix,
)
from antidote_learn.data.text_forms import Note, TextForm, form_words, settle_form
from antidote_learn.data.workbooks import parse_workbook

PACKED = ".gz"
NAMED = 5  # columns that a note names at most


class TableSource(Protocol):
    """A table in a file.

    Attributes:
        names: The columns' names as they are written; pandas would rename the second of two equal ones.
    """

    names: list[str]

    def parse(self, strings: Sequence[str], note: Note) -> pd.DataFrame:
        """Parse the table; the columns ``strings`` of a text file are read as they are written."""
        ...


class TextSource:
    """A .csv, .tsv or .txt file. A row longer than the header is refused, and ? means missing."""

    def __init__(self, path: Path, suffix: str, form: TextForm) -> None:
        self._path, self._given, self._usual = path, form, SEPARATORS[suffix]
        self._form = form_of_file(path, form)
        header = self._read(header=None, nrows=1, dtype="str", na_filter=False)
        self.names = [str(name) for name in header.iloc[0] if name]

    def parse(self, strings: Sequence[str], note: Note) -> pd.DataFrame:
        """See `TableSource.parse`; a column's type is that of all its rows."""
        separator, decimal = str(self._form.separator), self._given.decimal
        options: dict[str, Any] = {"dtype": dict.fromkeys(strings, "str"), "low_memory": False, "na_values": ["?"]}
        frame = self._read(**options, decimal=decimal or ".")
        if decimal is None:
            decimal = decimal_mark(frame, separator, strings)
            if decimal == ",":
                frame = self._read(**options, decimal=",")  # numbers such as 1.234 are read as they are written
        frame, grouped, doubtful = with_numbers(frame, decimal, separator, strings)
        self._note_form(replace(self._form, decimal=decimal), grouped, note)
        if doubtful:
            note(
                f"{self._path.name}: {_columns(doubtful)} may hold numbers with a mark, as in "
                f"{str(frame[doubtful[0]].dropna().iloc[0])!r}, and were read as words: say which by `decimal`"
            )
        return frame

    def _note_form(self, found: TextForm, grouped: list[str], note: Note) -> None:
        """Note in one sentence what was detected beside the usual."""
        words = form_words(found, self._given, self._usual)
        if self._given.decimal is None:
            words += ["with decimal commas"] if found.decimal == "," else []
            words += [f"with marks between thousands in {_columns(grouped)}"] if grouped else []
        if words:
            note(f"{self._path.name} was read {', '.join(words)}; `encoding`, `separator` and `decimal` overrule this")

    def _read(self, **options: Any) -> pd.DataFrame:
        form: dict[str, Any] = {"sep": self._form.separator, "encoding": self._form.encoding}
        try:
            with open_text(self._path) as file:
                frame: pd.DataFrame = pd.read_csv(file, index_col=False, skipinitialspace=True, **form, **options)
                return frame
        except UnicodeError as error:
            raise TableFault(f"its text is no {self._form.encoding}: name its `encoding`") from error


class ParquetSource:
    """A .parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.names = [str(name) for name in parquet.read_schema(path).names]

    def parse(self, strings: Sequence[str], note: Note) -> pd.DataFrame:
        """See `TableSource.parse`."""
        _check_parquet(self._path)
        return pd.read_parquet(self._path)


class ParsedSource:
    """A table that is parsed when it is opened."""

    def __init__(self, columns: dict[str, list[Any]], notes: Sequence[str] = ()) -> None:
        self.names, self._columns, self._notes = list(columns), columns, notes

    def parse(self, strings: Sequence[str], note: Note) -> pd.DataFrame:
        """See `TableSource.parse`."""
        for sentence in self._notes:
            note(sentence)
        return pd.DataFrame(self._columns)


def open_table(path: Path, suffix: str, form: TextForm) -> TableSource:
    """Open the table of a file.

    Args:
        path: The file.
        suffix: The end of its name, one of `TABLE_SUFFIXES`.
        form: The form of a text file, as far as the user gives it.
    """
    if suffix == PARQUET:
        return ParquetSource(path)
    if suffix == WORKBOOK:
        check_excel()
        return ParsedSource(*parse_workbook(path))
    if suffix == LINES:
        return ParsedSource(parse_lines(path, str(form_of_file(path, form).encoding)))
    return TextSource(path, suffix, form)


def form_of_file(path: Path, given: TextForm) -> TextForm:
    """The encoding and the separator of a text file: those that are given, else those that its bytes show."""
    return settle_form(lambda: open_text(path), given, SEPARATORS.get(table_suffix(path) or "", ","))


def check_names(names: Sequence[str], what: str) -> None:
    """Raise ValueError where two names are the same or look so; a second label column would give the label away."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(plain_name(name), name)
        if other != name:
            raise ValueError(f"{what} has the columns {other!r} and {name!r}, which look the same: rename one")
    if len(seen) < len(names):
        twice = next(name for name in seen.values() if list(names).count(name) > 1)
        raise ValueError(f"{what} has the column {twice!r} twice: rename one")


def plain_name(name: str) -> str:
    """A column's name without blanks at its ends and marks without width."""
    return "".join(char for char in name if unicodedata.category(char) != "Cf").strip()


def widen_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the 16-bit floats of a table to 32 bits, as pandas can hardly use them."""
    narrow = [name for name, dtype in frame.dtypes.items() if dtype == np.float16]
    return frame.astype(dict.fromkeys(narrow, np.float32)) if narrow else frame


class Unpacked(io.RawIOBase):
    """The content of a .gz file, with a MemoryError before it outgrows the memory as a table."""

    def __init__(self, path: Path) -> None:
        self._file, self._done = gzip.open(path), 0  # noqa: SIM115 - closed by `close`

    def readable(self) -> bool:
        """True, as the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and check the size so far."""
        count = self._file.readinto(buffer)
        self._done += count
        check_room(self._done * GROWTH)
        return count

    def close(self) -> None:
        """Close the file and the stream."""
        self._file.close()
        super().close()


def open_text(path: Path) -> Any:
    """Open the bytes of a text file, which may be packed."""
    return io.BufferedReader(Unpacked(path)) if path.name.lower().endswith(PACKED) else path.open("rb")


def _columns(names: Sequence[str]) -> str:
    """Columns in words, at most a few by name."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:NAMED]))}{more}"


def _check_parquet(path: Path) -> None:
    """Raise MemoryError for more rows than fit into memory; a few bytes can stand for any number of equal rows."""
    found = parquet.read_metadata(path)
    rows = sum(max(found.row_group(i).num_rows, 0) for i in range(found.num_row_groups))
    check_table_room(max(rows, found.num_rows), found.num_columns)
