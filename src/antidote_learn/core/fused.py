"""Cross-entropy and its relaxation in one node of the graph: nearly every training step on a CPU is this case.

A step of a small batch is mostly the overhead of the losses' graph, one of a large batch mostly passes over the logits.
One softmax therefore serves for the losses and for their gradient: in NumPy where it is small, by torch's threads where
it is large.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Relaxed
from antidote_learn.core.divergences import KL
from antidote_learn.core.envelope import attach_gradient
from antidote_learn.core.kl import NEAR, try_kl
from antidote_learn.core.moments import Problem
from antidote_learn.core.sample_numpy import HostSample, extremes, ones
from antidote_learn.core.solution import NEGLIGIBLE

SMALL = 1 << 15  # logits up to which threads are not worth their start
FARTHEST = 70.0  # distance of two logits up to which float32 holds a probability and its inverse to full digits
LEAST = math.exp(-FARTHEST)  # the probability of a label that is so far from another


@lru_cache(maxsize=64)
def row_starts(count: int, classes: int) -> Any:
    """The place where each row of a (count, classes) array starts, once it is flat."""
    starts = np.arange(count) * classes
    starts.flags.writeable = False
    return starts


class Parts(NamedTuple):
    """The losses of a batch and a table of their gradients: that of loss i in its logits is table_i / total_i."""

    losses: Any  # (N,) NumPy, as the others
    table: Any  # (N, C)
    total: Any  # (N,), or None where it is 1


def cross_entropy_parts(input: Tensor, at: Any) -> Parts | None:
    """Cross-entropy of (N, C) logits on the host; None without positions, or for logits not finite or far apart."""
    if at is None:
        return None
    return (_by_odds if input.numel() <= SMALL else _by_softmax)(input.detach(), at)


def label_positions(input: Tensor, target: Tensor) -> Any:
    """The place of each row's label, once the (N, C) logits are flat; None where a label is no class."""
    count, classes = input.shape
    labels = target.numpy()
    unsigned = labels.view(np.uint64)  # a negative label is a large one now
    if count == 0 or unsigned.item(unsigned.argmax()) >= classes:
        return None
    return labels + row_starts(count, classes)


def _by_odds(logits: Tensor, at: Any) -> Parts | None:
    """The parts in NumPy; None where float32 might not hold p_k / p_y.

    The table holds p_k / p_y, and for the label minus the sum of the others: a small loss keeps all its digits.
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
    """The parts by torch's softmax; the table is p - onehot."""
    p = torch.softmax(logits.contiguous(), 1).numpy()
    flat = p.ravel()
    label = flat[at]
    if not label.item(label.argmin()) > LEAST:
        return None
    flat[at] = label - 1.0
    return Parts(-np.log(label), p, None)


def batch_gradient(parts: Parts, weights: Any, factor: float) -> Tensor:
    """(N, C), the gradient of the sum of factor weights_i loss_i (eq:KL_gradient), in the memory of the table."""
    _, table, total = parts
    share = weights * factor
    if total is None:
        return torch.from_numpy(table).mul_(torch.from_numpy(share).unsqueeze(1))
    share /= total
    np.multiply(table, share[:, None], table)
    return torch.from_numpy(table)


def relax_cross_entropy(input: Tensor, target: Tensor, kappa: float, delta: float) -> Relaxed | None:
    """The relaxed objective (KL); None without kappa or delta, for equal losses, or where `cross_entropy_parts` is."""
    parts = cross_entropy_parts(input, label_positions(input, target))
    if parts is None:
        return None
    losses = parts.losses
    low, high = extremes(losses)
    if not (NEGLIGIBLE < high - low < kappa * 1e300 and delta > 0.0):
        return None
    sample, weights = HostSample(losses, None, low), np.empty_like(losses)
    problem = Problem(sample, KL, kappa, high - low, 0.0, 0.0)
    solved = try_kl(problem, sample, delta, 0.0, weights, None, NEAR)
    if solved is None:
        return None
    value, status, raw = solved
    gradient = batch_gradient(parts, weights, 1.0 / losses.size)
    return Relaxed(attach_gradient(input, gradient, value), torch.from_numpy(weights), status, KL, raw)


def is_plain(input: Tensor, target: Tensor, sample_weight: Tensor | None) -> bool:
    """Whether it is plain at first sight that these are N rows of logits on the host and N class indices, all alike."""
    if torch.compiler.is_compiling() or not holds_numbers(input) or not holds_numbers(target):
        return False
    shape, count = input.shape, target.shape
    return (
        target.dtype is torch.int64
        and input.dtype in (torch.float32, torch.float64)
        and len(shape) == 2
        and len(count) == 1
        and shape[0] == count[0]
        and input.is_cpu
        and target.is_cpu
        and not torch.is_autocast_enabled("cpu")
        and (sample_weight is None or _is_uniform(sample_weight, count))
    )


def holds_numbers(x: Tensor) -> bool:
    """Whether a tensor holds numbers itself: subclasses may not, and what `torch.func` hands to a function does not."""
    return type(x) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(x)


def _is_uniform(sample_weight: Tensor, shape: torch.Size) -> bool:
    """Whether the weights are all the same number, so that they count as none."""
    if type(sample_weight) is not Tensor or sample_weight.shape != shape or not sample_weight.is_cpu:
        return False
    one = sample_weight[:1]
    return bool((sample_weight == one).all() and (one > 0).all() and (one < math.inf).all())
