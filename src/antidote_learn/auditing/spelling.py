"""The labels of a file that is to be written anew: their names, and how the file spells them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn.data.label_columns import label_columns
from antidote_learn.data.labels import names_of
from antidote_learn.data.tabular import name_in_errors, read_frame
from antidote_learn.data.text_forms import TextForm


def read_with_labels(path: Path, label: str | None, form: TextForm) -> tuple[pd.DataFrame, list[str]]:
    """Reads the table as an audit does, and the names of its columns of given and, if it has them, clean labels."""
    frame = read_frame(path, form=form)
    with name_in_errors(path):
        given, clean = label_columns(frame, label, None)
        return frame, [given.name] if clean is None else [given.name, clean]


def label_names(values: pd.Series[Any]) -> NDArray[np.object_]:
    """Returns the labels' names; the row of an unreadable image may lack one."""
    return names_of(values.infer_objects()).to_numpy(dtype=object)


def note_spelling(spelled: dict[str, Any], words: NDArray[np.object_], values: Sequence[Any] | NDArray[Any]) -> None:
    """Notes the spelling that each class has in its first row."""
    for word, value in zip(words, values, strict=True):
        if isinstance(word, str):
            spelled.setdefault(word, value)
