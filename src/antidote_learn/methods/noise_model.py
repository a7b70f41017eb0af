"""The transition matrix that a method corrects for: given, or estimated from the network's own predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from antidote_learn.core.transition_matrices import (
    ESTIMATORS,
    TransitionEstimate,
    check_transition,
    estimate_transition,
)
from antidote_learn.methods.base import Context

if TYPE_CHECKING:
    from torch import Tensor, nn

Source = str | Any
"""A transition matrix (K, K), an estimate of one, or the name of an estimator; the trainer replaces other words."""


class NoiseModel:
    """A transition matrix in training, which is saved with the networks.

    Args:
        source: The matrix, or the name of its estimator.
    """

    matrix: Tensor

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def is_estimated(self) -> bool:
        """Whether the matrix is estimated during training."""
        return isinstance(self.source, str) and self.source in ESTIMATORS

    @property
    def known_matrix(self) -> Any:
        """The matrix, where it is known before training; else None."""
        if isinstance(self.source, str):
            return None
        return self.source.transition if isinstance(self.source, TransitionEstimate) else self.source

    def build(self, ctx: Context) -> None:
        """Asks for buffers of the matrix, its standard errors, and the numbers of samples that carry its rows."""
        import torch

        count = ctx.classes
        start = self.source
        if not isinstance(start, TransitionEstimate):
            matrix = np.eye(count) if self.is_estimated else check_transition(start, classes=count)
            start = TransitionEstimate(matrix, np.zeros(count, dtype=np.int64), np.full((count, count), np.nan))
        self.matrix = ctx.buffer("transition", torch.from_numpy(start.transition).float())
        self._errors = ctx.buffer("transition_errors", torch.from_numpy(start.standard_errors).float())
        self._carriers = ctx.buffer("transition_samples", torch.from_numpy(start.samples))

    def estimate(self, net: nn.Module, ctx: Context) -> None:
        """Estimates the matrix from the predictions of a network for the training set."""
        import torch

        found = estimate_transition(ctx.score(net).probs.cpu().numpy(), ctx.labels.numpy(), method=self.source)
        self.matrix.copy_(torch.from_numpy(found.transition))
        self._errors.copy_(torch.from_numpy(found.standard_errors))
        self._carriers.copy_(torch.from_numpy(found.samples))

    def record(self, matrix: Tensor | None = None) -> TransitionEstimate:
        """The matrix as a record; ``matrix`` where training has changed it."""
        import torch

        changed = matrix is not None
        found = (matrix if changed else self.matrix).detach().cpu().double().numpy()  # type: ignore[union-attr]
        errors = torch.full_like(self._errors, float("nan")) if changed else self._errors
        source = self.source if self.is_estimated else getattr(self.source, "source", "given")
        return TransitionEstimate(
            found / found.sum(axis=1, keepdims=True),
            self._carriers.cpu().numpy(),
            errors.cpu().double().numpy(),
            source=f"{source}, then learned" if changed else source,
        )
