"""The samples on the review page: pictures, texts and values."""

from __future__ import annotations

import base64
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype

from antidote_learn._types import ImageFiles, Inputs
from antidote_learn.data.thumbnails import LARGEST, file_thumbnail, pixels_thumbnail

PICTURES = 2000  # the most samples with a picture, which bounds the size of the page
PICTURE_ROOM = 25 * 10**6 * 3 // 4  # the most bytes of all these pictures: they are 25 MB in base64
LARGEST_PICTURE = 40_000  # the most bytes of a picture, enough for a photograph of 480 pixels
NEAREST_PICTURES = 6  # the nearest rows that are shown as pictures, as many as fit beside one another
NEIGHBOURS = 2000  # the most different neighbours with a picture, which bounds size and time
NEIGHBOUR_SIDE, NEIGHBOUR_BYTES = 96, 3000  # the most pixels of a side, and bytes, of a neighbour's picture
FEATURES = 12  # the most columns of features without names, which say little one by one
COLUMNS = 1000  # the most columns of a table
FIRST = 12  # the columns of a row that stay when there is no room for all of them; the page shows them unfolded
CELL = 400  # the most characters of a value, a paragraph
TEXT = 20 * 10**6  # the most characters of all values together, about as large as the pictures may be
IDENTIFIER = re.compile(r"(?i:(?:^|[^a-z])(?:id|uid|uuid|guid|key))$|[a-z](?:Id|ID)$")  # names of such columns
NAME = 40  # the most characters of an identifier on average


@dataclass(frozen=True)
class PageSamples:
    """The samples in the order of the list; beyond the limits of the page, lists end early.

    Attributes:
        columns: The names of the values.
        cells: The values of each sample; far down the list only the first ones.
        identified: Whether the first value identifies the row.
        more: The number of columns that are not shown.
        pictures: WebP pictures in base64; empty if a file cannot be read.
        names: The names of image files.
    """

    columns: list[str] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)
    identified: bool = False
    more: int = 0
    pictures: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PageNeighbours:
    """Pictures of the nearest rows.

    Attributes:
        near: The nearest rows of the worst samples, as places in the other lists.
        rows: The neighbours' rows, each once.
        pictures: Their pictures in base64.
    """

    near: list[list[int]]
    rows: list[int]
    pictures: list[str]


def collect_samples(inputs: Inputs | None, rows: Sequence[int], source: pd.DataFrame | None = None) -> PageSamples:
    """Collects the samples at ``rows``, the worst first.

    Args:
        inputs: All samples; None shows none.
        rows: The rows to show.
        source: The table that all samples are from, if there is one.
    """
    names = [inputs.names[row] for row in rows] if isinstance(inputs, ImageFiles) else []
    shown = rows[:PICTURES]
    pictures = _collect_pictures(inputs, shown, min(LARGEST_PICTURE, PICTURE_ROOM // max(len(shown), 1)))
    table, most = _values_table(inputs, source)
    order, identified = _order_columns(table, inputs)
    cells = _sample_values(table.iloc[list(rows)][order[:most]]) if order else []
    more = len(order) - len(order[:most])
    return PageSamples([str(name) for name in order[:most]], cells, identified, more, pictures, names)


def collect_neighbours(inputs: Inputs | None, around: NDArray[np.int64]) -> PageNeighbours:
    """Collects pictures of the nearest rows; data that are no images have none.

    Args:
        inputs: All samples.
        around: (B, m) nearest rows of the samples on the page, the worst sample first and the nearest row first.
    """
    places: dict[int, int] = {}
    near = []
    for row in around[:PICTURES, :NEAREST_PICTURES].tolist():
        if len({*places, *row}) > NEIGHBOURS:
            break
        near.append([places.setdefault(other, len(places)) for other in row])
    pictures = _collect_pictures(inputs, [*places], NEIGHBOUR_BYTES, side=NEIGHBOUR_SIDE)
    return PageNeighbours(near, [*places], pictures) if pictures else PageNeighbours([], [], [])


def _collect_pictures(inputs: Inputs | None, rows: Sequence[int], most: int, *, side: int = LARGEST) -> list[str]:
    """Returns pictures of rows, of at most ``most`` bytes and ``side`` pixels, in base64; none of other data."""
    if isinstance(inputs, ImageFiles):
        found = (file_thumbnail(inputs.root / inputs.names[row], most, side=side) for row in rows)
    elif isinstance(inputs, np.ndarray) and inputs.ndim == 4:
        found = (pixels_thumbnail(inputs[row], most, side=side) for row in rows)
    else:
        return []
    return [base64.b64encode(content).decode() for content in found]


def _values_table(inputs: Inputs | None, source: pd.DataFrame | None) -> tuple[pd.DataFrame, int]:
    """Returns the table of the samples' values, without columns for pictures alone, and the most columns to show."""
    if source is not None:
        return source.drop(columns=[inputs.column] if isinstance(inputs, ImageFiles) else []), COLUMNS
    if isinstance(inputs, np.ndarray) and inputs.ndim == 2:
        return pd.DataFrame(inputs), FEATURES
    return (inputs, COLUMNS) if isinstance(inputs, pd.DataFrame) else (pd.DataFrame(), 0)


def _order_columns(table: pd.DataFrame, inputs: Inputs | None) -> tuple[list[Any], bool]:
    """Returns the columns, one that identifies the rows first, and whether there is one."""
    names = list(table.columns)
    learned = set(inputs.columns) if isinstance(inputs, pd.DataFrame) else set(names)
    first = next((name for name in names if _is_identifier(table[name], is_learned=name in learned)), None)
    return (names, False) if first is None else ([first, *(name for name in names if name != first)], True)


def _is_identifier(cells: pd.Series[Any], *, is_learned: bool) -> bool:
    """Tells whether a column names its rows: words that all differ, or numbers called so or left out as row numbers."""
    kind = infer_dtype(cells, skipna=False)
    if kind not in ("integer", "string") or cells.hasnans or not cells.is_unique:
        return False
    if kind == "integer":
        return not is_learned or bool(IDENTIFIER.search(str(cells.name)))
    return not cells.str.contains(r"\s").any() and cells.str.len().mean() <= NAME


def _sample_values(frame: pd.DataFrame) -> list[list[str]]:
    """Returns the values as text, up to the limit of the page; beyond half of it only the first of each row."""
    found: list[list[str]] = []
    left = TEXT
    for values in zip(*(frame[name].tolist() for name in frame.columns), strict=True):
        cells = [_sample_value(value) for value in values[: FIRST if left < TEXT // 2 else None]]
        left -= sum(map(len, cells))
        if left < 0:
            break
        found.append(cells)
    return found


def _sample_value(value: Any) -> str:
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, numbers.Integral)):
        return "" if value != value else f"{float(value):.6g}"
    text = "" if value is None or value is pd.NaT or value is pd.NA else str(value)
    return text if len(text) <= CELL else text[: CELL - 1] + "…"
