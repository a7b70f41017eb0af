"""The cut through the ranking of rows: which of them are flagged, so that people look at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antidote_learn._checks import check_whole, real_number

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """The wish how many rows to flag; without any, those with a likelier label.

    Attributes:
        flag: Flag exactly so many rows, the worst.
        max_flagged: Flag at most so many.
        fdr: Flag as many as possible while no larger share of them is expected to be right.
    """

    flag: int | None = None
    max_flagged: int | None = None
    fdr: float | None = None

    def __post_init__(self) -> None:
        """Refuses wishes that no set of rows can meet, and those that contradict one another."""
        for name, wish in (("flag", self.flag), ("max_flagged", self.max_flagged)):
            if wish is not None:
                check_whole(name, wish, 0)
        share = None if self.fdr is None else real_number(self.fdr)
        if self.fdr is not None and (share is None or not 0.0 < share < 1.0):
            raise ValueError(
                f"fdr must lie between 0 and 1, the share of flagged rows that may be right; got {self.fdr!r}"
            )
        if self.flag is not None and (self.max_flagged is not None or self.fdr is not None):
            raise ValueError(
                "`flag` is the exact number of rows to flag: leave out `max_flagged` and `fdr`, which set limits"
            )

    def check_rows(self, rows: int) -> None:
        """Raises a ValueError where more rows are to be flagged than there are."""
        if self.flag is not None and self.flag > rows:
            raise ValueError(f"`flag` must be at most {rows}, the number of rows; got {self.flag}")


def flag_rows(quality: Floats, log_odds: Floats, cut: Cut) -> NDArray[np.bool_]:
    """Returns a mask (N,) of the worst rows, which people should look at.

    Args:
        quality: (N,) R_i(y_i).
        log_odds: (N,) the ranking.
        cut: How many rows to flag.
    """
    cut.check_rows(len(quality))
    order = np.argsort(log_odds, kind="stable")
    if cut.flag is not None:
        wanted = cut.flag
    elif cut.fdr is None:
        wanted = int((quality < 0.5).sum())
    else:
        mistaken = np.cumsum(quality[order]) / np.arange(1, len(order) + 1)
        wanted = int((mistaken <= float(cut.fdr)).sum())  # the share only rises
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: wanted if cut.max_flagged is None else min(wanted, cut.max_flagged)]] = True
    return chosen
