"""The value of a solved problem, attached to the graph of the losses by the envelope theorem."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from antidote_learn._types import Relaxed
from antidote_learn.core.weighing import Weighing


class _Envelope(torch.autograd.Function):
    """mean(weights * losses) + constant, whose gradient holds the weights fixed; a second derivative is an error."""

    @staticmethod
    def forward(ctx: Any, losses: Tensor, weights: Tensor, constant: float) -> Tensor:
        ctx.save_for_backward(weights)
        return torch.dot(losses, weights).mul_(1.0 / max(weights.numel(), 1)).add_(constant)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():  # only where the caller wants to differentiate once more
            raise RuntimeError(
                "the relaxed objective has no second derivatives: its weights are held fixed in the gradient; "
                "call backward or grad without create_graph=True"
            )
        (weights,) = ctx.saved_tensors
        return weights * (grad / max(weights.numel(), 1)), None, None


def weighted_mean(losses: Tensor, weighing: Weighing) -> Tensor:
    """The value of the solved problem: differentiable in the losses, whose weights are held fixed (eq:KL_gradient)."""
    weights = weighing.weights
    losses = losses.to(weights.dtype)
    if weighing.masked:
        losses = torch.where(weights > 0, losses, 0.0)
    if isinstance(weighing.constant, Tensor):
        return (losses * weights).sum() / max(weights.numel(), 1) + weighing.constant
    return _Envelope.apply(losses, weights, weighing.constant)  # type: ignore[no-any-return,no-untyped-call]


def attach(losses: Tensor, weighing: Weighing) -> Relaxed:
    """The solution as the caller sees it."""
    value = weighted_mean(losses, weighing)
    return Relaxed(value, weighing.weights, weighing.status, weighing.divergence, weighing.raw, weighing.mass)
