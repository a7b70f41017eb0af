"""The transition T[k, c] = P(given = c | true = k) shows how classes are mistaken; it is read off the surest rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import betaln, gammaln

ANCHORS = 0.1  # the share of a predicted class that serves as anchors
FEWEST = 10  # the fewest anchors of a class; 5, 15 and 20 were no better
GRID = np.geomspace(1.0, 1000.0, 31)  # strengths of shrinkage to choose from, from one row to a thousand

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
        scale, unseen = self._shares()
        block: Floats = (self.counts.T[labels].toarray() + unseen) * scale
        block[np.arange(len(labels)), labels] = 1.0 - self.errors[labels]
        return block

    def at(self, true: Integers, given: Integers) -> Floats:
        """Returns T[k_i, y_i] (B,) of classes k_i != y_i."""
        scale, unseen = self._shares()
        seen = np.array([self.counts[k, c] for k, c in zip(true, given, strict=True)], dtype=np.float64)
        found: Floats = (seen + unseen) * scale[true]
        return found

    def _shares(self) -> tuple[Floats, float]:
        """Returns the share (K,) of one seen error in each row, and the number of unseen errors of each kind."""
        seen = self.counts.sum(axis=1)
        return self.errors / (seen + self.strength), self.strength / max(len(self.errors) - 1, 1)


def anchors(predicted: Integers, confidence: Floats, count: int) -> Integers:
    """Returns the positions of the max(10, .1 n_k) surest rows of each predicted class k, with ties of the last."""
    order = np.lexsort((-confidence, predicted))
    sizes = np.bincount(predicted, minlength=count)
    wanted = np.minimum(np.maximum(FEWEST, np.round(ANCHORS * sizes).astype(np.int64)), sizes)
    last = np.cumsum(sizes) - sizes + np.maximum(wanted, 1) - 1
    threshold = confidence[order[np.minimum(last, len(order) - 1)]]
    return np.flatnonzero(confidence >= threshold[predicted])


def transition_of_anchors(predicted: Integers, confidence: Floats, labels: Integers, count: int) -> Transition:
    """Estimates T from anchors, with the shrinkage that explains their labels best.

    e_k = (o_k + a m) / (A_k + a) with o_k of the A_k anchors labelled otherwise and m = (sum o + .5) / (sum A + 1);
    T[k, c] = e_k (N[k, c] + b / (K - 1)) / (o_k + b). a and b maximise the beta-binomial and the
    Dirichlet-multinomial likelihood over a grid.

    Args:
        predicted: (N,) predicted classes.
        confidence: (N,) probabilities of the predicted classes.
        labels: (N,) given labels.
        count: K, the number of classes.
    """
    chosen = anchors(predicted, confidence, count)
    true, given = predicted[chosen], labels[chosen]
    total, off = np.bincount(true, minlength=count), true != given
    counts = sparse.coo_array((np.ones(off.sum()), (true[off], given[off])), shape=(count, count)).tocsc()
    counts.sum_duplicates()
    wrong = counts.sum(axis=1)
    middle = (wrong.sum() + 0.5) / (total.sum() + 1.0)
    pull = max(GRID, key=lambda a: _beta_binomial(wrong, total, a * middle, a * (1.0 - middle)))
    strength = max(GRID, key=lambda b: _dirichlet_multinomial(counts, wrong, b))
    return Transition(counts, (wrong + pull * middle) / (total + pull), float(strength))


def _beta_binomial(wrong: Floats, total: Integers, alpha: float, beta: float) -> float:
    """Returns the log likelihood of the error counts, up to a constant."""
    return float((betaln(wrong + alpha, total - wrong + beta) - betaln(alpha, beta)).sum())


def _dirichlet_multinomial(counts: sparse.csc_array, wrong: Floats, strength: float) -> float:
    """Returns the log likelihood of the kinds of errors, up to a constant; unseen kinds add nothing."""
    share = strength / max(counts.shape[0] - 1, 1)
    rows = gammaln(strength) - gammaln(wrong + strength)
    return float(rows.sum() + (gammaln(counts.data + share) - gammaln(share)).sum())
