"""The inputs of an audit: one scale for pixels, embeddings and text, each column's own for tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from torch.nn.functional import adaptive_avg_pool2d

from antidote_learn._types import Inputs
from antidote_learn.auditing.neighbours import identical
from antidote_learn.data.encoders import Encoder
from antidote_learn.data.encoding import DenseRows, Encoding, FeatureEncoding, SampleRows, SparseRows, TableEncoding
from antidote_learn.data.labels import short_list
from antidote_learn.data.loaders import Preparation
from antidote_learn.data.prepared import Prepared

TEXT_WIDTH = 100  # numbers that a column of TF-IDF becomes
MANY_COLUMNS = 16  # of a table there are fewer, or they do not vary alike
ALIKE = 10.0  # ratio of the quartiles of deviations, up to which they do
SIDE = 16  # pixels of an image that is compared with others
READ = 256  # rows at a time

Numbers = NDArray[np.float32]


def with_audit_features(data: Prepared, seed: int) -> Prepared:
    """The same data with the rows that the networks of an audit read; images stay as they are."""
    if isinstance(data.encoding, FeatureEncoding):
        return replace(data, rows=_on_one_scale(data.rows, data.encoding))
    if text_columns(data.encoding):
        return _of_numbers(data, _with_texts_as(data, lambda block: _leading(block, seed)))
    return data


def with_embeddings(data: Prepared, embeddings: Numbers) -> Prepared:
    """The same data with embeddings in place of images, or of each column of text: (N, D), one after the other."""
    texts = text_columns(data.encoding)
    if not texts:
        return _of_numbers(data, _centred(embeddings))
    blocks = iter(np.split(embeddings, len(texts), axis=1))
    return _of_numbers(data, _with_texts_as(data, lambda block: _centred(next(blocks))))


def text_columns(encoding: Encoding) -> list[str]:
    """The names of the columns of text; images and numbers have none."""
    columns = encoding.columns if isinstance(encoding, TableEncoding) else ()
    return [column.name for column in columns if column.kind == "text"]


def width_of(encoding: Encoding, encoder: Encoder) -> int:
    """How many numbers `with_embeddings` makes of a row."""
    if not isinstance(encoding, TableEncoding):
        return encoder.width
    return sum(encoder.width if column.kind == "text" else column.width for column in encoding.columns)


def compared(data: Prepared) -> Numbers:
    """(N, D) what neighbours are looked for in; images are made small."""
    found = [_small(data.preparation(data.rows.take(part))) for part in parts(len(data.rows))]
    numbers: Numbers = torch.cat(found).numpy()
    return numbers


def same_rows(data: Prepared, inputs: Inputs) -> NDArray[np.int64]:
    """(N,) the same number for rows that are identical: to the last bit, or in all columns of a table that count.

    Of a table that is asked of what was given: different texts without a known word, or rare categories, have the same
    encoding, nothing.
    """
    if isinstance(data.encoding, TableEncoding) and isinstance(inputs, pd.DataFrame):
        names = [column.name for column in data.encoding.columns]
        numbers = inputs.groupby(names, dropna=False, observed=True, sort=False).ngroup()
        return np.asarray(numbers, dtype=np.int64)
    return identical(data.rows.take(part).numpy() for part in parts(len(data.rows)))


def described(data: Prepared, encoder: Encoder | None) -> str:
    """What the audit looks at, for the user; of the data as they were given."""
    encoding = data.encoding
    if isinstance(encoding, FeatureEncoding):
        scale = "on one scale" if _vary_alike(encoding.std) else "standardised by column"
        return f"{len(encoding.std)} numbers a row, {scale}"
    if isinstance(encoding, TableEncoding):
        text = f"text, {f'embedded by {encoder.name}' if encoder else f'TF-IDF in {TEXT_WIDTH} directions'}"
        names = [f"{column.name} ({text if column.kind == 'text' else column.kind})" for column in encoding.columns]
        return f"columns {short_list(names)}"
    how = f"embedded by {encoder.name}" if encoder else "by networks trained from scratch"
    return f"images read at {encoding.shape[1]} x {encoding.shape[2]} pixels, {how}"


def parts(count: int, size: int = READ) -> list[NDArray[np.int64]]:
    """The rows 0 ... N - 1 in their order, so many at a time."""
    return [np.arange(start, min(start + size, count)) for start in range(0, count, size)]


def _vary_alike(std: Numbers) -> bool:
    """Whether columns are pixels or an embedding: many, with deviations of one order."""
    std = std[std > 0]
    return len(std) >= MANY_COLUMNS and bool(np.quantile(std, 0.75) <= ALIKE * np.quantile(std, 0.25))


def _on_one_scale(rows: SampleRows, encoding: FeatureEncoding) -> SampleRows:
    """Columns that vary alike keep their own deviations; others, as of a table, have been standardised."""
    if not _vary_alike(encoding.std):
        return rows
    scale = encoding.std / np.sqrt(np.mean(encoding.std[encoding.std > 0].astype(np.float64) ** 2))
    whole = rows.take(np.arange(len(rows))).numpy()
    return DenseRows(whole * scale.astype(np.float32))


def _with_texts_as(data: Prepared, short: Callable[[Any], Numbers]) -> Numbers:
    """A table with each block of TF-IDF replaced, beside the other columns."""
    rows, columns = data.rows, getattr(data.encoding, "columns", ())
    whole: Any = rows.matrix if isinstance(rows, SparseRows) else rows.take(np.arange(len(rows))).numpy()
    ends = np.cumsum([column.width for column in columns])
    blocks = []
    for column, end in zip(columns, ends, strict=True):
        block = whole[:, end - column.width : end]
        if column.kind == "text":
            blocks.append(short(block))
        else:
            blocks.append(block.toarray() if sparse.issparse(block) else block)
    return np.ascontiguousarray(np.concatenate(blocks, axis=1), dtype=np.float32)


def _leading(block: Any, seed: int) -> Numbers:
    """(N, 100) or fewer: the leading directions."""
    width = max(1, min(TEXT_WIDTH, min(block.shape) - 1))
    return _centred(TruncatedSVD(width, random_state=seed).fit_transform(sparse.csr_array(block)))


def _centred(numbers: Any) -> Numbers:
    """Each column with mean 0, all of them together with a mean square of 1."""
    numbers = numbers - numbers.mean(axis=0)
    numbers /= max(np.linalg.norm(numbers) / np.sqrt(numbers.size), 1e-12)
    return np.asarray(numbers, dtype=np.float32)


def _of_numbers(data: Prepared, numbers: Numbers) -> Prepared:
    """The data with rows of numbers that are ready."""
    width = np.zeros(numbers.shape[1], dtype=np.float32)
    return replace(data, rows=DenseRows(numbers), encoding=FeatureEncoding(width, width + 1), preparation=Preparation())


def _small(rows: torch.Tensor) -> torch.Tensor:
    if rows.dim() == 4 and max(rows.shape[2:]) > SIDE:
        rows = adaptive_avg_pool2d(rows, SIDE)
    return rows.flatten(1)
