"""What is believed of the class of every sample, in O(N): a row's likeliest classes, and the rest spread evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

KEPT = 32  # classes that a row keeps: with up to so many nothing is lost
BLOCK = 2**22  # numbers of a block that is dense for a moment

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
        """Rows that are not known yet."""
        kept = min(count, KEPT)
        return cls(np.tile(np.arange(kept, dtype=np.int32), (rows, 1)), np.zeros((rows, kept), dtype=np.float32), count)

    def __len__(self) -> int:
        return len(self.classes)

    def dense(self, rows: Integers | slice) -> Floats:
        """(B, K) of some rows."""
        classes, probs = self.classes[rows], self.probs[rows].astype(np.float64)
        block = np.repeat(self._rest(probs)[:, None], self.count, axis=1)
        np.put_along_axis(block, classes.astype(np.int64), probs, axis=1)
        return block

    def put(self, rows: Integers | slice, block: Floats, always: Integers) -> None:
        """Writes some rows (B, K); the class in ``always`` (B,) is kept, however unlikely."""
        self.classes[rows], self.probs[rows] = _kept(block, always, self.classes.shape[1])

    def of(self, labels: Integers) -> Floats:
        """(N,) the probability of one class of each row."""
        here = self.classes == labels[:, None]
        probs = self.probs.astype(np.float64)
        found: Floats = np.where(here.any(axis=1), (probs * here).sum(axis=1), self._rest(probs))
        return found

    def _rest(self, probs: Floats) -> Floats:
        others = self.count - probs.shape[1]
        rest: Floats = np.maximum(1.0 - probs.sum(axis=1), 0.0) / max(others, 1)
        return rest


class MeanBeliefs:
    """The mean of what was said of each row so far, a batch at a time.

    Args:
        labels: (N,) given labels, whose class is always kept.
        count: K.
    """

    def __init__(self, labels: Integers, count: int) -> None:
        self.labels, self.mean = labels, Beliefs.blank(len(labels), count)
        self.seen = np.zeros(len(labels), dtype=np.int64)

    def add(self, index: Integers, probs: Floats) -> None:
        """One more (B, K) of the rows at ``index`` (B,), none of them twice."""
        seen = self.seen[index][:, None]
        self.mean.put(index, (self.mean.dense(index) * seen + probs) / (seen + 1), self.labels[index])
        self.seen[index] += 1

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """All that `restore` needs; not a copy."""
        return {"classes": self.mean.classes, "probs": self.mean.probs, "seen": self.seen}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Puts `state` back."""
        self.mean.classes[:], self.mean.probs[:], self.seen[:] = (state[key] for key in ("classes", "probs", "seen"))


def blocks(rows: int, count: int) -> Iterator[slice]:
    """Rows in order, a few at a time: (B, K) of them is small."""
    size = max(1, BLOCK // count)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _kept(block: Floats, always: Integers, kept: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """(B, C) classes and probabilities, the likeliest first."""
    count = block.shape[1]
    top = (
        np.argpartition(-block, kept - 1, axis=1)[:, :kept]
        if kept < count
        else np.tile(np.arange(count), (len(block), 1))
    )
    order = np.argsort(-np.take_along_axis(block, top, axis=1), axis=1, kind="stable")
    top = np.take_along_axis(top, order, axis=1)
    top[:, -1] = np.where((top == always[:, None]).any(axis=1), top[:, -1], always)
    return top.astype(np.int32), np.take_along_axis(block, top, axis=1).astype(np.float32)
