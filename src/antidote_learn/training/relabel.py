"""Training on an audit's beliefs in place of the given labels."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from antidote_learn.core.beliefs import Beliefs
from antidote_learn.data.posterior import POSTERIOR, Integers, Posterior, check_audit_folder, posterior_from
from antidote_learn.data.prepared import Prepared
from antidote_learn.training.checkpoint import damage_told, read_tensors

SURE = 0.65  # the least mean probability of an audit's likeliest classes at which its beliefs are trained on


def read_posterior(folder: Path) -> Posterior:
    """Reads the beliefs of an audit; ValueError where the file is damaged."""
    tensors, state = read_tensors(folder / POSTERIOR)
    with damage_told(folder / POSTERIOR):
        return posterior_from({name: tensor.numpy() for name, tensor in tensors.items()}, state)


def read_beliefs(folder: Path) -> tuple[Posterior, str]:
    """Reads the beliefs of an audit and their digest; ValueError for a folder without a finished audit."""
    check_audit_folder(folder)
    return read_posterior(folder), hashlib.sha256((folder / POSTERIOR).read_bytes()).hexdigest()[:16]


def relabel_rows(data: Prepared, posterior: Posterior, *, soft: bool) -> Prepared:
    """Replaces the labels by an audit's beliefs: by probabilities if ``soft``, else by the likeliest classes.

    The data stay as they are if the audit believes every one of their labels.

    Raises:
        ValueError: The audit is of other data.
    """
    names = tuple(map(str, posterior.classes))
    if names != tuple(data.classes):
        raise ValueError(f"the audit is of other data: its classes are {names[:5]}, here they are {data.classes[:5]}")
    rows = _rows(posterior.index, data.index)
    differ = int((posterior.labels[rows] != data.labels).sum())
    if differ:
        raise ValueError(
            f"the audit is of other labels: {differ} of {len(rows)} differ; audit this data (with the same `noise` and "
            "`seed`, if noise is added)"
        )
    whole = posterior.beliefs
    own = Beliefs(whole.classes[rows], whole.probs[rows], whole.count)
    if (own.of(data.labels) >= 0.5).all():
        return data
    return replace(data, soft=own) if soft else replace(data, labels=own.classes[:, 0].astype(np.int64))


def _rows(index: Integers, wanted: Integers) -> Integers:
    """The places (N,) of the wanted positions in the index."""
    order = np.argsort(index)
    places = np.minimum(np.searchsorted(index[order], wanted), len(index) - 1)
    rows: Integers = order[places]
    missing = int((index[rows] != wanted).sum())
    if missing:
        raise ValueError(
            f"the audit is of other data: it lacks {missing} of {len(wanted)} training rows; audit the same file, with "
            "the same `subset` and `seed`"
        )
    return rows
