"""How classes are mistaken for one another: T[k, c] = P(given = c | true = k), from the rows that are surest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import betaln, gammaln

ANCHORS = 0.1  # share of a predicted class that is looked at
FEWEST = 10  # anchors of a class
GRID = np.geomspace(1.0, 1000.0, 31)  # strengths of shrinkage

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Transition:
    """T without its K x K numbers: counts of what was seen, and what is the same for a whole row.

    Attributes:
        counts: (K, K) sparse, how many anchors that belong to k are labelled c != k.
        errors: (K,) e_k = 1 - T[k, k].
        strength: b, how many unseen errors are spread over the K - 1 other classes.
    """

    counts: sparse.csc_array
    errors: Floats
    strength: float

    def towards(self, labels: Integers) -> Floats:
        """(B, K), T[k, y_i] of given labels (B,)."""
        scale, unseen = self._shares()
        block: Floats = (self.counts.T[labels].toarray() + unseen) * scale
        block[np.arange(len(labels)), labels] = 1.0 - self.errors[labels]
        return block

    def at(self, true: Integers, given: Integers) -> Floats:
        """(B,), T[k_i, y_i] of classes k_i != y_i."""
        scale, unseen = self._shares()
        seen = np.array([self.counts[k, c] for k, c in zip(true, given, strict=True)], dtype=np.float64)
        found: Floats = (seen + unseen) * scale[true]
        return found

    def _shares(self) -> tuple[Floats, float]:
        """(K,) what an error that was seen is worth in each row, and how many of each kind count as seen."""
        seen = self.counts.sum(axis=1)
        return self.errors / (seen + self.strength), self.strength / max(len(self.errors) - 1, 1)


def anchors(predicted: Integers, confidence: Floats, count: int) -> Integers:
    """Positions of the max(10, .1 n_k) surest rows of each predicted class k, and of those that tie with the last."""
    order = np.lexsort((-confidence, predicted))
    sizes = np.bincount(predicted, minlength=count)
    wanted = np.minimum(np.maximum(FEWEST, np.round(ANCHORS * sizes).astype(np.int64)), sizes)
    last = np.cumsum(sizes) - sizes + np.maximum(wanted, 1) - 1
    threshold = confidence[order[np.minimum(last, len(order) - 1)]]
    return np.flatnonzero(confidence >= threshold[predicted])


def estimate_transition(predicted: Integers, confidence: Floats, labels: Integers, count: int) -> Transition:
    """T from anchors, with as much shrinkage as explains their labels best.

    e_k = (o_k + a m) / (A_k + a) with o_k of the A_k anchors labelled otherwise and m = (sum o + .5) / (sum A + 1);
    T[k, c] = e_k (N[k, c] + b / (K - 1)) / (o_k + b). a and b maximise the beta-binomial and the
    Dirichlet-multinomial likelihood over a grid.

    Args:
        predicted: (N,).
        confidence: (N,), probability of that class.
        labels: (N,) given.
        count: K.
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
    """Log likelihood up to a constant."""
    return float((betaln(wrong + alpha, total - wrong + beta) - betaln(alpha, beta)).sum())


def _dirichlet_multinomial(counts: sparse.csc_array, wrong: Floats, strength: float) -> float:
    """Log likelihood up to a constant; classes that were not seen add nothing."""
    share = strength / max(counts.shape[0] - 1, 1)
    rows = gammaln(strength) - gammaln(wrong + strength)
    return float(rows.sum() + (gammaln(counts.data + share) - gammaln(share)).sum())
