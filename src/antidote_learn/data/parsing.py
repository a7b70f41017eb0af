"""Tables in files: .csv and .tsv text, compressed or not, and .parquet."""

from __future__ import annotations

import gzip
import io
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import parquet

from antidote_learn.data.safety import PARQUET, SEPARATORS, check_room

PACKED = ".gz"
GROWTH = 4  # the bytes of memory that a byte of text takes as a table, at least
CELL = 8  # the bytes of memory that a cell takes, at least: those of a double


def raw_names(path: Path, suffix: str) -> list[str]:
    """Read the columns' names as they are written; pandas would rename the second of two equal ones."""
    if suffix == PARQUET:
        return [str(name) for name in parquet.read_schema(path).names]
    with _open_text(path) as file:
        header = pd.read_csv(file, header=None, nrows=1, dtype="str", na_filter=False, **_form(suffix))
    return [str(name) for name in header.iloc[0] if name]


def parse_table(path: Path, suffix: str, strings: Sequence[str]) -> pd.DataFrame:
    """Parse the table of a file.

    In text, a row longer than the header is refused, a column's type is that of all its rows, and ? means missing.

    Args:
        path: The file.
        suffix: The end of its name, one of `TABLE_SUFFIXES`.
        strings: Columns of text to read as they are written.
    """
    if suffix == PARQUET:
        _check_parquet(path)
        return pd.read_parquet(path)
    types = dict.fromkeys(strings, "str")
    with _open_text(path) as file:
        table: pd.DataFrame = pd.read_csv(file, dtype=types, low_memory=False, na_values=["?"], **_form(suffix))
    return table


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


def _open_text(path: Path) -> Any:
    return io.BufferedReader(Unpacked(path)) if path.name.lower().endswith(PACKED) else path.open("rb")


def _form(suffix: str) -> dict[str, Any]:
    return {"sep": SEPARATORS[suffix], "index_col": False, "skipinitialspace": True}


def _check_parquet(path: Path) -> None:
    """Raise MemoryError for more rows than fit into memory; a few bytes can stand for any number of equal rows."""
    found = parquet.read_metadata(path)
    rows = sum(max(found.row_group(i).num_rows, 0) for i in range(found.num_row_groups))
    check_room(max(rows, found.num_rows) * found.num_columns * CELL)
