"""Beliefs about the class of every sample, in O(N): a row's likeliest classes, and the rest spread evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

KEPT = 32  # classes that a row keeps; a data set of no more classes loses nothing
BLOCK = 2**20  # numbers of a dense block, 8 MB

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """A distribution over K classes for each of N rows.

    Attributes:
        classes: (N, C) int32, those that are kept, C = min(K, `KEPT`), the likeliest first.
        probs: (N, C) float32, their probabilities; what they lack to 1 is spread evenly over the other K - C classes.
        count: K.
    """

    classes: npt.NDArray[np.int32]
    probs: npt.NDArray[np.float32]
    count: int

    @classmethod
    def blank(cls, rows: int, count: int) -> Beliefs:
        """Beliefs of rows that no one has judged yet."""
        kept = min(count, KEPT)
        return cls(np.tile(np.arange(kept, dtype=np.int32), (rows, 1)), np.zeros((rows, kept), dtype=np.float32), count)

    def __len__(self) -> int:
        return len(self.classes)

    def dense(self, rows: Integers | slice) -> Floats:
        """All K probabilities (B, K) of some rows."""
        return _dense_block(self.classes[rows], self.probs[rows].astype(np.float64), 1.0, self.count)

    def put(self, rows: Integers | slice, block: Floats, always: Integers) -> None:
        """Writes some rows (B, K); the class in ``always`` (B,) is kept, however unlikely."""
        kept = _top_classes(block, always, self.classes.shape[1])
        self.classes[rows], self.probs[rows] = kept, np.take_along_axis(block, kept, axis=1)

    def of(self, labels: Integers) -> Floats:
        """The probability (N,) of one class of each row."""
        here = self.classes == labels[:, None]
        probs = self.probs.astype(np.float64)
        found: Floats = np.where(here.any(axis=1), (probs * here).sum(axis=1), _rest(probs, 1.0, self.count))
        return found


class MeanBeliefs:
    """The running mean of predictions for each row, a batch at a time.

    Args:
        labels: (N,) given labels, whose class is always kept.
        count: K.

    Attributes:
        classes: (N, C) int32, those that are kept, the likeliest first.
        sums: (N, C) float64 sums of their probabilities; up to `KEPT` classes nothing is rounded before the end.
        seen: (N,) the number of predictions.
    """

    def __init__(self, labels: Integers, count: int) -> None:
        self.labels, self.count = labels, count
        self.classes = Beliefs.blank(len(labels), count).classes
        self.sums, self.seen = np.zeros(self.classes.shape), np.zeros(len(labels), dtype=np.int64)

    def add(self, index: Integers, probs: Floats) -> None:
        """Adds one prediction (B, K) of the rows at ``index`` (B,), none of them twice."""
        block = (
            _dense_block(self.classes[index], self.sums[index], self.seen[index].astype(np.float64), self.count) + probs
        )
        kept = _top_classes(block, self.labels[index], self.classes.shape[1])
        self.classes[index], self.sums[index] = kept, np.take_along_axis(block, kept, axis=1)
        self.seen[index] += 1

    @property
    def mean(self) -> Beliefs:
        """The mean prediction of every row; rows without one have zeros."""
        probs = self.sums / np.maximum(self.seen, 1)[:, None]
        return Beliefs(self.classes, probs.astype(np.float32), self.count)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """The arrays that `restore` needs; not copies."""
        return {"classes": self.classes, "sums": self.sums, "seen": self.seen}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Puts `state` back."""
        self.classes[:], self.sums[:], self.seen[:] = (state[key] for key in ("classes", "sums", "seen"))


def blocks(rows: int, count: int) -> Iterator[slice]:
    """Slices of rows in order, so few that their (B, K) is small."""
    size = max(1, BLOCK // count)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _rest(kept: Floats, total: Floats | float, count: int) -> Floats:
    """The share (B,) of each class that is not kept, where all classes share ``total``."""
    rest: Floats = np.maximum(total - kept.sum(axis=1), 0.0) / max(count - kept.shape[1], 1)
    return rest


def _dense_block(classes: npt.NDArray[np.int32], kept: Floats, total: Floats | float, count: int) -> Floats:
    """The kept numbers and the even rest as a dense block (B, K)."""
    block = np.repeat(_rest(kept, total, count)[:, None], count, axis=1)
    np.put_along_axis(block, classes.astype(np.int64), kept, axis=1)
    return block


def _top_classes(block: Floats, always: Integers, kept: int) -> Integers:
    """The classes (B, C) of the largest numbers, the largest first; the last gives way to the one in ``always``."""
    if kept < block.shape[1]:
        top = torch.from_numpy(block).topk(kept, dim=1).indices.numpy()  # several times faster than np.argpartition
    else:
        top = np.argsort(-block, axis=1, kind="stable")
    top[:, -1] = np.where((top == always[:, None]).any(axis=1), top[:, -1], always)
    return top
