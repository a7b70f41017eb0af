"""Tables (.csv, .tsv, .parquet), .npz files and arrays in memory, each as one `Arrays`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype

from antidote_learn._types import Arrays, ImageFiles, Inputs
from antidote_learn.data.archives import read_archive
from antidote_learn.data.labels import (
    MANY_ROWS,
    as_numpy,
    check_classes,
    label_words,
    names_of,
    number_words,
    short_list,
    sort_class_names,
)
from antidote_learn.data.parsing import check_names, parse_table, plain_name, raw_names, widen_floats
from antidote_learn.data.safety import TABLE_SUFFIXES, check_file

LABEL_NAMES = ("label", "target", "class", "y")  # column names that mean the labels
CLEAN_NAMES = ("clean_label", "clean_labels")  # column names that mean the true labels
NPZ_KEYS = ("X", "y", "X_test", "y_test", "clean_labels")  # arrays of a .npz file that are read
CHANNELS = (1, 3, 4)  # the usual numbers of channels, by which their axis is recognised
MOST_COLUMNS = 100_000  # columns of a table; each takes a millisecond, so that more would take minutes
REASON = 300  # characters of a parser's message that are shown, some three lines


def read_table(
    path: str | Path,
    *,
    label: str | None = None,
    text: str | Sequence[str] = (),
    clean: str | None = None,
    test: str | Path | None = None,
) -> Arrays:
    """Read a .csv, .tsv (both also .gz) or .parquet file as a data set; its inputs are the columns without labels.

    Labels are as in `from_arrays`. An integer column that counts the rows is left out, with a note.

    Args:
        path: The training table; the first line of a .csv (commas) or .tsv (tabs) names the columns.
        label: The column of the labels; None takes the only one called label, target, class or y.
        text: Columns that hold text; without any, text is recognised when the encoding is fitted.
        clean: The column of the true labels; None takes one called clean_label or clean_labels, where there is one.
        test: A second table with the same feature columns. Its true labels are used where it has the ``clean`` column.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file cannot be read, a column or a label is missing, or the labels are no classes.
    """
    path = Path(path)
    frame = read_frame(path)
    with name_in_errors(path):
        target, truth = label_columns(frame, label, clean)
        features = frame.drop(columns=[target] if truth is None else [target, truth])
        notes = _find_label_copies(features, frame[target]) + (
            () if truth is None else _find_label_copies(features, frame[truth])
        )
        known = None if truth is None else frame[truth]
        data = from_arrays(features, frame[target], clean_labels=known, text=text, name=path.name)
        data = replace(data, notes=(*notes, *data.notes))
    if test is None:
        return data
    others = read_frame(Path(test), strings=string_columns(frame))
    with name_in_errors(Path(test)):
        column = truth if truth in others else find_column(others, target, ())
        return add_test_part(data, others, others[column], is_clean=column == truth)


def read_features(path: str | Path, *, strings: Sequence[str] = ()) -> Inputs:
    """Read inputs to predict: the ``X`` of a .npz file, or all columns of a table.

    Args:
        path: A file as for `read_table` or `read_npz`; neither needs labels.
        strings: Columns of a .csv to read as they are written, so that the category 007 does not become 7.
    """
    path = Path(path)
    if path.name.lower().endswith(".npz"):
        arrays = _read_arrays(path, required=("X",))
        with name_in_errors(path):
            return as_inputs(arrays["X"])
    return read_frame(path, strings=strings)


def read_npz(path: str | Path) -> Arrays:
    """Read a .npz file with ``X``, ``y`` and, if it has them, ``X_test``, ``y_test`` and ``clean_labels``.

    The arrays mean the same as in `from_arrays`. Pickled objects are never loaded.
    """
    path = Path(path)
    arrays = _read_arrays(path, required=("X", "y"))
    with name_in_errors(path):
        return from_arrays(**arrays, name=path.name)


def all_arrays(path: Path) -> dict[str, Any]:
    """Read every array of a .npz file, whatever its name."""
    with _explain_errors(path):
        return read_archive(path)[0]


def from_arrays(
    X: Any,
    y: Any,
    *,
    clean_labels: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    text: str | Sequence[str] = (),
    name: str = "arrays",
) -> Arrays:
    """Make a data set of arrays, tensors or a table in memory.

    The classes are the distinct labels and true labels as strings, sorted (by value where all are integers).

    Args:
        X: N inputs, see `as_inputs`.
        y: (N,) labels: strings, booleans, integers, or floats that are whole.
        clean_labels: (N,) the truth, where it is known.
        X_test: M test inputs of the same kind and shape.
        y_test: (M,) their labels, classes of the training part, which need not be clean.
        text: Columns of a table that hold text.
        name: The name of the data set.
    """
    given = as_inputs(X)
    inputs, notes = _drop_row_numbers(given)
    words = label_words(y, "y", len(inputs))
    check_classes(words)
    truth = words if clean_labels is None else label_words(clean_labels, "clean_labels", len(inputs))
    classes = sort_class_names({*words, *truth})
    clean = None if clean_labels is None else number_words(truth, classes)
    chosen = _check_text(text, inputs)
    source = given if isinstance(given, pd.DataFrame) else None
    data = Arrays(name, inputs, number_words(words, classes), classes, clean, text=chosen, notes=notes, source=source)
    if (X_test is None) != (y_test is None):
        raise ValueError("one of X_test and y_test was given alone: give both or neither")
    return data if X_test is None else add_test_part(data, X_test, y_test, is_clean=False)


def as_inputs(X: Any, what: str = "X") -> Inputs:
    """Check a user's inputs: a table stays, (N, D) becomes float32 features, uint8 of 3 or 4 axes becomes images.

    Images are (N, C, H, W), (N, H, W, C) or (N, H, W). With 4 axes, the last one is taken for the channels if its
    length is 1, 3 or 4 and that of the second one is not.

    Args:
        X: A DataFrame, a tensor, or numbers that NumPy reads as an array.
        what: The name of the inputs in messages.
    """
    if isinstance(X, ImageFiles):
        return X
    if isinstance(X, pd.DataFrame):
        return as_frame(X, what)
    array = np.asarray(as_numpy(X))
    if array.dtype == np.uint8 and array.ndim in (3, 4) and array.size:
        return _channels_first(array)
    if array.ndim != 2 or array.dtype.kind not in "buif" or not array.size:
        raise ValueError(
            f"{what} must be a DataFrame, numbers of shape (N, D), or uint8 images of shape (N, C, H, W), (N, H, W, C) "
            f"or (N, H, W), and not empty; received {array.dtype} of shape {array.shape}"
        )
    with np.errstate(over="ignore"):
        features = array.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise ValueError(
            f"{what} must hold finite float32 numbers; NaN or infinite ones are in {bad.size} of {len(features)} rows, "
            f"first in row {bad[0]} (counted from 0): fill them in or leave those rows out"
        )
    return features


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Put the name of a file before errors about its content."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Turn errors about a missing or unreadable file into one line."""
    check_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except MemoryError as error:
        reason = f": {error}" if str(error) else ""
        raise ValueError(f"{path.name} needs more memory than there is{reason}; give a part of it") from error
    except Exception as error:  # the parsers raise anything on a damaged file
        reason = " ".join(str(error).split())[:REASON] or type(error).__name__
        raise ValueError(
            f"{path.name} cannot be read, write it again: it is damaged or mislabelled ({reason})"
        ) from error


