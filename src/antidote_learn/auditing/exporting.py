"""Files of an audit's table for other programs: .csv, .parquet and .jsonl."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from antidote_learn.data.safety import check_name
from antidote_learn.data.spreadsheets import defuse_table
from antidote_learn.training.checkpoint import replacing


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


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    defuse_table(table).to_csv(path, index=False)


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(path, index=False, write_page_checksum=True)


def _write_lines(table: pd.DataFrame, path: Path) -> None:
    """Writes JSON lines with every digit of a number, which pandas would cut, and null for missing cells."""
    cells = table.astype(object).where(table.notna(), None)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in cells.to_dict("records"))


WRITERS = {".csv": _write_csv, ".parquet": _write_parquet, ".jsonl": _write_lines}
