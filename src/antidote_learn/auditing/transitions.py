"""The transition T[k, c] = P(given = c | true = k) shows how classes are mistaken; it is read off the surest rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antidote_learn.core.anchors import anchor_errors, mistake_probs

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Transition:
    """T without its K x K numbers: sparse counts of the mistakes that were seen, and a few numbers for the rest.

    Attributes:
        counts: (K, K) sparse numbers of anchors that belong to k and are labelled c != k.
        errors: (K,) shares of wrong labels, e_k = 1 - T[k, k].
        strength: b, the number of unseen errors that the K - 1 other classes share.
    """

    counts: sparse.csc_array
    errors: Floats
    strength: float

    def towards(self, labels: Integers) -> Floats:
        """Returns T[k, y_i] (B, K) of given labels (B,)."""
        wrong = self.counts.sum(axis=1)
        block = mistake_probs(self.counts.T[labels].toarray(), wrong, self.errors, self.strength, len(wrong))
        block[np.arange(len(labels)), labels] = 1.0 - self.errors[labels]
        return block

    def at(self, true: Integers, given: Integers) -> Floats:
        """Returns T[k_i, y_i] (B,) of classes k_i != y_i."""
        wrong = self.counts.sum(axis=1)
        seen = np.array([self.counts[k, c] for k, c in zip(true, given, strict=True)], dtype=np.float64)
        return mistake_probs(seen, wrong[true], self.errors[true], self.strength, len(wrong))


def transition_of_anchors(predicted: Integers, confidence: Floats, labels: Integers, count: int) -> Transition:
    """Estimates T from anchors, by `anchor_errors`.

    Args:
        predicted: (N,) predicted classes.
        confidence: (N,) probabilities of the predicted classes.
        labels: (N,) given labels.
        count: K, the number of classes.
    """
    found = anchor_errors(predicted, confidence, labels, count)
    pairs = (found.seen.astype(np.float64), (found.true, found.given))
    return Transition(sparse.csc_array(pairs, shape=(count, count)), found.errors, found.strength)
