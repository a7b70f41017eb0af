"""The review page: one HTML file with its data, on which people decide on suspects without a server."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn._types import Inputs
from antidote_learn.auditing.page_samples import collect_neighbours, collect_samples
from antidote_learn.data.posterior import Posterior
from antidote_learn.training.checkpoint import write_bytes

LISTED = 100_000  # the most suspects on a page, which bounds its size
CHOICES = 10  # the likeliest classes of a row that the page knows: all of them where each has a digit as its key
BINS = 40  # bins of the histogram of label quality
# The parts of the page's program, in their order.
SCRIPTS = ("store.js", "elements.js", "charts.js", "list.js", "classes.js", "detail.js", "filters.js", "main.js")

Integers = NDArray[np.int64]


def write_review(
    path: Path,
    table: pd.DataFrame,
    summary: dict[str, Any],
    posterior: Posterior,
    *,
    around: Integers | None,
    inputs: Inputs | None,
    source: pd.DataFrame | None,
) -> None:
    """Writes the page, whole or not at all.

    Args:
        path: The path of the HTML file.
        table: The table of the audit, the worst rows first.
        summary: The summary of the audit.
        posterior: The posterior of the audit, in the order of the data.
        around: (N, m) nearest rows in the order of the data; None if they are not known.
        inputs: The samples in the order of the data; None shows no samples.
        source: The table that the samples are from, in the same order, if there is one.
    """
    most = max(int(summary["flagged"]), int(summary["interval"][1]))
    listed = table.head(min(most, LISTED))
    rows = _posterior_rows(posterior.index, listed["index"].to_numpy(np.int64))
    data = {
        **_head_figures(table, summary, posterior),
        **_suspects(listed, posterior, rows),
        **({"nearest": [], "near": []} if around is None else _neighbours(around[rows], posterior, inputs)),
        **vars(collect_samples(inputs, rows.tolist(), source)),
    }
    write_bytes(path, page(f"Review of {summary['data']}", data))


def page(title: str, data: dict[str, Any]) -> bytes:
    """Returns the HTML file; its policy names the page's own script by digest, so that no script in the data runs."""
    style = _page_part("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_page_part, SCRIPTS)) + "})();\n"
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    filled = Template(_page_part("page.html")).substitute(
        title=html.escape(title), policy=policy, style=style, script=script, data=text
    )
    return filled.encode("utf-8", errors="backslashreplace")  # a lone surrogate becomes what JSON writes


def _page_part(name: str) -> str:
    return (files("antidote_learn.auditing") / "page" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _head_figures(table: pd.DataFrame, summary: dict[str, Any], posterior: Posterior) -> dict[str, Any]:
    """Returns the figures in the head of the page, and the histogram of all rows."""
    quality = table["label_quality"].to_numpy(np.float64)
    flags = table["is_label_issue"].to_numpy(bool)
    bins = np.minimum((quality * BINS).astype(np.int64), BINS - 1)
    names = ("n", "estimated_errors", "interval", "noise_rate", "why_wide", "flagged", "features")
    return {
        **{name: summary[name] for name in names},
        "key": _storage_key(summary, posterior),
        "content_hash": summary.get("content_hash"),
        "label": str(summary.get("label", "")),
        "label_is_guess": bool(summary.get("label_is_guess", False)),
        "look": str(summary.get("look", "")),
        "judges": [str(name) for name in summary.get("judges", [])],
        "data": str(summary["data"]),
        "classes": [str(name) for name in posterior.classes],
        "rates": [[int(row["given"]), int(row["estimated_errors"])] for row in summary["classes"]],
        "bins": np.bincount(bins, minlength=BINS).tolist(),
        "flagged_bins": np.bincount(bins[flags], minlength=BINS).tolist(),
        "threshold": float(quality[flags].max()) if flags.any() else None,
    }


def _storage_key(summary: dict[str, Any], posterior: Posterior) -> str:
    """Returns the key under which a browser keeps decisions; audits of the same rows, classes and file share it."""
    about = [summary["data_hash"], summary.get("content_hash"), [str(name) for name in posterior.classes]]
    rows = np.sort(posterior.index).astype("<i8").tobytes()
    return hashlib.sha256(json.dumps(about).encode() + rows).hexdigest()


def _suspects(listed: pd.DataFrame, posterior: Posterior, rows: Integers) -> dict[str, Any]:
    """Returns the suspects as columns, with `choices` likeliest classes and probabilities (in thousandths) a row."""
    beliefs = posterior.beliefs
    kept = min(CHOICES, beliefs.classes.shape[1])
    return {
        "index": listed["index"].tolist(),
        "quality": np.rint(listed["label_quality"].to_numpy(np.float64) * 1000).astype(int).tolist(),
        "given": posterior.labels[rows].tolist(),
        "reason": listed["reason"].tolist(),
        "choices": kept,
        "likeliest": beliefs.classes[rows, :kept].ravel().tolist(),
        "probs": np.rint(beliefs.probs[rows, :kept].astype(np.float64) * 1000).astype(int).ravel().tolist(),
    }


def _neighbours(around: Integers, posterior: Posterior, inputs: Inputs | None) -> dict[str, Any]:
    """Returns the labels of the suspects' nearest rows (B, m), and pictures of the very nearest."""
    found = collect_neighbours(inputs, around)
    return {
        "nearest": _neighbour_labels(posterior.labels[around]),
        "near": found.near,
        "near_index": posterior.index[found.rows].tolist(),
        "near_labels": posterior.labels[found.rows].tolist(),
        "near_pictures": found.pictures,
    }


def _neighbour_labels(labels: Integers) -> list[list[int]]:
    """Returns the neighbours' labels (B, m) as class, number, class, number, ..., the most frequent first."""
    return [[number for pair in Counter(row).most_common() for number in pair] for row in labels.tolist()]


def _posterior_rows(index: Integers, wanted: Integers) -> Integers:
    """Returns the rows of the posterior that have the wanted positions in the source."""
    order = np.argsort(index)
    places: Integers = order[np.searchsorted(index[order], wanted)]
    return places
