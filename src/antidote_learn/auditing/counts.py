"""Counts of wrong labels: one number with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from antidote_learn.core.anchors import anchor_errors

if TYPE_CHECKING:
    from antidote_learn.auditing.scores import LabelScores
    from antidote_learn.core.beliefs import Beliefs

SLACK = 0.25  # the share of the count by which the interval reaches further
SURE, SURER = 0.1, 0.02  # shares of each predicted class, the surest rows, among which wrong labels are counted
FEWEST = 20  # the fewest rows of a class that are counted among
DEVIATIONS = 2.5  # standard errors by which such a count may be too high
CERTAIN = 0.5  # the share of such a count that is no overlap of classes: labels alone do not tell, this is caution
# Shares of the contradicted labels: a count below the first leaves most of them unexplained, one above the second few.
HIDDEN, EXPLAINED = 0.25, 0.7
# Shares of all rows: if less than the first look wrong and less than the second are contradicted, nothing is hidden.
# Good networks contradict so many right labels, too.
LEAST, ORDINARY = 0.005, 0.05
WIDE = 1.5  # the ratio of an interval's ends, without the slack, from which on users are told why it is wide

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = Floats | Integers


@dataclass(frozen=True, eq=False)
class Count:
    """The estimated number of wrong labels.

    Attributes:
        errors: The number of wrong labels, as `class_errors` counts them.
        interval: Whole numbers, both ends included.
        rows: The number of rows.
        by_class: (K, 2) such intervals of the given classes.
        why: The reason for a wide interval, in plain words; empty if it is not wide.
        look: How far to look down the list, and what to expect there, in a sentence; empty if nothing looks wrong.
    """

    errors: int
    interval: tuple[int, int]
    rows: int
    by_class: Integers
    why: str
    look: str

    @property
    def noise_rate(self) -> float:
        """The estimated share of wrong labels."""
        return self.errors / self.rows


def estimate_count(scores: LabelScores, labels: Integers, contradicted: Integers) -> Count:
    """Estimates how many labels are wrong, e, by `class_errors`, within an interval.

    The upper end is the larger of 1.25 e and d. Errors on hard rows escape e, and d has them. The lower end is .75 e if
    e explains d, that is, if it is at least .7 d. Otherwise classes may overlap, and even the surest rows have labels
    that look wrong: the lower end is then at most half of two counts from the surest rows, each less 2.5 standard
    errors. If e is below d / 4, most contradictions are unexplained: classes overlap, or errors sit on hard rows or
    follow a rule that the judges learn, too. Such errors escape d; 1.25 times the judges' doubt has them. If e is below
    N / 200 and d below N / 20, networks contradict so many right labels: d then counts as no more than N / 200.

    Args:
        scores: The beliefs about the rows.
        labels: (N,) given labels.
        contradicted: (K,) d, the rows of each given class that a judge contradicts who never saw the row.
    """
    rows, wrong, d = len(labels), np.sort(1.0 - scores.quality)[::-1], int(contradicted.sum())
    by_class = class_errors(scores, labels)
    errors, doubt = int(by_class.sum()), (1.0 + SLACK) * scores.doubt
    low = (1.0 - SLACK) * errors
    if errors < EXPLAINED * d:
        low = max(0.0, min(low, CERTAIN * min(_least_count(scores, labels, share) for share in (SURE, SURER))))
    is_clean = errors < LEAST * rows and d < ORDINARY * rows
    is_hidden = errors < HIDDEN * d and not is_clean
    beyond = min(d, LEAST * rows) if is_clean else max(d, doubt if is_hidden else 0.0)
    high = max((1.0 + SLACK) * max(errors, float(wrong.sum())), beyond)
    ends = math.floor(low), min(rows, math.ceil(high))
    is_wide = ends[1] - ends[0] > max(1.0, (WIDE - 1.0 + 2.0 * SLACK) * errors)
    sizes = np.bincount(labels, minlength=len(by_class))
    most = np.full(len(sizes), ends[1]) if is_hidden else np.minimum(contradicted, ends[1])
    return Count(
        errors,
        ends,
        rows,
        _class_intervals(by_class, sizes, low / max(errors, 1), most),
        _why(doubt, d, rows, is_hidden=is_hidden) if is_wide and not is_clean else "",
        _look(wrong, ends[1], is_hidden=is_hidden),
    )


def _class_intervals(errors: Integers, sizes: Integers, least: float, most: Numbers) -> Integers:
    """The intervals (K, 2) of classes: as for all rows, and two standard errors of a number further.

    Args:
        errors: (K,) e.
        sizes: (K,) the rows of each class.
        least: The lower end of the interval for all rows, as a share of their e.
        most: (K,) what the upper ends are at least.
    """
    spread = 2.0 * np.sqrt(errors)
    low = np.maximum(np.floor(least * errors - spread), 0.0)
    high = np.minimum(np.ceil(np.maximum((1.0 + SLACK) * errors + spread, most)), sizes)
    return np.stack([low, high], axis=1).astype(np.int64)


def fewest_contradicted(judges: Sequence[Beliefs], labels: Integers) -> Integers:
    """The rows (K,) of each given class that a judge contradicts, of the judge who contradicts the fewest in all."""
    off = min((judge.classes[:, 0] != labels for judge in judges), key=np.count_nonzero)
    return np.bincount(labels[off], minlength=judges[0].count)


def class_errors(scores: LabelScores, labels: Integers) -> Integers:
    """The number (K,) of rows of each given class whose label is wrong.

    It is the sum of their probabilities of being wrong, or the number of rows whose label is less likely than all
    others together, if that is larger: with few rows probabilities are too cautious.
    """
    count = scores.posterior.count
    sums = np.bincount(labels, 1.0 - scores.quality, minlength=count)
    found: Integers = np.maximum(
        np.rint(sums).astype(np.int64), np.bincount(labels[scores.quality < 0.5], minlength=count)
    )
    return found


def _least_count(scores: LabelScores, labels: Integers, share: float) -> float:
    """The number of wrong labels if all rows of a class erred like its surest ones, less 2.5 standard errors."""
    pool = scores.pool
    predicted, confidence = pool.classes[:, 0].astype(np.int64), pool.probs[:, 0].astype(np.float64)
    found = anchor_errors(predicted, confidence, labels, pool.count, share=share, fewest=FEWEST)
    masses = np.bincount(scores.posterior.classes.ravel(), scores.posterior.probs.ravel(), minlength=pool.count)
    totals = np.maximum(found.totals, 1)
    variance = found.errors * (1.0 - found.errors) / totals + 0.25 / np.square(totals)
    return float(masses @ found.errors - DEVIATIONS * np.sqrt(np.square(masses) @ variance))


def _why(doubt: float, contradicted: int, rows: int, *, is_hidden: bool) -> str:
    said = f"models that had not seen the rows contradict {contradicted} of {rows} labels"
    if not is_hidden:
        return (
            f"{said}; some of these are right and hard to tell. Labels alone do not show whether classes overlap or "
            "labels are wrong"
        )
    return (
        f"{said}, but hardly any label of the rows that can be judged best. Either classes overlap and the labels are "
        "right, or wrong labels sit on rows that are hard to judge, or follow a rule that the models learn, too: then "
        f"up to {math.ceil(doubt)} may be wrong"
    )


def _look(wrong: Floats, most: int, *, is_hidden: bool) -> str:
    first, expected = "the first row" if most == 1 else f"the first {most} rows", round(float(wrong[:most].sum()))
    if is_hidden:
        return f"Look at {first}: labels alone do not tell how many of them are wrong"
    return f"Look at {first}: about {expected} of them are expected to be wrong" if expected else ""
