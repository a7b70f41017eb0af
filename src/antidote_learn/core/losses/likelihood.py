"""Per-sample losses of the likelihood family: cross-entropy, smoothed, focal, normalised.

Here and in the other families ``input`` is (N, C) or (N, C, d1, ...) raw logits, ``target`` (N) or (N, d1, ...) class
indices or probabilities of the input's shape, and the result (N) or (N, d1, ...), in at least float32.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from antidote_learn.core.losses.classes import classes_of, complement, log_probabilities

TINY = 1e-30  # a surprise -log p below it has no power with a finite derivative


def cross_entropy(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log p_y for class indices, -sum_k target_k log p_k for probabilities; one loss for each element.

    Args:
        input: (N, C) or (N, C, d1, ...) raw logits.
        target: (N) or (N, d1, ...) class indices, or probabilities of the input's shape.
        weight: (C,) class weights, as in torch.
        ignore_index: The index whose elements have loss 0.
        label_smoothing: As in torch.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
        tensor([1.3863])
    """
    return F.cross_entropy(
        input, target, weight=weight, ignore_index=ignore_index, reduction="none", label_smoothing=label_smoothing
    )


def ls(input: Tensor, target: Tensor, *, rate: float = 0.1) -> Tensor:
    """Label smoothing with a rate of either sign: -(1 - r) log p_y - (r / K) sum_k log p_k.

    Limits: r = 0 is cross-entropy; r = 1 ignores the labels. With r < 0 (negative label smoothing) it has no lower
    bound: take a small learning rate.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        rate: r.

    Example:
        >>> import torch
        >>> ls(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]), rate=-1.0)
        tensor([-1.2827])
    """
    classes, log_p = classes_of(input, target), log_probabilities(input)
    smooth = log_p.mean(1, keepdim=True) * rate
    return -classes.loss((1.0 - rate) * classes.of(log_p) + smooth)


def focal(input: Tensor, target: Tensor, *, gamma: float = 0.5, detach: bool = False) -> Tensor:
    """Focal loss (1 - p_y)^g (-log p_y).

    Limits: g = 0 is cross-entropy; never above it.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        gamma: g >= 0.
        detach: Whether the gradient holds (1 - p_y)^g fixed, as published code does.

    Example:
        >>> import torch
        >>> focal(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.1843])
    """
    classes = classes_of(input, target)
    return classes.loss(focal_terms(classes.of(log_probabilities(input)), gamma, detach))


def focal_terms(log_p: Tensor, gamma: float, detach: bool) -> Tensor:
    """(1 - p)^g (-log p), entry by entry."""
    surprise = (-log_p).clamp(min=TINY)
    factor = complement(-(surprise.detach() if detach else surprise)) ** gamma
    return factor * surprise


def nce(input: Tensor, target: Tensor) -> Tensor:
    """Normalised cross-entropy log p_y / sum_k log p_k.

    In (0, 1), and the losses of all classes sum to 1.

    Args:
        input: Logits.
        target: Class indices or probabilities.

    Example:
        >>> import torch
        >>> nce(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.0435])
    """
    classes, log_p = classes_of(input, target), log_probabilities(input)
    return classes.loss(classes.of(log_p) / log_p.sum(1, keepdim=True))


def nfl(input: Tensor, target: Tensor, *, gamma: float = 0.5, detach: bool = False) -> Tensor:
    """Normalised focal loss FL_y / sum_k FL_k, FL_k = (1 - p_k)^g (-log p_k).

    In [0, 1], and the losses of all classes sum to 1. Limits: g = 0 is normalised cross-entropy.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        gamma: g >= 0.
        detach: Whether the gradient holds every (1 - p_k)^g fixed, as published code does.

    Example:
        >>> import torch
        >>> nfl(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.0250])
    """
    classes, terms = classes_of(input, target), focal_terms(log_probabilities(input), gamma, detach)
    return classes.loss(classes.of(terms) / terms.sum(1, keepdim=True))


def nnce(input: Tensor, target: Tensor, *, floor: float = 1e-8) -> Tensor:
    """Normalised negative cross-entropy 1 - (A + log p_y) / sum_k (A + log p_k), A = -log(floor), p_k >= floor.

    In [0, 1], and the losses of all classes sum to K - 1.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        floor: Least probability, in (0, 1/K): below it nothing is learned.

    Example:
        >>> import torch
        >>> nnce(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.7253])
    """
    return nnfl(input, target, gamma=0.0, floor=floor)


def nnfl(input: Tensor, target: Tensor, *, gamma: float = 0.5, floor: float = 1e-8, detach: bool = False) -> Tensor:
    """Normalised negative focal loss 1 - (A - FL_y) / sum_k (A - FL_k), A the FL of p = floor, p_k >= floor.

    In [0, 1], and the losses of all classes sum to K - 1. Limits: g = 0 is `nnce`.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        gamma: g >= 0.
        floor: Least probability, in (0, 1/K): below it nothing is learned.
        detach: Whether the gradient holds every (1 - p_k)^g fixed, as published code does.

    Example:
        >>> import torch
        >>> nnfl(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.7249])
    """
    log_p = log_probabilities(input).clamp(min=math.log(floor))
    left = highest_focal(gamma, floor) - focal_terms(log_p, gamma, detach)
    classes = classes_of(input, target)
    return classes.loss(1.0 - classes.of(left) / left.sum(1, keepdim=True))


def highest_focal(gamma: float, floor: float) -> float:
    """The focal loss of the least probability."""
    return -math.pow(1.0 - floor, gamma) * math.log(floor)
