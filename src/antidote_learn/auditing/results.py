"""A finished audit: its table and figures, in memory and in a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from antidote_learn.auditing.counts import estimate_count, flagged
from antidote_learn.auditing.scores import Scores
from antidote_learn.auditing.tables import Rows, class_summary, issues_table, pair_summary
from antidote_learn.training.checkpoint import read_json, replacing, write_json
from antidote_learn.training.posterior import Posterior, read_posterior, write_posterior

FORMAT = 1  # of summary.json
PAIRS = 1000  # that the summary lists


@dataclass(frozen=True, eq=False)
class Audit:
    """Which labels are wrong, and how many.

    Attributes:
        table: Every row, the worst first: ``index`` (0-based position in the source), ``is_label_issue``,
            ``label_quality`` (the probability that the given label is right), ``given_label``, ``predicted_label``,
            ``predicted_probability``, ``reason``, and where they are known ``file`` and ``clean_label``.
        summary: What `antidote audit --json` prints, and more.
        posterior: For each row its likeliest classes and their probabilities.
    """

    table: pd.DataFrame
    summary: dict[str, Any]
    posterior: Posterior

    @property
    def estimated_errors(self) -> int:
        """How many labels are believed to be wrong."""
        return int(self.summary["estimated_errors"])

    @property
    def interval(self) -> tuple[int, int]:
        """From how many to how many they may be."""
        low, high = self.summary["interval"]
        return int(low), int(high)

    @property
    def noise_rate(self) -> float:
        """`estimated_errors` as a share of the rows."""
        return float(self.summary["noise_rate"])

    @property
    def by_class(self) -> pd.DataFrame:
        """For each class: rows given it, how many of them are believed wrong, rows that should have it."""
        return pd.DataFrame(self.summary["classes"])

    @property
    def by_pair(self) -> pd.DataFrame:
        """Pairs of classes mistaken for one another, the most frequent first, with P(given | true)."""
        columns = ["given_label", "predicted_label", "estimated_errors", "transition"]
        return pd.DataFrame(self.summary["pairs"], columns=columns)

    def __repr__(self) -> str:
        """One line."""
        low, high = self.interval
        return f"Audit({self.estimated_errors} of {len(self.table)} labels look wrong, between {low} and {high})"


def made_audit(
    rows: Rows, scores: Scores, rate: float, *, max_flagged: int | None, fdr: float | None, about: dict[str, Any]
) -> Audit:
    """The audit that follows from the scores; ``about`` goes into its summary."""
    count = estimate_count(scores.quality, rate)
    flags = flagged(scores.quality, scores.log_odds, max_flagged=max_flagged, fdr=fdr)
    summary = {
        "format": FORMAT,
        "n": count.rows,
        "estimated_errors": count.errors,
        "interval": list(count.interval),
        "noise_rate": count.noise_rate,
        "why_wide": count.why,
        "flagged": int(flags.sum()),
        "anchor_rate": rate,
        **about,
        "classes": class_summary(rows, scores).to_dict("records"),
        "pairs": pair_summary(rows, scores).head(PAIRS).to_dict("records"),
    }
    posterior = Posterior(scores.posterior, rows.index, rows.labels, rows.classes)
    return Audit(issues_table(rows, scores, flags), summary, posterior)


def write_audit(folder: Path, audit: Audit) -> None:
    """issues.csv, issues.parquet, posterior.safetensors and summary.json, each whole or not at all."""
    write_posterior(folder, audit.posterior)
    write_issues(folder, audit)


def write_issues(folder: Path, audit: Audit) -> None:
    """What a cut changes: the tables and the summary."""
    with replacing(folder / "issues.parquet") as temporary:
        audit.table.to_parquet(temporary, index=False)
    with replacing(folder / "issues.csv") as temporary:
        audit.table.to_csv(temporary, index=False)
    write_json(folder / "summary.json", audit.summary)


def read_audit(folder: Path) -> Audit:
    """What `write_audit` wrote; ValueError where it is damaged or of another format."""
    summary = read_json(folder / "summary.json")
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise ValueError(f"{folder / 'summary.json'} is no summary of format {FORMAT}: use the package that made it")
    return Audit(pd.read_parquet(folder / "issues.parquet"), summary, read_posterior(folder))


def cut_again(audit: Audit, *, max_flagged: int | None, fdr: float | None) -> Audit:
    """The same audit with other rows flagged."""
    quality = audit.table["label_quality"].to_numpy(np.float64)
    flags = flagged(quality, np.arange(len(quality), dtype=np.float64), max_flagged=max_flagged, fdr=fdr)
    table = audit.table.assign(is_label_issue=flags)
    return replace(audit, table=table, summary={**audit.summary, "flagged": int(flags.sum())})
