"""Which samples of a batch are trusted: those of smallest loss."""

from __future__ import annotations

import torch
from torch import Tensor


def small_loss_weights(losses: Tensor, whole: Tensor, *, share: float) -> Tensor:
    """(B,) equal weights on the smallest losses of a batch, 0 on the others; their mean over the whole batch is 1.

    Limits: a share of 1 gives ones; at least one sample is kept; a loss that ties with the last one kept is kept.

    Args:
        losses: (B,) of the samples that are asked about.
        whole: (M,) of the batch that they belong to; ``losses`` themselves in a single process.
        share: How much of the batch is kept, in [0, 1]: floor(share * M) samples.

    Example:
        >>> losses = torch.tensor([0.1, 3.0, 0.2, 0.3])
        >>> small_loss_weights(losses, losses, share=0.5)
        tensor([2., 0., 2., 0.])
    """
    count = max(1, int(share * len(whole)))
    if count >= len(whole):
        return torch.ones_like(losses)
    largest = whole.detach().kthvalue(count).values
    return (losses.detach() <= largest).to(losses.dtype) / (whole <= largest).to(losses.dtype).mean()
