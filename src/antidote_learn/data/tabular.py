"""Tables in files and .npz files, each as one `Arrays`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import infer_dtype

from antidote_learn._types import Arrays, Inputs
from antidote_learn.data.archives import read_archive
from antidote_learn.data.feature_columns import choose_features, column_list
from antidote_learn.data.in_memory import add_test_part, from_arrays
from antidote_learn.data.inputs import as_frame, as_inputs, column_names
from antidote_learn.data.label_columns import find_column, find_label_copies, label_columns
from antidote_learn.data.labels import short_list
from antidote_learn.data.parsing import check_names, open_table
from antidote_learn.data.safety import MOST_COLUMNS, TABLE_SUFFIXES, TableFault, check_file, table_suffix
from antidote_learn.data.text_forms import UNKNOWN, Note, TextForm, ignore_note

NPZ_KEYS = ("X", "y", "X_test", "y_test", "clean_labels")  # arrays of a .npz file that are read
REASON = 300  # characters of a parser's message that are shown, some three lines


def read_table(
    path: str | Path,
    *,
    label: str | None = None,
    text: str | Sequence[str] = (),
    clean: str | None = None,
    exclude: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    test: str | Path | None = None,
    strict: bool = False,
    form: TextForm = UNKNOWN,
) -> Arrays:
    """Read a file that ends in one of `TABLE_SUFFIXES` as a data set; its inputs are the columns without labels.

    Labels, and columns that are left out by themselves, are as in `from_arrays`.

    Args:
        path: The training table; the first line of a text file names the columns.
        label: The column of the labels; None takes the only one called label, target, class or y.
        text: Columns that hold text; without any, text is recognised when the encoding is fitted.
        clean: The column of the true labels; None takes one called clean_label or clean_labels, where there is one.
        exclude: Columns that are not read at all.
        features: The columns that are features; none for all.
        test: A second table with the same feature columns. Its true labels are used where it has the ``clean`` column.
        strict: Whether rows without a label are an error.
        form: The form of text files, as far as it is given; the rest is detected, and noted.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file cannot be read, a column is missing, or the labels are no classes.
    """
    path, told = Path(path), list[str]()
    frame = read_frame(path, form=form, note=told.append)
    data = from_table(
        frame,
        path,
        label=label,
        text=text,
        clean=clean,
        exclude=exclude,
        features=features,
        test=test,
        strict=strict,
        form=form,
    )
    return replace(data, notes=(*told, *data.notes))


def from_table(
    frame: pd.DataFrame,
    path: Path | None = None,
    *,
    label: str | None = None,
    text: str | Sequence[str] = (),
    clean: str | None = None,
    exclude: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    test: str | Path | None = None,
    strict: bool = False,
    form: TextForm = UNKNOWN,
) -> Arrays:
    """Make a data set of a table that holds its labels; the arguments are those of `read_table`.

    Args:
        frame: The table.
        path: The file that it comes from; None for a table in memory.
        label: See `read_table`, as for all that follow.
        text: Columns of text.
        clean: The column of the true labels.
        exclude: Columns that are not used at all.
        features: The columns that are features.
        test: A file with another such table, to test on.
        strict: Whether rows without a label are an error.
        form: The form of the test table.
    """
    with contextlib.nullcontext() if path is None else name_in_errors(path):
        used = choose_features(as_frame(frame, "the table"), exclude=_no_labels(exclude, label), features=())
        target, truth = label_columns(used, label, clean)
        rest = used.drop(columns=[target.name] if truth is None else [target.name, truth])
        wanted = _no_labels(features, target.name)
        chosen = choose_features(rest, exclude=(), features=wanted)
        known = None if truth is None else used[truth]
        notes = [note for labels in (used[target.name], known) for note in find_label_copies(chosen, labels)]
        name = "table" if path is None else path.name
        options: dict[str, Any] = {"text": text, "features": wanted, "name": name, "strict": strict}
        data = from_arrays(chosen, used[target.name], clean_labels=known, **options)
    data = replace(data, label=target, notes=(*notes, *data.notes))
    if test is None:
        return data
    told = list(data.notes)
    others = read_frame(Path(test), strings=string_columns(frame), form=form, note=told.append)
    with name_in_errors(Path(test)):
        column = truth if truth in others else find_column(others, target.name, ())
        return add_test_part(
            replace(data, notes=tuple(told)), others, others[column], is_clean=column == truth, strict=strict
        )


def _no_labels(names: str | Sequence[str], label: str | None) -> tuple[str, ...]:
    """The names of columns; ValueError where the column of the labels is among them."""
    if label in column_list(names):
        raise ValueError(f"column {label!r} holds the labels: take it out of `exclude` and `features`")
    return column_list(names)


def read_features(
    path: str | Path, *, strings: Sequence[str] = (), form: TextForm = UNKNOWN, note: Note = ignore_note
) -> Inputs:
    """Read inputs to predict: the ``X`` of a .npz file, or all columns of a table.

    Args:
        path: A file as for `read_table` or `read_npz`; neither needs labels.
        strings: Columns of a text file to read as they are written, so that the category 007 does not become 7.
        form: The form of a text file, as far as it is given.
        note: Called with a sentence on what was detected.
    """
    path = Path(path)
    if path.name.lower().endswith(".npz"):
        arrays = _read_arrays(path, required=("X",))
        with name_in_errors(path):
            return as_inputs(arrays["X"])
    return read_frame(path, strings=strings, form=form, note=note)


def read_npz(path: str | Path, *, strict: bool = False) -> Arrays:
    """Read a .npz file with ``X``, ``y`` and, if it has them, ``X_test``, ``y_test`` and ``clean_labels``.

    The arrays mean the same as in `from_arrays`. Pickled objects are never loaded.
    """
    path = Path(path)
    arrays = _read_arrays(path, required=("X", "y"))
    with name_in_errors(path):
        return from_arrays(**arrays, name=path.name, strict=strict)


def all_arrays(path: Path) -> dict[str, Any]:
    """Read every array of a .npz file, whatever its name."""
    with _explain_errors(path):
        return read_archive(path)[0]


@contextlib.contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Put the name of a file before errors about its content."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


@contextlib.contextmanager
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
    except TableFault as fault:
        raise ValueError(f"{path.name}: {fault}") from fault
    except Exception as error:  # the parsers raise anything on a damaged file
        reason = " ".join(str(error).split())[:REASON] or type(error).__name__
        raise ValueError(
            f"{path.name} cannot be read, write it again: it is damaged or mislabelled ({reason})"
        ) from error


def read_frame(
    path: Path, *, strings: Sequence[str] = (), form: TextForm = UNKNOWN, note: Note = ignore_note
) -> pd.DataFrame:
    """Read the table in a file by its suffix, as `read_features` does; ValueError where a column stands twice."""
    suffix = table_suffix(path)
    if suffix is None:
        raise ValueError(f"{path.name} is no table: accepted are files that end in {short_list(TABLE_SUFFIXES)}")
    with _explain_errors(path):
        source = open_table(path, suffix, form)
    with name_in_errors(path):
        count = len(source.names)
        if count > MOST_COLUMNS:
            raise ValueError(f"the table has {count} columns, at most {MOST_COLUMNS} are read: save it as .npz")
        check_names(source.names, "the table")
    with _explain_errors(path):
        frame = source.parse(strings, note)
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


def string_columns(frame: pd.DataFrame) -> list[str]:
    """The names of the columns that hold strings."""
    return [column for column in column_names(frame) if infer_dtype(frame[column], skipna=True) == "string"]