def read_frame(path: Path, *, strings: Sequence[str] = ()) -> pd.DataFrame:
    """Read the table in a file by its suffix; ValueError where a column stands twice."""
    suffix = next((suffix for suffix in TABLE_SUFFIXES if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        raise ValueError(f"{path.name} is no table: accepted are files that end in {short_list(TABLE_SUFFIXES)}")
    with _explain_errors(path):
        names = raw_names(path, suffix)
    with name_in_errors(path):
        if len(names) > MOST_COLUMNS:
            raise ValueError(f"the table has {len(names)} columns, at most {MOST_COLUMNS} are read: save it as .npz")
        check_names(names, "the table")
    with _explain_errors(path):
        frame = parse_table(path, suffix, strings)
    with name_in_errors(path):
        return as_frame(frame, "the table")


def _read_arrays(path: Path, *, required: tuple[str, ...]) -> dict[str, Any]:
    """Read the arrays of a .npz file that belong to a data set."""
    with _explain_errors(path):
        arrays, found = read_archive(path, NPZ_KEYS)
    lost = [key for key in required if key not in arrays]
    if lost:
        raise ValueError(f"{path.name}: the array {lost[0]!r} is missing; the file holds {short_list(found)}")
    return arrays


def as_frame(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """Give a table a plain index and string names; ValueError where it is empty or has a name twice."""
    frame = frame.set_axis(_column_names(frame), axis=1).reset_index(drop=True)
    check_names(_column_names(frame), what)
    if frame.empty:
        raise ValueError(f"{what} has {len(frame)} rows and {len(frame.columns)} columns: give at least one of each")
    return widen_floats(frame)


def string_columns(frame: pd.DataFrame) -> list[str]:
    """The names of the columns that hold strings."""
    return [column for column in _column_names(frame) if infer_dtype(frame[column], skipna=True) == "string"]


def label_columns(frame: pd.DataFrame, label: str | None, clean: str | None) -> tuple[str, str | None]:
    """Find the column of the labels, and that of the true labels if there is one."""
    target = find_column(frame, label, LABEL_NAMES)
    if target is None:
        raise ValueError(f"name the label column, as none is called {short_list(LABEL_NAMES)}; {_list_columns(frame)}")
    return target, find_column(frame, clean, CLEAN_NAMES)


def find_column(frame: pd.DataFrame, named: str | None, usual: tuple[str, ...]) -> str | None:
    """Find the column that the user named, or the only one with a usual name; None where there is none."""
    if named is not None:
        if named not in frame:
            raise ValueError(f"there is no column {named!r}; {_list_columns(frame)}")
        return named
    found = [column for column in _column_names(frame) if plain_name(column).lower() in usual]
    if len(found) > 1:
        raise ValueError(f"which column is meant, {' or '.join(map(repr, found))}? name it; {_list_columns(frame)}")
    return found[0] if found else None


def _find_label_copies(features: pd.DataFrame, labels: pd.Series[Any]) -> tuple[str, ...]:
    """Find features that are named like the labels, for notes; ValueError where one is a copy of the labels.

    Such a copy is called ``label.1`` where a program read a column twice and wrote it again.
    """
    label = plain_name(str(labels.name)).casefold()
    alike = [name for name in _column_names(features) if re.sub(r"\.\d+$", "", plain_name(name)).casefold() == label]
    for name in alike:
        if names_of(features[name]).equals(names_of(labels)):
            raise ValueError(f"column {name!r} is a copy of {labels.name!r} and gives the labels away: leave it out")
    return tuple(
        f"column {name!r} is a feature, though it is named like {labels.name!r}: leave it out if it tells the label"
        for name in alike
    )


def _check_text(text: str | Sequence[str], inputs: Inputs) -> tuple[str, ...]:
    names = (text,) if isinstance(text, str) else tuple(text)
    if not isinstance(inputs, pd.DataFrame):
        if names:
            raise ValueError(f"text columns {short_list(names)} were named, but X is no table: give a DataFrame")
        return ()
    for name in names:
        find_column(inputs, name, ())
    return names


def _drop_row_numbers(inputs: Inputs) -> tuple[Inputs, tuple[str, ...]]:
    """Drop columns that count the rows; in a table sorted by class they would give the label away."""
    if not isinstance(inputs, pd.DataFrame) or len(inputs) < MANY_ROWS:
        return inputs, ()
    numbers = inputs.select_dtypes("integer")
    counting = [column for column in numbers if (np.diff(numbers[column].to_numpy()) == 1).all()]
    notes = tuple(f"column {column!r} counts the rows and was left out" for column in counting)
    return inputs.drop(columns=counting) if counting else inputs, notes


def _channels_first(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if images.ndim == 3:
        return images[:, None]
    last = images.shape[3] in CHANNELS and images.shape[1] not in CHANNELS
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if last else images


def add_test_part(data: Arrays, X: Any, y: Any, *, is_clean: bool) -> Arrays:
    """Add a test part to a data set, which must fit the training part."""
    inputs = as_inputs(X, "X_test")
    words = label_words(y, "y_test", len(inputs))
    labels = number_words(words, data.classes)
    if (labels < 0).any():
        raise ValueError(
            f"the test label {words[labels < 0][0]!r} is no class of the training labels ({short_list(data.classes)}): "
            "correct it, or leave those rows out"
        )
    return replace(data, test_inputs=_match_training(inputs, data.inputs), test_labels=labels, test_is_clean=is_clean)


def _match_training(inputs: Inputs, model: Inputs) -> Inputs:
    """Give test inputs the columns of the training inputs; ValueError for another shape."""
    if isinstance(inputs, pd.DataFrame) and isinstance(model, pd.DataFrame):
        for column in _column_names(model):
            find_column(inputs, column, ())
        return inputs[_column_names(model)]
    shapes = [x.shape[1:] if isinstance(x, np.ndarray) else type(x).__name__ for x in (model, inputs)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"X_test must be like X, whose rows have shape {shapes[0]}; received {shapes[1]}")
    return inputs


def _list_columns(frame: pd.DataFrame) -> str:
    return f"the columns are {short_list([repr(column) for column in _column_names(frame)])}"


def _column_names(frame: pd.DataFrame) -> list[str]:
    return [str(column) for column in frame.columns]
