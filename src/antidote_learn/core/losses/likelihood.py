"""Per-sample losses of the likelihood family."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


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
