"""Tables with a column of image files: the images, with the labels of another column."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype

from antidote_learn._types import Arrays, ImageFiles
from antidote_learn.data.image_folders import Candidate, Progress, check_all, default_size, note_unreadable
from antidote_learn.data.in_memory import add_test_part, from_arrays
from antidote_learn.data.label_columns import find_column, label_columns
from antidote_learn.data.labels import short_list
from antidote_learn.data.tabular import name_in_errors, read_frame, string_columns
from antidote_learn.data.text_forms import UNKNOWN, Note, TextForm, ignore_note

PATHLESS = "no path is given"


def read_image_table(
    path: str | Path,
    image: str,
    *,
    label: str | None = None,
    clean: str | None = None,
    test: str | Path | None = None,
    strict: bool = False,
    form: TextForm = UNKNOWN,
    progress: Progress | None = None,
) -> Arrays:
    """Read a table whose column ``image`` holds paths of image files, the inputs.

    A path is relative to the folder of its table, or absolute. Labels are as in `read_table`. Other columns are not
    used, and a note says so. The images are checked as in `read_folder`: a row whose image cannot be read is left out
    and named in a note, and `Arrays.positions` holds the rows that remain.

    Args:
        path: The training table.
        image: The column of the paths.
        label: The column of the labels, as in `read_table`.
        clean: The column of the true labels, as in `read_table`.
        test: A second table with the columns ``image`` and ``label``; its true labels as in `read_table`.
        strict: Whether an image that cannot be read, or a row without a label, is an error.
        form: The form of text files, as in `read_table`.
        progress: Called with the number of images read.

    Raises:
        FileNotFoundError: A table is missing.
        ValueError: As in `read_table`; or no image can be read, or with ``strict`` one cannot.
    """
    path, test = Path(path), None if test is None else Path(test)
    found: list[str] = []
    frame = read_frame(path, strings=(image,), form=form, note=found.append)
    with name_in_errors(path):
        target, truth = label_columns(frame, label, clean)
    candidates = _candidates(frame, image, path, labels=(target.name, truth))
    others = None
    if test is not None:
        others = read_frame(test, strings=(image, *string_columns(frame)), form=form, note=found.append)
    tested = [] if test is None or others is None else _candidates(others, image, test)
    checked = check_all(candidates + tested, progress)
    notes = (
        *found,
        *_note_unused_columns(frame, (image, target.name, truth)),
        *note_unreadable(checked, strict=strict),
    )
    files, kept = _readable_images(checked[: len(candidates)], image, path)
    with name_in_errors(path):
        known = None if truth is None else frame[truth].iloc[kept]
        data = from_arrays(files, frame[target.name].iloc[kept], clean_labels=known, name=path.name, strict=strict)
    rows = kept if data.positions is None else kept[data.positions]
    source = frame.drop(columns=[name for name in (target.name, truth) if name]).iloc[rows].reset_index(drop=True)
    positions = rows if len(rows) < len(frame) else None
    data = replace(data, notes=(*notes, *data.notes), positions=positions, label=target, source=source)
    if test is None or others is None:
        return data
    held, rows = _readable_images(checked[len(candidates) :], image, test, size=files.size)
    with name_in_errors(test):
        column = truth if truth in others else find_column(others, target.name, ())
        return add_test_part(data, held, others[column].iloc[rows], is_clean=column == truth, strict=strict)


def read_images(path: str | Path, image: str, *, form: TextForm = UNKNOWN, note: Note = ignore_note) -> ImageFiles:
    """Read the images to predict from the column ``image`` of a table; they are not checked."""
    path = Path(path)
    frame = read_frame(path, strings=(image,), form=form, note=note)
    with name_in_errors(path):
        return image_files(frame, image, path.parent)


def image_files(frame: pd.DataFrame, image: str, folder: Path) -> ImageFiles:
    """The image files that a column names, relative to a folder; ValueError where a row names none."""
    paths = _paths(frame, image)
    lost = np.flatnonzero(paths.isna())
    if lost.size:
        raise ValueError(
            f"column {image!r} lacks {lost.size} of {len(paths)} paths, in row {short_list(list(lost))} (counted from "
            "0): fill them in or leave those rows out"
        )
    return ImageFiles(folder, tuple(paths), 1, image)


def _paths(frame: pd.DataFrame, image: str) -> pd.Series[str]:
    find_column(frame, image, ())
    kind = infer_dtype(frame[image], skipna=True)
    if kind not in ("string", "empty"):
        raise ValueError(
            f"column {image!r} must hold paths of image files; received values of kind {kind}: name another column"
        )
    return frame[image]


def _candidates(
    frame: pd.DataFrame, image: str, table: Path, *, labels: tuple[str | None, ...] = ()
) -> list[Candidate]:
    with name_in_errors(table):
        if image in labels:
            raise ValueError(f"column {image!r} is named for the labels and for the images: name two columns")
        paths = _paths(frame, image)
    folder = table.parent
    return [
        Candidate(folder, "", error=PATHLESS) if lost else Candidate(folder, name)
        for name, lost in zip(paths, paths.isna(), strict=True)
    ]


def _readable_images(
    checked: list[Candidate], image: str, table: Path, *, size: int | None = None
) -> tuple[ImageFiles, NDArray[np.int64]]:
    """The images that can be read, and their rows in the table."""
    kept = np.array([row for row, candidate in enumerate(checked) if not candidate.error], dtype=np.int64)
    if not len(kept):
        raise ValueError(
            f"{table.name}: none of the {len(checked)} images of column {image!r} can be read; the first is "
            f"{checked[0].root / checked[0].name} ({checked[0].error}): give paths that are absolute, or relative to "
            "the table's folder"
        )
    images = [checked[row] for row in kept]
    return ImageFiles(table.parent, tuple(one.name for one in images), size or default_size(images), image), kept


def _note_unused_columns(frame: pd.DataFrame, used: tuple[str | None, ...]) -> tuple[str, ...]:
    names = [repr(str(name)) for name in frame.columns if name not in used]
    return (f"not used beside the images: column {short_list(names)}",) if names else ()
