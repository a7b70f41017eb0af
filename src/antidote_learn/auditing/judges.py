"""Judges: ordinary classifiers, each of which predicts the labels of rows that it was not fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from antidote_learn.auditing.features import is_plain_table, plain_features, text_columns
from antidote_learn.auditing.own_judges import judge_name
from antidote_learn.core.beliefs import Beliefs
from antidote_learn.data.prepared import Prepared

FOLDS = 5  # parts of the rows, each of which is predicted by a classifier of the others
FEWEST_ROWS = 500  # the fewest rows with judges of tables and words: of fewer rows their weights are chance
MOST_CLASSES = 30  # the most classes with judges of tables and words: trees are built for each class anew

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Tell = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Judge:
    """A classifier that is still to be fitted.

    Attributes:
        name: The name in the report.
        make: Makes the classifier from a seed.
        features: (N, D) what it reads, an array or a sparse matrix.
    """

    name: str
    make: Callable[[int], Any]
    features: Any


def linear_judge(seed: int) -> Any:
    """A linear classifier, more regularised than scikit-learn's own: it is to see what is general, not every label."""
    return LogisticRegression(C=0.3, max_iter=300)


def tree_judge(seed: int) -> Any:
    """Boosted trees, which see how columns work together; the best judge where few labels are wrong."""
    return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed)


def small_tree_judge(seed: int) -> Any:
    """Fewer and smaller trees, in which single wrong labels have no leaf of their own; for many wrong labels."""
    return HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=7, learning_rate=0.07, random_state=seed)


def words_judge(seed: int) -> Any:
    """A linear classifier of words, which disagrees with an encoder where meaning and words differ."""
    return LogisticRegression(max_iter=300)


JUDGES: dict[str, Callable[[int], Any]] = {
    "linear model": linear_judge,
    "boosted trees": tree_judge,
    "small trees": small_tree_judge,
}
"""The judges of tables, by their names in the report."""
WORDS = "linear model of words"
"""The judge of tables with text, by its name in the report."""


def has_weights(data: Prepared) -> bool:
    """Tells whether judges count by weights: of tables and texts with many rows and few classes."""
    is_table = is_plain_table(data.encoding) or bool(text_columns(data.encoding))
    return is_table and len(data.classes) <= MOST_CLASSES and len(data.labels) >= FEWEST_ROWS


def judges_of(data: Prepared, features: Any) -> list[Judge]:
    """The package's own judges beside networks and neighbours.

    Args:
        data: The data as they were given.
        features: (N, D) what networks and neighbours read.
    """
    if not has_weights(data):
        return []
    if text_columns(data.encoding):
        return [Judge(WORDS, words_judge, plain_features(data))]
    return [Judge(name, make, features) for name, make in JUDGES.items()]


def doubt_encoder(encoder: str, labels: Integers, embedded: Beliefs, words: Beliefs) -> str:
    """A note where an encoder tells less about the labels than words alone; empty where it tells more.

    Args:
        encoder: The name of the encoder.
        labels: (N,) given labels.
        embedded: Held-out predictions from embeddings.
        words: Those from words.
    """
    shares = [float((said.classes[:, 0] == labels).mean()) for said in (embedded, words)]
    if shares[0] >= shares[1]:
        return ""
    return (
        f"from the embeddings by {encoder} {shares[0]:.0%} of the labels are predicted, from words alone "
        f"{shares[1]:.0%}: the encoder may not know the language or the subject. The {WORDS} judges, too"
    )


def own_judge(judge: Any, features: Any) -> Judge:
    """The judge that a user's classifier is, on features (N, D)."""
    return Judge(judge_name(judge), lambda seed: copy_with_seeds(judge, check_random_state(seed)), features)


def predict_by_judges(judges: Sequence[Judge], labels: Integers, count: int, *, seed: int, tell: Tell) -> list[Beliefs]:
    """The probabilities that each judge gives to the given labels.

    Args:
        judges: The judges.
        labels: (N,) given labels.
        count: K, the number of classes.
        seed: The seed of the folds and of the classifiers.
        tell: Called with (classifiers fitted, all of them).

    Raises:
        ValueError: A classifier cannot read the features, or gives no probabilities.
    """
    folds = fold_numbers(labels, seed)
    found, done = [], 0
    for judge in judges:
        said = Beliefs.blank(len(labels), count)
        for fold in range(FOLDS):
            own, other = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            if len(own):
                said.put(own, _predict(judge, labels, count, other, own, seed), labels[own])
            done += 1
            tell(done, FOLDS * len(judges))
        found.append(said)
    return found


def fold_numbers(labels: Integers, seed: int) -> Integers:
    """A fold (N,) for each row, so that each class is spread over all folds as evenly as it can be."""
    shuffled = np.random.default_rng([seed, 7]).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    folds = np.empty(len(labels), dtype=np.int64)
    folds[order] = np.arange(len(labels)) % FOLDS
    return folds


def _predict(judge: Judge, labels: Integers, count: int, fitted: Integers, asked: Integers, seed: int) -> Floats:
    """The probabilities (B, K) of the rows ``asked``, by a judge that was fitted on other rows."""
    known = np.unique(labels[fitted])
    if len(known) == 1:
        return np.eye(count)[np.repeat(known, len(asked))]
    try:
        model = judge.make(seed).fit(judge.features[fitted], labels[fitted])
        probs = probabilities(model, judge.features[asked], count)
    except Exception as error:  # a classifier of the user's can raise anything
        said = (str(error).splitlines() or [type(error).__name__])[0]
        width = judge.features.shape[1]
        raise ValueError(f"judge {judge.name} fails on what the audit reads, {width} numbers a row: {said}") from error
    if not (np.isfinite(probs).all() and (probs >= 0.0).all() and np.allclose(probs.sum(axis=1), 1.0, atol=1e-2)):
        raise ValueError(f"judge {judge.name} gives no probabilities: they must be at least 0, with a sum of 1")
    return probs


def probabilities(model: Any, X: Any, count: int) -> Floats:
    """The probabilities (N, K) by a fitted classifier of numbered classes; a class that it did not see has 0."""
    said = model.predict_proba(X)
    probs = np.zeros((len(said), count))
    probs[:, model.classes_] = said
    return probs


def copy_with_seeds(estimator: Any, draws: Any) -> Any:
    """Copy a classifier, with a seed for every random state that is None."""
    model = clone(estimator)
    states = {name: value for name, value in model.get_params().items() if name.split("__")[-1] == "random_state"}
    free = sorted(name for name, value in states.items() if value is None)
    return model.set_params(**{name: draws.randint(np.iinfo(np.int32).max) for name in free})
