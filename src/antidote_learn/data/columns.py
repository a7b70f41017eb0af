"""The columns of a table: each is recognised, fitted, encoded, and restored from a saved run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_datetime64_any_dtype
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from antidote_learn.data.labels import names_of
from antidote_learn.data.rows import Block
from antidote_learn.data.sentences import EmbeddingColumn, embedding_column, embedding_from_state, texts_of
from antidote_learn.data.state_checks import Meta, Tensors, damage_error, read_field, read_strings, read_tensor

FLAGS = {"0": "False", "1": "True", "False": "False", "True": "True"}
MAX_CATEGORIES = 100  # the most frequent categories that are kept; rarer ones have too few rows to learn from
MAX_TERMS = 20_000  # the most frequent words and pairs of words that are kept, a width that a network still takes
MANY_TEXTS = 1000  # with so many texts a term must occur in two of them, which leaves slips out
LONG_TEXT = 30  # characters on average that make strings of several words a text rather than categories
MANY_NAMES = 20  # with more distinct values than this, one for nearly every row, a column identifies the rows
LARGEST = float(np.finfo(np.float32).max)  # the bound of a number, which is encoded as float32
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
"""The kind of a column by the type that pandas infers."""
DATE = r"\d{4}-\d{2}-\d{2}([ T].*)?"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumberColumn:
    """Standardised numbers or dates (kind "number" or "time"), with a mark for missing ones if training had any."""

    name: str
    kind: str
    mean: float
    std: float
    missing: bool

    @property
    def width(self) -> int:
        """The width of its block."""
        return 1 + self.missing

    def encode(self, values: pd.Series[Any]) -> Block:
        """Encode the values as (N, width)."""
        numbers = _parse_numbers(values, self.name, self.kind)
        lost = np.isnan(numbers)
        scaled = np.where(lost, 0.0, (numbers - self.mean) / (self.std or math.inf))
        return np.stack([scaled, lost] if self.missing else [scaled], axis=1).astype(np.float32)

    def meta(self) -> Meta:
        """The column's values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class CategoryColumn:
    """One column for each category (kind "category", or "flag" for booleans)."""

    name: str
    kind: str
    categories: tuple[str, ...]

    @property
    def width(self) -> int:
        """The width of its block."""
        return len(self.categories)

    def encode(self, values: pd.Series[Any]) -> Block:
        """Encode the values as (N, width) with a 1 at the category; an unknown one is all zeros."""
        names = names_of(values)
        if self.kind == "flag":
            names = names.str.capitalize().map(FLAGS)
        codes = pd.Index(self.categories).get_indexer(pd.Index(names))
        known = codes >= 0
        ends = np.concatenate([[0], np.cumsum(known)])
        return sparse.csr_array((np.ones(known.sum(), np.float32), codes[known], ends), shape=(len(codes), self.width))

    def meta(self) -> Meta:
        """The column's values for JSON."""
        return {**asdict(self), "categories": list(self.categories)}


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Text as TF-IDF; a missing text counts as an empty one."""

    name: str
    terms: tuple[str, ...]
    idf: Floats
    kind: ClassVar[str] = "text"

    @property
    def width(self) -> int:
        """The width of its block."""
        return len(self.terms)

    def encode(self, values: pd.Series[Any]) -> Block:
        """Encode the values as (N, width)."""
        vectorizer = _vectorizer(vocabulary=self.terms)
        vectorizer.idf_ = self.idf
        return sparse.csr_array(vectorizer.transform(texts_of(values)), dtype=np.float32)

    def meta(self) -> Meta:
        """The column's values for JSON."""
        return {"name": self.name, "kind": self.kind, "terms": list(self.terms), "settings": TEXT_SETTINGS}


Column = NumberColumn | CategoryColumn | TextColumn | EmbeddingColumn


def fit_column(
    values: pd.Series[Any], name: str, *, is_text: bool, text_features: str = "tfidf"
) -> tuple[Column | None, str]:
    """Fit a column, which is None where it is left out, and write a note on it for the user."""
    if values.isna().all():
        return None, f"column {name!r} was left out: all its values are missing"
    kind = "text" if is_text else _kind(values, name)
    if kind == "identifier":
        return None, f"column {name!r} was left out: {values.nunique()} different strings look like identifiers"
    if kind == "text":
        return (embedding_column(name), "") if text_features == "embeddings" else _fit_text(values, name)
    if kind in ("number", "time"):
        return _fit_numbers(_parse_numbers(values, name, kind), name, kind), ""
    return _fit_categories(values, name, kind)


def _kind(values: pd.Series[Any], name: str) -> str:
    """The kind of a column, from the type of its values or the look of its strings."""
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
        vectorizer.fit(texts_of(values))
    except ValueError as error:  # scikit-learn raises it where there is no term
        return None, f"column {name!r} was left out: {error}"
    return TextColumn(name, tuple(vectorizer.get_feature_names_out().tolist()), vectorizer.idf_), ""


def _vectorizer(**settings: Any) -> TfidfVectorizer:
    return TfidfVectorizer(**{**TEXT_SETTINGS, "ngram_range": tuple(TEXT_SETTINGS["ngram_range"])}, **settings)


def _parse_numbers(values: pd.Series[Any], name: str, kind: str) -> Floats:
    """Parse numbers, or dates as seconds, to float64 with NaN where one is missing; ValueError for other values."""
    numbers = _seconds(values) if kind == "time" else _floats(values)
    doubtful = ~(np.abs(numbers) <= LARGEST)
    if not doubtful.any():
        return numbers
    bad = values[doubtful].dropna()
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
    try:
        numbers = pd.to_numeric(plain, errors="coerce")
    except OverflowError:  # pandas refuses a whole number of more than 308 digits, unless it is a string
        numbers = pd.to_numeric(plain.astype("str"), errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _seconds(values: pd.Series[Any]) -> Floats:
    """The seconds since 1970 of dates, in UTC where no time zone is given."""
    plain = values if is_datetime64_any_dtype(values) else names_of(values)
    times = pd.to_datetime(plain, format="ISO8601", utc=True, errors="coerce")
    return np.asarray((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1), dtype=np.float64)


def column_from_state(meta: Any, tensors: Tensors, idf: str) -> Column:
    """Restore a column from its saved values and, for text, the array named ``idf``; ValueError if damaged."""
    name, kind = read_field(meta, "name", str), read_field(meta, "kind", str)
    if kind in ("number", "time"):
        mean, std = read_field(meta, "mean", float), read_field(meta, "std", float)
        if not (math.isfinite(mean) and 0.0 <= std < math.inf):
            raise damage_error(f"column {name!r} has mean {mean} and deviation {std}")
        return NumberColumn(name, kind, mean, std, read_field(meta, "missing", bool))
    if kind in ("flag", "category"):
        return CategoryColumn(name, kind, read_strings(meta, "categories", distinct=True))
    if kind == EmbeddingColumn.kind:
        return embedding_from_state(meta)
    if kind != "text":
        raise damage_error(f"column {name!r} is of kind {kind!r}")
    if read_field(meta, "settings", dict) != TEXT_SETTINGS:
        raise damage_error(f"column {name!r} has text settings {meta['settings']}, known are {TEXT_SETTINGS}")
    terms = read_strings(meta, "terms", distinct=True)
    return TextColumn(name, terms, read_tensor(tensors, idf, len(terms), np.float64))
