"""Per-sample losses that are bounded, and so cannot be dominated by a few wrong labels (arguments: `likelihood`)."""

from __future__ import annotations

import math

from torch import Tensor

from antidote_learn.core.losses.classes import classes_of, complement, log_probabilities


def mae(input: Tensor, target: Tensor) -> Tensor:
    """Mean absolute error |onehot_y - p|_1 = 2 (1 - p_y).

    In [0, 2]; the losses of all classes sum to 2 (K - 1).

    Args:
        input: Logits.
        target: Class indices or probabilities.

    Example:
        >>> import torch
        >>> mae(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.5798])
    """
    classes = classes_of(input, target)
    return classes.loss(2.0 * complement(classes.of(log_probabilities(input))))


def mse(input: Tensor, target: Tensor) -> Tensor:
    """Mean squared error |onehot_y - p|^2 / K, also known as the Brier score.

    In [0, 2 / K].

    Args:
        input: Logits.
        target: Class indices or probabilities; of these it is the mean over drawn labels, as for every loss.

    Example:
        >>> import torch
        >>> mse(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.0299])
    """
    classes, log_p = classes_of(input, target), log_probabilities(input)
    own = classes.of(log_p)
    squares = (2.0 * log_p).exp().sum(1, keepdim=True)
    return classes.loss((squares + complement(own) - own.exp()) / log_p.shape[1])


def gce(input: Tensor, target: Tensor, *, q: float = 0.7) -> Tensor:
    """Generalised cross-entropy (1 - p_y^q) / q.

    In [0, 1/q]. Limits: q -> 0 is cross-entropy, q = 1 is half of the mean absolute error.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        q: In (0, 1].

    Example:
        >>> import torch
        >>> gce(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.3044])
    """
    classes = classes_of(input, target)
    return classes.loss(complement(q * classes.of(log_probabilities(input))) / q)


def rce(input: Tensor, target: Tensor, *, floor: float = 1e-4) -> Tensor:
    """Reverse cross-entropy -sum_k p_k log onehot_k = -log(floor) (1 - p_y), log 0 being log(floor).

    In [0, -log(floor)]; the losses of all classes sum to -log(floor) (K - 1).

    Args:
        input: Logits.
        target: Class indices or probabilities.
        floor: What stands for 0 under the logarithm, in (0, 1): 1e-4 gives the factor 9.21 (papers write A = -4).

    Example:
        >>> import torch
        >>> rce(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([2.6701])
    """
    classes = classes_of(input, target)
    return classes.loss(-math.log(floor) * complement(classes.of(log_probabilities(input))))


def sce(input: Tensor, target: Tensor, *, alpha: float = 0.1, beta: float = 1.0, floor: float = 1e-4) -> Tensor:
    """Symmetric cross-entropy: alpha times cross-entropy plus beta times reverse cross-entropy.

    Limits: beta = 0 is alpha times cross-entropy; alpha = 0 is beta times reverse cross-entropy.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        alpha: Weight of cross-entropy.
        beta: Weight of reverse cross-entropy.
        floor: See `rce`.

    Example:
        >>> import torch
        >>> sce(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([2.7043])
    """
    classes = classes_of(input, target)
    log_p = classes.of(log_probabilities(input))
    return classes.loss(-beta * math.log(floor) * complement(log_p) - alpha * log_p)
