"""A pool of classifiers of different kinds, fitted on what is believed of the labels, for numbers without a network.

Held-out predictions of the given labels tell T, T tells what the labels should be, and the classifiers are fitted again
on that. How much each of them counts is what makes the given labels of held-out rows likeliest, seen through T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from antidote_learn.auditing.judges import FOLDS, fold_numbers, linear_judge, small_tree_judge
from antidote_learn.auditing.scores import FLOOR, Tell, normalise_rows
from antidote_learn.auditing.transitions import Transition, transition_of_anchors
from antidote_learn.auditing.weighted_judges import likeliest_weights
from antidote_learn.core.clean_posteriors import clean_posteriors
from antidote_learn.models.conversions import boosting_module, forest_module, linear_module

LEAST_BELIEF = 0.01  # a class that is believed less of a row is not fitted on: it would double the rows for nothing
MOST_DRAWN = 50_000  # the most rows that a tree of the forest draws, which bounds its time and size
DEVIATIONS = 1.0  # standard errors by which T must make the given labels likelier; otherwise they stay as they are

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def smooth_linear_member(columns: int) -> Any:
    """A linear classifier of embeddings or words: as scikit-learn's own is for rows of unit length."""
    return LogisticRegression(C=1.0 / columns, max_iter=300)


def large_tree_member(seed: int) -> Any:
    """Boosted trees of scikit-learn's own size, for many rows and few wrong labels."""
    return HistGradientBoostingClassifier(random_state=seed)


def forest_member(seed: int) -> Any:
    """A forest whose leaves hold several rows, so that one wrong label decides nothing."""
    return RandomForestClassifier(100, min_samples_leaf=3, random_state=seed, n_jobs=1)


Make = Callable[[int, int], Any]  # gives a new classifier from a seed and the number of columns
Convert = Callable[[Any, int, int], nn.Module]  # gives its module from the numbers of columns and of classes
MEMBERS: dict[str, tuple[Make, Convert]] = {
    "linear model": (lambda seed, columns: linear_judge(seed), linear_module),
    "smooth linear model": (lambda seed, columns: smooth_linear_member(columns), linear_module),
    "small trees": (
        lambda seed, columns: small_tree_judge(seed),
        lambda model, _, count: boosting_module(model, count),
    ),
    "boosted trees": (
        lambda seed, columns: large_tree_member(seed),
        lambda model, _, count: boosting_module(model, count),
    ),
    "forest": (lambda seed, columns: forest_member(seed), lambda model, _, count: forest_module(model, count)),
}
LINEAR, SMOOTH, TREES = ("linear model",), ("smooth linear model",), ("small trees", "boosted trees", "forest")


@dataclass(frozen=True, eq=False)
class FittedPool:
    """Fitted classifiers with their weights, and what they believe.

    Attributes:
        names: The names of the classifiers.
        modules: The classifiers as modules.
        weights: (J,) their weights, and last that of the network if there is one.
        beliefs: (N, K) what is believed of the rows' labels.
        held_out: (N, K) what the pool says of rows that it was not fitted on.
        errors: (K,) how often each true class is called another, as far as that is used.
    """

    names: tuple[str, ...]
    modules: list[nn.Module]
    weights: Floats
    beliefs: Floats
    held_out: Floats
    errors: Floats


def fit_pool(
    features: Any,
    labels: Integers,
    count: int,
    *,
    names: Sequence[str],
    network: Floats | None,
    seed: int,
    tell: Tell,
) -> FittedPool:
    """Fits classifiers twice: on the given labels, and on what the first ones believe of the labels.

    Where T does not make the given labels likelier by more than a standard error, they are kept as they are: labels
    alone then do not tell noise from classes that overlap.

    Args:
        features: (N, D) numbers; a linear model takes a sparse matrix, too.
        labels: (N,) given labels.
        count: K, the number of classes.
        names: The classifiers, names of `MEMBERS`.
        network: (N, K) held-out probabilities of a network that was trained robustly; None for none.
        seed: The seed of folds and trees.
        tell: Called with (classifiers fitted, all of them).
    """
    fitting = _Fitting(features, labels, count, tuple(names), seed, tell)
    given, none = np.eye(count)[labels], identity_transition(count)
    also = [] if network is None else [network]
    plain = fitting.predict_held_out(given)
    weights = pool_weights(labels, [*plain, *also], none)
    transition = pool_transition(pool_probs([*plain, *also], weights), labels)
    matrix = transition.towards(np.arange(count)).T
    clean = [*(clean_posteriors(probs, matrix) for probs in plain), *also]
    beliefs = label_beliefs(pool_probs(clean, pool_weights(labels, clean, transition)), labels, transition)
    again = [*fitting.predict_held_out(beliefs), *also]
    later = pool_weights(labels, again, transition)
    held_out = pool_probs(again, later)
    gain = _likelihoods(held_out, labels, transition) - _likelihoods(pool_probs([*plain, *also], weights), labels, none)
    if gain.mean() <= DEVIATIONS * gain.std() / np.sqrt(len(gain)):
        own = pool_probs([*plain, *also], weights)
        return FittedPool(fitting.names, fitting.fit_all(given), weights, given, own, np.zeros(count))
    latest = pool_transition(held_out, labels)
    beliefs = label_beliefs(held_out, labels, latest)
    return FittedPool(fitting.names, fitting.fit_all(beliefs), later, beliefs, held_out, latest.errors)


