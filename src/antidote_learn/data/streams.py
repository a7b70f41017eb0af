"""The plan of an epoch: streams of samples, with their views and targets; it is made without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

VIEWS = ("plain", "weak")


@dataclass(frozen=True, eq=False)
class Stream:
    """Samples that an epoch visits in an order of their own.

    Attributes:
        name: The name of the stream in a batch, as in ``batch["unlabelled"]``.
        index: (n,) positions of the samples in the training set; None for all samples of the stage.
        targets: (n,) classes or (n, K) probabilities, in the order of ``index``; None for the given labels.
        views: The views of a sample, each "weak" (the data set's own augmentation, drawn anew) or "plain" (none).
        batch_size: The number of samples in a global batch; None for the run's.
    """

    name: str = "labelled"
    index: NDArray[np.int64] | None = None
    targets: Tensor | None = None
    views: tuple[str, ...] = ("weak",)
    batch_size: int | None = None

    def __post_init__(self) -> None:
        """Refuse views and targets that do not fit."""
        if not self.views or not set(self.views) <= set(VIEWS):
            raise ValueError(f"views of a stream are some of {', '.join(VIEWS)}; received {self.views!r}")
        if self.targets is not None and (self.index is None or len(self.targets) != len(self.index)):
            raise ValueError(f"stream {self.name!r}: targets need an index of as many samples")


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """The streams of an epoch, and the number of its steps.

    The epoch is one round through its first stream that has samples. Others go round and round in full batches, each
    round in another order, and end with the epoch; an empty one gives batches without samples.

    Attributes:
        streams: The streams, with different names; by default all samples once.
        steps: The number of steps, where it is not one round; all streams then go round and round.
    """

    streams: tuple[Stream, ...] = (Stream(),)
    steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse streams that cannot be told apart."""
        names = [stream.name for stream in self.streams]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"an epoch needs streams with different names; received {names}")
