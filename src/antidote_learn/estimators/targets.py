"""Labels of both estimators: classes as numbers, sample weights, and the table of label issues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from antidote_learn.auditing.cuts import Cut, flag_rows
from antidote_learn.auditing.issue_table import AuditRows, issues_table
from antidote_learn.auditing.scores import LabelScores, score
from antidote_learn.core.beliefs import Beliefs, blocks

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def number_classes(y: Any) -> tuple[NDArray[Any], Integers]:
    """Sort the classes, and give each label's position among them."""
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, received one class only ({classes[0]!r}): is it the right column?"
        )
    return classes, labels.astype(np.int64)


def check_weights(sample_weight: Any, X: Any, labels: Integers) -> tuple[Floats, Integers]:
    """Check the weights (N,), ones where none were given, and find the rows whose weight is not 0."""
    measure = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    used = np.flatnonzero(measure)
    if len(np.unique(labels[used])) < 2:
        raise ValueError("sample_weight must leave at least two classes, received weights of 0 for all but one class")
    return measure, used


def score_labels(probs: Floats, labels: Integers) -> LabelScores:
    """Score labels by the audit's posterior, from probabilities (N, K) of models that did not see the rows."""
    said = Beliefs.blank(*probs.shape)
    for rows in blocks(*probs.shape):
        said.put(rows, probs[rows], labels[rows])
    return score(labels, said.count, said=[said])


def issues_of_rows(scores: LabelScores, labels: Integers, classes: NDArray[Any], X: Any) -> pd.DataFrame:
    """The table of `find_label_issues` for the rows of X, in their order and with their index."""
    rows = AuditRows(labels, tuple(classes.tolist()), np.arange(len(labels)), None, None, {})
    flags = flag_rows(scores.quality, scores.log_odds, Cut())
    table = issues_table(rows, scores, flags).sort_values("index", ignore_index=True).drop(columns="index")
    return table.set_index(X.index) if isinstance(X, pd.DataFrame) else table
