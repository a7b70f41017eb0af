"""Files of an audit's table for other programs: .csv, .parquet and .jsonl."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype

from antidote_learn.auditing.audit_request import COLUMNLESS
from antidote_learn.data.safety import check_name
from antidote_learn.data.spreadsheets import defuse_table
from antidote_learn.training.checkpoint import replacing

PREFIX = "data_"  # what a column of the data begins with where the audit has a column of its name
PLAIN = ("string", "boolean", "empty")  # kinds of objects in a column that every format can write


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Writes a file of the kind that its suffix names, whole or not at all."""
    write = writer_for(path)
    with replacing(path) as temporary:
        write(table, temporary)


def writer_for(path: Path) -> Callable[[pd.DataFrame, Path], None]:
    """Returns the function that writes such a file; an unknown suffix or a missing folder is a ValueError."""
    check_name(path)
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}: make it, or name another place")
    if path.suffix.lower() not in WRITERS:
        raise ValueError(f"cannot tell from the name {path.name!r} what to write; accepted: {', '.join(WRITERS)}")
    return WRITERS[path.suffix.lower()]


def sort_as_data(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows in the order of the data, with the score also under cleanlab Datalab's name."""
    return table.sort_values("index", ignore_index=True).assign(label_score=lambda rows: rows["label_quality"])


def join_columns(table: pd.DataFrame, source: pd.DataFrame | None, index: NDArray[np.int64]) -> pd.DataFrame:
    """Returns an audit's table with the columns of the data beside its own.

    Args:
        table: The table, with ``index``, the rows' positions in the data.
        source: (N, D) the rows of the data; None, for data that are no table, is a ValueError.
        index: (N,) the positions of these rows.
    """
    if source is None:
        raise ValueError(COLUMNLESS)
    rows = source.iloc[pd.Index(index).get_indexer(pd.Index(table["index"]))].reset_index(drop=True)
    taken = {*table.columns, *source.columns}
    names = {}
    for name in (name for name in source.columns if name in table.columns):
        names[name] = f"{PREFIX}{name}"
        while names[name] in taken:
            names[name] = f"{PREFIX}{names[name]}"
        taken.add(names[name])
    return pd.concat([table, rows.apply(_plain_cells).rename(columns=names)], axis=1)


def _plain_cells(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Returns a column that every format can write: objects that are no strings become text."""
    is_plain = cells.dtype != object or infer_dtype(cells, skipna=True) in PLAIN
    return cells if is_plain else cells.map(str, na_action="ignore")


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    defuse_table(table).to_csv(path, index=False)


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(path, index=False, write_page_checksum=True)


def _write_lines(table: pd.DataFrame, path: Path) -> None:
    """Writes JSON lines: numbers with every digit, which pandas would cut, null for what is missing, times as text."""
    cells = table.astype(object).where(table.notna(), None)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in cells.to_dict("records"))


WRITERS = {".csv": _write_csv, ".parquet": _write_parquet, ".jsonl": _write_lines}
