"""Several networks that predict together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

COMBINATIONS = ("logits", "probabilities")  # the outputs whose mean can be taken


class Ensemble(nn.Module):
    """The mean of several networks.

    Limits: one network, or equal ones, give that network's probabilities.

    Args:
        members: Networks that give logits (B, K).
        combine: "logits" for the mean of their logits, "probabilities" for the logarithm of the mean of their
            probabilities.

    Example:
        >>> sure, unsure = nn.Linear(1, 2), nn.Linear(1, 2)
        >>> Ensemble([sure, unsure], combine="logits")(torch.zeros(3, 1)).shape
        torch.Size([3, 2])
    """

    def __init__(self, members: Sequence[nn.Module], *, combine: str = "probabilities") -> None:
        super().__init__()
        if combine not in COMBINATIONS:
            raise ValueError(f"networks are combined by one of {', '.join(COMBINATIONS)}; received {combine!r}")
        self.members, self.combine = nn.ModuleList(members), combine

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits (B, K) of the mean."""
        logits = torch.stack([member(inputs) for member in self.members])
        if self.combine == "logits":
            return logits.mean(dim=0)
        return logits.log_softmax(dim=2).exp().mean(dim=0).log()
