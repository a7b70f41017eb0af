"""Transition matrices, transition[i, j] = P(given label = j | true class = i), estimated from probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antidote_learn.core.anchors import anchor_errors, mistake_probs, share_moments

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OUTLIERS = 0.03  # the share of the surest samples that `anchor` leaves out as outliers, as in the published code
SUREST = 0.03  # the share of all samples that are anchors of a class in `dual-t`
SMALLEST_STEP = float(np.finfo(np.float32).eps)  # a matrix that is singular up to this has no inverse in float32
SLACK = 1e-6  # by how much a row of a transition matrix may miss the sum 1: float32 probabilities do


@dataclass(frozen=True, eq=False)
class TransitionEstimate:
    """An estimated transition matrix, and how far it can be trusted.

    Attributes:
        transition: (K, K) with rows that sum to 1: transition[i, j] = P(given = j | true = i).
        samples: (K,) how many samples carry each row; 0 where none was counted.
        standard_errors: (K, K) of each entry, for samples whose true class is what the method takes it for; NaN where
            nothing tells it, as for a row that one sample carries.
        source: Where the matrix comes from: a method of `estimate_transition`, "learned" or "given".
    """

    transition: Floats
    samples: Integers
    standard_errors: Floats
    source: str = ""

    @property
    def noise_rate(self) -> float:
        """The share of wrong labels if all true classes were equally frequent."""
        return float(1.0 - np.diag(self.transition).mean())


def estimate_transition(probs: Any, labels: Any, *, method: str = "dual-t") -> TransitionEstimate:
    """How classes are mistaken for one another, from the probabilities of a network that was trained on the labels.

    - ``anchor`` (Patrini et al., 2017): row i is the probabilities of the sample that is surest of class i, after the
      surest 3 % are left out as outliers. The network must have learned the noise: its probabilities are those of the
      given labels. One sample carries a row.
    - ``anchor-max``: the same without the outlier filter, for many classes with few samples each.
    - ``dual-t`` (after Yao et al., 2020): the shares of predicted classes among the surest 3 % of each class, times the
      shares of given labels within each predicted class. Only the order of the probabilities counts, not their values.
    - ``confident`` (Northcutt et al., 2021): counts of given labels among the samples that reach a class's mean
      confidence. It needs held-out probabilities, which do not know the sample's own label.
    - ``audit``: what `audit` and `find_label_issues` go by. The labels of the surest tenth of each predicted class, at
      least 10 samples, with the shares of errors and of their kinds drawn to those of all classes, the more the fewer
      samples there are. No entry is 0. It needs held-out probabilities, too. Its standard errors are those of a
      posterior: shares of errors are Beta variables, their kinds Dirichlet ones, and the strength of shrinkage unknown.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) given labels, 0 to K - 1.
        method: One of the above.

    Raises:
        ValueError: Bad probabilities or labels, or a class that no sample can carry.

    Example:
        >>> probs = np.array([[0.8, 0.2], [0.8, 0.2], [0.1, 0.9], [0.1, 0.9]])
        >>> estimate_transition(probs, [0, 1, 1, 1], method="anchor").transition
        array([[0.8, 0.2],
               [0.1, 0.9]])
    """
    if method not in ESTIMATORS:
        raise ValueError(f"unknown method {method!r} of a transition matrix; accepted: {', '.join(ESTIMATORS)}")
    return replace(ESTIMATORS[method](*_check_judgements(probs, labels)), source=method)


def total_variation_error(estimate: Any, truth: Any) -> float:
    """How far a transition matrix is from the true one: half the L1 distance of their rows, averaged over the classes.

    It is the share of labels, between 0 and 1, that the two matrices give to different classes if all true classes are
    equally frequent.

    Args:
        estimate: (K, K) the matrix to judge.
        truth: (K, K) the true one.

    Raises:
        ValueError: One is no transition matrix, or they have different classes.

    Example:
        >>> total_variation_error([[0.75, 0.25], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]])
        0.125
    """
    right = check_transition(truth)
    return float(0.5 * np.abs(check_transition(estimate, classes=len(right)) - right).sum(axis=1).mean())


def transpose_transition(matrix: Any) -> Floats:
    """A matrix in the other convention, P(given = i | true = j) with columns that sum to 1, as a transition matrix.

    Example:
        >>> transpose_transition([[0.9, 0.2], [0.1, 0.8]])
        array([[0.9, 0.1],
               [0.2, 0.8]])
    """
    return check_transition(np.asarray(matrix, dtype=np.float64).T)


def check_transition(matrix: Any, *, classes: int | None = None, invertible: bool = False) -> Floats:
    """The matrix as an array, refused unless it is a transition matrix.

    Args:
        matrix: (K, K).
        classes: The K that it must have.
        invertible: Whether its inverse is needed.

    Raises:
        ValueError: It has another shape, negative entries or rows that do not sum to 1, or no inverse.
    """
    try:
        found: Floats = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"a transition matrix must hold K rows of K numbers: {error}") from error
    count = found.shape[0] if classes is None and found.ndim == 2 else classes
    if found.ndim != 2 or found.shape != (count, count) or not count:
        wanted = "(K, K)" if classes is None else f"({classes}, {classes}), as there are {classes} classes"
        raise ValueError(f"a transition matrix must have shape {wanted}; received {found.shape}")
    if not (found >= 0.0).all():
        raise ValueError(f"a transition matrix must not have negative entries or NaN; its smallest is {found.min()}")
    worst = float(np.abs(found.sum(axis=1) - 1.0).max())
    if worst > SLACK:
        hint = "; its columns do: pass its transpose" if np.abs(found.sum(axis=0) - 1.0).max() <= SLACK else ""
        raise ValueError(f"rows of a transition matrix must sum to 1; one misses it by {worst:.3g}{hint}")
    if invertible and np.linalg.matrix_rank(found, rtol=len(found) * SMALLEST_STEP) < len(found):
        raise ValueError(
            "this transition matrix is singular: classes are labelled alike, which no inverse can undo; use 'forward', "
            "which needs none"
        )
    return found


def check_estimate(estimate: Any, *, classes: int) -> TransitionEstimate:
    """The estimate with its numbers as arrays of float64 and int64, refused unless it is one of so many classes.

    Raises:
        ValueError: It is no `TransitionEstimate`, its matrix is none, or its other numbers are bad or of other shapes.
    """
    if not isinstance(estimate, TransitionEstimate):
        raise ValueError(f"a transition matrix must come as a TransitionEstimate; received {type(estimate).__name__}")
    transition = check_transition(estimate.transition, classes=classes)
    samples, errors = np.asarray(estimate.samples), np.asarray(estimate.standard_errors, dtype=np.float64)
    if samples.shape != (classes,) or samples.dtype.kind not in "iu" or samples.min() < 0:
        raise ValueError(
            f"samples of a TransitionEstimate must be {classes} counts, one for each class; received {samples.dtype} "
            f"of shape {samples.shape}"
        )
    if errors.shape != (classes, classes) or (errors < 0.0).any() or np.isinf(errors).any():
        raise ValueError(
            f"standard_errors of a TransitionEstimate must be ({classes}, {classes}) numbers that are not negative, or "
            f"NaN; received shape {errors.shape}, from {errors.min()} to {errors.max()}"
        )
    return replace(estimate, transition=transition, samples=samples.astype(np.int64), standard_errors=errors)


def _check_judgements(probs: Any, labels: Any) -> tuple[Floats, Integers]:
    p, y = np.asarray(probs, dtype=np.float64), np.asarray(labels)
    if p.ndim != 2 or p.shape[1] < 2 or not len(p):
        raise ValueError(f"probs must have shape (N, K) with K >= 2; received {p.shape}")
    if y.shape != p.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be {len(p)} whole numbers, one for each row of probs; received {y.dtype} {y.shape}"
        )
    if y.min() < 0 or y.max() >= p.shape[1]:
        raise ValueError(f"labels must be 0 to {p.shape[1] - 1}, as probs has {p.shape[1]} columns; received {y.max()}")
    if not (p >= 0.0).all() or np.abs(p.sum(axis=1) - 1.0).max() > 1e-3:
        raise ValueError("probs must be probabilities: not negative, and every row with the sum 1")
    if not (most := p.max(axis=0)).all():
        raise ValueError(f"all probs of class {int(most.argmin())} are 0: leave that class out of probs and labels")
    return p / p.sum(axis=1, keepdims=True), y.astype(np.int64)


def _anchor_estimate(probs: Floats, labels: Integers, *, outliers: float = OUTLIERS) -> TransitionEstimate:
    """Each class's row from one sample: the surest one, or the surest one that is no outlier."""
    places = np.argsort(-probs, axis=0, kind="stable")[min(int(outliers * len(probs)), len(probs) - 1)]
    count = probs.shape[1]
    return TransitionEstimate(probs[places], np.ones(count, dtype=np.int64), np.full((count, count), np.nan))


