"""Asymmetric per-sample losses: tolerant as long as the right labels are in the majority (arguments: `likelihood`)."""

from __future__ import annotations

from torch import Tensor

from antidote_learn.core.losses.classes import classes_of, log_probabilities


def aul(input: Tensor, target: Tensor, *, a: float = 6.3, q: float = 1.5) -> Tensor:
    """Asymmetric unhinged loss ((a - p_y)^q - (a - 1)^q) / q.

    In [0, (a^q - (a - 1)^q) / q]. Limits: q = 1 is half of the mean absolute error.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        a: Above 1.
        q: Above 0.

    Example:
        >>> import torch
        >>> aul(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.6764])
    """
    classes = classes_of(input, target)
    p = classes.of(log_probabilities(input)).exp()
    return classes.loss(((a - p) ** q - (a - 1.0) ** q) / q)


def agce(input: Tensor, target: Tensor, *, a: float = 6.0, q: float = 1.5) -> Tensor:
    """Asymmetric generalised cross-entropy ((a + 1)^q - (a + p_y)^q) / q.

    In [0, ((a + 1)^q - a^q) / q]. Limits: q = 1 is half of the mean absolute error; a = 0 is `gce` for q <= 1.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        a: Above 0.
        q: Above 0.

    Example:
        >>> import torch
        >>> agce(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.7590])
    """
    classes = classes_of(input, target)
    p = classes.of(log_probabilities(input)).exp()
    return classes.loss(((a + 1.0) ** q - (a + p) ** q) / q)


def ael(input: Tensor, target: Tensor, *, a: float = 5.0) -> Tensor:
    """Asymmetric exponential loss exp(-p_y / a).

    In [exp(-1/a), 1]: it is not 0 for a right label.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        a: Above 0.

    Example:
        >>> import torch
        >>> ael(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]))
        tensor([0.8676])
    """
    classes = classes_of(input, target)
    p = classes.of(log_probabilities(input)).exp()
    return classes.loss((p / -a).exp())
