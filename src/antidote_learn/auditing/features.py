"""The inputs of an audit: one scale for pixels, embeddings and text, each column's own for tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from torch.nn.functional import adaptive_avg_pool2d

from antidote_learn.auditing.neighbours import identical
from antidote_learn.data.encoding import DenseRows, FeatureEncoding, Rows, SparseRows, TableEncoding
from antidote_learn.data.labels import listed
from antidote_learn.data.prepared import Prepared

TEXT_WIDTH = 100  # numbers that a column of TF-IDF becomes
MANY_COLUMNS = 16  # of a table there are fewer, or they do not vary alike
ALIKE = 10.0  # ratio of the quartiles of deviations, up to which they do
SIDE = 16  # pixels of an image that is compared with others
READ = 1024  # rows at a time

_KINDS = {"text": f"text, TF-IDF in {TEXT_WIDTH} directions", "embedding": "text, embedded"}

Numbers = NDArray[np.float32]


def with_audit_features(data: Prepared, seed: int) -> Prepared:
    """The same data with the rows that the networks of an audit read; images stay as they are."""
    if isinstance(data.encoding, FeatureEncoding):
        return replace(data, rows=_on_one_scale(data.rows, data.encoding))
    if isinstance(data.encoding, TableEncoding) and any(column.kind == "text" for column in data.encoding.columns):
        rows = _with_short_texts(data.rows, data.encoding, seed)
        width = np.zeros(rows.array.shape[1], dtype=np.float32)
        return replace(data, rows=rows, encoding=FeatureEncoding(width, width + 1))
    return data


def compared(data: Prepared) -> Numbers:
    """(N, D) what neighbours are looked for in; images are made small."""
    found = [_small(data.preparation(data.rows.take(part))) for part in _parts(len(data.rows))]
    numbers: Numbers = torch.cat(found).numpy()
    return numbers


def same_rows(data: Prepared) -> NDArray[np.int64]:
    """(N,) the same number for rows that are identical to the last bit, as the encoding sees them."""
    return identical(data.rows.take(part).numpy() for part in _parts(len(data.rows)))


def described(data: Prepared) -> str:
    """What the audit looks at, for the user; of the data as they were given."""
    encoding = data.encoding
    if isinstance(encoding, FeatureEncoding):
        scale = "on one scale" if _vary_alike(encoding.std) else "standardised by column"
        return f"{len(encoding.std)} numbers a row, {scale}"
    if isinstance(encoding, TableEncoding):
        names = [f"{column.name} ({_KINDS.get(column.kind, column.kind)})" for column in encoding.columns]
        return f"columns {listed(names)}"
    return f"images of {encoding.shape[1]} x {encoding.shape[2]} pixels, by networks trained from scratch"


def _vary_alike(std: Numbers) -> bool:
    """Whether columns are pixels or an embedding: many, with deviations of one order."""
    std = std[std > 0]
    return len(std) >= MANY_COLUMNS and bool(np.quantile(std, 0.75) <= ALIKE * np.quantile(std, 0.25))


def _on_one_scale(rows: Rows, encoding: FeatureEncoding) -> Rows:
    """Columns that vary alike keep their own deviations; others, as of a table, have been standardised."""
    if not _vary_alike(encoding.std):
        return rows
    scale = encoding.std / np.sqrt(np.mean(encoding.std[encoding.std > 0].astype(np.float64) ** 2))
    whole = rows.take(np.arange(len(rows))).numpy()
    return DenseRows(whole * scale.astype(np.float32))


def _with_short_texts(rows: Rows, encoding: TableEncoding, seed: int) -> DenseRows:
    """Each column of text as the leading directions of its TF-IDF, beside the other columns."""
    whole: Any = rows.matrix if isinstance(rows, SparseRows) else rows.take(np.arange(len(rows))).numpy()
    ends = np.cumsum([column.width for column in encoding.columns])
    blocks = []
    for column, end in zip(encoding.columns, ends, strict=True):
        block = whole[:, end - column.width : end]
        if column.kind == "text":
            blocks.append(_leading(block, seed))
        else:
            blocks.append(block.toarray() if sparse.issparse(block) else block)
    return DenseRows(np.ascontiguousarray(np.concatenate(blocks, axis=1), dtype=np.float32))


def _leading(block: Any, seed: int) -> Numbers:
    """(N, 100) or fewer, centred, with a mean square of 1."""
    width = max(1, min(TEXT_WIDTH, min(block.shape) - 1))
    found = TruncatedSVD(width, random_state=seed).fit_transform(sparse.csr_array(block))
    found -= found.mean(axis=0)
    numbers: Numbers = (found / max(np.sqrt(np.mean(found**2)), 1e-12)).astype(np.float32)
    return numbers


def _small(rows: torch.Tensor) -> torch.Tensor:
    if rows.dim() == 4 and max(rows.shape[2:]) > SIDE:
        rows = adaptive_avg_pool2d(rows, SIDE)
    return rows.flatten(1)


def _parts(count: int) -> list[NDArray[np.int64]]:
    return [np.arange(start, min(start + READ, count)) for start in range(0, count, READ)]
