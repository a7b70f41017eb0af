"""How many labels are wrong: one number with an interval, and which rows to flag."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SLACK = 0.15  # of the count, either way
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


def estimate_count(quality: Floats, rate: float) -> Count:
    """The count c = #{R_i(y_i) < .5}, within [.85 min(c, rN), 1.15 max(c, rN)].

    Args:
        quality: (N,) R_i(y_i).
        rate: r, the share of wrong labels among the rows that networks are surest of.
    """
    rows, errors = len(quality), int((quality < 0.5).sum())
    low, high = sorted((float(errors), rate * rows))
    interval = math.floor((1.0 - SLACK) * low), min(rows, math.ceil((1.0 + SLACK) * high))
    return Count(errors, interval, rows, _why(errors, rate, rows) if high - low > max(1.0, (WIDE - 1.0) * low) else "")


def _why(errors: int, rate: float, rows: int) -> str:
    sure = f"about {round(rate * rows)} ({100 * rate:.1f} %)"
    if errors < rate * rows:
        return (
            f"two estimates differ: in {errors} rows another label is likelier than the given one, but the rows that "
            f"can be judged best have so many wrong labels that there should be {sure}. Errors on hard rows, such as "
            "people make, are missed by the first; with many classes and few rows of each the second is too high"
        )
    return (
        f"two estimates differ: in {errors} rows another label is likelier than the given one, but going by the rows "
        f"that can be judged best there should be {sure}. Easy rows have fewer wrong labels than others then, or the "
        "rows are hard to tell apart and some are suspected wrongly"
    )


def flagged(quality: Floats, log_odds: Floats, *, max_flagged: int | None, fdr: float | None) -> NDArray[np.bool_]:
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
        wanted = int((mistaken <= fdr).sum())  # it only rises
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: wanted if max_flagged is None else min(wanted, max_flagged)]] = True
    return chosen


def check_cut(max_flagged: int | None, fdr: float | None) -> None:
    """ValueError where a wish cannot be met."""
    if max_flagged is not None and (
        isinstance(max_flagged, bool) or int(max_flagged) != max_flagged or max_flagged < 0
    ):
        raise ValueError(f"max_flagged must be a whole number >= 0, the most rows to flag; got {max_flagged!r}")
    if fdr is not None and not 0.0 < fdr < 1.0:
        raise ValueError(f"fdr must lie between 0 and 1, the share of flagged rows that may be right; got {fdr!r}")
