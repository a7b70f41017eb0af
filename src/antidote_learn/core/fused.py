"""Cross-entropy and its relaxation in one node of the graph: nearly every training step on a CPU is this case.

Beside the solve, a step of a small batch is mostly the overhead of the losses' graph and of going to and fro between
torch and NumPy, and one of a large batch is mostly passes over the logits. Here one softmax serves for the losses and
for their gradient: in NumPy where it is small, by torch's threads where it is large.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

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
def _starts(count: int, classes: int) -> Any:
    """Where each row of a (count, classes) array starts, once it is flat."""
    starts = np.arange(count) * classes
    starts.flags.writeable = False
    return starts


def _by_odds(logits: Tensor, at: Any) -> tuple[Any, Any, Any] | None:
    """(d, losses, s) in NumPy, where s d = p - onehot is the gradient of a loss; None where float32 might not hold d.

    d is p_k / p_y, and for the label minus the sum of the others, from which a small loss has all its digits.
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
    return odds, np.log1p(others), 1.0 / (1.0 + others)


def _by_softmax(logits: Tensor, at: Any) -> tuple[Any, Any, float] | None:
    """The same with d = p - onehot, by torch."""
    p = torch.softmax(logits.contiguous(), 1).numpy()
    flat = p.ravel()
    label = flat[at]
    if not label.item(label.argmin()) > LEAST:
        return None
    flat[at] = label - 1.0
    return p, -np.log(label), 1.0


def relaxed_cross_entropy(input: Tensor, target: Tensor, kappa: float, delta: float) -> Relaxed | None:
    """The relaxed objective (KL) of (N, C) logits and N class indices, both on the host; None for anything unusual.

    That is: no rows, indices outside 0 ... C - 1, logits that are not finite or far apart, losses that are all equal,
    kappa or delta 0, more rows than a chunk has.
    """
    count, classes = input.shape
    labels = target.numpy()
    if count == 0 or not (labels.item(labels.argmin()) >= 0 and labels.item(labels.argmax()) < classes):
        return None
    at, small = labels + _starts(count, classes), count * classes <= SMALL
    parts = (_by_odds if small else _by_softmax)(input.detach(), at)
    found = None if parts is None else weigh_kl_batch(parts[1], kappa, delta)
    if parts is None or found is None:
        return None
    weights, optimum, status, raw = found
    table, _, scale = parts
    share = weights * (scale * (1.0 / count))  # eq:KL_gradient
    if small:
        table *= share[:, None]
    gradient = torch.from_numpy(table)
    if not small:
        gradient.mul_(torch.from_numpy(share).unsqueeze(1))
    return Relaxed(held(input, gradient, optimum), torch.from_numpy(weights), status, KL, raw)
