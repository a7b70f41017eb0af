"""Columns of a table that give its labels away, and columns that only name the rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn.data.inputs import column_names
from antidote_learn.data.labels import MANY_ROWS

COPY = 0.98  # the agreement from which a column is taken for the labels themselves, and left out
LIKELY = 0.95  # the agreement from which a column is named, as it may have been made from the labels
RECURRING = 10  # rows of each value, on average, from which many values of one label each are no chance
FEWEST = 5  # rows of each class from which it is no chance that a number parts them
TRIED = 5000  # evenly spaced rows that are looked at first, which is enough to acquit most columns
IDENTIFIER = re.compile(r"(?i:(^|[_\W])(id|ids|uuid|guid|idx|index|key|nr|no)$)|[a-z]I[dD]$")  # names of identifiers

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Leak:
    """A column that tells the labels.

    Attributes:
        is_copy: Whether it is taken for the labels themselves.
        words: What it tells, as the end of a sentence about the column.
    """

    is_copy: bool
    words: str


def find_leaks(frame: pd.DataFrame, labels: Codes) -> dict[str, Leak]:
    """Find the columns that tell the labels (N,), which are numbers from 0 on; few rows tell nothing.

    A column is taken for the labels themselves where its values stand for the classes one to one in nearly all rows
    that have one, where each of many recurring values has one label, or where of two classes only one has values.
    """
    if len(frame) < MANY_ROWS or not (np.bincount(labels) > 1).sum() > 1:
        return {}
    rows = np.linspace(0, len(labels) - 1, min(len(labels), TRIED)).astype(np.int64)
    found = {name: _leak_of(frame.iloc[:, at], labels, rows) for at, name in enumerate(column_names(frame))}
    return {name: leak for name, leak in found.items() if leak is not None}


def likely_identifiers(frame: pd.DataFrame) -> list[str]:
    """The columns of whole numbers that seem to name the rows: nearly all differ, and a name or an order says so."""
    if len(frame) < MANY_ROWS:
        return []
    numbers = frame.select_dtypes("integer")
    return [str(name) for name in numbers if _names_rows(str(name), numbers[name])]


def _names_rows(name: str, numbers: pd.Series[Any]) -> bool:
    distinct = numbers.nunique()
    return (distinct > len(numbers) / 2 and IDENTIFIER.search(name) is not None) or (
        distinct == len(numbers) and bool(numbers.is_monotonic_increasing)
    )


def _leak_of(values: pd.Series[Any], labels: Codes, tried: Codes) -> Leak | None:
    if len(tried) < len(labels) and _judge(values.iloc[tried], labels[tried], share=0.9) is None:
        return None
    return _judge(values, labels, share=1.0)


def _judge(values: pd.Series[Any], labels: Codes, *, share: float) -> Leak | None:
    """Judge a column by its rows; ``share`` of what is asked for is enough, as where only some of the rows are seen."""
    try:
        codes = pd.factorize(values)[0].astype(np.int64)
    except TypeError:  # lists and the like, which are refused later
        return None
    known = codes >= 0
    leak = None if known.mean() < 0.5 else _judge_values(values[known], codes[known], labels[known], share)
    if leak is None and not known.all() and _count_classes(labels) == 2:
        agreeing, agreement = _agreement(known.astype(np.int64), labels)
        if agreement >= LIKELY * share:
            which = "left empty or not as the label says"
            return Leak(agreement >= COPY, f"{which}, in {agreeing} of {len(labels)} rows")
    return leak


def _judge_values(values: pd.Series[Any], codes: Codes, labels: Codes, share: float) -> Leak | None:
    rows, distinct, classes = len(codes), int(codes.max()) + 1, _count_classes(labels)
    if classes < 2:
        return None
    if distinct == classes:
        agreeing, agreement = _agreement(codes, labels)
        if agreement >= LIKELY * share:
            return Leak(agreement >= COPY, f"the label in other words, in {agreeing} of {rows} rows")
    elif classes < distinct <= rows / RECURRING / share and _agreement(codes, labels)[0] >= share * rows:
        return Leak(True, f"a label for each of its {distinct} values")
    elif distinct > classes and values.dtype.kind in "iuf" and _parts_classes(values.to_numpy(np.float64), labels):
        return Leak(False, "enough to part all classes by its size alone")
    return None


def _count_classes(labels: Codes) -> int:
    return int(np.count_nonzero(np.bincount(labels)))


def _agreement(codes: Codes, labels: Codes) -> tuple[int, float]:
    """How many rows have the most frequent label of their value, and the smallest such share of all and by class."""
    classes = int(labels.max()) + 1
    counts = np.bincount(codes * classes + labels, minlength=(int(codes.max()) + 1) * classes).reshape(-1, classes)
    best, total = counts.max(axis=1), counts.sum(axis=0)
    by_class = np.where(counts == best[:, None], counts, 0).sum(axis=0)
    if not by_class[total > 0].all():
        return 0, 0.0
    return int(best.sum()), float(min(best.sum() / len(codes), (by_class[total > 0] / total[total > 0]).mean()))


def _parts_classes(numbers: NDArray[np.float64], labels: Codes) -> bool:
    """Whether each class has an interval of its own, where all classes have enough rows."""
    counts = np.bincount(labels)
    low, high = np.full(len(counts), np.inf), np.full(len(counts), -np.inf)
    np.minimum.at(low, labels, numbers)
    np.maximum.at(high, labels, numbers)
    order = np.argsort(low)[: np.count_nonzero(counts)]  # absent classes come last
    return counts[counts > 0].min() >= FEWEST and bool((high[order[:-1]] < low[order[1:]]).all())
