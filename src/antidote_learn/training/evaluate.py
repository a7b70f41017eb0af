"""The outputs of a network for samples, which are read batch by batch and split over processes."""

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

BATCH = 512  # the number of rows that are predicted at once


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
    """The outputs (N, ...) of ``predict`` for all rows, or for those at ``index``, in order, on the host.

    With a ``seed`` images are augmented as in training, in the same way for any number of processes.
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
    """The logits (N, K) of a network in evaluation mode, for all training samples or for those at ``index``."""
    return outputs(net.eval(), data.rows, data.preparation, engine, index=index, workers=workers)


def score_samples(
    net: nn.Module, data: Prepared, engine: Engine, *, workers: int = 0, seed: int | None = None
) -> Scores:
    """The losses, probabilities and features of the whole training set, from a network in evaluation mode.

    Args:
        net: The network, or an `Ensemble`; a network that is not built in gives its logits as features.
        data: The data with the training set.
        engine: The engine that computes.
        workers: The number of threads that decode image files.
        seed: The seed of the augmentation; None for no augmentation.
    """
    labels = torch.from_numpy(data.labels)
    features, head = features_and_head(net.eval())
    found = outputs(features, data.rows, data.preparation, engine, workers=workers, seed=seed)
    with torch.no_grad():
        logits = head.cpu()(found)
        head.to(engine.device)
    return Scores(F.cross_entropy(logits, labels, reduction="none"), logits.softmax(dim=1), found)


def hits(logits: Tensor, labels: Tensor, *, top: int) -> float:
    """The percentage of rows whose label is among the ``top`` largest logits; ties and NaN rank before the label.

    Args:
        logits: (N, K) logits.
        labels: (N,) labels.
        top: The number of largest logits that count; 1 for accuracy.
    """
    if not len(labels):
        return 0.0
    own = logits.gather(1, labels[:, None])
    ahead = (~(logits < own)).sum(dim=1)  # the label itself is counted
    return 100.0 * float((ahead <= top).double().mean())