def _plain_anchor_estimate(probs: Floats, labels: Integers) -> TransitionEstimate:
    return _anchor_estimate(probs, labels, outliers=0.0)


def _dual_estimate(probs: Floats, labels: Integers) -> TransitionEstimate:
    """The shares of predicted classes among anchors, times the shares of given labels within predicted classes.

    The published code takes an anchor's probabilities instead of its predicted class. That is the square of T where the
    probabilities are right: they hold the noise already, which the second factor counts again.
    """
    count, predicted = probs.shape[1], probs.argmax(axis=1)
    surest = np.argsort(-probs, axis=0, kind="stable")[: max(1, int(SUREST * len(probs)))]  # (A, K)
    to_predicted = np.stack([np.bincount(predicted[places], minlength=count) for places in surest.T]) / len(surest)
    counts = _pair_counts(predicted, labels, count)
    sizes = counts.sum(axis=1)
    shares = counts / np.maximum(sizes, 1.0)[:, None]
    variance = np.square(to_predicted) @ (shares * (1.0 - shares) / np.maximum(sizes, 1.0)[:, None])
    return TransitionEstimate(to_predicted @ shares, (to_predicted @ sizes).astype(np.int64), np.sqrt(variance))


def _confident_estimate(probs: Floats, labels: Integers) -> TransitionEstimate:
    """The confident joint, scaled to the number of samples of each label, as shares within each true class."""
    count = probs.shape[1]
    sizes = np.bincount(labels, minlength=count)
    if not sizes.all():
        raise ValueError(f"no sample is labelled {int(sizes.argmin())}: leave that class out, or use 'dual-t'")
    thresholds = np.array([probs[labels == k, k].mean() for k in range(count)])
    reached = np.where(probs >= thresholds, probs, -1.0)
    sure = reached.max(axis=1) >= 0.0
    joint = _pair_counts(reached[sure].argmax(axis=1), labels[sure], count)  # (true, given)
    scaled = joint * (sizes / np.maximum(joint.sum(axis=0), 1.0))
    mass = scaled.sum(axis=1, keepdims=True)
    if not mass.all():
        raise ValueError(f"no sample is sure enough of class {int(mass.argmin())}: train longer, or use 'dual-t'")
    transition, carried = scaled / mass, joint.sum(axis=1)
    errors = np.sqrt(transition * (1.0 - transition) / np.maximum(carried, 1.0)[:, None])
    return TransitionEstimate(transition, carried.astype(np.int64), errors)


