"""The transition matrix of a run as its folder keeps it, beside the true one where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from antidote_learn.core.transition_matrices import (
    Floats,
    TransitionEstimate,
    check_estimate,
    check_transition,
    total_variation_error,
)
from antidote_learn.training.checkpoint import FORMAT, damage_told, read_json, write_sealed

TRANSITION = "transition.json"  # the file's name in the folder of a run


@dataclass(frozen=True, eq=False)
class RunTransition:
    """The transition matrix that a run ended with, and the true one.

    Attributes:
        estimate: The matrix of the method.
        truth: (K, K) the true matrix; None where nobody knows it.
    """

    estimate: TransitionEstimate
    truth: Floats | None

    @property
    def total_variation(self) -> float | None:
        """The error of the estimate (see `total_variation_error`); None where the truth is not known."""
        return None if self.truth is None else total_variation_error(self.estimate.transition, self.truth)


def write_transition(folder: Path, transition: RunTransition, classes: Sequence[str]) -> None:
    """Writes the transition matrix of a run into its folder."""
    estimate, truth = transition.estimate, transition.truth
    errors = estimate.standard_errors.astype(object)
    errors[np.isnan(estimate.standard_errors)] = None  # JSON has no NaN
    write_sealed(
        folder / TRANSITION,
        {
            "format": FORMAT,
            "source": estimate.source,
            "classes": list(classes),
            "transition": estimate.transition.tolist(),
            "samples": estimate.samples.tolist(),
            "standard_errors": errors.tolist(),
            "true": None if truth is None else truth.tolist(),
            "total_variation": transition.total_variation,
        },
    )


def read_transition(folder: Path, classes: Sequence[str]) -> RunTransition:
    """Reads the transition matrix of a run with these classes; ValueError where the file is damaged."""
    path = folder / TRANSITION
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: the run's folder is incomplete; restore it, or train anew")
    lists = dict.fromkeys(("classes", "transition", "samples", "standard_errors"), list)
    held = read_json(path, {"format": int, "source": str, **lists, "true": (list, NoneType)})
    if held["format"] != FORMAT:
        raise ValueError(f"{path} has format {held['format']!r}, known is {FORMAT}: use the package that made it")
    with damage_told(path):
        if held["classes"] != list(classes):
            raise ValueError("its classes are not those of the run")
        estimate = TransitionEstimate(
            _numbers(held["transition"], "transition"),
            _numbers(held["samples"], "samples", (int,)).astype(np.int64),
            _numbers(held["standard_errors"], "standard_errors", (int, float, NoneType)),
            held["source"],
        )
        truth = None if held["true"] is None else _numbers(held["true"], "true")
        return RunTransition(
            check_estimate(estimate, classes=len(classes)),
            None if truth is None else check_transition(truth, classes=len(classes)),
        )


def _numbers(rows: Any, what: str, kinds: tuple[type, ...] = (int, float)) -> Floats:
    """The numbers of a list, or of a list of rows, as an array; null, where it is allowed, is NaN."""
    whole = np.array(rows, dtype=object)
    strange = [entry for entry in whole.flat if type(entry) not in kinds]
    if strange:
        raise TypeError(f"{what!r} holds {strange[0]!r}")
    return whole.astype(np.float64)
