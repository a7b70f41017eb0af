"""Inputs in memory: arrays, tensors and tables as the package reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn._types import ImageFiles, Inputs
from antidote_learn.data.labels import as_numpy
from antidote_learn.data.parsing import check_names, widen_floats

CHANNELS = (1, 3, 4)  # the usual numbers of channels, by which their axis is recognised


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


def as_frame(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """Give a table a plain index and string names; ValueError where it is empty or has a name twice."""
    frame = frame.set_axis(column_names(frame), axis=1).reset_index(drop=True)
    check_names(column_names(frame), what)
    if frame.empty:
        raise ValueError(f"{what} has {len(frame)} rows and {len(frame.columns)} columns: give at least one of each")
    return widen_floats(frame)


def column_names(frame: pd.DataFrame) -> list[str]:
    """The names of a table's columns as strings."""
    return [str(column) for column in frame.columns]


def take_inputs(inputs: Inputs, index: NDArray[np.int64]) -> Inputs:
    """Take the inputs at some positions."""
    if isinstance(inputs, ImageFiles):
        return replace(inputs, names=tuple(inputs.names[i] for i in index))
    if isinstance(inputs, pd.DataFrame):
        return inputs.iloc[index].reset_index(drop=True)
    return inputs[index]


def _channels_first(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if images.ndim == 3:
        return images[:, None]
    last = images.shape[3] in CHANNELS and images.shape[1] not in CHANNELS
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if last else images
