"""The order of the samples in an epoch, cut into batches and into the parts of the processes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
"""Positions of samples, one for each."""


def epoch_order(count: int, *, seed: int, epoch: int) -> Index:
    """(count,) the order of an epoch: a function of the seed and the epoch, so that a resumed run sees the same."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def cut_batches(order: Index, *, batch_size: int, processes: int = 1) -> list[Index]:
    """The order cut into global batches; none is dropped.

    A last batch with fewer than two samples for each process is joined to the one before it: batch norm cannot train on
    a single sample.
    """
    starts = list(range(0, len(order), batch_size))
    if len(starts) > 1 and len(order) - starts[-1] < 2 * processes:
        starts.pop()
    return [order[a:b] for a, b in zip(starts, [*starts[1:], len(order)], strict=True)]


def rank_slice(batch: Index, rank: int, processes: int) -> slice:
    """Which samples of a global batch are this process's: contiguous, and even up to one."""
    ends = [len(batch) * r // processes for r in (rank, rank + 1)]
    return slice(*ends)
