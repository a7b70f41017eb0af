"""The global batch: losses and reference weights of every process, by value."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

ProcessGroup = Any  # dist.ProcessGroup where torch was built with distributed


class Gathered(NamedTuple):
    """The rows of all processes in rank order, and which of them are this one's."""

    losses: Tensor
    mass: Tensor
    local: slice
    world_size: int


def active_group(process_group: ProcessGroup | str | None) -> ProcessGroup | None:
    """The group to relax over, asked when the loss is called: None where there is one process or none is wanted."""
    if process_group is None or not dist.is_available() or not dist.is_initialized():
        return None
    group: ProcessGroup = dist.group.WORLD if process_group == "auto" else process_group
    return group if dist.get_world_size(group) > 1 else None


def gather_losses(losses: Tensor, mass: Tensor | None, group: ProcessGroup) -> Gathered:
    """Gathers (loss, mass) pairs without gradient."""
    losses = losses.detach()
    mass = torch.ones_like(losses) if mass is None else mass.detach()
    rows, local, world_size = gather_rows(torch.stack([widest(losses), widest(mass)], dim=1), group)
    return Gathered(rows[:, 0].contiguous(), rows[:, 1].contiguous(), local, world_size)


def widest(values: Tensor) -> Tensor:
    """The values in the widest floating-point type of their device."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def gather_rows(rows: Tensor, group: ProcessGroup) -> tuple[Tensor, slice, int]:
    """(rows of all processes, which of them are this one's, how many processes); (N, K) of each, N may differ.

    Two collectives: one integer and max(N) rows for each process; sizes first, so that uneven and empty batches work.
    Nothing is differentiated through them.
    """
    all_gather = (
        dist.all_gather_single if hasattr(dist, "all_gather_single") else dist.all_gather_into_tensor
    )  # older torch
    world_size, rank = dist.get_world_size(group), dist.get_rank(group)
    counts = torch.zeros(world_size, dtype=torch.int64, device=rows.device)
    mine = torch.tensor([len(rows)], dtype=torch.int64, device=rows.device)
    all_gather(counts, mine, group=group)
    sizes = counts.tolist()  # the one host read, for uneven sizes
    longest = max(sizes)
    padded = rows.new_zeros(longest, rows.shape[1])
    padded[: len(rows)] = rows
    everyone = rows.new_empty(world_size * longest, rows.shape[1])
    all_gather(everyone, padded, group=group)
    whole = torch.cat([everyone[r * longest : r * longest + size] for r, size in enumerate(sizes)])
    start = sum(sizes[:rank])
    return whole, slice(start, start + sizes[rank]), world_size
