"""What is random about a batch of images: drawn for the whole global batch, of which a process takes its part."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Part(NamedTuple):
    """Which of a larger batch the images are: what is random is drawn for all of it, however it was split."""

    start: int
    total: int


def draw_integers(
    end: int, images: Tensor, generator: torch.Generator, part: Part | None, *, rows: int = 2
) -> tuple[Tensor, ...]:
    """``rows`` tensors (B,) of integers, uniform in 0 ... end - 1."""
    start, total = part or Part(0, len(images))
    drawn = torch.randint(end, (rows, total), generator=generator, device=generator.device)
    return drawn[:, start : start + len(images)].to(images.device).unbind()


def draw_uniform(images: Tensor, generator: torch.Generator, part: Part | None, *, rows: int) -> Tensor:
    """(rows, B) numbers, uniform in [0, 1)."""
    start, total = part or Part(0, len(images))
    drawn = torch.rand((rows, total), generator=generator, device=generator.device)
    return drawn[:, start : start + len(images)].to(images.device)
