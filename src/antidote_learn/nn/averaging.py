"""Averaged weights: a network that follows another one slowly."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def update_average(average: nn.Module, net: nn.Module, *, decay: float) -> None:
    """Moves every parameter of ``average`` to decay * itself + (1 - decay) * that of ``net``; buffers are copied.

    Limits: decay 0 copies the network, 1 leaves the average as it is (but for its buffers).

    Args:
        average: A network of the same architecture, changed in place.
        net: The one that is trained.
        decay: In [0, 1].

    Example:
        >>> slow, fast = nn.Linear(2, 1), nn.Linear(2, 1)
        >>> update_average(slow, fast, decay=0.0)
        >>> torch.equal(slow.weight, fast.weight)
        True
    """
    for mean, parameter in zip(average.parameters(), net.parameters(), strict=True):
        mean.lerp_(parameter, 1.0 - decay)
    for old, new in zip(average.buffers(), net.buffers(), strict=True):
        old.copy_(new)
