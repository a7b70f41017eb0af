"""The samples on the review page: pictures, texts and values."""

from __future__ import annotations

import base64
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from antidote_learn._types import ImageFiles, Inputs
from antidote_learn.data.thumbnails import file_thumbnail, pixels_thumbnail

PICTURES = 2000  # the most samples with a picture, which bounds the size of the page
PICTURE_BYTES = 25 * 10**6 * 3 // 4 // PICTURES  # the most bytes of a picture: together they are 25 MB in base64
COLUMNS = 12  # the most columns of a table or of features that fit on the page
CELL = 400  # the most characters of a value, a paragraph
TEXT = 20 * 10**6  # the most characters of all values together, about as large as the pictures may be


@dataclass(frozen=True)
class PageSamples:
    """The samples in the order of the list; beyond the limits of the page, lists end early.

    Attributes:
        columns: The names of the values.
        cells: The values of each sample.
        pictures: WebP pictures in base64; empty if a file cannot be read.
        names: The names of image files.
        more: The number of columns that are not shown.
    """

    columns: list[str] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    more: int = 0


def collect_samples(inputs: Inputs | None, rows: Sequence[int]) -> PageSamples:
    """Collects the samples at ``rows``, the worst first."""
    if inputs is None:
        return PageSamples()
    if isinstance(inputs, ImageFiles):
        paths = [inputs.root / inputs.names[row] for row in rows[:PICTURES]]
        pictures = [_base64_text(file_thumbnail(path, PICTURE_BYTES)) for path in paths]
        return PageSamples(pictures=pictures, names=[inputs.names[row] for row in rows])
    if isinstance(inputs, np.ndarray) and inputs.ndim == 4:
        return PageSamples(
            pictures=[_base64_text(pixels_thumbnail(inputs[row], PICTURE_BYTES)) for row in rows[:PICTURES]]
        )
    frame = inputs if isinstance(inputs, pd.DataFrame) else pd.DataFrame(inputs[:, :COLUMNS])
    columns = [str(name) for name in frame.columns[:COLUMNS]]
    return PageSamples(columns, _sample_values(frame.iloc[list(rows), :COLUMNS]), more=inputs.shape[1] - len(columns))


def _sample_values(frame: pd.DataFrame) -> list[list[str]]:
    """Returns the values as text, up to the limit of the page."""
    found: list[list[str]] = []
    left = TEXT
    for values in zip(*(frame[name].tolist() for name in frame.columns), strict=True):
        cells = [_sample_value(value) for value in values]
        left -= sum(map(len, cells))
        if left < 0:
            break
        found.append(cells)
    return found


def _sample_value(value: Any) -> str:
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, numbers.Integral)):
        return "" if value != value else f"{float(value):.4g}"
    text = "" if value is None or value is pd.NaT or value is pd.NA else str(value)
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def _base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode()
