"""Cross-entropy and its relaxation in one node of the graph: nearly every training step on a CPU is this case.

Beside the solve, a step of a small batch is mostly the overhead of the losses' graph and of going to and fro between
torch and NumPy, and one of a large batch is mostly passes over the logits. Here one softmax serves for the losses and
for their gradient: in NumPy where it is small, by torch's threads where it is large.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Relaxed
from antidote_learn.core.arrays import extremes, ones
from antidote_learn.core.divergences import KL
from antidote_learn.core.envelope import held
from antidote_learn.core.host import weigh_kl_batch

SMALL = 1 << 15  # logits that are not worth a thread
FARTHEST = 70.0  # between two logits, so that float32 holds a label's probability and its inverse to full digits
LEAST = math.exp(-FARTHEST)


@lru_cache(maxsize=64)
def row_starts(count: int, classes: int) -> Any:
    """Where each row of a (count, classes) array starts, once it is flat."""
    starts = np.arange(count) * classes
    starts.flags.writeable = False
    return starts


class Parts(NamedTuple):
    """The losses of a batch, and what their gradients need: that of loss i in its logits is table_i / total_i."""

    losses: Any  # (N,) NumPy, as all of these
    table: Any  # (N, C)
    total: Any  # (N,), or None for 1


def cross_entropy_parts(input: Tensor, at: Any) -> Parts | None:
    """Cross-entropy of (N, C) logits on the host, with their `label_positions`; None for anything unusual.

    That is: no positions, logits that are not finite or far apart.
    """
    if at is None:
        return None
    return (_by_odds if input.numel() <= SMALL else _by_softmax)(input.detach(), at)


def label_positions(input: Tensor, target: Tensor) -> Any:
    """Where each row's label is, once the (N, C) logits are flat; None without rows or with labels that are none."""
    count, classes = input.shape
    labels = target.numpy()
    unsigned = labels.view(np.uint64)  # in which a negative label is a large one
    if count == 0 or unsigned.item(unsigned.argmax()) >= classes:
        return None
    return labels + row_starts(count, classes)


def _by_odds(logits: Tensor, at: Any) -> Parts | None:
    """In NumPy. None where float32 might not hold p_k / p_y.

    This is the table, and for the label minus the sum of the others, from which a small loss has all its digits.
    """
    table = logits.numpy()
    low, high = extremes(table)
    if not high - low < FARTHEST:
        return None
    odds = np.subtract(table, table.ravel()[at][:, None], order="C")
    np.exp(odds, odds)
    flat = odds.ravel()
    flat[at] = 0.0
    others = odds.dot(ones(odds.shape[1], odds.dtype))
    flat[at] = -others
    return Parts(np.log1p(others), odds, others + ones(1, odds.dtype))


def _by_softmax(logits: Tensor, at: Any) -> Parts | None:
    """By torch; the table is p - onehot."""
    p = torch.softmax(logits.contiguous(), 1).numpy()
    flat = p.ravel()
    label = flat[at]
    if not label.item(label.argmin()) > LEAST:
        return None
    flat[at] = label - 1.0
    return Parts(-np.log(label), p, None)


def weighted_gradient(parts: Parts, weights: Any, factor: float) -> Tensor:
    """(N, C), factor weights_i times the gradient of loss i in its logits (eq:KL_gradient); it uses up the table."""
    _, table, total = parts
    share = weights * factor
    if total is None:
        return torch.from_numpy(table).mul_(torch.from_numpy(share).unsqueeze(1))
    share /= total
    np.multiply(table, share[:, None], table)
    return torch.from_numpy(table)


def relaxed_cross_entropy(input: Tensor, target: Tensor, kappa: float, delta: float) -> Relaxed | None:
    """The relaxed objective (KL); None where `cross_entropy_parts` or `weigh_kl_batch` find something unusual."""
    parts = cross_entropy_parts(input, label_positions(input, target))
    found = None if parts is None else weigh_kl_batch(parts.losses, kappa, delta)
    if parts is None or found is None:
        return None
    weights, optimum, status, raw = found
    gradient = weighted_gradient(parts, weights, 1.0 / len(weights))
    return Relaxed(held(input, gradient, optimum), torch.from_numpy(weights), status, KL, raw)
