"""Data sets of arrays, tensors and tables in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn._types import Arrays, Inputs
from antidote_learn.data.feature_columns import choose_features, column_list, drop_leaks, drop_row_numbers
from antidote_learn.data.inputs import as_inputs, column_names, take_inputs
from antidote_learn.data.label_columns import find_column
from antidote_learn.data.labels import (
    as_numpy,
    check_classes,
    label_words,
    number_words,
    present_labels,
    short_list,
    sort_class_names,
)


def from_arrays(
    X: Any,
    y: Any,
    *,
    clean_labels: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    text: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    name: str = "arrays",
    strict: bool = False,
) -> Arrays:
    """Make a data set of arrays, tensors or a table in memory.

    The classes are the distinct labels and true labels as strings, sorted (by value where all are integers). Rows
    without a label are left out with a note, and `Arrays.positions` holds those that remain. So are columns of a table
    that count the rows, or are the labels in other words, unless ``features`` names them.

    Args:
        X: N inputs, see `as_inputs`.
        y: (N,) labels: strings, booleans, integers, or floats that are whole.
        clean_labels: (N,) the truth, where it is known.
        X_test: M test inputs of the same kind and shape.
        y_test: (M,) their labels, classes of the training part, which need not be clean.
        text: Columns of a table that hold text.
        exclude: Columns of a table that are no features.
        features: The columns of a table that are features; none for all.
        name: The name of the data set.
        strict: Whether rows without a label are an error.
    """
    whole, wanted = as_inputs(X), column_list(features)
    chosen = _choose_columns(whole, column_list(exclude), wanted)
    everything, counted = drop_row_numbers(chosen, features=wanted)
    inputs, y, kept, unlabelled = _leave_out_unlabelled(everything, y, "y", strict=strict)
    words = label_words(y, "y", len(inputs))
    check_classes(words, *unlabelled)
    if kept is not None and clean_labels is not None:
        clean_labels = pd.Series(as_numpy(clean_labels)).iloc[kept]
    truth = words if clean_labels is None else label_words(clean_labels, "clean_labels", len(inputs))
    classes = sort_class_names({*words, *truth})
    given, clean = number_words(words, classes), None if clean_labels is None else number_words(truth, classes)
    inputs, leaks = drop_leaks(inputs, [given] if clean is None else [given, clean], features=wanted)
    source = whole if kept is None else take_inputs(whole, kept)
    data = Arrays(
        name,
        inputs,
        given,
        classes,
        clean,
        text=_check_text(text, inputs),
        notes=(*counted, *unlabelled, *leaks),
        positions=kept,
        source=source if isinstance(source, pd.DataFrame) else None,
    )
    if (X_test is None) != (y_test is None):
        raise ValueError("one of X_test and y_test was given alone: give both or neither")
    return data if X_test is None else add_test_part(data, X_test, y_test, is_clean=False, strict=strict)


def _choose_columns(inputs: Inputs, exclude: tuple[str, ...], features: tuple[str, ...]) -> Inputs:
    """Choose the columns of a table; ValueError where columns of other inputs are named."""
    if isinstance(inputs, pd.DataFrame):
        return choose_features(inputs, exclude=exclude, features=features)
    if exclude or features:
        raise ValueError(f"columns {short_list((*exclude, *features))} were named, but X is no table: give a DataFrame")
    return inputs


def _leave_out_unlabelled(
    inputs: Inputs, y: Any, what: str, *, strict: bool
) -> tuple[Inputs, Any, NDArray[np.int64] | None, tuple[str, ...]]:
    """Leave out the rows without a label, unless they are an error.

    Returns:
        The inputs and labels that remain, their positions if they are not all, and a note that counts the others.
    """
    labels, kept, note = (y, None, "") if strict else present_labels(y, what, len(inputs))
    return (inputs, labels, None, ()) if kept is None else (take_inputs(inputs, kept), labels, kept, (note,))


def _check_text(text: str | Sequence[str], inputs: Inputs) -> tuple[str, ...]:
    names = column_list(text)
    if not isinstance(inputs, pd.DataFrame):
        if names:
            raise ValueError(f"text columns {short_list(names)} were named, but X is no table: give a DataFrame")
        return ()
    for name in names:
        find_column(inputs, name, ())
    return names


def add_test_part(data: Arrays, X: Any, y: Any, *, is_clean: bool, strict: bool) -> Arrays:
    """Add a test part to a data set, which must fit the training part; rows without a label as in `from_arrays`."""
    inputs, y, _, notes = _leave_out_unlabelled(as_inputs(X, "X_test"), y, "y_test", strict=strict)
    words = label_words(y, "y_test", len(inputs))
    labels = number_words(words, data.classes)
    if (labels < 0).any():
        raise ValueError(
            f"the test label {words[labels < 0][0]!r} is no class of the training labels ({short_list(data.classes)}): "
            "correct it, or leave those rows out"
        )
    part: dict[str, Any] = {"test_inputs": _match_training(inputs, data.inputs), "test_labels": labels}
    return replace(data, **part, test_is_clean=is_clean, notes=(*data.notes, *(f"test part: {note}" for note in notes)))


def _match_training(inputs: Inputs, model: Inputs) -> Inputs:
    """Give test inputs the columns of the training inputs; ValueError for another shape."""
    if isinstance(inputs, pd.DataFrame) and isinstance(model, pd.DataFrame):
        for column in column_names(model):
            find_column(inputs, column, ())
        return inputs[column_names(model)]
    shapes = [x.shape[1:] if isinstance(x, np.ndarray) else type(x).__name__ for x in (model, inputs)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"X_test must be like X, whose rows have shape {shapes[0]}; received {shapes[1]}")
    return inputs