def _audit_estimate(probs: Floats, labels: Integers) -> TransitionEstimate:
    """The audit's estimate; a class that nobody predicts is refused."""
    predicted = probs.argmax(axis=1)
    found = transition_of_predictions(predicted, probs.max(axis=1), labels, probs.shape[1])
    if not found.samples.all():
        raise ValueError(f"no sample is predicted as {int(found.samples.argmin())}: train longer, or use 'dual-t'")
    return found


def transition_of_predictions(
    predicted: Integers, confidence: Floats, labels: Integers, count: int
) -> TransitionEstimate:
    """The audit's shrunken shares of its anchors' labels, T[k, c] = e_k q_kc, with deviations of the posterior.

    A class that nobody predicts has the mean share of wrong labels, spread evenly.

    Given a strength of shrinkage e_k is a Beta variable, and q_k, independent of it, a Dirichlet one. Few classes say
    little about that strength. The posterior is therefore averaged over all strengths, as likely as the labels make
    them: given the likeliest alone, standard errors of three classes came out half as large as their errors.

    Args:
        predicted: (N,) predicted classes.
        confidence: (N,) probabilities of the predicted classes.
        labels: (N,) given labels.
        count: K, the number of classes.
    """
    # An audit keeps float32: what differs by less is a tie, and all of a tie are anchors.
    rounded = confidence.astype(np.float32).astype(np.float64)
    found = anchor_errors(predicted, rounded, labels, count)
    seen = np.zeros((count, count))
    seen[found.true, found.given] = found.seen
    wrong, errors = found.wrong[:, None], found.errors[:, None]
    transition = mistake_probs(seen.T, found.wrong, found.errors, found.strength, count).T
    e, e_square = share_moments(wrong, found.middle, found.totals[:, None], found.pull_weights)
    q, q_square = share_moments(seen, 1.0 / (count - 1), wrong, found.strength_weights)
    squares = e_square * q_square - 2.0 * transition * e * q + np.square(transition)
    np.fill_diagonal(squares, e_square - 2.0 * errors * e + np.square(errors))
    np.fill_diagonal(transition, 1.0 - errors)
    return TransitionEstimate(transition, found.totals, np.sqrt(squares), source="audit")


def _pair_counts(rows: Integers, columns: Integers, count: int) -> Floats:
    """(K, K) how often each pair of classes occurs."""
    return np.bincount(rows * count + columns, minlength=count * count).reshape(count, count).astype(np.float64)


ESTIMATORS: dict[str, Callable[[Floats, Integers], TransitionEstimate]] = {
    "anchor": _anchor_estimate,
    "anchor-max": _plain_anchor_estimate,
    "dual-t": _dual_estimate,
    "confident": _confident_estimate,
    "audit": _audit_estimate,
}
