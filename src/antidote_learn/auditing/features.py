"""Features that an audit reads: pixels, embeddings and text have one scale, columns of tables each their own."""

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
from antidote_learn.auditing.neighbours import duplicate_groups
from antidote_learn.data.encoders import Encoder
from antidote_learn.data.encoding import DenseRows, Encoding, FeatureEncoding, SampleRows, SparseRows, TableEncoding
from antidote_learn.data.labels import short_list
from antidote_learn.data.loaders import Preparation
from antidote_learn.data.prepared import Prepared

TEXT_WIDTH = 100  # numbers that a column of TF-IDF becomes, its leading directions
MANY_COLUMNS = 16  # the fewest columns that can be pixels or an embedding; most tables have fewer
ALIKE = 10.0  # the largest ratio of the quartiles of deviations at which columns count as varying alike
SIDE = 16  # the side in pixels at which images are compared, which keeps distances cheap
READ = 256  # rows that are read at a time, which bounds the memory for images

Numbers = NDArray[np.float32]


def with_audit_features(data: Prepared, seed: int) -> Prepared:
    """Returns the data with the rows that the networks of an audit read; images stay as they are."""
    if isinstance(data.encoding, FeatureEncoding):
        return replace(data, rows=_rescale_rows(data.rows, data.encoding))
    if text_columns(data.encoding):
        return _with_numbers(data, _replace_texts(data, lambda block: _leading_directions(block, seed)))
    return data


def with_embeddings(data: Prepared, embeddings: Numbers) -> Prepared:
    """Returns the data with embeddings (N, D) in place of images, or of the columns of text, one after the other."""
    texts = text_columns(data.encoding)
    if not texts:
        return _with_numbers(data, _centre_columns(embeddings))
    blocks = iter(np.split(embeddings, len(texts), axis=1))
    return _with_numbers(data, _replace_texts(data, lambda block: _centre_columns(next(blocks))))


def text_columns(encoding: Encoding) -> list[str]:
    """Returns the names of the columns of text; images and numbers have none."""
    columns = encoding.columns if isinstance(encoding, TableEncoding) else ()
    return [column.name for column in columns if column.kind == "text"]


def is_plain_table(encoding: Encoding) -> bool:
    """Tells whether the rows are columns of numbers and categories, not pixels, text or one embedding."""
    if isinstance(encoding, FeatureEncoding):
        return not _vary_alike(encoding.std)
    return isinstance(encoding, TableEncoding) and not text_columns(encoding)


def width_of(encoding: Encoding, encoder: Encoder) -> int:
    """Returns how many numbers `with_embeddings` makes of a row."""
    if not isinstance(encoding, TableEncoding):
        return encoder.width
    return sum(encoder.width if column.kind == "text" else column.width for column in encoding.columns)


def neighbour_features(data: Prepared) -> Numbers:
    """Returns the features (N, D) in which neighbours are sought; images are made small."""
    found = [_shrink_images(data.preparation(data.rows.take(part))) for part in parts(len(data.rows))]
    numbers: Numbers = torch.cat(found).numpy()
    return numbers


def plain_features(data: Prepared) -> Any:
    """Returns the rows (N, D) of a table as they were encoded, words as TF-IDF: a sparse matrix, or an array."""
    rows = data.rows
    return rows.matrix if isinstance(rows, SparseRows) else rows.take(np.arange(len(rows))).numpy()


def same_rows(data: Prepared, inputs: Inputs) -> NDArray[np.int64]:
    """Returns a number (N,) that identical rows share: rows equal to the last bit, or in all columns that count.

    Tables are compared as they were given: texts without a known word, or rare categories, differ but have the same
    encoding.
    """
    if isinstance(data.encoding, TableEncoding) and isinstance(inputs, pd.DataFrame):
        names = [column.name for column in data.encoding.columns]
        numbers = inputs.groupby(names, dropna=False, observed=True, sort=False).ngroup()
        return np.asarray(numbers, dtype=np.int64)
    return duplicate_groups(data.rows.take(part).numpy() for part in parts(len(data.rows)))


def features_text(data: Prepared, encoder: Encoder | None) -> str:
    """Describes to the user what the audit looks at; ``data`` are as they were given."""
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
    """Returns the rows 0 ... N - 1 in their order, ``size`` at a time."""
    return [np.arange(start, min(start + size, count)) for start in range(0, count, size)]


def _vary_alike(std: Numbers) -> bool:
    """Tells whether columns look like pixels or an embedding: many, with deviations of one order."""
    std = std[std > 0]
    return len(std) >= MANY_COLUMNS and bool(np.quantile(std, 0.75) <= ALIKE * np.quantile(std, 0.25))


def _rescale_rows(rows: SampleRows, encoding: FeatureEncoding) -> SampleRows:
    """Gives columns that vary alike their own deviations back; other columns stay standardised."""
    if not _vary_alike(encoding.std):
        return rows
    scale = encoding.std / np.sqrt(np.mean(encoding.std[encoding.std > 0].astype(np.float64) ** 2))
    whole = rows.take(np.arange(len(rows))).numpy()
    return DenseRows(whole * scale.astype(np.float32))


def _replace_texts(data: Prepared, short: Callable[[Any], Numbers]) -> Numbers:
    """Returns the rows of a table with each block of TF-IDF replaced, beside the other columns."""
    whole, columns = plain_features(data), getattr(data.encoding, "columns", ())
    ends = np.cumsum([column.width for column in columns])
    blocks = []
    for column, end in zip(columns, ends, strict=True):
        block = whole[:, end - column.width : end]
        if column.kind == "text":
            blocks.append(short(block))
        else:
            blocks.append(block.toarray() if sparse.issparse(block) else block)
    return np.ascontiguousarray(np.concatenate(blocks, axis=1), dtype=np.float32)


def _leading_directions(block: Any, seed: int) -> Numbers:
    """Returns the leading directions (N, 100) of a block, or fewer."""
    width = max(1, min(TEXT_WIDTH, min(block.shape) - 1))
    return _centre_columns(TruncatedSVD(width, random_state=seed).fit_transform(sparse.csr_array(block)))


def _centre_columns(numbers: Any) -> Numbers:
    """Returns columns of mean 0, with a mean square of 1 over all of them."""
    numbers = numbers - numbers.mean(axis=0)
    numbers /= max(np.linalg.norm(numbers) / np.sqrt(numbers.size), 1e-12)
    return np.asarray(numbers, dtype=np.float32)


def _with_numbers(data: Prepared, numbers: Numbers) -> Prepared:
    """Returns the data with rows of numbers that need no encoding."""
    width = np.zeros(numbers.shape[1], dtype=np.float32)
    return replace(data, rows=DenseRows(numbers), encoding=FeatureEncoding(width, width + 1), preparation=Preparation())


def _shrink_images(rows: torch.Tensor) -> torch.Tensor:
    if rows.dim() == 4 and max(rows.shape[2:]) > SIDE:
        rows = adaptive_avg_pool2d(rows, SIDE)
    return rows.flatten(1)
