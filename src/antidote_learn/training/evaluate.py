"""What a network says of samples, read a batch at a time and split over processes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from antidote_learn.data.augment import Part
from antidote_learn.data.batching import rank_slice
from antidote_learn.data.encoding import SampleRows
from antidote_learn.data.loaders import Preparation, read_ahead
from antidote_learn.data.prepared import Prepared
from antidote_learn.methods.base import Scores
from antidote_learn.models import features_and_head
from antidote_learn.training.engine import Engine

BATCH = 512  # rows that are predicted at once


def outputs(
    predict: Callable[[Tensor], Tensor],
    rows: SampleRows,
    preparation: Preparation,
    engine: Engine,
    *,
    index: NDArray[np.int64] | None = None,
    workers: int = 0,
    seed: int | None = None,
) -> Tensor:
    """(N, ...) what ``predict`` gives for all rows, or those at ``index``, in order, on the host.

    With a ``seed`` images are augmented as in training, in the same way however many processes there are.
    """
    wanted = np.arange(len(rows)) if index is None else index
    parts = [rank_slice(wanted, rank, engine.processes) for rank in range(engine.processes)]
    mine = wanted[parts[engine.rank]]
    starts = range(0, max(len(mine), 1), BATCH)
    pieces = [mine[start : start + BATCH] for start in starts]
    begin = parts[engine.rank].start
    with torch.no_grad():
        found = []
        for start, raw in zip(starts, read_ahead(rows, pieces, workers=workers), strict=True):
            draws = None if seed is None else torch.Generator().manual_seed(seed)
            part = None if seed is None else Part(begin + start, len(wanted))
            found.append(predict(preparation(raw.to(engine.device), draws, part)).float())
    return engine.collect(torch.cat(found), [part.stop - part.start for part in parts])


def predict_logits(
    net: nn.Module,
    data: Prepared,
    engine: Engine,
    *,
    index: NDArray[np.int64] | None = None,
    workers: int = 0,
) -> Tensor:
    """(N, K) a network's logits of the training samples, or of those at ``index``, in evaluation mode."""
    return outputs(net.eval(), data.rows, data.preparation, engine, index=index, workers=workers)


def score_samples(
    net: nn.Module, data: Prepared, engine: Engine, *, workers: int = 0, seed: int | None = None
) -> Scores:
    """Losses, probabilities and features of the whole training set, in evaluation mode.

    Args:
        net: A network, or several as an `Ensemble`; features of one that is not built in are its logits.
        data: With the training set.
        engine: Where to compute.
        workers: Threads that decode image files.
        seed: Of the augmentation; None for none.
    """
    labels = torch.from_numpy(data.labels)
    features, head = features_and_head(net.eval())
    found = outputs(features, data.rows, data.preparation, engine, workers=workers, seed=seed)
    with torch.no_grad():
        logits = head.cpu()(found)
        head.to(engine.device)
    return Scores(F.cross_entropy(logits, labels, reduction="none"), logits.softmax(dim=1), found)


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
