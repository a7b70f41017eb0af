"""What a network says of samples, read a batch at a time and split over processes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antidote_learn.data.encoding import Rows
from antidote_learn.data.loaders import Preparation, part_of, read_ahead
from antidote_learn.training.engine import Engine

BATCH = 512


def outputs(
    predict: Callable[[Tensor], Tensor],
    rows: Rows,
    preparation: Preparation,
    engine: Engine,
    *,
    index: NDArray[np.int64] | None = None,
    workers: int = 0,
) -> Tensor:
    """(N, ...) what ``predict`` gives for all rows, or those at ``index``, in order, on the host."""
    wanted = np.arange(len(rows)) if index is None else index
    parts = [part_of(wanted, rank, engine.processes) for rank in range(engine.processes)]
    mine = wanted[parts[engine.rank]]
    starts = range(0, max(len(mine), 1), BATCH)
    pieces = [mine[start : start + BATCH] for start in starts]
    with torch.no_grad():
        found = [
            predict(preparation(raw.to(engine.device))).float() for raw in read_ahead(rows, pieces, workers=workers)
        ]
    return engine.collect(torch.cat(found), [part.stop - part.start for part in parts])


def hits(logits: Tensor, labels: Tensor, *, top: int) -> float:
    """The percentage of rows whose label is among the ``top`` largest logits; ties and NaN count against it.

    Args:
        logits: (N, K).
        labels: (N,).
        top: 1 for accuracy.
    """
    if not len(labels):
        return 0.0
    own = logits.gather(1, labels[:, None])
    ahead = (~(logits < own)).sum(dim=1)  # itself included
    return 100.0 * float((ahead <= top).double().mean())
