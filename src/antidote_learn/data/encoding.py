"""What is fitted on the training part, saved with the run, and turns inputs into what a network reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_datetime64_any_dtype
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from antidote_learn._types import Arrays, ImageFiles, Inputs
from antidote_learn.data.folders import decode
from antidote_learn.data.tabular import as_frame, as_inputs, names_of

VERSION = 1
MAX_CATEGORIES = 100
MAX_TERMS = 20_000
MANY_TEXTS = 1000  # from here on a term must occur in two texts
LONG_TEXT = 30  # characters on average
MANY_NAMES = 20  # a column with more distinct values, one for nearly every row, identifies the rows
SAMPLED_FILES = 1000  # images on disk that are decoded for the mean and deviation
CHUNK = 512  # images at a time
LARGEST = float(np.finfo(np.float32).max)
TEXT_SETTINGS: dict[str, Any] = {
    "lowercase": True,
    "ngram_range": [1, 2],
    "sublinear_tf": True,
    "token_pattern": r"(?u)\b\w\w+\b",
}
KINDS = {
    "boolean": "flag",
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "date": "time",
    "datetime": "time",
    "datetime64": "time",
    "categorical": "category",
    "string": "string",
}
"""What pandas infers of a column's values, and what it is here."""
DATE = r"\d{4}-\d{2}-\d{2}([ T].*)?"

Index = NDArray[np.int64]
Floats = NDArray[np.float64]
Block = Any
"""(N, width) float32, an array or a scipy.sparse.csr_array."""
Meta = dict[str, Any]
Tensors = Mapping[str, NDArray[Any]]


class Rows(Protocol):
    """Samples ready for a network, read a batch at a time."""

    def __len__(self) -> int: ...

    def take(self, index: Index) -> torch.Tensor:
        """(B, D) float32 or (B, C, H, W) uint8, the rows at ``index`` (B,)."""
        ...


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows of an array, which is not copied."""

    array: NDArray[Any]

    def __len__(self) -> int:
        return len(self.array)

    def take(self, index: Index) -> torch.Tensor:
        """See `Rows.take`."""
        return torch.from_numpy(self.array[index])


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a sparse matrix; a batch is made dense when it is taken."""

    matrix: sparse.csr_array

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, index: Index) -> torch.Tensor:
        """See `Rows.take`."""
        return torch.from_numpy(self.matrix[index].toarray())


@dataclass(frozen=True, eq=False)
class FileRows:
    """Images on disk, decoded when they are taken."""

    files: ImageFiles

    def __len__(self) -> int:
        return len(self.files)

    def take(self, index: Index) -> torch.Tensor:
        """See `Rows.take`."""
        return torch.from_numpy(decode(self.files, index))


class Encoding(Protocol):
    """How inputs become what a network reads.

    Attributes:
        kind: "images" (in memory or in files), "features" or "table".
        shape: Of one row: (C, H, W) or (D,).
        notes: What the user should hear of the fit.
    """

    kind: ClassVar[str]

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102

    def encode(self, inputs: Inputs) -> Rows:
        """The inputs as rows; ValueError where they are not like those of training."""
        ...

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """What `encoding_from_state` needs: values for JSON, and arrays."""
        ...


def fit_encoding(arrays: Arrays, *, index: Index | None = None) -> Encoding:
    """The encoding of a data set, fitted on its training part.

    Images and image files: mean and deviation of each channel (of files, over 1000 evenly spaced ones). Features: mean
    and deviation of each column. Tables, by column (what was left out is said in ``notes``):

    - numbers, and dates as seconds: standardised; a missing value is the mean, and is marked in a column of its own if
      the training part had any
    - booleans, categories and other strings: one column for each of the 100 most frequent values; any other value, new
      or missing, is all zeros
    - text, which is what the user named, or strings of several words that are long (30 characters on average) or mostly
      differ: TF-IDF of the 20 000 most frequent words and pairs of words
    - strings like 2026-01-31 are dates; strings of which nearly every one differs are identifiers and left out

    Args:
        arrays: The data set.
        index: (n,) the rows of the training part; None is all.
    """
    inputs = arrays.inputs
    if isinstance(inputs, pd.DataFrame):
        return _fit_table(inputs if index is None else inputs.iloc[index], arrays.text)
    rows = np.arange(len(inputs)) if index is None else index
    if isinstance(inputs, ImageFiles):
        files = inputs
        spaced = np.linspace(0, len(rows) - 1, min(len(rows), SAMPLED_FILES)).astype(np.int64)
        return _fit_images((3, files.size, files.size), lambda chunk: decode(files, chunk), rows[spaced])
    array: NDArray[Any] = inputs
    if array.ndim == 4:
        return _fit_images(array.shape[1:], lambda chunk: array[chunk], rows)
    return _fit_features(array if index is None else array[index])


