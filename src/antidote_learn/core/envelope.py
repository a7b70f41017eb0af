"""The value of a solved problem, attached to the graph of the losses by the envelope theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn._types import Relaxed
from antidote_learn.core.solution import Solution

Formula = Callable[[Tensor], Tensor]


class _GivenGradient(torch.autograd.Function):
    """A value with a given gradient.

    With a ``formula`` the first backward pass hands the gradient over; further passes, and second derivatives, go by
    the formula. Without one every pass copies the gradient, and a second derivative is an error.
    """

    @staticmethod
    def forward(ctx: Any, variable: Tensor, gradient: Tensor, value: Tensor | float, formula: Formula | None) -> Tensor:
        ctx.gradient, ctx.formula = gradient, formula  # saving it as torch does would take twice the time
        if formula is not None:
            ctx.save_for_backward(variable)
        if isinstance(value, Tensor):
            return value.detach().clone()
        return torch.from_numpy(np.array(value, dtype=np.float64 if gradient.dtype == torch.float64 else np.float32))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        twice = torch.is_grad_enabled()  # the caller wants to differentiate once more
        if ctx.formula is None:
            if twice:
                raise RuntimeError(
                    "the relaxed objective has no second derivatives: its weights are held fixed in the gradient; "
                    "call backward or grad without create_graph=True"
                )
            return ctx.gradient * grad, None, None, None
        if twice or ctx.gradient is None:
            (variable,) = ctx.saved_tensors
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(ctx.formula(variable), variable, grad, create_graph=twice)
        else:
            gradient, ctx.gradient = ctx.gradient.mul_(grad), None
        return gradient, None, None, None


def attach_gradient(
    variable: Tensor, gradient: Tensor, value: Tensor | float, formula: Formula | None = None
) -> Tensor:
    """``value``, differentiable in ``variable`` with this gradient; more than once where the formula is given."""
    return _GivenGradient.apply(variable, gradient, value, formula)  # type: ignore[no-any-return,no-untyped-call]


def envelope(losses: Tensor, weights: Tensor, value: Tensor | float, scale: Tensor | float) -> Tensor:
    """``value``, differentiable in the losses with gradient weights * scale (eq:KL_gradient).

    While compiling it is written out, since the compiler refuses second derivatives itself.
    """
    if losses.dtype != weights.dtype:
        losses = losses.to(weights.dtype)
    if torch.compiler.is_compiling():
        share = (torch.where(weights > 0, losses, 0.0) * weights).sum() * scale
        return share + (value - share).detach()
    return attach_gradient(losses, weights * scale, value)


def attach(losses: Tensor, solution: Solution) -> Relaxed:
    """The solution with its value in the graph of the losses."""
    weights, scale = solution.weights, 1.0 / max(solution.weights.numel(), 1)
    value = solution.value
    if isinstance(value, Tensor):  # on a device rows of no weight may hold any loss
        value = value + (torch.where(weights > 0, losses.detach(), 0.0) * weights).sum() * scale
    value = envelope(losses, weights, value, scale)
    return Relaxed(value, weights, solution.status, solution.divergence, solution.raw, solution.mass)


def local_part(whole: Relaxed, value: Tensor, weights: Tensor, mass: Tensor | None) -> Relaxed:
    """The rows of a global solution that one process holds, with their value."""
    return Relaxed(value, weights, whole.status, whole.divergence, whole.raw, mass, whole)
