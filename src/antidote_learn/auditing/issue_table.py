"""The table of an audit, which gives a reason for each sample, and summaries by class and by pair of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn.auditing.counts import Count, class_errors
from antidote_learn.auditing.scores import LabelScores

NAMED = 3  # the most rows that a reason names, so that it stays a sentence
CHANCE = 3.0  # standard errors by which the share of wrong labels of a class may differ by chance, one class of many

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AuditRows:
    """The rows of an audit, without their scores.

    Attributes:
        labels: (N,) given labels.
        classes: The names of the K classes.
        index: (N,) positions of the rows in the source.
        around: (N, m) nearest rows, or None.
        same: (N,) a number that identical rows share, or None.
        extra: The further columns (N,) of the table.
    """

    labels: Integers
    classes: tuple[Any, ...]
    index: Integers
    around: Integers | None
    same: Integers | None
    extra: Mapping[str, Any]


def issues_table(rows: AuditRows, scores: LabelScores, flags: Flags) -> pd.DataFrame:
    """Returns the table of every row, the worst first."""
    names = names_array(rows.classes)
    order = np.argsort(scores.log_odds, kind="stable")
    table = pd.DataFrame(
        {
            "index": rows.index,
            "is_label_issue": flags,
            "label_quality": scores.quality,
            "given_label": names[rows.labels],
            "predicted_label": names[scores.likeliest_class],
            "predicted_probability": scores.posterior.probs[:, 0].astype(np.float64),
            "reason": reasons(rows, scores),
            **rows.extra,
        }
    )
    return table.iloc[order].reset_index(drop=True)


def names_array(classes: tuple[Any, ...]) -> NDArray[Any]:
    """Returns the class names as an array of their own type, for indexing."""
    kinds = {type(name) for name in classes}
    return np.array(classes, dtype=None if len(kinds) == 1 and kinds <= {int, bool} else object)


def reasons(rows: AuditRows, scores: LabelScores) -> list[str]:
    """Returns a sentence (N,) that says why each row has its place."""
    predicted, quality, labels = scores.likeliest_class, scores.quality, rows.labels
    best = scores.posterior.probs[:, 0]
    twins = _twins(rows)
    near = None if rows.around is None else (rows.labels[rows.around] == predicted[:, None]).sum(axis=1)
    words = []
    for i, (given, likely) in enumerate(zip(labels, predicted, strict=True)):
        parts = [twins[i]] if i in twins else []
        if likely == given:
            parts.append("the given label fits best" if quality[i] >= 0.5 else "no label fits well")
        else:
            how = f"({_percent(best[i])}) fits better than the given label ({_percent(quality[i])})"
            parts.append(f"{rows.classes[likely]!s} {how}")
        if near is not None and rows.around is not None:
            parts.append(f"{near[i]} of the {rows.around.shape[1]} nearest rows are labelled {rows.classes[likely]!s}")
        words.append("; ".join(parts))
    return words


def _percent(share: float) -> str:
    """Returns a share as text; none is shown as 0 % or 100 %, as nothing is sure."""
    return "<1%" if share < 0.005 else ">99%" if share >= 0.995 else f"{share:.0%}"


def _twins(rows: AuditRows) -> dict[int, str]:
    """Returns by row a clause about identical rows with other labels."""
    if rows.same is None:
        return {}
    found: dict[int, str] = {}
    for members in pd.Series(np.arange(len(rows.labels))).groupby(rows.same).indices.values():
        given = rows.labels[members]
        for label in np.unique(given) if (given != given[0]).any() else ():
            others = members[given != label]
            named = ", ".join(f"{rows.index[j]} ({rows.classes[rows.labels[j]]!s})" for j in others[:NAMED])
            more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
            said = f"identical to row {named}{more} with another label"
            found |= dict.fromkeys(members[given == label].tolist(), said)
    return found


def class_summary(rows: AuditRows, scores: LabelScores, counted: Count) -> pd.DataFrame:
    """Returns for each class the rows given it, how many of them are believed wrong, and how many should have it.

    The second is by `class_errors`, with the interval that it was counted with; the third is a sum of probabilities, as
    a whole number.
    """
    count = len(rows.classes)
    given = np.bincount(rows.labels, minlength=count)
    errors = class_errors(scores, rows.labels)
    _, true, probs = _other_classes(rows.labels, scores)
    return pd.DataFrame(
        {
            "label": names_array(rows.classes),
            "given": given,
            "estimated_errors": errors,
            "error_rate": errors / np.maximum(given, 1),
            "interval": counted.by_class.tolist(),
            "missing": np.rint(np.bincount(true, probs, minlength=count)).astype(np.int64),
        }
    )


def unequal_classes(classes: pd.DataFrame) -> pd.DataFrame:
    """Returns the classes of `class_summary` that are wrong more often than chance explains, the most often first.

    These have more wrong labels than three standard errors above the share of all rows.
    """
    given, errors = (pd.to_numeric(classes[name], errors="coerce") for name in ("given", "estimated_errors"))
    rate = errors.sum() / max(given.sum(), 1)
    above = errors - rate * given > CHANCE * np.sqrt(given * rate * max(1.0 - rate, 0.0))
    unequal: pd.DataFrame = classes[above].sort_values("error_rate", ascending=False, kind="stable")
    return unequal


def pair_summary(rows: AuditRows, scores: LabelScores) -> pd.DataFrame:
    """Returns the pairs of classes that are mistaken for one another, the most frequent first.

    ``estimated_errors`` are sums of probabilities, as whole numbers; pairs below one half are left out. ``transition``
    is T[predicted, given] = P(given | true), as the surest rows show it.
    """
    count = len(rows.classes)
    given, true, probs = _other_classes(rows.labels, scores)
    pairs, places = np.unique(given * count + true, return_inverse=True)
    numbers = np.rint(np.bincount(places, probs, minlength=len(pairs))).astype(np.int64)
    order = np.argsort(-numbers, kind="stable")[: int((numbers > 0).sum())]
    given, true = pairs[order] // count, pairs[order] % count
    names = names_array(rows.classes)
    return pd.DataFrame(
        {
            "given_label": names[given],
            "predicted_label": names[true],
            "estimated_errors": numbers[order],
            "transition": scores.transition.at(true, given),
        }
    )


def _other_classes(labels: Integers, scores: LabelScores) -> tuple[Integers, Integers, NDArray[np.float64]]:
    """Returns the given labels, other classes that rows keep, and the probabilities of these, (M,) each."""
    kept = scores.posterior.classes.astype(np.int64)
    other = (kept != labels[:, None]) & (scores.posterior.probs > 0.0)
    return np.repeat(labels, other.sum(axis=1)), kept[other], scores.posterior.probs[other].astype(np.float64)