def encoding_from_state(meta: Any, tensors: Tensors) -> Encoding:
    """The encoding that a run saved, from what `Encoding.state` gave; ValueError where that is incomplete."""
    kind, version = _field(meta, "kind", str), _field(meta, "version", int)
    if version != VERSION:
        raise ValueError(
            f"the saved preprocessing has version {version}, known is {VERSION}: use the package that made it"
        )
    if kind == "table":
        return _table_from_state(meta, tensors)
    if kind not in ("images", "features"):
        raise _damaged(f"its kind is {kind!r}, known are images, features and table")
    shape = tuple(_field(meta, "shape", list))
    if len(shape) != (3 if kind == "images" else 1) or not all(isinstance(size, int) and size > 0 for size in shape):
        raise _damaged(f"shape {list(shape)} is none of {kind}")
    mean, std = (_array(tensors, name, shape[0], np.float32) for name in ("mean", "std"))
    if kind == "images" and not std.all():
        raise _damaged("the deviation of a channel is 0")
    return ImageEncoding(shape, mean, std) if kind == "images" else FeatureEncoding(mean, std)


@dataclass(frozen=True, eq=False)
class ImageEncoding:
    """Images stay uint8 (N, C, H, W), or on disk; they are normalised a batch at a time, elsewhere.

    Attributes:
        shape: (C, H, W).
        mean: (C,) float32, of pixels in [0, 1].
        std: (C,) float32, their deviation; 1 for a channel that is constant.
    """

    shape: tuple[int, ...]
    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    kind: ClassVar[str] = "images"
    notes: ClassVar[tuple[str, ...]] = ()

    def encode(self, inputs: Inputs) -> Rows:
        """Rows of uint8 (C, H, W); files are decoded to the size of training."""
        if isinstance(inputs, ImageFiles) and self.shape == (3, self.shape[1], self.shape[1]):
            return FileRows(replace(inputs, size=self.shape[1]))
        if not isinstance(inputs, np.ndarray) or inputs.dtype != np.uint8 or inputs.shape[1:] != self.shape:
            needed = "uint8 images of shape (N, {}, {}, {})".format(*self.shape)
            raise ValueError(f"{needed} are needed, as in training; received {_described(inputs)}")
        return DenseRows(inputs)

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """See `Encoding.state`."""
        return _meta(self, shape=list(self.shape)), {"mean": self.mean, "std": self.std}


@dataclass(frozen=True, eq=False)
class FeatureEncoding:
    """Numbers, standardised by column; a column that was constant in training becomes 0.

    Attributes:
        mean: (D,) float32.
        std: (D,) float32; 0 for a constant column.
    """

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    kind: ClassVar[str] = "features"
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """(D,)."""
        return self.mean.shape

    def encode(self, inputs: Inputs) -> Rows:
        """Rows of float32 (D,)."""
        features = as_inputs(inputs)
        if not isinstance(features, np.ndarray) or features.shape[1:] != self.shape:
            raise ValueError(
                f"numbers of shape (N, {len(self.mean)}) are needed, as in training; received {_described(inputs)}"
            )
        scaled = features - self.mean
        scaled /= np.where(self.std > 0, self.std, np.inf)
        return DenseRows(scaled)

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """See `Encoding.state`."""
        return _meta(self, shape=list(self.shape)), {"mean": self.mean, "std": self.std}


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """A table, column by column.

    Attributes:
        columns: Those that are used, in the order of their blocks in a row.
        notes: Columns that were left out, and why.
    """

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    kind: ClassVar[str] = "table"

    @property
    def shape(self) -> tuple[int, ...]:
        """(D,)."""
        return (sum(column.width for column in self.columns),)

    @property
    def strings(self) -> tuple[str, ...]:
        """Columns whose values are names or text: to be read as they are written (`read_features`)."""
        return tuple(column.name for column in self.columns if column.kind in ("category", "text"))

    def encode(self, inputs: Inputs) -> Rows:
        """Rows of float32 (D,), sparse where that takes less memory; other columns of the table are ignored."""
        if not isinstance(inputs, pd.DataFrame):
            raise ValueError(f"a table (DataFrame) is needed, as in training; received {_described(inputs)}")
        frame = as_frame(inputs, "the table")
        lost = [column.name for column in self.columns if column.name not in frame]
        if lost:
            names = ", ".join(map(repr, lost))
            raise ValueError(f"the table lacks column {names}, which training had: add it (its values may be missing)")
        return _joined([column.encode(frame[column.name]) for column in self.columns])

    def state(self) -> tuple[Meta, dict[str, NDArray[Any]]]:
        """See `Encoding.state`."""
        texts = {f"idf.{i}": column.idf for i, column in enumerate(self.columns) if isinstance(column, TextColumn)}
        return _meta(self, columns=[column.meta() for column in self.columns], notes=list(self.notes)), texts


