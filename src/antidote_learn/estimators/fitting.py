"""Any scikit-learn classifier, used through `fit` with weights and `predict_proba`."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from antidote_learn.auditing.judges import probabilities
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
