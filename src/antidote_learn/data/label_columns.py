"""The columns of a table that hold labels: named by the user, or known by their names."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from antidote_learn._types import LabelColumn
from antidote_learn.data.inputs import column_names
from antidote_learn.data.labels import names_of, short_list
from antidote_learn.data.parsing import plain_name

LABEL_NAMES = ("label", "target", "class", "y")  # column names that mean the labels
CLEAN_NAMES = ("clean_label", "clean_labels")  # column names that mean the true labels


def label_columns(frame: pd.DataFrame, label: str | None, clean: str | None) -> tuple[LabelColumn, str | None]:
    """Find the column of the labels, and the name of that of the true labels if there is one."""
    target = find_column(frame, label, LABEL_NAMES)
    if target is None:
        raise ValueError(f"name the label column, as none is called {short_list(LABEL_NAMES)}; {_list_columns(frame)}")
    return LabelColumn(target, is_guess=label is None), find_column(frame, clean, CLEAN_NAMES)


def find_column(frame: pd.DataFrame, named: str | None, usual: tuple[str, ...]) -> str | None:
    """Find the column that the user named, or the only one with a usual name; None where there is none."""
    if named is not None:
        if named not in frame:
            raise ValueError(f"there is no column {named!r}; {_list_columns(frame)}")
        return named
    found = [column for column in column_names(frame) if plain_name(column).lower() in usual]
    if len(found) > 1:
        raise ValueError(f"which column is meant, {' or '.join(map(repr, found))}? name it; {_list_columns(frame)}")
    return found[0] if found else None


def find_label_copies(features: pd.DataFrame, labels: pd.Series[Any] | None) -> tuple[str, ...]:
    """Find features that are named like the labels, for notes; ValueError where one is a copy of the labels.

    Such a copy is called ``label.1`` where a program read a column twice and wrote it again.
    """
    if labels is None:
        return ()
    label = plain_name(str(labels.name)).casefold()
    alike = [name for name in column_names(features) if re.sub(r"\.\d+$", "", plain_name(name)).casefold() == label]
    for name in alike:
        if names_of(features[name]).equals(names_of(labels)):
            raise ValueError(
                f"column {name!r} is a copy of {labels.name!r} and gives the labels away: leave it out by `exclude`"
            )
    return tuple(
        f"column {name!r} is a feature, though it is named like {labels.name!r}: if it tells it, use `exclude={name}`"
        for name in alike
    )


def _list_columns(frame: pd.DataFrame) -> str:
    return f"the columns are {short_list([repr(column) for column in column_names(frame)])}"
