"""Classifiers of scikit-learn as rows of a comparison, alone or made robust; nothing here needs torch.

``sklearn:LogisticRegression:C=0.3`` is the classifier with a parameter, ``robust:LogisticRegression:C=0.3`` is
`RobustClassifier` over it. A classifier of another package is named in full: ``sklearn:lightgbm.LGBMClassifier``.
"""

from __future__ import annotations

import ast
import importlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("sklearn", "robust")  # the words before the name of a classifier
ROBUST = "antidote_learn.RobustClassifier"  # named like a class of another package: estimators stand above grids


def is_classifier(method: str) -> bool:
    """Whether a row of a comparison is a classifier, and not a training method."""
    return method.split(":", 1)[0] in KINDS and ":" in method


def build_classifier(method: str, *, seed: int) -> Any:
    """Builds the classifier of a row, with the seed wherever it takes one.

    Raises:
        ValueError: There is no such classifier, or it takes no such parameter.
    """
    kind, name, *parameters = method.split(":")
    given = dict(_parameter(method, text) for text in parameters)
    factory = _classifier_class(method, name)
    try:
        model = factory(**given)
    except TypeError as error:
        raise ValueError(f"method {method!r}: {name} refuses its parameters: {error}") from error
    if "random_state" in model.get_params() and "random_state" not in given:
        model.set_params(random_state=seed)
    if kind == KINDS[0]:
        return model
    return _classifier_class(method, ROBUST)(model, random_state=seed)


def _parameter(method: str, text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"method {method!r}: a parameter is written key=value, got {text!r}")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _classifier_class(method: str, name: str) -> Any:
    module, _, last = name.rpartition(".")
    if module:
        try:
            return getattr(importlib.import_module(module), last)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"method {method!r}: there is no classifier {name!r} ({error})") from error
    from sklearn.utils.discovery import all_estimators

    known = dict(all_estimators(type_filter="classifier"))
    if name not in known:
        raise ValueError(
            f"method {method!r}: scikit-learn has no classifier {name!r}; take one of its names, such as "
            "LogisticRegression, or name a class in full, such as lightgbm.LGBMClassifier"
        )
    return known[name]


def score_classifier(model: Any, data: Any) -> dict[str, Any]:
    """Fits a classifier on the rows and labels of prepared data, and returns the figures of a record."""
    start = time.perf_counter()
    model.fit(_numbers_of(data, data.rows), data.labels)
    said = np.asarray(model.predict(_numbers_of(data, data.test_rows)))
    accuracy = 100.0 * float((said == data.test_labels).mean())
    against = "clean" if data.test_is_clean else "given"
    seconds = time.perf_counter() - start
    return {"last": accuracy, "best": accuracy, "best_epoch": 1, "against": against, "seconds": seconds}


def _numbers_of(data: Any, rows: Any) -> NDArray[np.float32] | Any:
    """Rows as a network reads them, one line each; sparse rows stay sparse."""
    if hasattr(rows, "matrix"):
        return rows.matrix
    found = data.preparation(rows.take(np.arange(len(rows))))
    return found.flatten(1).numpy()
