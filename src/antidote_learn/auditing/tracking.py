"""`Tracker` listens to a user's own training loop, and names wrong labels at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from antidote_learn._checks import check_whole
from antidote_learn._types import Relaxed
from antidote_learn.auditing.cuts import Cut
from antidote_learn.auditing.label_issues import MOST, issues_of, number_labels
from antidote_learn.core.beliefs import MeanBeliefs
from antidote_learn.data.labels import as_numpy

Integers = NDArray[np.int64]


class Tracker:
    """Keeps the mean of a network's predictions for each sample in training, in O(N).

    A robust training serves best, as it does not memorise wrong labels. If a training does memorise them, they show as
    far as they were learned late.

    Args:
        labels: (N,) given labels of the training set, integers 0 ... K - 1 or names, which stand for the columns of the
            logits in sorted order.
        num_classes: K, needed if some class has no sample.

    Example:
        >>> tracker = Tracker(["cat"] * 30 + ["dog"] * 30)
        >>> says = torch.tensor([[4.0, 0.0]] * 33 + [[0.0, 4.0]] * 27)  # rows 30 to 32 look like cats
        >>> for index in torch.arange(60).split(20):  # your loop; logits as they are before the step
        ...     tracker.add(index, says[index])
        >>> table = tracker.table()
        >>> table.loc[table["is_label_issue"], "index"].tolist()
        [30, 31, 32]
    """

    def __init__(self, labels: Any, *, num_classes: int | None = None) -> None:
        """Starts without predictions."""
        count = None if num_classes is None else check_whole("num_classes", num_classes, 2, MOST)
        self._labels, self._classes = number_labels(labels, count)
        self._said = MeanBeliefs(self._labels, len(self._classes))

    def add(self, index: Any, said: Tensor | Relaxed) -> None:
        """Adds predictions for some samples.

        Args:
            index: (B,) positions of the samples in the training set.
            said: (B, K) logits, before the step that learns from them; or ``loss.last`` of an `AntidoteLoss`, whose
                weights say how far each label was believed (and nothing of other classes).
        """
        rows = np.asarray(as_numpy(index))
        if rows.dtype.kind not in "iu" and rows.size:
            raise ValueError(f"index must be whole numbers (B,), positions in the training set; got {rows.dtype}")
        rows = rows.astype(np.int64)
        probs = self._by_weights(rows, said) if isinstance(said, Relaxed) else self._by_logits(said)
        if rows.shape != probs.shape[:1]:
            raise ValueError(f"index must name one sample for each of the {len(probs)} rows, got shape {rows.shape}")
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self._labels):
            raise ValueError(f"index must lie in 0 ... {len(self._labels) - 1}, got {rows.min()} ... {rows.max()}")
        while len(rows):  # a sampler may give a row twice
            first = np.sort(np.unique(rows, return_index=True)[1])
            self._said.add(rows[first], probs[first])
            rows, probs = np.delete(rows, first), np.delete(probs, first, axis=0)

    def _by_logits(self, logits: Tensor) -> NDArray[np.float64]:
        if not isinstance(logits, Tensor) or logits.dim() != 2 or logits.shape[1] != len(self._classes):
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(
                f"give logits of shape (B, {len(self._classes)}), a column for each class, or loss.last; got {got} "
                "(num_classes says so where not every class has a sample)"
            )
        probs: NDArray[np.float64] = logits.detach().double().softmax(dim=1).cpu().numpy()
        return probs

    def _by_weights(self, rows: Integers, relaxed: Relaxed) -> NDArray[np.float64]:
        """Returns probabilities: the label's is its weight, at most 1, and the other classes share the rest."""
        believed = relaxed.weights.detach().double().clamp(0.0, 1.0).cpu().numpy()
        others = (1.0 - believed) / (len(self._classes) - 1)
        probs = np.repeat(others[:, None], len(self._classes), axis=1)
        if len(rows) == len(probs):
            probs[np.arange(len(rows)), self._labels[rows]] = believed
        return probs

    def table(
        self,
        features: Any = None,
        *,
        flag: int | None = None,
        max_flagged: int | None = None,
        fdr: float | None = None,
    ) -> pd.DataFrame:
        """Returns every sample, the worst first, with the columns of `find_label_issues`.

        Args:
            features: (N, D) numbers, such as embeddings: rows that are near should belong together.
            flag: Flag exactly so many samples, the worst; without ``max_flagged`` and ``fdr``.
            max_flagged: Flag at most so many samples.
            fdr: Flag as many samples as possible while no larger share of them is expected to be right.
        """
        cut = Cut(flag, max_flagged, fdr)
        cut.check_rows(len(self._labels))
        if not self._said.seen.any():
            raise ValueError("nothing was added yet: call add(index, logits) in every step")
        said = [self._said.mean]
        return issues_of(self._labels, self._classes, said, features, cut)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the state for a checkpoint."""
        return {key: torch.from_numpy(array.copy()) for key, array in self._said.state().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Puts the state of `state_dict` back."""
        self._said.restore({key: value.numpy() for key, value in state.items()})
