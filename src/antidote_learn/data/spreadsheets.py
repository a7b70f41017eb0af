"""Tables that a spreadsheet may open: none of their cells is executed."""

from __future__ import annotations

from typing import Any

import pandas as pd

EXECUTED = ("=", "+", "-", "@", "\t", "\r", "'")  # a cell that begins so gets an apostrophe, as on the review page


def defuse_table(table: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before every cell and name of a table that a spreadsheet would execute."""
    words = table.select_dtypes(exclude=["number", "bool"])
    return table.assign(**{str(name): cells.map(_defuse) for name, cells in words.items()}).rename(columns=_defuse)


def _defuse(cell: Any) -> Any:
    """Put an apostrophe before a cell that would be executed; a number stays as it is."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(EXECUTED) and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
