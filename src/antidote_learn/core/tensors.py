"""Checks of the tensors that users hand over, and their precision."""

from __future__ import annotations

import torch
from torch import Tensor


def check_losses(losses: Tensor) -> None:
    """A floating-point vector; values are looked at by the solver."""
    if not isinstance(losses, Tensor) or losses.dim() != 1 or not losses.is_floating_point():
        kind = f"{losses.dtype} of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(f"losses must be a floating-point tensor of shape (B,), one loss a sample; got {kind}")


def check_measure(measure: Tensor, losses: Tensor, name: str = "base_weight") -> None:
    """A reference measure of the losses' shape."""
    if not isinstance(measure, Tensor) or measure.shape != losses.shape:
        kind = f"shape {tuple(measure.shape)}" if isinstance(measure, Tensor) else type(measure).__name__
        raise ValueError(f"{name} must be a tensor of the losses' shape {tuple(losses.shape)}, got {kind}")
    if measure.dtype == torch.bool or measure.is_complex():
        raise ValueError(f"{name} must hold real numbers >= 0, got {measure.dtype}")


def check_groups(groups: Tensor, losses: Tensor) -> None:
    """An integer for each loss."""
    if not isinstance(groups, Tensor) or groups.shape != losses.shape:
        kind = f"shape {tuple(groups.shape)}" if isinstance(groups, Tensor) else type(groups).__name__
        raise ValueError(f"groups must be a tensor of the losses' shape {tuple(losses.shape)}, got {kind}")
    if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
        raise ValueError(f"groups must hold whole numbers, one group each; got {groups.dtype}: use groups.long()")


def at_least_float32(x: Tensor) -> Tensor:
    """The tensor in at least float32: half precision has too few digits for a loss."""
    return x.float() if isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x
