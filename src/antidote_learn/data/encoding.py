"""Encodings, which turn inputs into the rows that a network reads; they are fitted on training data and saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn._types import Arrays, ImageFiles, Inputs
from antidote_learn.data.columns import Column, TextColumn, column_from_state, fit_column
from antidote_learn.data.image_tables import image_files
from antidote_learn.data.inputs import as_frame, as_inputs
from antidote_learn.data.rows import DenseRows as DenseRows
from antidote_learn.data.rows import FileRows as FileRows
from antidote_learn.data.rows import Index, join_blocks
from antidote_learn.data.rows import SampleRows as SampleRows
from antidote_learn.data.rows import SparseRows as SparseRows
from antidote_learn.data.sentences import EmbeddingColumn, check_text_features
from antidote_learn.data.state_checks import Meta, Tensors, damage_error, read_field, read_strings, read_tensor

VERSION = 1  # of the saved format; loading refuses any other
SAMPLED_FILES = 1000  # images on disk that are decoded for the mean and deviation; more hardly change them
CHUNK = 512  # images whose pixels are counted at a time, few enough for any memory
IDF = "idf.{}"  # the name of a text column's saved array, by the column's position


class Encoding(Protocol):
    """The way from inputs to the rows that a network reads.

    Attributes:
        kind: "images" (in memory or in files), "features" or "table".
        shape: The shape of one row, (C, H, W) or (D,).
        notes: Notes on the fit for the user.
    """

    kind: ClassVar[str]

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102

    def encode(self, inputs: Inputs) -> SampleRows:
        """Encode inputs as rows; ValueError where they are not like those of training."""
        ...

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """The values for JSON and the arrays that `encoding_from_state` needs."""
        ...


def fit_encoding(arrays: Arrays, *, index: Index | None = None, text_features: str = "tfidf") -> Encoding:
    """Fit the encoding of a data set on its training part.

    Images have the mean and deviation of each channel, image files those of 1000 evenly spaced ones. Features have the
    mean and deviation of each column. Tables are encoded by column; ``notes`` says which were left out:

    - numbers, and dates as seconds: standardised; a missing value is the mean, and is marked in a column of its own if
      the training part had any
    - booleans, categories and other strings: one column for each of the 100 most frequent values; any other value, new
      or missing, is all zeros
    - text: TF-IDF of the 20 000 most frequent words and pairs of words, or sentence embeddings. A column is text where
      the user says so, or where its strings have several words and are long (30 characters on average) or mostly differ
    - strings like 2026-01-31 are dates; strings that nearly all differ are identifiers and left out

    Args:
        arrays: The data set.
        index: (n,) the rows of the training part; None for all.
        text_features: The features of text, "tfidf" or "embeddings".
    """
    check_text_features(text_features)
    inputs = arrays.inputs
    if isinstance(inputs, pd.DataFrame):
        return _fit_table(inputs if index is None else inputs.iloc[index], arrays.text, text_features)
    if text_features != "tfidf":
        raise ValueError(f"{arrays.name!r} takes no `text_features`: that is for tables")
    rows = np.arange(len(inputs)) if index is None else index
    if isinstance(inputs, ImageFiles):
        spaced = np.linspace(0, len(rows) - 1, min(len(rows), SAMPLED_FILES)).astype(np.int64)
        fitted = _fit_images((3, inputs.size, inputs.size), FileRows(inputs), rows[spaced])
        return replace(fitted, column=inputs.column)
    array: NDArray[Any] = inputs
    if array.ndim == 4:
        return _fit_images(array.shape[1:], DenseRows(array), rows)
    return _fit_features(array if index is None else array[index])


def encoding_from_state(meta: Any, tensors: Tensors) -> Encoding:
    """Restore the encoding that a run saved with `Encoding.state`; ValueError where the state is incomplete."""
    kind, version = read_field(meta, "kind", str), read_field(meta, "version", int)
    if version != VERSION:
        raise ValueError(
            f"the saved preprocessing has version {version}, known is {VERSION}: use the package that made it"
        )
    if kind == "table":
        return _table_from_state(meta, tensors)
    if kind not in ("images", "features"):
        raise damage_error(f"its kind is {kind!r}, known are images, features and table")
    shape = tuple(read_field(meta, "shape", list))
    if len(shape) != (3 if kind == "images" else 1) or not all(isinstance(size, int) and size > 0 for size in shape):
        raise damage_error(f"shape {list(shape)} is none of {kind}")
    mean, std = (read_tensor(tensors, name, shape[0], np.float32) for name in ("mean", "std"))
    if kind == "images" and not std.all():
        raise damage_error("the deviation of a channel is 0")
    if kind == "features":
        return FeatureEncoding(mean, std)
    column = read_field(meta, "column", str) if "column" in meta else ""
    return ImageEncoding(shape, mean, std, column, _read_row_shape(meta, shape))


@dataclass(frozen=True, eq=False)
class ImageEncoding:
    """Images, which stay uint8 (N, C, H, W) or on disk; `Preparation` normalises them a batch at a time.

    Attributes:
        shape: (C, H, W) that the network reads.
        mean: (C,) float32, the mean of pixels in [0, 1].
        std: (C,) float32, their deviation; 1 for a channel that is constant.
        column: The column of the table that named the image files of training; empty where none did.
        stored: The shape (C, H, W) of the rows where the network reads only a part of them; else empty.
    """

    shape: tuple[int, ...]
    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    column: str = ""
    stored: tuple[int, ...] = ()
    kind: ClassVar[str] = "images"
    notes: ClassVar[tuple[str, ...]] = ()

    def encode(self, inputs: Inputs) -> SampleRows:
        """Encode images as rows of uint8 (C, H, W); files are decoded to the size of training.

        A table in memory names files in its column, relative to the current folder.
        """
        if self.column and isinstance(inputs, pd.DataFrame):
            inputs = image_files(as_frame(inputs, "the table"), self.column, Path())
        shape = self.stored or self.shape
        if isinstance(inputs, ImageFiles) and shape == (3, shape[1], shape[1]):
            return FileRows(replace(inputs, size=shape[1]))
        if not isinstance(inputs, np.ndarray) or inputs.dtype != np.uint8 or inputs.shape[1:] != shape:
            needed = "uint8 images of shape (N, {}, {}, {})".format(*shape)
            raise ValueError(f"{needed} are needed, as in training; received {_describe_inputs(inputs)}")
        return DenseRows(inputs)

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """The values for JSON and the arrays; see `Encoding.state`."""
        further = {"column": self.column, "stored": list(self.stored)}
        given = {name: value for name, value in further.items() if value}
        return _meta(self, shape=list(self.shape), **given), {"mean": self.mean, "std": self.std}


@dataclass(frozen=True, eq=False)
class FeatureEncoding:
    """Numbers, standardised by column; a column that was constant in training becomes 0.

    Attributes:
        mean: (D,) float32, the mean of each column.
        std: (D,) float32, its deviation; 0 for a constant column.
    """

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    kind: ClassVar[str] = "features"
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (D,) of one row."""
        return self.mean.shape

    def encode(self, inputs: Inputs) -> SampleRows:
        """Encode numbers as rows of float32 (D,)."""
        features = as_inputs(inputs)
        if not isinstance(features, np.ndarray) or features.shape[1:] != self.shape:
            raise ValueError(
                f"numbers of shape (N, {len(self.mean)}) are needed, as in training; "
                f"received {_describe_inputs(inputs)}"
            )
        scaled = features - self.mean
        scaled /= np.where(self.std > 0, self.std, np.inf)
        return DenseRows(scaled)

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """The values for JSON and the arrays; see `Encoding.state`."""
        return _meta(self, shape=list(self.shape)), {"mean": self.mean, "std": self.std}


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """A table, column by column.

    Attributes:
        columns: The columns in use, in the order of their blocks in a row.
        notes: Notes on columns that were left out, with the reasons.
    """

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    kind: ClassVar[str] = "table"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (D,) of one row."""
        return (sum(column.width for column in self.columns),)

    @property
    def strings(self) -> tuple[str, ...]:
        """Columns of names or text, which `read_features` must read as they are written."""
        return tuple(column.name for column in self.columns if column.kind in ("category", "text", "embedding"))

    def encode(self, inputs: Inputs) -> SampleRows:
        """Encode a table as rows of float32 (D,), sparse where that takes less memory; unknown columns are ignored."""
        if not isinstance(inputs, pd.DataFrame):
            raise ValueError(f"a table (DataFrame) is needed, as in training; received {_describe_inputs(inputs)}")
        frame = as_frame(inputs, "the table")
        lost = [column.name for column in self.columns if column.name not in frame]
        if lost:
            names = ", ".join(map(repr, lost))
            raise ValueError(f"the table lacks column {names}, which training had: add it (its values may be missing)")
        return join_blocks([column.encode(frame[column.name]) for column in self.columns])

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(D,), whether a number is the same on every machine; embeddings may differ in their last digits."""
        columns = self.columns
        return np.repeat([column.kind != EmbeddingColumn.kind for column in columns], [c.width for c in columns])

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """The values for JSON and the arrays; see `Encoding.state`."""
        texts = {IDF.format(i): column.idf for i, column in enumerate(self.columns) if isinstance(column, TextColumn)}
        return _meta(self, columns=[column.meta() for column in self.columns], notes=list(self.notes)), texts


