"""How many labels are wrong: one number with an interval, and which rows to flag."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antidote_learn._checks import check_whole, real_number

SLACK = 0.25  # of the count, either way
LEAST = 0.005  # share of the rows that c or r must call wrong, for what is contradicted to count
WIDE = 1.5  # from this ratio of its ends without the slack on, an interval is explained

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Count:
    """The estimated number of wrong labels.

    Attributes:
        errors: Rows whose given label is less likely than all others together.
        interval: Whole numbers, both ends included.
        rows: How many there are.
        why: In plain words, why the interval is wide; empty where it is not.
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
    """The count c = #{R_i(y_i) < .5}, within [.75 min(c, rN), max(1.25 max(c, rN), d)].

    Errors on hard rows escape c and r. Of d they escape only where held-out predictions repeat them, which is made up
    for as long as these miss at least as many right labels. Where neither c nor rN exceeds N / 200, d is left out: then
    it is what the networks themselves get wrong.

    Args:
        quality: (N,) R_i(y_i).
        rate: r, the share of wrong labels among the rows that networks are surest of.
        contradicted: d, rows whose label is not what networks predict that never saw the row.
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
    """(N,), which rows to look at, the worst ones.

    Args:
        quality: (N,) R_i(y_i).
        log_odds: (N,) the ranking.
        max_flagged: At most so many.
        fdr: The largest set of which, by what is believed, no larger share is labelled rightly; None for the rows
            with R_i(y_i) < .5.
    """
    order = np.argsort(log_odds, kind="stable")
    if fdr is None:
        wanted = int((quality < 0.5).sum())
    else:
        mistaken = np.cumsum(quality[order]) / np.arange(1, len(order) + 1)
        wanted = int((mistaken <= float(fdr)).sum())  # it only rises
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: wanted if max_flagged is None else min(wanted, max_flagged)]] = True
    return chosen


def check_cut(max_flagged: int | None, fdr: float | None) -> None:
    """ValueError where a wish cannot be met."""
    if max_flagged is not None:
        check_whole("max_flagged", max_flagged, 0)
    share = None if fdr is None else real_number(fdr)
    if fdr is not None and (share is None or not 0.0 < share < 1.0):
        raise ValueError(f"fdr must lie between 0 and 1, the share of flagged rows that may be right; got {fdr!r}")
