"""Labels as users hold them: checks of their values, their names, and their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

MANY_ROWS = 20  # with so many rows, values that mostly differ are no classes, and a running number is no feature

Words = NDArray[np.object_]
"""Strings, (N,)."""


def label_words(values: Any, what: str, count: int) -> Words:
    """The labels as strings, one for each of ``count`` inputs; ValueError where one is missing or no class.

    Args:
        values: (N,) labels: strings, booleans, integers, or floats that are whole.
        what: The name of the labels in messages; a column has its own.
        count: N, the number of inputs.
    """
    values = as_numpy(values)
    if isinstance(values, pd.Series) and values.name is not None:
        what = f"column {values.name!r}"
    if np.shape(values) != (count,):
        raise ValueError(f"{what} must have shape ({count},), one label a row of X; received shape {np.shape(values)}")
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    labels = pd.Series(values).reset_index(drop=True).infer_objects()
    _check_values(labels, what)
    return names_of(labels).to_numpy(dtype=object)


def present_labels(values: Any, what: str, count: int) -> tuple[Any, NDArray[np.int64] | None, str]:
    """The labels of the rows that have one, these rows if they are not all, and a note that counts the others.

    Labels of another shape than ``count``, and labels that are all missing, are left to `label_words`.
    """
    values = as_numpy(values)
    if np.shape(values) != (count,):
        return values, None, ""
    labels = values if isinstance(values, pd.Series) else pd.Series(values)
    lost = labels.isna().to_numpy(dtype=bool)
    if not lost.any() or lost.all():
        return values, None, ""
    where = f" in column {labels.name!r}" if labels.name is not None else ""
    note = f"{lost.sum()} of {count} rows have no label{where} and were left out"
    hint = " (in a text file NA, None, null and ? are no classes)" if where else ""
    kept = np.flatnonzero(~lost)
    return labels.iloc[kept], kept, note + hint


def label_numbers(values: Any, num_classes: int | None) -> tuple[NDArray[np.int64], int]:
    """Copy labels that are numbers already to (N,) int64, and give K, which is the largest label + 1 unless given."""
    labels = np.asarray(as_numpy(values))
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"labels must be a non-empty list (N,), one integer a sample; received shape {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be integers 0 ... K - 1, received {labels.dtype}: number the classes first, "
            "as by classes, y = np.unique(y, return_inverse=True)"
        )
    low, high = int(labels.min()), int(labels.max())
    k = high + 1 if num_classes is None else num_classes
    if low < 0 or high >= k or k < 2:
        raise ValueError(
            f"labels must be integers 0 ... K - 1 of K >= 2 classes, received {low} ... {high} with K = {k}: "
            "number the classes from 0, or pass num_classes"
        )
    return labels.astype(np.int64), k


def check_classes(words: Words, about: str = "") -> None:
    """Raise ValueError where there are fewer than two classes, or one for nearly every row.

    Args:
        words: (N,) labels.
        about: What else to say of them.
    """
    distinct = len(set(words))
    if distinct == 1:
        more = f" ({about})" if about else ""
        raise ValueError(
            f"all labels are {words[0]!r}; at least two classes are needed: is it the right label column?{more}"
        )
    if distinct > len(words) / 2 and len(words) >= MANY_ROWS:
        raise ValueError(
            f"the labels hold {distinct} different values in {len(words)} rows, like a regression target or an "
            "identifier; accepted are classes: name another label column, or group its values"
        )


def sort_class_names(words: set[str]) -> tuple[str, ...]:
    """Sort the names of classes, by value where all are integers."""
    integers = all(re.fullmatch(r"-?\d+", word) for word in words)
    return tuple(sorted(words, key=(lambda word: (int(word), word)) if integers else None))


def number_words(words: Words, classes: tuple[str, ...]) -> NDArray[np.int64]:
    """The position of each word among the classes, (N,); -1 where it is none of them."""
    return pd.Index(classes, dtype=object).get_indexer(pd.Index(words, dtype=object)).astype(np.int64)


def names_of(values: pd.Series[Any]) -> pd.Series[Any]:
    """The values as strings, so that 3, 3.0 and "3" are the same; missing ones stay missing."""
    if isinstance(values.dtype, pd.StringDtype):
        return values
    names = values.astype(object).map(_name, na_action="ignore")
    return names.astype("str").where(names.notna())  # pandas 2 writes missing values as words


def as_numpy(values: Any) -> Any:
    """A tensor as an array; any other value as it is."""
    if not isinstance(values, torch.Tensor):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def short_list(items: Sequence[Any], most: int = 20) -> str:
    """The first items in one line, separated by commas."""
    return ", ".join(map(str, items[:most])) + (f", ... ({len(items)} in all)" if len(items) > most else "")


def _name(value: Any) -> str:
    whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def _check_values(labels: pd.Series[Any], what: str) -> None:
    """Raise ValueError for a missing label or a number that is not whole."""
    lost = np.flatnonzero(labels.isna())
    if lost.size:
        raise ValueError(
            f"{what} lacks {lost.size} of {len(labels)} labels, in row {short_list(list(lost))} (counted from 0): fill "
            "them in or leave those rows out (a .csv may not call a class NA, None, null or ?: rename it)"
        )
    broken = labels[labels % 1 != 0] if labels.dtype.kind == "f" else labels[:0]
    if len(broken):
        raise ValueError(
            f"{what} looks like a regression target, as it holds {broken.iloc[0]:g}; accepted are classes: strings, "
            "booleans, integers or floats that are whole"
        )