def _fit_images(shape: tuple[int, ...], rows: SampleRows, index: Index) -> ImageEncoding:
    """Fit the mean and deviation of each channel from counts of its 256 values, a chunk of images at a time."""
    counts = np.zeros((shape[0], 256))
    for start in range(0, len(index), CHUNK):
        images = rows.take(index[start : start + CHUNK]).numpy()
        counts += [np.bincount(images[:, channel].ravel(), minlength=256) for channel in range(shape[0])]
    share, pixels = counts / counts.sum(axis=1, keepdims=True), np.arange(256) / 255
    mean = share @ pixels
    std = np.sqrt((share * (pixels - mean[:, None]) ** 2).sum(axis=1))
    constant = (counts > 0).sum(axis=1) == 1
    return ImageEncoding(shape, mean.astype(np.float32), np.where(constant, 1.0, std).astype(np.float32))


def _fit_features(features: NDArray[np.float32]) -> FeatureEncoding:
    """Fit the mean and deviation in float64: the mean of up to 2^29 equal float32 numbers is exact, the deviation 0."""
    mean, std = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    return FeatureEncoding(mean.astype(np.float32), std.astype(np.float32))


def _fit_table(frame: pd.DataFrame, text: tuple[str, ...], text_features: str) -> TableEncoding:
    fitted = [fit_column(frame[name], str(name), is_text=name in text, text_features=text_features) for name in frame]
    columns = tuple(column for column, _ in fitted if column is not None)
    notes = tuple(note for _, note in fitted if note)
    if not columns:
        raise ValueError(f"no column of the table can serve as a feature; {'; '.join(notes) or 'it has none'}")
    if text_features == "embeddings" and not any(isinstance(column, EmbeddingColumn) for column in columns):
        raise ValueError(
            "no column of the table was found to be text, which `text_features` needs: name it with `text`"
        )
    return TableEncoding(columns, notes)


def _describe_inputs(inputs: Any) -> str:
    if isinstance(inputs, np.ndarray):
        return f"{inputs.dtype} of shape {inputs.shape}"
    return f"{type(inputs).__name__} of {len(inputs)} rows"


def _meta(encoding: Encoding, **fields: Any) -> Meta:
    return {"kind": encoding.kind, "version": VERSION, **fields}


def _read_row_shape(meta: Meta, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Read the shape of the stored rows; it is empty in runs whose network reads all of a row."""
    if "stored" not in meta:
        return ()
    stored = tuple(read_field(meta, "stored", list))
    whole = len(stored) == 3 and all(isinstance(size, int) for size in stored)
    if not whole or stored[0] != shape[0] or any(a < b for a, b in zip(stored, shape, strict=True)):
        raise damage_error(f"rows of shape {list(stored)} hold no image of shape {list(shape)}")
    return stored


def _table_from_state(meta: Meta, tensors: Tensors) -> TableEncoding:
    columns = [
        column_from_state(column, tensors, IDF.format(i)) for i, column in enumerate(read_field(meta, "columns", list))
    ]
    if not columns:
        raise damage_error("it has no columns")
    return TableEncoding(tuple(columns), read_strings(meta, "notes"))
