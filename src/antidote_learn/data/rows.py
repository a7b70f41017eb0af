"""Samples ready for a network: rows of an array, of a sparse matrix, or of image files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from antidote_learn._types import ImageFiles
from antidote_learn.data.image_folders import decode

Index = NDArray[np.int64]
Block = Any
"""(N, width) float32, an array or a scipy.sparse.csr_array."""


class SampleRows(Protocol):
    """Samples ready for a network, read a batch at a time."""

    def __len__(self) -> int: ...

    def take(self, index: Index) -> torch.Tensor:
        """Take the rows at ``index`` (B,), as (B, D) float32 or (B, C, H, W) uint8."""
        ...


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows of an array, without a copy of it."""

    array: NDArray[Any]

    def __len__(self) -> int:
        return len(self.array)

    def take(self, index: Index) -> torch.Tensor:
        """Take the rows at ``index`` (B,)."""
        return torch.from_numpy(self.array[index])


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a sparse matrix; a batch is made dense when it is taken."""

    matrix: sparse.csr_array

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, index: Index) -> torch.Tensor:
        """Take the rows at ``index`` (B,)."""
        return torch.from_numpy(self.matrix[index].toarray())


@dataclass(frozen=True, eq=False)
class FileRows:
    """Images on disk, decoded when they are taken."""

    files: ImageFiles

    def __len__(self) -> int:
        return len(self.files)

    def take(self, index: Index) -> torch.Tensor:
        """Take the rows at ``index`` (B,)."""
        return torch.from_numpy(decode(self.files, index))


def join_blocks(blocks: list[Block]) -> SampleRows:
    """Join blocks side by side, sparse where that takes less memory."""
    if all(isinstance(block, np.ndarray) for block in blocks):
        return DenseRows(np.concatenate(blocks, axis=1))
    matrix = sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr")
    rows, width = matrix.shape
    return SparseRows(matrix) if 2 * matrix.nnz < rows * width else DenseRows(matrix.toarray())
