"""The columns of a table that are learned from: those that the user names, without those that tell the labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from antidote_learn._types import Inputs
from antidote_learn.data.inputs import column_names
from antidote_learn.data.label_columns import find_column
from antidote_learn.data.labels import MANY_ROWS
from antidote_learn.data.leaks import Codes, Leak, find_leaks, likely_identifiers


def column_list(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names of columns, of which one may be given by itself."""
    return (names,) if isinstance(names, str) else tuple(names)


def choose_features(frame: pd.DataFrame, *, exclude: Sequence[str], features: Sequence[str]) -> pd.DataFrame:
    """Take the columns that the user names, or all but those that are excluded; ValueError where there is no such one.

    Args:
        frame: The table.
        exclude: Columns to leave out.
        features: Columns to take; none for all.
    """
    for name in (*exclude, *features):
        find_column(frame, name, ())
    both = [name for name in features if name in exclude]
    if both:
        raise ValueError(f"column {both[0]!r} is named in `features` and in `exclude`: take it out of one")
    names = [name for name in column_names(frame) if name not in exclude and (not features or name in features)]
    if not names and (exclude or features):
        raise ValueError("all columns but the labels are left out by `exclude`: keep at least one")
    return frame[names]


def drop_row_numbers(inputs: Inputs, *, features: Sequence[str]) -> tuple[Inputs, tuple[str, ...]]:
    """Drop columns that count the rows; in a table sorted by class they would give the label away.

    Args:
        inputs: The inputs.
        features: Columns that the user wants, which stay.
    """
    if not isinstance(inputs, pd.DataFrame) or len(inputs) < MANY_ROWS:
        return inputs, ()
    numbers = inputs.select_dtypes("integer").drop(columns=[*features], errors="ignore")
    counting = [column for column in numbers if (np.diff(numbers[column].to_numpy()) == 1).all()]
    notes = tuple(f"column {column!r} counts the rows and was left out" for column in counting)
    return inputs.drop(columns=counting) if counting else inputs, notes


def drop_leaks(inputs: Inputs, labels: Sequence[Codes], *, features: Sequence[str]) -> tuple[Inputs, tuple[str, ...]]:
    """Drop columns that are the labels in other words, and name those that may be made from them, or name the rows.

    Args:
        inputs: The inputs.
        labels: (N,) given labels as numbers, and the true ones where they are known.
        features: Columns that the user wants, which stay.
    """
    if not isinstance(inputs, pd.DataFrame):
        return inputs, ()
    leaks: dict[str, Leak] = {}
    for numbers in labels:
        leaks |= {name: leak for name, leak in find_leaks(inputs, numbers).items() if leak.is_copy or name not in leaks}
    dropped = [name for name, leak in leaks.items() if leak.is_copy and name not in features]
    notes = [
        f"column {name!r} is {leak.words}: "
        + (
            "it was left out; name the columns to use in `features` to keep it"
            if name in dropped
            else _how_to_exclude(name)
        )
        for name, leak in leaks.items()
    ]
    if dropped and len(dropped) == len(inputs.columns):
        raise ValueError(f"all columns give the label away; {'; '.join(notes)}")
    rest = inputs.drop(columns=dropped)
    notes += [
        f"column {name!r} looks like an identifier: if it is one, leave it out with `exclude={name}`"
        for name in likely_identifiers(rest)
        if name not in (*features, *leaks)
    ]
    return rest, tuple(notes)


def _how_to_exclude(name: str) -> str:
    return f"if it was made from the label, leave it out with `exclude={name}`"