@dataclass(frozen=True)
class NumberColumn:
    """Standardised numbers or dates (kind "number" or "time"), and what is missing if training had missing ones."""

    name: str
    kind: str
    mean: float
    std: float
    missing: bool

    @property
    def width(self) -> int:
        """Of its block."""
        return 1 + self.missing

    def encode(self, values: pd.Series[Any]) -> Block:
        """(N, width)."""
        numbers = _numbers(values, self.name, self.kind)
        lost = np.isnan(numbers)
        scaled = np.where(lost, 0.0, (numbers - self.mean) / (self.std or math.inf))
        return np.stack([scaled, lost] if self.missing else [scaled], axis=1).astype(np.float32)

    def meta(self) -> Meta:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class CategoryColumn:
    """One column for each category (kind "category", or "flag" for booleans)."""

    name: str
    kind: str
    categories: tuple[str, ...]

    @property
    def width(self) -> int:
        """Of its block."""
        return len(self.categories)

    def encode(self, values: pd.Series[Any]) -> Block:
        """(N, width), a 1 at the category; nothing where it is unknown."""
        names = names_of(values)
        if self.kind == "flag":
            names = names.str.capitalize().replace({"0": "False", "1": "True"})
        codes = pd.Index(self.categories).get_indexer(pd.Index(names))
        known = codes >= 0
        ends = np.concatenate([[0], np.cumsum(known)])
        return sparse.csr_array((np.ones(known.sum(), np.float32), codes[known], ends), shape=(len(codes), self.width))

    def meta(self) -> Meta:
        """For JSON."""
        return {**asdict(self), "categories": list(self.categories)}


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Text as TF-IDF; a missing text is an empty one."""

    name: str
    terms: tuple[str, ...]
    idf: Floats
    kind: ClassVar[str] = "text"

    @property
    def width(self) -> int:
        """Of its block."""
        return len(self.terms)

    def encode(self, values: pd.Series[Any]) -> Block:
        """(N, width)."""
        vectorizer = _vectorizer(vocabulary=self.terms)
        vectorizer.idf_ = self.idf
        return sparse.csr_array(vectorizer.transform(_texts(values)), dtype=np.float32)

    def meta(self) -> Meta:
        """For JSON."""
        return {"name": self.name, "kind": self.kind, "terms": list(self.terms), "settings": TEXT_SETTINGS}


Column = NumberColumn | CategoryColumn | TextColumn


def _fit_images(shape: tuple[int, ...], read: Callable[[Index], NDArray[np.uint8]], rows: Index) -> ImageEncoding:
    """Mean and deviation of each channel from counts of its 256 values, a chunk of images at a time."""
    counts = np.zeros((shape[0], 256))
    for start in range(0, len(rows), CHUNK):
        images = read(rows[start : start + CHUNK])
        counts += [np.bincount(images[:, channel].ravel(), minlength=256) for channel in range(shape[0])]
    share, pixels = counts / counts.sum(axis=1, keepdims=True), np.arange(256) / 255
    mean = share @ pixels
    std = np.sqrt((share * (pixels - mean[:, None]) ** 2).sum(axis=1))
    constant = (counts > 0).sum(axis=1) == 1
    return ImageEncoding(shape, mean.astype(np.float32), np.where(constant, 1.0, std).astype(np.float32))


def _fit_features(features: NDArray[np.float32]) -> FeatureEncoding:
    """In float64, where the mean of up to 2^29 equal float32 numbers is exact, so that the deviation is 0."""
    mean, std = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    return FeatureEncoding(mean.astype(np.float32), std.astype(np.float32))


def _fit_table(frame: pd.DataFrame, text: tuple[str, ...]) -> TableEncoding:
    fitted = [_fit_column(frame[name], str(name), name in text) for name in frame]
    columns = tuple(column for column, _ in fitted if column is not None)
    notes = tuple(note for _, note in fitted if note)
    if not columns:
        raise ValueError(f"no column of the table can serve as a feature; {'; '.join(notes) or 'it has none'}")
    return TableEncoding(columns, notes)


def _fit_column(values: pd.Series[Any], name: str, is_text: bool) -> tuple[Column | None, str]:
    """The column as it is encoded, or None where it is left out; and what to say about it."""
    if values.isna().all():
        return None, f"column {name!r} was left out: all its values are missing"
    kind = "text" if is_text else _kind(values, name)
    if kind == "identifier":
        return None, f"column {name!r} was left out: {values.nunique()} different strings look like identifiers"
    if kind == "text":
        return _fit_text(values, name)
    if kind in ("number", "time"):
        return _fit_numbers(_numbers(values, name, kind), name, kind), ""
    return _fit_categories(values, name, kind)


def _kind(values: pd.Series[Any], name: str) -> str:
    """Number, time, flag, category, text or identifier, by the type of the values and, for strings, by their look."""
    inferred = infer_dtype(values, skipna=True)
    if inferred not in KINDS:
        raise ValueError(
            f"column {name!r} holds {inferred} values ({values.dtype}); accepted are numbers, booleans, dates and "
            "strings: convert it or leave it out"
        )
    kind = KINDS[inferred]
    return _string_kind(values.dropna().astype("str")) if kind == "string" else kind


def _string_kind(strings: pd.Series[str]) -> str:
    if strings.str.fullmatch(DATE).all() and not np.isnan(_seconds(strings)).any():
        return "time"
    distinct = strings.nunique()
    wordy = strings.str.strip().str.contains(r"\s").mean() > 0.5
    if wordy and (strings.str.len().mean() > LONG_TEXT or distinct > 0.5 * len(strings)):
        return "text"
    return "identifier" if distinct > max(MANY_NAMES, 0.9 * len(strings)) else "category"


def _fit_numbers(numbers: Floats, name: str, kind: str) -> NumberColumn:
    known = numbers[~np.isnan(numbers)]
    std = 0.0 if known.min() == known.max() else float(known.std())
    return NumberColumn(name, kind, float(known.mean()), std, len(known) < len(numbers))


def _fit_categories(values: pd.Series[Any], name: str, kind: str) -> tuple[CategoryColumn, str]:
    if kind == "flag":
        return CategoryColumn(name, kind, ("False", "True")), ""
    counts = {str(category): count for category, count in names_of(values).value_counts().items()}
    kept = sorted(counts, key=lambda category: (-counts[category], category))[:MAX_CATEGORIES]
    note = f"column {name!r}: the {MAX_CATEGORIES} most frequent of {len(counts)} categories were kept"
    return CategoryColumn(name, kind, tuple(sorted(kept))), note if len(counts) > MAX_CATEGORIES else ""


def _fit_text(values: pd.Series[Any], name: str) -> tuple[TextColumn | None, str]:
    vectorizer = _vectorizer(min_df=2 if len(values) >= MANY_TEXTS else 1, max_features=MAX_TERMS)
    try:
        vectorizer.fit(_texts(values))
    except ValueError as error:  # its way to say that there is no term
        return None, f"column {name!r} was left out: {error}"
    return TextColumn(name, tuple(vectorizer.get_feature_names_out().tolist()), vectorizer.idf_), ""


def _vectorizer(**settings: Any) -> TfidfVectorizer:
    return TfidfVectorizer(**{**TEXT_SETTINGS, "ngram_range": tuple(TEXT_SETTINGS["ngram_range"])}, **settings)


def _texts(values: pd.Series[Any]) -> list[str]:
    return names_of(values).fillna("").tolist()


def _numbers(values: pd.Series[Any], name: str, kind: str) -> Floats:
    """Numbers, or dates as seconds: float64, NaN where missing; ValueError where a value is neither."""
    numbers = _seconds(values) if kind == "time" else _floats(values)
    bad = values[~(np.abs(numbers) <= LARGEST)].dropna()
    bad = bad[bad.astype("str").str.strip() != ""]
    if len(bad):
        needed = "dates (2026-01-31)" if kind == "time" else "finite numbers"
        raise ValueError(
            f"column {name!r} must hold {needed}; {len(bad)} of {len(values)} values are none, the first is "
            f"{str(bad.iloc[0])!r} in row {bad.index[0]} (counted from 0): correct them or leave them empty"
        )
    return numbers


def _floats(values: pd.Series[Any]) -> Floats:
    plain = values.astype(object) if values.dtype == "category" else values
    return pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _seconds(values: pd.Series[Any]) -> Floats:
    """Since 1970, UTC where no time zone is given."""
    plain = values if is_datetime64_any_dtype(values) else names_of(values)
    times = pd.to_datetime(plain, format="ISO8601", utc=True, errors="coerce")
    return np.asarray((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1), dtype=np.float64)


def _joined(blocks: list[Block]) -> Rows:
    """The blocks side by side."""
    if all(isinstance(block, np.ndarray) for block in blocks):
        return DenseRows(np.concatenate(blocks, axis=1))
    matrix = sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr")
    rows, width = matrix.shape
    return SparseRows(matrix) if 2 * matrix.nnz < rows * width else DenseRows(matrix.toarray())


def _described(inputs: Any) -> str:
    if isinstance(inputs, np.ndarray):
        return f"{inputs.dtype} of shape {inputs.shape}"
    return f"{type(inputs).__name__} of {len(inputs)} rows"


def _meta(encoding: Encoding, **fields: Any) -> Meta:
    return {"kind": encoding.kind, "version": VERSION, **fields}


def _table_from_state(meta: Meta, tensors: Tensors) -> TableEncoding:
    columns = [_column_from_state(column, tensors, i) for i, column in enumerate(_field(meta, "columns", list))]
    if not columns:
        raise _damaged("it has no columns")
    return TableEncoding(tuple(columns), _strings(meta, "notes"))


def _column_from_state(meta: Any, tensors: Tensors, position: int) -> Column:
    name, kind = _field(meta, "name", str), _field(meta, "kind", str)
    if kind in ("number", "time"):
        mean, std = _field(meta, "mean", float), _field(meta, "std", float)
        if not (math.isfinite(mean) and 0.0 <= std < math.inf):
            raise _damaged(f"column {name!r} has mean {mean} and deviation {std}")
        return NumberColumn(name, kind, mean, std, _field(meta, "missing", bool))
    if kind in ("flag", "category"):
        return CategoryColumn(name, kind, _strings(meta, "categories", distinct=True))
    if kind != "text":
        raise _damaged(f"column {name!r} is of kind {kind!r}")
    if _field(meta, "settings", dict) != TEXT_SETTINGS:
        raise _damaged(f"column {name!r} has text settings {meta['settings']}, known are {TEXT_SETTINGS}")
    terms = _strings(meta, "terms", distinct=True)
    return TextColumn(name, terms, _array(tensors, f"idf.{position}", len(terms), np.float64))


def _field(meta: Any, name: str, kind: type[Any]) -> Any:
    """A value of the saved JSON, of the type it must have."""
    if not isinstance(meta, dict):
        raise _damaged(f"an object with {name!r} is needed, found {type(meta).__name__}")
    value = meta.get(name)
    if type(value) is not kind:
        raise _damaged(
            f"{name!r} must be {kind.__name__}, " + (f"found {value!r:.40}" if name in meta else "it is missing")
        )
    return value


def _strings(meta: Any, name: str, *, distinct: bool = False) -> tuple[str, ...]:
    values = _field(meta, name, list)
    if not all(isinstance(value, str) for value in values) or (distinct and not len(set(values)) == len(values) > 0):
        raise _damaged(f"{name!r} must be a list of " + ("different strings" if distinct else "strings"))
    return tuple(values)


def _array(tensors: Tensors, name: str, size: int, dtype: type[Any]) -> NDArray[Any]:
    """A saved array (size,) of finite numbers, none of them negative but in a mean."""
    array = tensors.get(name)
    if array is None:
        raise _damaged(f"the array {name!r} is missing")
    if array.dtype != dtype or array.shape != (size,):
        raise _damaged(f"the array {name!r} must be {np.dtype(dtype)} of shape ({size},), found {_described(array)}")
    if not np.isfinite(array).all() or (name != "mean" and (array < 0).any()):
        raise _damaged(f"the array {name!r} holds numbers that are infinite, NaN or negative")
    return array


def _damaged(reason: str) -> ValueError:
    return ValueError(f"the saved preprocessing is damaged: {reason}; restore the run's files or train it again")
