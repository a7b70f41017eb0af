"""`find_label_issues` finds wrong labels for users who have held-out probabilities or features already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn.auditing.cuts import Cut, flag_rows
from antidote_learn.auditing.issue_table import AuditRows, issues_table
from antidote_learn.auditing.neighbours import duplicate_groups, nearest_rows
from antidote_learn.auditing.scores import score
from antidote_learn.core.beliefs import Beliefs, blocks
from antidote_learn.data.inputs import as_inputs
from antidote_learn.data.labels import as_numpy, label_words, number_words, short_list, sort_class_names

SUM_TOLERANCE = 1e-2  # how far the sum of a row of probabilities may lie from 1, so that rounded ones pass
MOST = np.iinfo(np.int32).max  # the most classes, as their numbers are kept as int32
MANY = 1000  # the number of classes above which classes without rows are left out, to save memory

Integers = NDArray[np.int64]


def find_label_issues(
    labels: Any,
    pred_probs: Any = None,
    features: Any = None,
    *,
    flag: int | None = None,
    max_flagged: int | None = None,
    fdr: float | None = None,
) -> pd.DataFrame:
    """Finds which labels are wrong, from held-out probabilities, from features, or (best) from both.

    Args:
        labels: (N,) given labels: integers 0 ... K - 1, or names, which stand for the columns of ``pred_probs`` in
            sorted order, or by name if that is a table.
        pred_probs: (N, K) probabilities of a model that was not trained on the row, as from cross-validation. It is
            read a block at a time: a memory-mapped array may be larger than the memory.
        features: (N, D) numbers, such as embeddings: rows that are near should belong together.
        flag: Flag exactly so many rows, the worst; without ``max_flagged`` and ``fdr``.
        max_flagged: Flag at most so many rows.
        fdr: Flag as many rows as possible while no larger share of them is expected to be right.

    Returns:
        Every row, the worst first: ``index``, ``is_label_issue``, ``label_quality`` (higher is cleaner),
        ``given_label``, ``predicted_label``, ``predicted_probability``, ``reason``.

    Raises:
        ValueError: An argument is not what it should be; the message says how to fix it.

    Example:
        >>> labels = ["cat"] * 50 + ["dog"] * 50
        >>> probs = np.repeat([[0.99, 0.01], [0.01, 0.99]], [55, 45], axis=0)  # rows 50 to 54 look like cats
        >>> table = find_label_issues(labels, pred_probs=probs)
        >>> table.loc[table["is_label_issue"], "index"].tolist()
        [50, 51, 52, 53, 54]
    """
    if pred_probs is None and features is None:
        raise ValueError("give pred_probs (held-out probabilities), features, or both; received neither")
    cut = Cut(flag, max_flagged, fdr)
    given, classes = _number_by_columns(labels, pred_probs)
    cut.check_rows(len(given))
    if pred_probs is None and len(classes) > min(len(given), MANY):
        given, classes = _drop_empty_classes(given, classes)
    said = [] if pred_probs is None else [_read_probabilities(pred_probs, given, len(classes))]
    return issues_of(given, classes, said, features, cut)


def issues_of(
    given: Integers,
    classes: Sequence[Any],
    said: Sequence[Beliefs],
    features: Any,
    cut: Cut,
) -> pd.DataFrame:
    """Returns the table of every row, from predictions and, if there are features, from neighbours in them."""
    around = same = None
    if features is not None:
        numbers = _read_features(features, len(given))
        around, same = nearest_rows(numbers), duplicate_groups([numbers])
    trust = said[0].of(given) if said else None
    scores = score(given, len(classes), said=said, around=around, trust=trust)
    flags = flag_rows(scores.quality, scores.log_odds, cut)
    return issues_table(AuditRows(given, tuple(classes), np.arange(len(given)), around, same, {}), scores, flags)


def number_labels(labels: Any, count: int | None) -> tuple[Integers, Sequence[Any]]:
    """Returns labels as numbers, and their classes; ``count`` is the number of classes, if it is known."""
    return _number_by_columns(labels, None if count is None else np.empty((0, count)))


def _drop_empty_classes(given: Integers, classes: Sequence[Any]) -> tuple[Integers, tuple[Any, ...]]:
    """Leaves out the classes that no row has: nothing speaks for them, and there may be a million."""
    found, positions = np.unique(given, return_inverse=True)
    if len(found) < 2:
        raise ValueError(f"all labels are {classes[found[0]]!r}; at least two classes are needed")
    if len(found) > max(len(given) / 4, MANY):
        raise ValueError(
            f"{len(given)} rows have {len(found)} different labels, fewer than 4 rows each: are they identifiers? "
            "Give the class of each row"
        )
    return positions.astype(np.int64), tuple(classes[k] for k in found.tolist())


def _number_by_columns(labels: Any, pred_probs: Any) -> tuple[Integers, Sequence[Any]]:
    """Returns labels as column numbers, and the classes of the columns in the user's own type."""
    values = as_numpy(labels)
    if np.ndim(values) != 1 or not len(values):
        raise ValueError(f"labels must be a non-empty list (N,), one label a row; received shape {np.shape(values)}")
    array = np.asarray(values)
    shape = None if pred_probs is None else np.shape(pred_probs)
    if shape is not None and len(shape) != 2:
        raise ValueError(f"pred_probs must be numbers of shape (N, K), a row for each label; received shape {shape}")
    columns = None if shape is None else shape[1]
    if array.dtype.kind in "iu" and not isinstance(pred_probs, pd.DataFrame):
        count = int(array.max()) + 1 if columns is None else columns
        if array.min() < 0 or array.max() >= count or count < 2:
            raise ValueError(
                f"labels must be integers 0 ... K - 1 of K >= 2 classes; received {array.min()} ... {array.max()} with "
                f"K = {count}: number the classes from 0, or give names"
            )
        if count > MOST:
            raise ValueError(f"labels must lie below {MOST}, received {array.max()}: number the classes from 0")
        return array.astype(np.int64), range(count)
    words = label_words(values, "labels", len(array))
    named = isinstance(pred_probs, pd.DataFrame)
    classes = tuple(map(str, pred_probs.columns)) if named else sort_class_names({*words})
    found = number_words(words, classes)
    if (found < 0).any():
        raise ValueError(
            f"label {words[found < 0][0]!r} is no column of pred_probs ({short_list(classes)}): rename one"
        )
    if len(classes) < 2 or (columns is not None and columns != len(classes)):
        raise ValueError(
            f"the labels have {len(classes)} classes ({short_list(classes)}), there are {columns} columns: give a "
            "column for each class, at least two, in sorted order, or a DataFrame with their names"
        )
    return found, classes


