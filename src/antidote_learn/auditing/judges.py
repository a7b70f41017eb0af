"""Judges of tables: ordinary classifiers, each of which predicts the labels of rows that it was not fitted on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from antidote_learn.core.beliefs import Beliefs

FOLDS = 5  # parts of the rows, each of which is predicted by a classifier of the others
FEWEST_ROWS = 500  # the fewest rows with such judges: of fewer rows their weights are chance
MOST_CLASSES = 30  # the most classes with such judges: trees are built for each class anew

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Tell = Callable[[int, int], None]


def linear_judge(seed: int) -> Any:
    """A linear classifier, more regularised than scikit-learn's own: it is to see what is general, not every label."""
    return LogisticRegression(C=0.3, max_iter=300)


def tree_judge(seed: int) -> Any:
    """Boosted trees, which see how columns work together; the best judge where few labels are wrong."""
    return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed)


def small_tree_judge(seed: int) -> Any:
    """Fewer and smaller trees, in which single wrong labels have no leaf of their own; for many wrong labels."""
    return HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=7, learning_rate=0.07, random_state=seed)


JUDGES: dict[str, Callable[[int], Any]] = {
    "linear model": linear_judge,
    "boosted trees": tree_judge,
    "small trees": small_tree_judge,
}


def predict_by_judges(
    features: NDArray[np.float32], labels: Integers, count: int, *, seed: int, tell: Tell
) -> list[Beliefs]:
    """The probabilities that each judge gives to the given labels, in the order of `JUDGES`.

    Args:
        features: (N, D) numbers.
        labels: (N,) given labels.
        count: K, the number of classes.
        seed: The seed of the folds and of the trees.
        tell: Called with (classifiers fitted, all of them).
    """
    folds = fold_numbers(labels, seed)
    found, done = [], 0
    for make in JUDGES.values():
        said = Beliefs.blank(len(labels), count)
        for fold in range(FOLDS):
            own, other = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            if len(own):
                said.put(own, _predict(make(seed), features, labels, count, other, own), labels[own])
            done += 1
            tell(done, FOLDS * len(JUDGES))
        found.append(said)
    return found


def fold_numbers(labels: Integers, seed: int) -> Integers:
    """A fold (N,) for each row, so that each class is spread over all folds as evenly as it can be."""
    shuffled = np.random.default_rng([seed, 7]).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    folds = np.empty(len(labels), dtype=np.int64)
    folds[order] = np.arange(len(labels)) % FOLDS
    return folds


def _predict(
    judge: Any, features: NDArray[np.float32], labels: Integers, count: int, fitted: Integers, asked: Integers
) -> Floats:
    """The probabilities (B, K) of the rows ``asked``, by a judge that was fitted on other rows."""
    probs = np.zeros((len(asked), count))
    known = np.unique(labels[fitted])
    if len(known) == 1:
        probs[:, known[0]] = 1.0
        return probs
    judge.fit(features[fitted], labels[fitted])
    probs[:, judge.classes_] = judge.predict_proba(features[asked])
    return probs
