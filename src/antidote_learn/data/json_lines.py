"""JSON lines as columns: a line is one object, its keys are names of columns, its values cells."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from antidote_learn.data.safety import MOST_COLUMNS, TableFault, check_table_room, is_text

Pairs = list[tuple[str, Any]]


def parse_lines(path: Path, encoding: str) -> dict[str, list[Any]]:
    """Parse the objects of a .jsonl file to columns, in the order in which their names first come.

    A name that a line lacks is a missing cell there. Empty lines do not count.

    Raises:
        TableFault: A line is no object of plain values, or has a name twice.
    """
    columns: dict[str, list[Any]] = {}
    rows = 0
    for number, line in _lines(path, encoding):
        for name, value in _cells(line, number):
            if name not in columns:
                columns[name] = []
                check_table_room(rows + 1, len(columns))
                if len(columns) > MOST_COLUMNS:
                    raise TableFault(f"its lines have more than {MOST_COLUMNS} names: save it as .npz")
            column = columns[name]
            if len(column) > rows:
                raise TableFault(f"line {number} has {name!r} twice")
            column.extend([None] * (rows - len(column)))
            column.append(value)
        rows += 1
    check_table_room(rows, len(columns))
    for column in columns.values():
        column.extend([None] * (rows - len(column)))
    return columns


def _lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold something, numbered from 1."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(io.TextIOWrapper(file, encoding, newline="\n"), start=1):
                if text := line.removeprefix("\ufeff").strip():
                    yield number, text
    except UnicodeError as error:
        raise TableFault(f"its text is no {encoding}: name its `encoding`") from error


def _cells(line: str, number: int) -> Pairs:
    """The names and values of the object in a line."""
    try:
        found = json.loads(line, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise TableFault(f"line {number} is no JSON ({reason}); each line must be one object") from error
    if not isinstance(found, _Object):
        raise TableFault(f'line {number} is no object: each line must look like {{"size": 3, "label": "cat"}}')
    for name, value in found.pairs:
        if isinstance(value, (list, _Object)):
            raise TableFault(f"line {number} has a list or an object in {name!r}: make columns of plain values of it")
        if not is_text(name) or (isinstance(value, str) and not is_text(value)):
            raise TableFault(f"line {number} has half a character, which is no text, in {name!a}")
    return found.pairs


class _Object:
    """An object of JSON, whose names may stand twice."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
