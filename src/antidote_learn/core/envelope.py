"""The value of a solved problem, attached to the graph of the losses by the envelope theorem."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Relaxed
from antidote_learn.core.outcomes import Weighing


class _Held(torch.autograd.Function):
    """A value with a given gradient: the weights in it are held fixed, and a second derivative is an error."""

    @staticmethod
    def forward(ctx: Any, variable: Tensor, gradient: Tensor, value: Tensor | float) -> Tensor:
        ctx.save_for_backward(gradient)
        if isinstance(value, Tensor):
            return value.detach().clone()
        return torch.from_numpy(np.array(value, dtype=np.float64 if gradient.dtype == torch.float64 else np.float32))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():  # only where the caller wants to differentiate once more
            raise RuntimeError(
                "the relaxed objective has no second derivatives: its weights are held fixed in the gradient; "
                "call backward or grad without create_graph=True"
            )
        return ctx.saved_tensors[0] * grad, None, None


def held(variable: Tensor, gradient: Tensor, value: Tensor | float) -> Tensor:
    """``value``, differentiable once in ``variable``, with this gradient."""
    return _Held.apply(variable, gradient, value)  # type: ignore[no-any-return,no-untyped-call]


def envelope(losses: Tensor, weights: Tensor, value: Tensor | float, scale: Tensor | float) -> Tensor:
    """``value``, differentiable in the losses with gradient weights * scale (eq:KL_gradient).

    While compiling it is written out, since the compiler refuses second derivatives itself.
    """
    if losses.dtype != weights.dtype:
        losses = losses.to(weights.dtype)
    if torch.compiler.is_compiling():
        share = (torch.where(weights > 0, losses, 0.0) * weights).sum() * scale
        return share + (value - share).detach()
    return held(losses, weights * scale, value)


def attach(losses: Tensor, weighing: Weighing) -> Relaxed:
    """The solution as the caller sees it."""
    weights, scale = weighing.weights, 1.0 / max(weighing.weights.numel(), 1)
    value = weighing.value
    if isinstance(value, Tensor):  # of a device: rows of no weight are not looked at, whatever they hold
        value = value + (torch.where(weights > 0, losses.detach(), 0.0) * weights).sum() * scale
    value = envelope(losses, weights, value, scale)
    return Relaxed(value, weights, weighing.status, weighing.divergence, weighing.raw, weighing.mass)