def _read_probabilities(pred_probs: Any, labels: Integers, count: int) -> Beliefs:
    """Reads and checks the probabilities a block at a time, and returns them as beliefs."""
    table: Any = pred_probs.to_numpy() if isinstance(pred_probs, pd.DataFrame) else as_numpy(pred_probs)
    table = table if isinstance(table, np.ndarray) else np.asarray(table)
    if table.shape != (len(labels), count) or table.dtype.kind not in "fiu":
        raise ValueError(
            f"pred_probs must be numbers of shape ({len(labels)}, {count}), a row for each label and a column for each "
            f"class; received {table.dtype} of shape {table.shape}"
        )
    made = Beliefs.blank(len(labels), count)
    for rows in blocks(len(labels), count):
        block = table[rows].astype(np.float64)
        gap = np.abs(block.sum(axis=1) - 1.0)
        if not (gap <= SUM_TOLERANCE).all() or block.min() < 0.0:
            bad = rows.start + int(np.argmax(~(gap <= SUM_TOLERANCE) | (block < 0.0).any(axis=1)))
            raise ValueError(
                f"pred_probs must be probabilities, at least 0 and with a sum of 1 in every row; row {bad} is none: "
                "logits go through a softmax first, NaN rows are left out of all arguments"
            )
        made.put(rows, block / block.sum(axis=1, keepdims=True), labels[rows])
    return made


def _read_features(features: Any, count: int) -> NDArray[np.float32]:
    """Checks the features and returns them as (N, D) float32."""
    values = features.to_numpy() if isinstance(features, pd.DataFrame) else features
    numbers = as_inputs(values, "features")
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 2 or len(numbers) != count or count < 2:
        raise ValueError(
            f"features must be numbers of shape ({count}, D), a row for each label, and at least two rows; received "
            f"shape {np.shape(features)}"
        )
    return numbers.astype(np.float32, copy=False)
