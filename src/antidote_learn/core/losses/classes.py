"""The arguments of every loss: logits of any number of axes, class indices or probabilities as targets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Classes:
    """The classes of each element that a loss is asked for: the given one, or all of them with their probabilities.

    A loss is written once for both: `of` leaves one entry on the axis of the classes, or all, and `loss` closes it.
    Soft targets mean the same for every loss: the sum over k of target_k times the loss of class k.
    """

    target: Tensor  # (N, 1, d1, ...) indices, or (N, C, d1, ...) probabilities

    @property
    def is_index(self) -> bool:
        """Whether the targets are class indices."""
        return not self.target.is_floating_point()

    def of(self, table: Tensor) -> Tensor:
        """The entries (N, 1 or C, d1, ...) of a table (N, C, d1, ...)."""
        return table.gather(1, self.target) if self.is_index else table

    def are(self, which: Tensor) -> Tensor:
        """Whether the classes are those that are named, ``which`` (N, 1, d1, ...)."""
        if self.is_index:
            return self.target == which
        shape = (1, -1, *(1 for _ in self.target.shape[2:]))
        return torch.arange(self.target.shape[1], device=which.device).view(shape) == which

    def loss(self, losses: Tensor) -> Tensor:
        """(N, d1, ...) from the losses of the classes that `of` gave."""
        return losses.squeeze(1) if self.is_index else (losses * self.target).sum(1)


def classes_of(input: Tensor, target: Tensor) -> Classes:
    """The classes that the targets name, in the input's precision; shapes are torch's business."""
    if target.is_floating_point():
        return Classes(target.to(input.dtype))
    return Classes(target.long().unsqueeze(1))


def log_probabilities(input: Tensor) -> Tensor:
    """(N, C, d1, ...) in at least float32: probabilities below 6e-8 have no float16."""
    return torch.log_softmax(input, 1, dtype=torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else None)


def complement(log_p: Tensor) -> Tensor:
    """1 - p with all its digits."""
    return -torch.expm1(log_p)
