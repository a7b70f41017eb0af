"""The rows of text files as they are written: where each begins and ends, and where its cells do."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

MARK = "\ufeff"  # a byte order mark, which belongs to no row
LINE_END = re.compile(r"\r\n|\r|\n")
BLANK = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class WrittenCell:
    """A cell between ``start`` and ``end`` of a text, without blanks before it."""

    start: int
    end: int
    value: str
    is_quoted: bool


@dataclass(frozen=True)
class WrittenRow:
    """A row between ``start`` and ``end`` of a text, its line end included."""

    start: int
    end: int


def written_rows(text: str, separator: str) -> list[WrittenRow]:
    """The rows of a text table, the header first; lines without a cell are no rows."""
    rows, at, cell = [], len(MARK) if text.startswith(MARK) else 0, _cell_pattern(separator)
    while at < len(text):
        end = _row_end(text, at, separator, cell)
        line = text[at:end]
        if line.strip(" \t\r\n") or (separator in " \t" and separator in line):
            rows.append(WrittenRow(at, end))
        at = end
    return rows


def written_cells(text: str, row: WrittenRow, separator: str) -> list[WrittenCell]:
    """The cells of a row of a text table."""
    cells, at, pattern = [], row.start, _cell_pattern(separator)
    while True:
        found = pattern.match(text, at)
        assert found is not None  # the pattern matches nothing at all, too
        quoted = found["quoted"]
        value = found["plain"] if quoted is None else quoted.replace('""', '"') + found["tail"]
        cells.append(WrittenCell(found.start("cell"), found.end(), value, quoted is not None))
        at = found.end() + 1
        if not text.startswith(separator, found.end()):
            return cells


def cell_in_hand(value: str, cell: WrittenCell, separator: str) -> str:
    """A value as the cell's own hand would write it: in quotes where it was, or where it must be."""
    if not cell.is_quoted and not re.search(rf'[{re.escape(separator)}\r\n]|^[" ]', value):
        return value
    return '"' + value.replace('"', '""') + '"'


def written_lines(text: str) -> list[WrittenRow]:
    """The lines of a text that hold something."""
    rows, at = [], len(MARK) if text.startswith(MARK) else 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text[at:]):
        if line.strip():
            rows.append(WrittenRow(at, at + len(line)))
        at += len(line)
    return rows


def written_value(text: str, row: WrittenRow, name: str) -> tuple[int, int] | None:
    """Where the value of a name begins and ends in a line with an object of JSON; None where the object lacks it."""
    decoder = json.JSONDecoder()

    def skip(at: int) -> int:
        found = BLANK.match(text, at)
        return at if found is None else found.end()

    at = skip(skip(row.start) + 1)  # behind the bracket
    while text[at] != "}":
        key, at = scanstring(text, at + 1)
        start = skip(skip(at) + 1)  # behind the colon
        _, end = decoder.raw_decode(text, start)
        if key == name:
            return start, end
        at = skip(end)
        at = skip(at + 1) if text[at] == "," else at
    return None


def splice(text: str, changes: list[tuple[int, int, str]]) -> str:
    """The text with other words in the places (start, end, words), which are sorted; its last line ends as before."""
    pieces, at = [], 0
    for start, end, words in changes:
        pieces += [text[at:start], words]
        at = end
    written = "".join([*pieces, text[at:]])
    if text.endswith(("\r", "\n")) or not written.endswith(("\r", "\n")):
        return written
    return written.removesuffix("\n").removesuffix("\r")  # the last row was dropped


def _cell_pattern(separator: str) -> Any:
    plain = rf"[^{re.escape(separator)}\r\n]*"
    return re.compile(rf' *(?P<cell>"(?P<quoted>[^"]*(?:""[^"]*)*)"(?P<tail>{plain})|(?P<plain>{plain}))')


def _row_end(text: str, start: int, separator: str, cell: Any) -> int:
    """Where the row that begins at ``start`` ends; only a row with quotes is parsed for it."""
    found = LINE_END.search(text, start)
    end = len(text) if found is None else found.start()
    if '"' in text[start:end]:
        end = cell.match(text, start).end()
        while text.startswith(separator, end):
            end = cell.match(text, end + 1).end()
        found = LINE_END.match(text, end)
    return len(text) if found is None else found.end()
