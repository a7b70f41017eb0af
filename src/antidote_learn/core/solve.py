"""The inner problem of a batch of losses, solved on the host or on a device."""

from __future__ import annotations

import torch
from torch import Tensor

from antidote_learn._types import Status
from antidote_learn.core.divergences import Divergence
from antidote_learn.core.solution import Solution, field_dtype, raw_fields
from antidote_learn.core.solve_numpy import solve_on_host
from antidote_learn.core.solve_torch import solve_on_device
from antidote_learn.core.tensors import check_groups, check_losses, check_measure


def weigh(
    losses: Tensor,
    f: Divergence,
    kappa: float,
    *,
    delta: float | None = None,
    penalty: float | None = None,
    measure: Tensor | None = None,
    groups: Tensor | None = None,
    warm: float | None = None,
) -> Solution:
    """Solves the inner problem; exactly one of ``delta`` and ``penalty`` is given. Nothing carries a gradient.

    ``groups`` (KL and ``delta`` alone) keep their mass. ``warm``, a temperature that is known to be near, spares the
    host a few steps.
    """
    check_losses(losses)
    if measure is not None:
        check_measure(measure, losses)
        measure = measure.detach()
    if groups is not None:
        check_groups(groups, losses)
    losses = losses.detach()
    on_host = losses.device.type == "cpu" and type(losses) is Tensor and not torch.compiler.is_compiling()
    if losses.numel() == 0:
        return empty_solution(losses, f, delta)
    if on_host:
        return solve_on_host(losses, f, kappa, delta, penalty, measure, groups, warm)
    return solve_on_device(losses, f, kappa, delta, penalty, measure, groups)


def empty_solution(losses: Tensor, f: Divergence, delta: float | None) -> Solution:
    """The solution of no losses at all, whose value is 0."""
    weights = torch.zeros_like(losses, dtype=field_dtype(losses))
    raw = raw_fields(0.0, 0.0, 0.0, delta or 0.0, 0.0, f)
    return Solution(weights, 0.0, Status.EMPTY, f, raw, None)
