"""`RobustClassifier` makes any scikit-learn classifier robust, by weights from its own held-out losses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from antidote_learn.auditing.judges import copy_with_seeds, probabilities
from antidote_learn.auditing.scores import LabelScores
from antidote_learn.core.budgets import delta_from_rate
from antidote_learn.core.rates import doubt, rate_of_probabilities, too_few
from antidote_learn.core.relaxation import relax
from antidote_learn.estimators.fitting import fit_copy, judge_rows
from antidote_learn.estimators.targets import (
    Floats,
    Integers,
    check_weights,
    issues_of_rows,
    number_classes,
    score_labels,
)

KAPPA = 0.05  # the soft penalty of the relaxation, the default of `AntidoteLoss`
LOWEST = 0.02  # a smaller share of wrong labels counts as none, as the surest judgements are wrong as often


class RobustClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier that takes ``sample_weight``, trained on labels of which some are wrong.

    The classifier is fitted on all folds but one and judges the rows of that one. Its surest judgements tell how many
    labels are wrong. The relaxation with this budget weighs the rows by the losses of their labels, while every given
    class keeps its mass. The weights go into the fits of the next round and, in the end, into the fit of
    ``estimator_``. Where no label looks wrong, ``estimator_`` is the classifier as it is.

    Args:
        estimator: A classifier with ``predict_proba`` whose ``fit`` takes ``sample_weight``, or a pipeline that ends in
            one; None for logistic regression.
        noise_rate: The share of wrong labels, in [0, 1), or "auto" to estimate it.
        rounds: The number of rounds in which the rows are judged and weighed.
        cv: The number of folds, which are drawn anew in each round, or a splitter without groups that holds every row
            out once.
        n_jobs: The number of folds that are fitted at a time, as in scikit-learn.
        random_state: The seed of the folds, and of the classifier where its own is None.

    Attributes:
        estimator_: The classifier, fitted on all rows with ``sample_weights_``; its classes are numbers 0 ... K - 1.
        classes_: (K,) the labels.
        sample_weights_: (N,) the weights of the rows in its fit; near 0 where a label is not believed.
        label_quality_: (N,) the probability that the label is right, by models that did not see the row.
        label_issues_: A table of the rows of X, in their order and with their index: ``is_label_issue``,
            ``label_quality``, ``given_label``, ``predicted_label``, ``predicted_probability``, ``reason``.
        noise_rate_: The share of wrong labels, as given or estimated.
        n_features_in_: The number of columns of X.
        feature_names_in_: The names of the columns, where they are strings.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> y[:5] = 2  # wrong
        >>> model = RobustClassifier(RandomForestClassifier(30), random_state=0).fit(X, y)
        >>> bool(model.sample_weights_[:5].max() < 0.5)
        True
        >>> model.label_issues_.loc[:1, ["given_label", "predicted_label"]].to_numpy().tolist()
        [[2, 0], [2, 0]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "noise_rate": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "rounds": [Interval(Integral, 1, None, closed="left")],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split", "get_n_splits"])],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        noise_rate: float | str = "auto",
        rounds: int = 5,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.noise_rate = noise_rate
        self.rounds = rounds
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RobustClassifier:
        """Judge and weigh the rows in rounds, and fit the classifier.

        Args:
            X: (N, D) rows that the classifier takes: an array, a table, or a sparse matrix.
            y: (N,) labels.
            sample_weight: (N,) the weights of the rows to begin with; 2 is the row twice, 0 the row absent.
        """
        self._validate_params()
        X, y = self._check_rows(X, y)
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        self.classes_, labels = number_classes(y)
        measure, used = check_weights(sample_weight, X, labels)
        draws = check_random_state(self.random_state)
        model, inside = (
            copy_with_seeds(self._estimator, draws),
            X if len(used) == len(labels) else _safe_indexing(X, used),
        )
        found = self._judge_rows(model, inside, labels[used], measure[used], draws)
        if found.doubt:
            warnings.warn(found.doubt, UserWarning, stacklevel=2)
        self.noise_rate_, self.sample_weights_ = found.rate, np.zeros(len(labels))
        self.sample_weights_[used] = found.weights
        self.estimator_ = fit_copy(model, inside, labels[used], found.weights)
        scores = score_labels(self._judge_absent(X, found.probs, used, len(labels)), labels)
        self.label_quality_ = scores.quality
        self.label_issues_ = issues_of_rows(scores, labels, self.classes_, X)
        return self

    def _judge_rows(self, model: Any, X: Any, labels: Integers, measure: Floats, draws: Any) -> _Judgement:
        """Judge and weigh the rows in rounds; at a rate of 0 the weights stay, and one round is enough."""
        count = len(self.classes_)
        if self.noise_rate == "auto" and (why := too_few(labels, count)):
            return _Judgement(0.0, measure, np.eye(count)[labels], why)
        probs = self._predict_held_out(model, X, labels, measure, draws)
        rate, why = _estimate_rate(probs, labels) if self.noise_rate == "auto" else (float(self.noise_rate), "")
        if rate == 0.0:
            return _Judgement(rate, measure, probs, why)
        weights = reweigh_rows(score_labels(probs, labels), labels, measure, rate)
        for _ in range(1, self.rounds):
            probs = self._predict_held_out(model, X, labels, weights, draws)
            weights = reweigh_rows(score_labels(probs, labels), labels, measure, rate)
        return _Judgement(rate, weights, probs, why)

    def _predict_held_out(self, model: Any, X: Any, labels: Integers, weights: Floats, draws: Any) -> Floats:
        """Predict each row by a model that did not see it; (N, K) probabilities."""
        probs = np.full((len(labels), len(self.classes_)), np.nan)
        splits = list(self._splits(X, labels, draws))
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(judge_rows)(model, X, labels, weights, own, other, probs.shape[1]) for own, other in splits
        )
        for (_, other), said in zip(splits, found, strict=True):
            probs[other] = said
        if np.isnan(probs).any():
            lost = int(np.isnan(probs).any(axis=1).sum())
            raise ValueError(f"cv must hold every row out once, {self.cv!r} leaves out {lost} of {len(labels)} rows")
        return probs

    def _splits(self, X: Any, labels: Integers, draws: Any) -> Iterator[tuple[Integers, Integers]]:
        if not isinstance(self.cv, Integral):
            return self.cv.split(X, labels)  # type: ignore[no-any-return]
        folds = max(2, min(self.cv, int(np.bincount(labels)[np.unique(labels)].min())))
        seed = draws.randint(np.iinfo(np.int32).max)
        return StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(labels)), labels)  # type: ignore[no-any-return]

    def _judge_absent(self, X: Any, probs: Floats, used: Integers, count: int) -> Floats:
        """Add the probabilities of absent rows, which the final model did not see; (N, K)."""
        if len(used) == count:
            return probs
        whole, absent = np.empty((count, probs.shape[1])), np.setdiff1d(np.arange(count), used)
        whole[used] = probs
        whole[absent] = probabilities(self.estimator_, _safe_indexing(X, absent), probs.shape[1])
        return whole

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels (N,)."""
        check_is_fitted(self)
        (X,) = self._check_rows(X, reset=False)
        return np.asarray(self.classes_[self.estimator_.predict(X)])

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probabilities (N, K) of ``classes_``."""
        check_is_fitted(self)
        (X,) = self._check_rows(X, reset=False)
        return probabilities(self.estimator_, X, len(self.classes_))

    def _check_rows(self, *given: Any, **options: Any) -> Any:
        """Check that rows can be taken from X, and from y if given; the values in X are left to the classifier."""
        if getattr(given[0], "ndim", 2) == 1:
            raise ValueError(
                f"X must have two axes, rows and columns; received shape {given[0].shape}. Reshape your data: "
                "X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row"
            )
        validate_data(self, *given, **options, skip_check_array=True)
        return indexable(*given)

    @property
    def _estimator(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._estimator).input_tags
        return tags


class _Judgement(NamedTuple):
    """The result of all rounds.

    Attributes:
        rate: The share of wrong labels.
        weights: (N,) the weights of the rows.
        probs: (N, K) the held-out probabilities of the last round.
        doubt: A warning about the rate; empty where there is none.
    """

    rate: float
    weights: Floats
    probs: Floats
    doubt: str


def _estimate_rate(probs: Floats, labels: Integers) -> tuple[float, str]:
    """Estimate the share of wrong labels, 0 below `LOWEST`, with a warning where it cannot be told."""
    estimate = rate_of_probabilities(probs[None], labels)
    rate = estimate.rate if estimate.rate >= LOWEST else 0.0
    return rate, "" if estimate.identifiable else doubt(estimate, probs.shape[1])


def reweigh_rows(scores: LabelScores, labels: Integers, measure: Floats, rate: float) -> Floats:
    """Weigh rows (N,) by the relaxation over -log R_i(y_i); the sum and each class's share stay as in ``measure``."""
    losses = torch.from_numpy(np.logaddexp(0.0, -scores.log_odds))
    relaxed = relax(
        losses,
        delta_from_rate(rate),
        kappa=KAPPA,
        base_weight=torch.from_numpy(measure),
        groups=torch.from_numpy(labels),
    )
    weights: Floats = relaxed.weights.numpy() * measure.mean()
    return weights
