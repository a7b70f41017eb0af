"""What an audit believes of every row, as labels to train on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antidote_learn.core.beliefs import Beliefs
from antidote_learn.data.prepared import Prepared
from antidote_learn.training.checkpoint import damage_told, read_tensors, write_tensors
from antidote_learn.training.resolve import POSTERIOR, check_audited

SURE = 0.65  # how sure an audit must be of the likeliest classes, in the mean, for them to be trained on

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """R_i(k), with what it is of.

    Attributes:
        beliefs: For each row its likeliest classes and their probabilities.
        index: (N,) the rows' positions in the source.
        labels: (N,) as they were given.
        classes: Names.
    """

    beliefs: Beliefs
    index: Integers
    labels: Integers
    classes: tuple[Any, ...]

    @property
    def sureness(self) -> float:
        """The mean probability of the likeliest classes: the share of them that should be right."""
        return float(self.beliefs.probs[:, 0].mean())


def write_posterior(folder: Path, posterior: Posterior) -> None:
    """Writes it whole or not at all."""
    beliefs = posterior.beliefs
    arrays = {
        "index": posterior.index,
        "labels": posterior.labels,
        "classes": beliefs.classes,
        "probs": beliefs.probs,
    }
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    write_tensors(folder / POSTERIOR, tensors, {"classes": list(posterior.classes)})


def read_posterior(folder: Path) -> Posterior:
    """What `write_posterior` wrote; ValueError where it is damaged."""
    tensors, state = read_tensors(folder / POSTERIOR)
    with damage_told(folder / POSTERIOR):
        classes = tuple(state["classes"])
        beliefs = Beliefs(tensors["classes"].numpy(), tensors["probs"].numpy(), len(classes))
        posterior = Posterior(beliefs, tensors["index"].numpy(), tensors["labels"].numpy(), classes)
        _check_rows(posterior)
    return posterior


def _check_rows(posterior: Posterior) -> None:
    """Its arrays are of the same rows, and of the classes that there are."""
    beliefs, count = posterior.beliefs, len(posterior.index)
    shapes = {array.shape for array in (posterior.index, posterior.labels)} | {beliefs.probs.shape[:1]}
    if shapes != {(count,)} or beliefs.classes.shape != beliefs.probs.shape or not beliefs.probs.size:
        raise ValueError("its arrays are of different numbers of rows")
    for classes in (posterior.labels, beliefs.classes):
        if classes.dtype.kind not in "iu" or classes.min() < 0 or classes.max() >= len(posterior.classes):
            raise ValueError("it holds classes that there are not")


def read_beliefs(folder: Path) -> tuple[Posterior, str]:
    """The posterior of a finished audit, and a digest of it; ValueError for a folder that is none."""
    check_audited(folder)
    return read_posterior(folder), hashlib.sha256((folder / POSTERIOR).read_bytes()).hexdigest()[:16]


def relabel_rows(data: Prepared, posterior: Posterior, *, soft: bool) -> Prepared:
    """The data with what the audit believes: as probabilities, or as the likeliest class of each row.

    Where it counts no error among these rows they stay as they are.

    Raises:
        ValueError: Where the audit is of other data.
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
    """Where the wanted positions are in the index."""
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
