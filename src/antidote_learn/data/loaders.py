"""Batches of rows on their way into a network: read ahead, then augmented and normalised."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn.data.augment import Part, normalise
from antidote_learn.data.batching import Index
from antidote_learn.data.crops import crop_centre
from antidote_learn.data.encoding import Encoding, FileRows, ImageEncoding, SampleRows
from antidote_learn.data.recipes import Augmentation

NO_AUGMENTATION = Augmentation()
PREFETCH = 4  # batches of image files that are decoded ahead, enough to keep the threads busy


@dataclass(frozen=True)
class Preparation:
    """The preparation of a batch of rows: images are augmented (in training) and normalised, features stay.

    Attributes:
        mean: The mean of each channel; empty for features.
        std: The deviation of each channel; empty for features.
        augmentation: The augmentation of training images.
        size: The size (H, W) that the network reads, cut from the centre of larger images; empty for any size.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augmentation: Augmentation = NO_AUGMENTATION
    size: tuple[int, ...] = ()

    def __call__(self, rows: Tensor, generator: torch.Generator | None = None, part: Part | None = None) -> Tensor:
        """Prepare a batch as (B, C, H, W) or (B, D) float32.

        Args:
            rows: The rows as `SampleRows.take` gives them.
            generator: Draws the augmentation; None outside of training, where there is none.
            part: The rows' place in the whole batch, so that its split over processes does not matter.
        """
        if rows.dtype != torch.uint8:
            return rows
        if generator is not None:
            rows = self.augmentation.apply(rows, generator, part)
        if self.size:
            rows = crop_centre(rows, self.size)
        return normalise(rows, self.mean, self.std)


def preparation_of(encoding: Encoding, augmentation: Augmentation) -> Preparation:
    """The preparation for the rows of an encoding."""
    if not isinstance(encoding, ImageEncoding):
        return Preparation()
    mean, std = tuple(encoding.mean.tolist()), tuple(encoding.std.tolist())
    return Preparation(mean, std, augmentation, encoding.shape[1:])


def read_ahead(rows: SampleRows, parts: Sequence[Index], *, workers: int) -> Iterator[Tensor]:
    """Yield the rows of each part in turn; threads decode image files ahead, as Pillow releases the lock."""
    if not isinstance(rows, FileRows) or workers < 1:
        yield from (rows.take(part) for part in parts)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[list[Future[Tensor]]] = deque()
        todo = iter(parts)

        def start(part: Index) -> None:
            pieces: Any = np.array_split(part, workers) if len(part) else [part]
            waiting.append([pool.submit(rows.take, piece) for piece in pieces if len(piece) or not len(part)])

        for part in islice(todo, PREFETCH):
            start(part)
        while waiting:
            pieces = waiting.popleft()
            for part in islice(todo, 1):
                start(part)
            yield torch.cat([piece.result() for piece in pieces])
