"""Gradient accumulation that is exact for an objective coupled over the whole batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from antidote_learn.core.envelope import attach
from antidote_learn.nn.antidote import AntidoteLoss
from antidote_learn.nn.distributed import active_group, gather_losses
from antidote_learn.nn.elements import Elements

MicroBatch = Sequence[Tensor]


def accumulate(
    loss: AntidoteLoss,
    model: nn.Module,
    micro_batches: Iterable[MicroBatch],
    *,
    backward: Callable[[Tensor], Any] = Tensor.backward,
) -> Tensor:
    """Adds to the gradients what one call of ``loss`` on the joined batch would, a micro-batch at a time.

    Two passes: the first runs without gradient and keeps one loss a sample, the second runs forward and backward
    with the joint weights. The first replays the random state and restores the model's buffers, so that dropout and
    batch norm see one pass. Averaging the objectives of micro-batches instead is another, weaker objective. Under a
    process group the joined batch is the global one; gradients of a DDP model are synchronised in the last micro-batch.

    Every process must have the same number of micro-batches if the model has buffers, since DDP broadcasts them in each
    forward pass; the micro-batches themselves may differ in size.

    Args:
        loss: The objective, in training mode, with reduction "mean" or "sum".
        model: Called with the first entry of each micro-batch.
        micro_batches: (input, target) or (input, target, sample_weight) each.
        backward: What runs the backward pass, such as ``fabric.backward`` or that of a gradient scaler.

    Returns:
        The value of the joint objective, detached.

    Example:
        >>> import torch
        >>> model, batches = torch.nn.Linear(3, 2), [(torch.randn(4, 3), torch.tensor([0, 1, 0, 1])) for _ in range(2)]
        >>> accumulate(AntidoteLoss(noise_rate=0.2), model, batches).requires_grad
        False
    """
    if not isinstance(loss, AntidoteLoss):
        raise ValueError(
            f"accumulate is for AntidoteLoss, got {type(loss).__name__}: call that on every micro-batch, times the "
            "share of the samples it holds, and run the backward pass of each"
        )
    if not loss.training or loss.reduction == "none":
        state = "in eval mode" if not loss.training else "with reduction 'none'"
        raise ValueError(f"accumulate needs a loss in training mode with reduction 'mean' or 'sum', got one {state}")
    batches = [tuple(batch) for batch in micro_batches]
    if not batches or any(len(batch) not in (2, 3) for batch in batches):
        raise ValueError("micro_batches must hold at least one (input, target) or (input, target, sample_weight)")
    with torch.no_grad(), _preserve_state(model, batches[0][0].device):
        first = [loss.elements(model(batch[0]), *batch[1:]) for batch in batches]
    weights, value, scale = _joint_weights(loss, first)
    parts = torch.split(weights, [elements.losses.numel() for elements in first])
    for k, (batch, part) in enumerate(zip(batches, parts, strict=True)):
        with _sync_context(model, last=k == len(batches) - 1):
            losses = loss.elements(model(batch[0]), *batch[1:]).losses
            backward((torch.where(part > 0, losses, 0.0) * part.to(losses.dtype)).sum() * scale)
    return value


def _joint_weights(loss: AntidoteLoss, parts: list[Elements]) -> tuple[Tensor, Tensor, Any]:
    """(local weights, value, factor of the local sum) of the joined batch."""
    losses = torch.cat([part.losses for part in parts])
    measure = None
    if any(part.measure is not None for part in parts):
        measure = torch.cat(
            [torch.ones_like(p.losses) if p.measure is None else p.measure.to(p.losses.dtype) for p in parts]
        )
    group, own = active_group(loss.process_group), slice(None)
    world_size = 1
    if group is not None:
        losses, measure, own, world_size = gather_losses(losses, measure, group)
    relaxed = attach(losses, loss.weigh(losses, measure))
    loss.remember(relaxed)
    factor = relaxed.total if loss.reduction == "sum" else 1.0
    return relaxed.weights[own], relaxed.value * factor, factor * world_size / max(losses.numel(), 1)


@contextlib.contextmanager
def _preserve_state(model: nn.Module, device: torch.device) -> Iterator[None]:
    """A context that leaves the random state and the model's buffers as they were."""
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    devices = [device] if device.type not in ("cpu", "meta") else []
    kind = device.type if devices else "cuda"
    try:
        with torch.random.fork_rng(devices=devices, device_type=kind):
            yield
    finally:
        for buffer, before in buffers:
            buffer.copy_(before)


def _sync_context(model: nn.Module, *, last: bool) -> contextlib.AbstractContextManager[Any]:
    """A context in which DDP exchanges gradients in the last micro-batch only."""
    no_sync = getattr(model, "no_sync", None)
    return contextlib.nullcontext() if last or no_sync is None else no_sync()