def fit_on_beliefs(
    features: Any,
    labels: Integers,
    beliefs: Floats,
    *,
    names: Sequence[str],
    network: Floats | None,
    transition: Transition,
    seed: int,
    tell: Tell,
) -> FittedPool:
    """Fits classifiers on beliefs (N, K) that an audit ends with, and weighs them through its T (see `fit_pool`)."""
    count = beliefs.shape[1]
    fitting = _Fitting(features, labels, count, tuple(names), seed, tell)
    judges = [*fitting.predict_held_out(beliefs), *([] if network is None else [network])]
    weights = pool_weights(labels, judges, transition)
    held_out = pool_probs(judges, weights)
    return FittedPool(fitting.names, fitting.fit_all(beliefs), weights, beliefs, held_out, transition.errors)


def identity_transition(count: int) -> Transition:
    """T of labels that are all right."""
    return Transition(sparse.csc_array((count, count)), np.zeros(count), 1.0)


def pool_transition(probs: Floats, labels: Integers) -> Transition:
    """T from the rows that a pool (N, K) is surest of."""
    return transition_of_anchors(probs.argmax(axis=1), probs.max(axis=1), labels, probs.shape[1])


def label_beliefs(probs: Floats, labels: Integers, transition: Transition) -> Floats:
    """R_i(k) ∝ P_i(k) T[k, y_i], what is believed of each row's label (N, K)."""
    joint = probs * transition.towards(labels)
    found: Floats = joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return found


def pool_weights(labels: Integers, judges: Sequence[Floats], transition: Transition) -> Floats:
    """The weights (J,) of judges (N, K) that make the given labels likeliest through T."""
    return likeliest_weights(labels, [judge.__getitem__ for judge in judges], transition)


def pool_probs(judges: Sequence[Floats], weights: Floats) -> Floats:
    """The weighted geometric mean (N, K) of judges."""
    return normalise_rows(
        np.sum([weight * np.log(judge + FLOOR) for weight, judge in zip(weights, judges, strict=True)], axis=0)
    )


def _likelihoods(probs: Floats, labels: Integers, transition: Transition) -> Floats:
    """The logarithm (N,) of the probability of each given label."""
    found: Floats = np.log(np.maximum((probs * transition.towards(labels)).sum(axis=1), FLOOR))
    return found


class _Fitting:
    """Fits the classifiers of a pool on beliefs, in folds or on all rows."""

    def __init__(
        self, features: Any, labels: Integers, count: int, names: tuple[str, ...], seed: int, tell: Tell
    ) -> None:
        self.features, self.count, self.names, self.seed, self.tell = features, count, names, seed, tell
        self.folds, self.fitted = fold_numbers(labels, seed), 0
        self.total = len(names) * (2 * FOLDS + 1)

    def predict_held_out(self, beliefs: Floats) -> list[Floats]:
        """The probabilities (N, K) by each classifier of the rows that it was not fitted on."""
        found = []
        for name in self.names:
            probs = np.zeros_like(beliefs)
            for fold in range(FOLDS):
                own, other = np.flatnonzero(self.folds == fold), np.flatnonzero(self.folds != fold)
                model = self._fit(name, other, beliefs)
                probs[np.ix_(own, model.classes_)] = model.predict_proba(self.features[own])
            found.append(probs)
        return found

    def fit_all(self, beliefs: Floats) -> list[nn.Module]:
        """The classifiers as modules, fitted on all rows."""
        every, inputs = np.arange(self.features.shape[0]), self.features.shape[1]
        return [MEMBERS[name][1](self._fit(name, every, beliefs), inputs, self.count) for name in self.names]

    def _fit(self, name: str, rows: Integers, beliefs: Floats) -> Any:
        """A classifier of some rows, each of which counts for every class as much as that is believed of it."""
        places, classes = np.nonzero(beliefs[rows] >= LEAST_BELIEF)
        weights = beliefs[rows][places, classes]
        model = MEMBERS[name][0](self.seed, self.features.shape[1])
        if isinstance(model, RandomForestClassifier) and len(places) > MOST_DRAWN:
            model.set_params(max_samples=MOST_DRAWN)
        given = {} if (weights == 1.0).all() else {"sample_weight": weights}
        model.fit(self.features[rows[places]], classes, **given)
        self.fitted += 1
        self.tell(self.fitted, self.total)
        return model
