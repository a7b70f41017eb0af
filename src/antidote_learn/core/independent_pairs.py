"""Losses that set the given labels against labels which do not depend on the samples: F-Div, Peer, label smoothing.

``other`` are those labels: (B,) class indices that were drawn, or (B, K) or (K,) probabilities. With the probabilities
that labels are drawn from, a loss is its own mean over the draws, at the cost of none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

OFFSET = 1e-5  # added to every probability, as published: -log of it is at most 11.5, however small the probability

# (g, its conjugate f*(g)) of v; g rises with v. The last three are published with -v in place of v, whose losses are
# least where the given label has the smallest probability: a network would learn the opposite.
GENERATORS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "total-variation": (lambda v: v.tanh() / 2.0, lambda v: v.tanh() / 2.0),
    "jensen-shannon": (
        lambda v: math.log(2.0) - (-v).exp().log1p(),
        lambda v: v + (-v).exp().log1p() - math.log(2.0),
    ),
    "kl": (lambda v: v, lambda v: (v - 1.0).exp()),
    "pearson": (lambda v: v, lambda v: v.square() / 4.0 + v),
    "jeffrey": (lambda v: v, lambda v: v + v.square() / 4.0 + v**3 / 16.0),  # a conjugate up to its third power
    "reverse-kl": (lambda v: -(-v).exp(), lambda v: v - 1.0),
    "neyman": (lambda v: -(-v).expm1(), lambda v: 2.0 - 2.0 * (-v / 2.0).exp()),
    "squared-hellinger": (lambda v: -(-v).expm1(), lambda v: v.expm1()),
}


def divergence_losses(probs: Tensor, labels: Tensor, other: Tensor, generator: str) -> Tensor:
    """(B,) losses of F-Div, -g(v_y) + f*(g(v_other)) with v_k = p_k + 1e-5.

    Minus their mean is a lower bound of the f-mutual information of samples and labels, which the best v reach; for
    jeffrey up to its approximation.

    Args:
        probs: (B, K) probabilities of the classes, not logits.
        labels: (B,) class indices, or (B, K) probabilities.
        other: Labels that do not depend on the samples, drawn or as probabilities.
        generator: A name of `GENERATORS`.

    Example:
        >>> import torch
        >>> probs, prior = torch.tensor([[0.9, 0.1]]), torch.tensor([0.5, 0.5])
        >>> divergence_losses(probs, torch.tensor([0]), prior, "total-variation")
        tensor([-0.1542])
    """
    import torch

    if generator not in GENERATORS:
        raise ValueError(f"generator must be one of {', '.join(GENERATORS)}; got {generator!r}")
    g, conjugate = GENERATORS[generator]
    v = probs.to(torch.promote_types(probs.dtype, torch.float32)) + OFFSET
    return _label_means(conjugate(v), other) - _label_means(g(v), labels)


def peer_losses(logits: Tensor, labels: Tensor, other: Tensor, alpha: float) -> Tensor:
    """(B,) losses of Peer, CE(y) - alpha CE(other) with CE(k) = -log(p_k + 1e-5); at least -11.6 alpha.

    Limits: alpha = 0 is cross-entropy, up to the 1e-5.

    Args:
        logits: (B, K).
        labels: (B,) class indices, or (B, K) probabilities.
        other: Labels that do not depend on the samples, drawn or as probabilities.
        alpha: What the other labels weigh, >= 0.

    Example:
        >>> import torch
        >>> peer_losses(torch.zeros(1, 2), torch.tensor([0]), torch.tensor([1]), 0.5)
        tensor([0.3466])
    """
    table = _bounded_surprises(logits)
    return _label_means(table, labels) - alpha * _label_means(table, other)


def smooth_label_losses(logits: Tensor, labels: Tensor, rate: float) -> Tensor:
    """(B,) losses of label smoothing, (1 - r) CE(y) + (r / K) sum_k CE(k) with CE(k) = -log(p_k + 1e-5).

    It has a lower bound for r < 0, too, which the loss `ls` has not. Limits: r = 0 is cross-entropy, up to the 1e-5.

    Args:
        logits: (B, K).
        labels: (B,) class indices, or (B, K) probabilities.
        rate: r, of either sign.

    Example:
        >>> import torch
        >>> smooth_label_losses(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]), -1.0)
        tensor([-1.2826])
    """
    table = _bounded_surprises(logits)
    return (1.0 - rate) * _label_means(table, labels) + rate * table.mean(1)


def _bounded_surprises(logits: Tensor) -> Tensor:
    """(B, K) -log(p + 1e-5)."""
    from antidote_learn.core.losses.classes import log_probabilities

    return -(log_probabilities(logits).exp() + OFFSET).log()


def _label_means(table: Tensor, labels: Tensor) -> Tensor:
    """(B,) entries of a table (B, K) at the labels, or their means under the probabilities of labels."""
    from antidote_learn.core.losses.classes import classes_of

    classes = classes_of(table, labels)
    return classes.loss(classes.of(table))
