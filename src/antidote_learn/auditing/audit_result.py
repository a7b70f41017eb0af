"""`Audit` is a finished audit, in memory and as the files of its folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from antidote_learn._types import Inputs
from antidote_learn.auditing.counts import estimate_count
from antidote_learn.auditing.cuts import Cut, flag_rows
from antidote_learn.auditing.exporting import join_columns, sort_as_data, write_table
from antidote_learn.auditing.issue_table import AuditRows, class_summary, issues_table, pair_summary
from antidote_learn.auditing.review import write_review
from antidote_learn.auditing.scores import LabelScores
from antidote_learn.data.posterior import POSTERIOR, Posterior, posterior_arrays
from antidote_learn.training.checkpoint import (
    check_held,
    damage_told,
    read_json,
    read_rows,
    read_tensors,
    write_json,
    write_tensors,
)
from antidote_learn.training.relabel import read_posterior

FORMAT = 1  # the version of summary.json; it grows when older code could not read the file
PAIRS = 1000  # the most pairs of classes in summary.json: with many classes there are up to K * K
NEIGHBOURS = "neighbours.safetensors"
COLUMNS = (
    "index", "is_label_issue", "label_quality", "given_label", "predicted_label", "predicted_probability", "reason",
)  # fmt: skip
SUMMARY: dict[str, type | tuple[type, ...]] = {
    "n": int, "estimated_errors": int, "noise_rate": (int, float), "interval": list, "classes": list, "pairs": list,
    "flagged": int, "why_wide": str, "data": str, "data_hash": str, "features": str,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit: which labels are wrong, and how many.

    Attributes:
        table: Every row, the worst first: ``index`` (0-based position in the source), ``is_label_issue``,
            ``label_quality`` (the probability that the given label is right), ``given_label``, ``predicted_label``,
            ``predicted_probability``, ``reason``, and where they are known ``file`` and ``clean_label``.
        summary: The figures that the command line prints as JSON, and more.
        posterior: The likeliest classes of each row and their probabilities.
        around: (N, m) the nearest rows of each row, in the order of the posterior; None if they are not known.
        inputs: The samples in the order of the posterior; None if they are not at hand.
        source: The rows of the table that the samples are from, in the order of the posterior; None if there is none.
    """

    table: pd.DataFrame
    summary: dict[str, Any]
    posterior: Posterior
    around: NDArray[np.int64] | None = None
    inputs: Inputs | None = None
    source: pd.DataFrame | None = None

    def write_review(self, path: str | Path) -> None:
        """Writes the review page, on which people look at suspects and decide: one HTML file, no server."""
        data: dict[str, Any] = {"around": self.around, "inputs": self.inputs, "source": self.source}
        write_review(Path(path), self.table, self.summary, self.posterior, **data)

    def export(self, path: str | Path, *, with_columns: bool = False) -> None:
        """Writes every row in the order of the data, for other programs: a .csv, .parquet or .jsonl file.

        The columns of ``table``, which are those of cleanlab's ``CleanLearning``, and ``label_score``, which is what
        its Datalab calls ``label_quality``. Cells of a .csv that a spreadsheet would execute begin with an apostrophe.

        Args:
            path: The path of the file.
            with_columns: Whether the columns of the data come along. Those that have the name of a column of ``table``
                begin with ``data_``; the label column is ``given_label``. For tables only.
        """
        write_table(Path(path), _add_columns(self, sort_as_data(self.table), with_columns))

    @property
    def estimated_errors(self) -> int:
        """The number of labels that are believed to be wrong."""
        return int(self.summary["estimated_errors"])

    @property
    def interval(self) -> tuple[int, int]:
        """The lowest and the highest number of wrong labels to expect."""
        low, high = self.summary["interval"]
        return int(low), int(high)

    @property
    def noise_rate(self) -> float:
        """The share of the rows that `estimated_errors` is."""
        return float(self.summary["noise_rate"])

    @property
    def by_class(self) -> pd.DataFrame:
        """A table of the classes: rows given each, how many of them are believed wrong, rows that should have it."""
        columns = ["label", "given", "estimated_errors", "error_rate", "interval", "missing"]
        return pd.DataFrame(self.summary["classes"], columns=columns)

    @property
    def by_pair(self) -> pd.DataFrame:
        """A table of the classes mistaken for one another, the most frequent pairs first, with P(given | true)."""
        columns = ["given_label", "predicted_label", "estimated_errors", "transition"]
        return pd.DataFrame(self.summary["pairs"], columns=columns)

    def __repr__(self) -> str:
        """Returns the figures in one line."""
        low, high = self.interval
        return f"Audit({self.estimated_errors} of {len(self.table)} labels look wrong, between {low} and {high})"


