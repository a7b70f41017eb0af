"""Anchors are the samples that a network is surest of: how often their labels are wrong, class by class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ANCHORS = 0.1  # the share of a predicted class that serves as anchors
FEWEST = 10  # the fewest anchors of a class; 5, 15 and 20 were no better
GRID = np.geomspace(1.0, 1000.0, 31)  # strengths of shrinkage to choose from, from one row to a thousand

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = Floats | Integers


@dataclass(frozen=True, eq=False)
class AnchorErrors:
    """The wrong labels of anchors, and the shrinkage that explains them best; nothing of size K x K.

    Attributes:
        true: (M,) the class k of each pair k != c that occurs, in ascending order of k, then of c.
        given: (M,) the label c of each pair.
        seen: (M,) N[k, c], how many anchors of k are labelled c.
        totals: (K,) A_k, how many anchors each class has.
        wrong: (K,) o_k, how many of them are labelled otherwise.
        middle: m, the share of wrong labels among all anchors.
        errors: (K,) e_k, the shrunken shares of wrong labels.
        strength: b, the number of errors, spread over the K - 1 other classes, that shrinkage adds to those of a class.
        pull_weights: (G,) how likely the labels make each a of `GRID`; they sum to 1.
        strength_weights: (G,) the same of each b.
    """

    true: Integers
    given: Integers
    seen: Integers
    totals: Integers
    wrong: Integers
    middle: float
    errors: Floats
    strength: float
    pull_weights: Floats
    strength_weights: Floats


def anchor_errors(
    predicted: Integers,
    confidence: Floats,
    labels: Integers,
    count: int,
    *,
    share: float = ANCHORS,
    fewest: int = FEWEST,
) -> AnchorErrors:
    """The wrong labels among the anchors of each class, with the shrinkage that explains them best.

    e_k = (o_k + a m) / (A_k + a) with o_k of the A_k anchors labelled otherwise and m = (sum o + .5) / (sum A + 1). a
    and b maximise the beta-binomial likelihood of the o_k and the Dirichlet-multinomial one of the N[k, c] over a grid.

    Args:
        predicted: (N,) predicted classes.
        confidence: (N,) probabilities of the predicted classes.
        labels: (N,) given labels.
        count: K, the number of classes.
        share: The share of a predicted class that serves as anchors.
        fewest: The fewest anchors of a class.
    """
    rows = anchor_rows(predicted, confidence, count, share=share, fewest=fewest)
    true, given = predicted[rows], labels[rows]
    totals, off = np.bincount(true, minlength=count), true != given
    pairs, seen = np.unique(true[off] * count + given[off], return_counts=True)
    wrong = np.bincount(true[off], minlength=count)
    middle = float((wrong.sum() + 0.5) / (totals.sum() + 1.0))
    pull, pull_weights = _likeliest_strength([_likelihood_of_errors(wrong, totals, a, middle) for a in GRID])
    strength, strength_weights = _likeliest_strength([_likelihood_of_kinds(seen, wrong, b) for b in GRID])
    return AnchorErrors(
        true=pairs // count,
        given=pairs % count,
        seen=seen,
        totals=totals,
        wrong=wrong,
        middle=middle,
        errors=(wrong + pull * middle) / (totals + pull),
        strength=strength,
        pull_weights=pull_weights,
        strength_weights=strength_weights,
    )


def anchor_rows(
    predicted: Integers, confidence: Floats, count: int, *, share: float = ANCHORS, fewest: int = FEWEST
) -> Integers:
    """The positions of the max(10, .1 n_k) surest rows of each predicted class k, with ties of the last."""
    order = np.lexsort((-confidence, predicted))
    sizes = np.bincount(predicted, minlength=count)
    wanted = np.minimum(np.maximum(fewest, np.round(share * sizes).astype(np.int64)), sizes)
    last = np.cumsum(sizes) - sizes + np.maximum(wanted, 1) - 1
    threshold = confidence[order[np.minimum(last, len(order) - 1)]]
    return np.flatnonzero(confidence >= threshold[predicted])


def mistake_probs(seen: Floats, wrong: Numbers, errors: Floats, strength: float, count: int) -> Floats:
    """T[k, c] = e_k (N[k, c] + b / (K - 1)) / (o_k + b) of pairs k != c.

    Args:
        seen: N[k, c], of any shape whose last dimension is that of k.
        wrong: o_k of these k.
        errors: e_k of these k.
        strength: b.
        count: K, the number of classes.
    """
    found: Floats = (seen + strength / max(count - 1, 1)) * (errors / (wrong + strength))
    return found


def share_moments(seen: Numbers, expected: float, total: Numbers, weights: Floats) -> tuple[Floats, Floats]:
    """The means of shares and of their squares, given what was seen of them.

    With strength s a share is a Beta or Dirichlet variable of mean (seen + s expected) / (total + s) and weight
    total + s. s is one of `GRID`, with the probabilities ``weights`` (G,).
    """
    mean, square = np.zeros(np.shape(seen)), np.zeros(np.shape(seen))
    for strength, weight in zip(GRID, weights, strict=True):
        part, whole = seen + strength * expected, total + strength
        mean += weight * (part / whole)
        square += weight * (part / whole) * ((part + 1.0) / (whole + 1.0))
    return mean, square


def _likeliest_strength(log_likelihoods: list[float]) -> tuple[float, Floats]:
    """The strength of `GRID` that is likeliest, the least of several, and how likely each is beside the others."""
    likelihoods = np.exp(np.array(log_likelihoods) - max(log_likelihoods))
    return float(GRID[np.argmax(log_likelihoods)]), likelihoods / likelihoods.sum()


def _likelihood_of_errors(wrong: Integers, totals: Integers, pull: float, middle: float) -> float:
    """The beta-binomial log likelihood of the numbers of errors, up to a constant."""
    right = _log_rising(pull * (1.0 - middle), totals - wrong)
    return _log_rising(pull * middle, wrong) + right - _log_rising(pull, totals)


def _likelihood_of_kinds(seen: Integers, wrong: Integers, strength: float) -> float:
    """The Dirichlet-multinomial log likelihood of the kinds of errors, up to a constant; unseen kinds add nothing."""
    return _log_rising(strength / max(len(wrong) - 1, 1), seen) - _log_rising(strength, wrong)


def _log_rising(start: float, counts: Integers) -> float:
    """The sum over n of log(x (x + 1) ... (x + n - 1)); equal n are computed once, as few different ones occur."""
    times = np.bincount(counts)
    below = math.lgamma(start)
    return math.fsum(int(times[n]) * (math.lgamma(n + start) - below) for n in np.flatnonzero(times).tolist())
