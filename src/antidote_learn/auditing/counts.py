"""Counts of wrong labels: one number with an interval, and the rows to flag."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antidote_learn._checks import check_whole, real_number

SLACK = 0.25  # the share of the count by which the interval reaches further: it covered 122 of 123 trials, 0.15 fewer
LEAST = 0.005  # the share of rows that c or r must call wrong before d counts: on clean labels networks err, too
WIDE = 1.5  # the ratio of an interval's ends, without the slack, from which on users are told why it is wide

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Count:
    """The estimated number of wrong labels.

    Attributes:
        errors: The number of rows whose given label is less likely than all others together.
        interval: Whole numbers, both ends included.
        rows: The number of rows.
        why: The reason for a wide interval, in plain words; empty if it is not wide.
    """

    errors: int
    interval: tuple[int, int]
    rows: int
    why: str

    @property
    def noise_rate(self) -> float:
        """The estimated share of wrong labels."""
        return self.errors / self.rows


def estimate_count(quality: Floats, rate: float, contradicted: int) -> Count:
    """Estimates c = #{R_i(y_i) < .5} wrong labels, within [.75 min(c, rN), max(1.25 max(c, rN), d)].

    Errors on hard rows escape c and r. They escape d only if held-out predictions repeat them; right labels that the
    predictions miss make up for these. If neither c nor rN exceeds N / 200, d is left out: it then counts the networks'
    own mistakes.

    Args:
        quality: (N,) R_i(y_i).
        rate: r, the share of wrong labels among the rows that the networks are surest of.
        contradicted: d, the number of rows whose label differs from the prediction of a network that never saw the row.
    """
    rows, errors = len(quality), int((quality < 0.5).sum())
    low, high = sorted((float(errors), rate * rows))
    beyond = contradicted if high > LEAST * rows else 0
    ends = math.floor((1.0 - SLACK) * low), math.ceil(max((1.0 + SLACK) * high, beyond))
    is_wide = max(high, beyond) - low > max(1.0, (WIDE - 1.0) * low)
    return Count(errors, (ends[0], min(rows, ends[1])), rows, _why(errors, rate, rows, contradicted) if is_wide else "")


def _why(errors: int, rate: float, rows: int, contradicted: int) -> str:
    return (
        f"in {errors} rows another label is likelier than the given one; going by the rows that can be judged best "
        f"about {round(rate * rows)} ({100 * rate:.1f} %) should be wrong; networks that had not seen the rows "
        f"contradict {contradicted} labels. Errors on hard rows, such as people make, escape the first two; the last "
        "also has rows that are right and hard; with many classes and few rows of each the second is too high"
    )


def flag_rows(quality: Floats, log_odds: Floats, *, max_flagged: int | None, fdr: float | None) -> NDArray[np.bool_]:
    """Returns a mask (N,) of the worst rows, which people should look at.

    Args:
        quality: (N,) R_i(y_i).
        log_odds: (N,) the ranking.
        max_flagged: The most rows to flag.
        fdr: The largest share of flagged rows that may be expected to be right; None flags the rows with R_i(y_i) < .5.
    """
    order = np.argsort(log_odds, kind="stable")
    if fdr is None:
        wanted = int((quality < 0.5).sum())
    else:
        mistaken = np.cumsum(quality[order]) / np.arange(1, len(order) + 1)
        wanted = int((mistaken <= float(fdr)).sum())  # the share only rises
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: wanted if max_flagged is None else min(wanted, max_flagged)]] = True
    return chosen


def check_cut(max_flagged: int | None, fdr: float | None) -> None:
    """Raises a ValueError for limits that no set of rows can meet."""
    if max_flagged is not None:
        check_whole("max_flagged", max_flagged, 0)
    share = None if fdr is None else real_number(fdr)
    if fdr is not None and (share is None or not 0.0 < share < 1.0):
        raise ValueError(f"fdr must lie between 0 and 1, the share of flagged rows that may be right; got {fdr!r}")
