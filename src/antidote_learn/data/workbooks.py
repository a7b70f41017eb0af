"""Workbooks of Excel: the first sheet as columns. Nothing in a workbook is executed, and nothing else is opened."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from antidote_learn.data.safety import GROWTH, TableFault, check_room, check_table_room

MOST_ROWS = 2**20  # the rows of a sheet of Excel; a row number beyond them would be counted up to
ERRORS = ("#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")  # what a formula without a value shows
MISSING = frozenset({*ERRORS, "", "?", "NA", "N/A", "n/a", "<NA>", "nan", "NaN", "null", "NULL", "None"})  # as in .csv


def parse_workbook(path: Path) -> tuple[dict[str, list[Any]], list[str]]:
    """Parse the first sheet of a .xlsx file to columns, with notes on what was left aside.

    The first row that holds something names the columns. Of a formula the result counts that the file keeps. Empty rows
    do not count, and neither do cells beyond the last name if they are empty.

    Raises:
        TableFault: The sheet is no table.
        MemoryError: The content is larger than the memory.
    """
    with zipfile.ZipFile(path) as packed:
        check_room(sum(entry.file_size for entry in packed.infolist()) * GROWTH)
    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on extensions of Excel, which hold no cells
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        try:
            sheets = book.worksheets
            if not sheets:
                raise TableFault("the workbook has no sheet with cells")
            notes = [f"{path.name}: the first of {len(sheets)} sheets was read, {sheets[0].title!r}"]
            return _columns_of(_sheet_rows(sheets[0])), notes if len(sheets) > 1 else []
        finally:
            book.close()


def _sheet_rows(sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows that hold something, numbered as in Excel, without empty cells at their ends."""
    sheet.reset_dimensions()  # the size that a file states need not be true
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > MOST_ROWS:
            raise TableFault(f"the sheet has more than {MOST_ROWS} rows: save it as .csv")
        row = [None if isinstance(cell, str) and cell.strip() in MISSING else cell for cell in cells]
        while row and row[-1] is None:
            row.pop()
        if row:
            yield number, row


def _columns_of(rows: Iterator[tuple[int, list[Any]]]) -> dict[str, list[Any]]:
    _, header = next(rows, (0, []))
    if not header:
        raise TableFault("the first sheet is empty: its first row must name the columns")
    names = ["" if name is None else str(name).strip() for name in header]
    names = [name or f"Unnamed: {at}" for at, name in enumerate(names)]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    if len(columns) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TableFault(f"the table has the column {twice!r} twice: rename one")
    for count, (number, row) in enumerate(rows, start=1):
        if len(row) > len(names):
            raise TableFault(f"row {number} has {len(row)} cells, and the first row names {len(names)} columns")
        check_table_room(count, len(names))
        for column, cell in zip(columns.values(), row + [None] * (len(names) - len(row)), strict=True):
            column.append(cell)
    return columns