def build_audit(
    rows: AuditRows,
    scores: LabelScores,
    rate: float,
    contradicted: NDArray[np.int64],
    cut: Cut,
    *,
    about: dict[str, Any],
    inputs: Inputs | None,
    source: pd.DataFrame | None = None,
) -> Audit:
    """Builds the audit from the scores; `estimate_count` counts errors, ``about`` goes into the summary."""
    count = estimate_count(scores, rows.labels, contradicted)
    flags = flag_rows(scores.quality, scores.log_odds, cut)
    summary = {
        "format": FORMAT,
        "n": count.rows,
        "estimated_errors": count.errors,
        "interval": list(count.interval),
        "noise_rate": count.noise_rate,
        "why_wide": count.why,
        "look": count.look,
        "flagged": int(flags.sum()),
        "anchor_rate": rate,
        "contradicted": int(contradicted.sum()),
        **about,
        "classes": class_summary(rows, scores, count).to_dict("records"),
        "pairs": pair_summary(rows, scores).head(PAIRS).to_dict("records"),
    }
    posterior = Posterior(scores.posterior, rows.index, rows.labels, rows.classes)
    return Audit(issues_table(rows, scores, flags), summary, posterior, rows.around, inputs, source)


def write_audit(folder: Path, audit: Audit, *, with_columns: bool = False) -> None:
    """Writes tables, posterior, neighbours, summary and review page, each file whole or not at all."""
    write_posterior(folder, audit.posterior)
    if audit.around is not None:
        write_tensors(folder / NEIGHBOURS, {"around": torch.from_numpy(audit.around.astype(np.int32))}, {})
    write_issues(folder, audit, with_columns=with_columns)


def write_issues(folder: Path, audit: Audit, *, with_columns: bool) -> None:
    """Writes the files that depend on which rows are flagged: tables, review page and summary.

    The columns of the data stand in the table for people alone, as the other one is read back.
    """
    write_table(folder / "issues.parquet", audit.table)
    write_table(folder / "issues.csv", _add_columns(audit, audit.table, with_columns))
    audit.write_review(folder / "review.html")
    write_json(folder / "summary.json", audit.summary)


def _add_columns(audit: Audit, table: pd.DataFrame, wanted: bool) -> pd.DataFrame:
    return join_columns(table, audit.source, audit.posterior.index) if wanted else table


def write_posterior(folder: Path, posterior: Posterior) -> None:
    """Writes the beliefs whole or not at all."""
    arrays, state = posterior_arrays(posterior)
    write_tensors(folder / POSTERIOR, {name: torch.from_numpy(array) for name, array in arrays.items()}, state)


def read_audit(folder: Path, inputs: Inputs | None = None, source: pd.DataFrame | None = None) -> Audit:
    """Reads the files of `write_audit`; damaged files are a ValueError.

    Args:
        folder: The audit's folder.
        inputs: The samples, if they are at hand.
        source: The rows of the table that they are from, if they are at hand.
    """
    summary = read_json(folder / "summary.json", SUMMARY)
    check_held(folder / "summary.json", dict(enumerate(summary["interval"])), {0: int, 1: int})
    for row in summary["classes"]:
        check_held(folder / "summary.json", row, {"given": int, "estimated_errors": int, "error_rate": (int, float)})
    if summary.get("format") != FORMAT:
        raise ValueError(f"{folder / 'summary.json'} is no summary of format {FORMAT}: use the package that made it")
    posterior, rows = read_posterior(folder), len(table := read_rows(folder / "issues.parquet", COLUMNS))
    with damage_told(folder / NEIGHBOURS):
        around = read_tensors(folder / NEIGHBOURS)[0]["around"].numpy().astype(np.int64)
    if not rows == summary["n"] == len(posterior.index) == len(around):
        raise ValueError(f"{folder} is damaged: its files are of different numbers of rows; audit the data anew")
    return Audit(table, summary, posterior, around, inputs, source)


def cut_again(audit: Audit, cut: Cut) -> Audit:
    """Returns the same audit with other rows flagged."""
    quality = audit.table["label_quality"].to_numpy(np.float64)
    flags = flag_rows(quality, np.arange(len(quality), dtype=np.float64), cut)
    table = audit.table.assign(is_label_issue=flags)
    return replace(audit, table=table, summary={**audit.summary, "flagged": int(flags.sum())})
