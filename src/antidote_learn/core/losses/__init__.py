"""Per-sample losses: pure functions (logits, targets) -> losses, listed in one literal table."""

from antidote_learn._types import PerSampleLoss
from antidote_learn.core.losses.likelihood import cross_entropy

LOSSES: dict[str, PerSampleLoss] = {"ce": cross_entropy}

__all__ = ["LOSSES", "cross_entropy"]
