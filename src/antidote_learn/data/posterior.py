"""An audit's beliefs as it writes them to its folder: the layout of the file, which an audit and a training share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from antidote_learn.core.beliefs import Beliefs

POSTERIOR = "posterior.safetensors"  # the file's name in the folder of an audit

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """The probabilities R_i(k) of the classes of every row.

    Attributes:
        beliefs: The likeliest classes of each row and their probabilities.
        index: (N,) the rows' positions in the source.
        labels: (N,) the labels that were given.
        classes: The names of the classes.
    """

    beliefs: Beliefs
    index: Integers
    labels: Integers
    classes: tuple[Any, ...]

    @property
    def sureness(self) -> float:
        """The mean probability of the likeliest classes: the share of them that should be right."""
        return float(self.beliefs.probs[:, 0].mean())


def check_audit_folder(folder: Path) -> None:
    """Refuses a folder that holds no finished audit."""
    if not (folder / "done").exists() or not (folder / POSTERIOR).exists():
        raise ValueError(f"{folder} holds no finished audit: audit the data with `out={folder}` first")


def posterior_arrays(posterior: Posterior) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """(arrays, JSON value) of the file."""
    beliefs = posterior.beliefs
    arrays: dict[str, NDArray[Any]] = {
        "index": posterior.index,
        "labels": posterior.labels,
        "classes": beliefs.classes,
        "probs": beliefs.probs,
    }
    return arrays, {"classes": list(posterior.classes)}


def posterior_from(arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> Posterior:
    """The posterior that `posterior_arrays` gave the parts of; ValueError or KeyError where they do not fit."""
    from antidote_learn.core.beliefs import Beliefs  # it needs torch, which the check of a folder does not

    classes = tuple(state["classes"])
    beliefs = Beliefs(arrays["classes"], arrays["probs"], len(classes))
    posterior = Posterior(beliefs, arrays["index"], arrays["labels"], classes)
    _check_rows(posterior)
    return posterior


def _check_rows(posterior: Posterior) -> None:
    """Refuses arrays of different rows, and classes that there are not."""
    beliefs, count = posterior.beliefs, len(posterior.index)
    shapes = {array.shape for array in (posterior.index, posterior.labels)} | {beliefs.probs.shape[:1]}
    if shapes != {(count,)} or beliefs.classes.shape != beliefs.probs.shape or not beliefs.probs.size:
        raise ValueError("its arrays are of different numbers of rows")
    for classes in (posterior.labels, beliefs.classes):
        if classes.dtype.kind not in "iu" or classes.min() < 0 or classes.max() >= len(posterior.classes):
            raise ValueError("it holds classes that there are not")
