"""Decisions from the review page, read back and matched with the data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn.data.labels import short_list
from antidote_learn.data.parsing import form_of_file
from antidote_learn.data.text_forms import UNKNOWN

COLUMNS = ("index", "given_label", "decision", "new_label")
HASH, FILE = "data_hash", "file"  # optional columns: the digest of the data, the image file of a row
UNSURE = "unsure"  # the decision of a reviewer who cannot tell; the row stays as it is
ACCEPTED = ("accept", "keep", "relabel", "drop", UNSURE)
NUMBER = re.compile("[0-9]{1,18}")  # the number of a row: ASCII digits, and no more than 64 bits hold


@dataclass(frozen=True)
class Change:
    """A row that was decided on; the new label is None if the row is dropped."""

    index: int
    given_label: str
    new_label: str | None


@dataclass(frozen=True)
class Decisions:
    """The changes in the order of the rows, the number of rows that are right, and the rows that nobody is sure of."""

    changes: tuple[Change, ...]
    kept: int
    unsure: tuple[Change, ...]


def read_decisions(source: str | Path | pd.DataFrame) -> pd.DataFrame:
    """Reads decisions as text from a file or a table; anything else is a ValueError."""
    if isinstance(source, pd.DataFrame):
        frame, name = source.fillna("").astype(str), "the decisions"
    else:
        path = Path(source).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}: export it from the review page of an audit")
        name = path.name
        try:
            form = form_of_file(path, UNKNOWN)  # a spreadsheet may have saved them in another form
            frame = pd.read_csv(path, dtype="str", keep_default_na=False, sep=form.separator, encoding=form.encoding)
        except (ValueError, pd.errors.ParserError) as error:
            raise ValueError(f"{name} cannot be read as decisions ({error}): export them again") from error
    lost = [column for column in COLUMNS if column not in frame]
    if lost:
        raise ValueError(f"{name} lacks column {lost[0]!r}; decisions have the columns {short_list(COLUMNS)}")
    return frame


def data_hash(decisions: pd.DataFrame) -> str | None:
    """Returns the digest of the data that were decided on; None without one, ValueError for several."""
    found = sorted({*decisions[HASH]}) if HASH in decisions else []
    if found in ([], [""]):
        return None
    if len(found) > 1 or not re.fullmatch("[0-9a-f]{64}", found[0]):
        raise ValueError(
            f"the decisions must have one digest in column {HASH!r}, of the data that was audited; received "
            f"{short_list(found)}: export them again, and apply each export by itself"
        )
    return str(found[0])


def decisions_hash(decisions: pd.DataFrame) -> str:
    """Returns the SHA-256 of the columns that say what was decided."""
    cells = decisions[[*COLUMNS]].to_csv(index=False, lineterminator="\n")
    return hashlib.sha256(cells.encode(errors="surrogatepass")).hexdigest()


def match_decisions(
    decisions: pd.DataFrame,
    labels: Sequence[Any] | NDArray[np.object_],
    classes: Sequence[str],
    files: Sequence[str] = (),
) -> Decisions:
    """Matches every decision with its row of the data.

    Args:
        decisions: The table from `read_decisions`.
        labels: (N,) names of the given labels.
        classes: The names that a label may have.
        files: (N,) names of the image files; empty for other data.

    Raises:
        ValueError: A decision is on other data, on a missing row, on a row that comes twice, or has an unknown word.
    """
    rows = _row_numbers(decisions["index"], len(labels))
    _check_given(rows, decisions["given_label"], labels)
    if FILE in decisions and files:
        _check_files(rows, decisions[FILE], files)
    known, changes, unsure = frozenset(classes), list[Change](), list[Change]()
    for row, word, cell in zip(rows, decisions["decision"], decisions["new_label"], strict=True):
        if word not in ACCEPTED:
            raise ValueError(f"the decision on row {row} is {word!r}; accepted: {', '.join(ACCEPTED)}")
        given = str(labels[row])
        new = None if word == "drop" else given if word in ("keep", UNSURE) else _new_class(row, cell, known)
        if word == UNSURE or new != given:
            (unsure if word == UNSURE else changes).append(Change(row, given, new))
    kept = len(rows) - len(changes) - len(unsure)
    return Decisions(_sort_changes(changes), kept, _sort_changes(unsure))


def _sort_changes(changes: list[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda change: change.index))


def _row_numbers(index: pd.Series[str], count: int) -> list[int]:
    bad = [text for text in index if not NUMBER.fullmatch(text)]
    if bad:
        raise ValueError(f"the index must hold whole numbers, positions of rows counted from 0; received {bad[0]!r}")
    rows = [int(text) for text in index]
    beyond = [row for row in rows if row >= count]
    if beyond:
        raise ValueError(
            f"the decisions are of other data: there is no row {beyond[0]} here, rows are 0 ... {count - 1}; give the "
            "data that was audited"
        )
    numbers = pd.Series(rows, dtype="int64")
    twice = numbers[numbers.duplicated()]
    if len(twice):
        raise ValueError(f"row {twice.iloc[0]} is decided twice: leave one of the decisions in")
    return rows


def _check_given(rows: list[int], cells: pd.Series[str], labels: Sequence[Any] | NDArray[np.object_]) -> None:
    others = [(row, cell) for row, cell in zip(rows, cells, strict=True) if labels[row] not in _readings(cell)]
    if others:
        row, cell = others[0]
        raise ValueError(
            f"the decisions are of other data: row {row} is labelled {labels[row]!r} here, {cell!r} in the decisions "
            f"({len(others)} of {len(rows)} differ); give the data that was audited, as it was then"
        )


def _check_files(rows: list[int], cells: pd.Series[str], files: Sequence[str]) -> None:
    for row, cell in zip(rows, cells, strict=True):
        if files[row] not in _readings(cell):
            raise ValueError(
                f"the decisions are of other data: row {row} is {files[row]!r} here, {cell!r} in the decisions; give "
                "the folder that was audited, as it was then"
            )


def _new_class(row: int, cell: str, known: frozenset[str]) -> str:
    found = [name for name in _readings(cell) if name in known]
    if not found:
        raise ValueError(
            f"row {row} is to become {cell!r}, which is no class of the data; accepted: {short_list(sorted(known))}"
        )
    return found[0]


def _readings(cell: str) -> tuple[str, ...]:
    """Returns the texts that a cell may stand for: the page puts an apostrophe before a formula."""
    return (cell[1:], cell) if cell.startswith("'") else (cell,)
