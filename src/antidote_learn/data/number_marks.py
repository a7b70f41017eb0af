"""Numbers with a decimal comma, or with marks between their thousands, in the columns of a text table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pandas.api.types import infer_dtype

TRIED = 1000  # the first values of a column that are tried before all are
OTHER = {".": ",", ",": "."}  # the decimal marks, each with the mark that may stand between thousands beside it
BLANKS = "' \u00a0\u202f\u2019"  # further marks between thousands: apostrophes and blanks


def _pattern(decimal: str) -> str:
    """A regular expression for the numbers of one decimal mark; the thousands of a number have one mark."""
    groups = "|".join(f"(?:[{mark}][0-9]{{3}})+" for mark in OTHER[decimal] + BLANKS)
    return rf" *[+-]?(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{groups}))(?:[{decimal}][0-9]+)?(?:[eE][+-]?[0-9]+)? *"


NUMBERS = {decimal: _pattern(decimal) for decimal in OTHER}


def decimal_mark(frame: pd.DataFrame, separator: str, strings: Sequence[str]) -> str | None:
    """The decimal mark that columns of strings show, such as "1,5" or "1,234,567"; None where they show none, or both.

    Args:
        frame: The table, in which numbers with a point are numbers already.
        separator: The separator of its columns; where it is a comma, "1,5" may be a list and shows nothing.
        strings: Columns that are strings.
    """
    shown = set()
    for _, values in _string_columns(frame, strings):
        mark = _own_mark(values, separator)
        if mark == "." or (mark == "," and values.str.contains(",", regex=False).any()):
            shown.add(mark)
    return shown.pop() if len(shown) == 1 else None


def with_numbers(
    frame: pd.DataFrame, decimal: str | None, separator: str, strings: Sequence[str]
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Make numbers of columns whose strings all are numbers with the decimal mark, or with one that they show.

    Returns:
        The table, the columns with marks between thousands, and the columns whose numbers could be read in two ways.
    """
    numbers, grouped, doubtful = {}, [], []
    for name, values in _string_columns(frame, strings):
        mark = decimal if decimal and _are_numbers(values, decimal) else _own_mark(values, separator)
        if mark is not None:
            numbers[name] = _marked_numbers(frame[name], mark)
            grouped += [name] if values.str.contains(f"[0-9][{OTHER[mark]}{BLANKS}][0-9]").any() else []
        elif any(_are_numbers(values, mark) for mark in OTHER) and values.str.contains(",", regex=False).any():
            doubtful.append(name)
    return frame.assign(**numbers), grouped, doubtful


def _string_columns(frame: pd.DataFrame, strings: Sequence[str]) -> Iterator[tuple[str, pd.Series[str]]]:
    """The columns that could be numbers in other forms, without their missing values."""
    for name in frame.columns:
        if name in strings or infer_dtype(frame[name].iloc[:TRIED], skipna=True) != "string":
            continue
        values = frame[name].dropna()
        first = values.iloc[:TRIED]
        if any(_are_numbers(first, mark) for mark in OTHER) and infer_dtype(values) == "string":
            yield str(name), values


def _own_mark(values: pd.Series[str], separator: str) -> str | None:
    """The decimal mark that the numbers of a column show by themselves; None where they are none, or show none."""
    fit = [mark for mark in OTHER if _are_numbers(values, mark)]
    if len(fit) != 1 or (fit == [","] and separator == ","):
        return None
    return fit[0]


def _are_numbers(values: pd.Series[str], decimal: str) -> bool:
    return bool(values.str.fullmatch(NUMBERS[decimal]).all())


def _marked_numbers(values: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    plain = values.str.replace(rf"[{OTHER[decimal]}{BLANKS}]", "", regex=True).str.replace(decimal, ".", regex=False)
    return pd.to_numeric(plain)
