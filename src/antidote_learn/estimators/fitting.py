"""Any scikit-learn classifier, used through `fit` with weights and `predict_proba`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from antidote_learn.estimators.targets import Floats, Integers


def judge_rows(
    model: Any, X: Any, labels: Integers, weights: Floats, own: Integers, other: Integers, count: int
) -> Floats:
    """Fit a model on the rows ``own``, and predict the rows ``other``; (M, K) probabilities."""
    judge = fit_copy(model, _safe_indexing(X, own), labels[own], weights[own])
    return probabilities(judge, _safe_indexing(X, other), count)


def fit_copy(model: Any, X: Any, labels: Integers, weights: Floats) -> Any:
    """Fit a copy of a model; weights of 1 are not passed, so that it is what it would be without them."""
    name = _weight_name(model)
    given = {} if (weights == 1.0).all() else {name: weights}
    return clone(model).fit(X, labels, **given)


def _weight_name(model: Any) -> str:
    """The name by which ``fit`` takes weights; ValueError where it takes none."""
    last, prefix = model, ""
    while isinstance(last, Pipeline):
        prefix, last = f"{prefix}{last.steps[-1][0]}__", last.steps[-1][1]
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"estimator must be a classifier whose fit takes sample_weight, received {last!r}: take "
            "LogisticRegression, a forest or boosting, or AntidoteClassifier, which needs no other"
        )
    return f"{prefix}sample_weight"


def probabilities(model: Any, X: Any, count: int) -> Floats:
    """The probabilities (N, K) by a model; a class that it did not see has 0."""
    said = model.predict_proba(X)
    probs = np.zeros((len(said), count))
    probs[:, model.classes_] = said
    return probs


def copy_with_seeds(estimator: Any, draws: Any) -> Any:
    """Copy an estimator, with a seed for every random state that is None."""
    model = clone(estimator)
    states = {name: value for name, value in model.get_params().items() if name.split("__")[-1] == "random_state"}
    free = sorted(name for name, value in states.items() if value is None)
    return model.set_params(**{name: draws.randint(np.iinfo(np.int32).max) for name in free})
