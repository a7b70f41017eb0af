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


def gather(losses: Tensor, mass: Tensor | None, group: ProcessGroup) -> Gathered:
    """Gathers (loss, mass) pairs without gradient; sizes first, so that uneven and empty batches work.

    Two collectives: one integer and max(sizes) pairs for each process. Nothing is differentiated through them.
    """
    losses = losses.detach()
    mass = torch.ones_like(losses) if mass is None else mass.detach()
    exact = torch.float32 if losses.device.type == "mps" else torch.float64
    world_size, rank = dist.get_world_size(group), dist.get_rank(group)
    counts = torch.zeros(world_size, dtype=torch.int64, device=losses.device)
    mine = torch.tensor([losses.numel()], dtype=torch.int64, device=losses.device)
    dist.all_gather_single(counts, mine, group=group)
    sizes = counts.tolist()  # the one host read: uneven sizes
    longest = max(sizes)
    pairs = torch.zeros(longest, 2, dtype=exact, device=losses.device)
    pairs[: losses.numel()] = torch.stack([losses.to(exact), mass.to(exact)], dim=1)
    everyone = torch.empty(world_size * longest, 2, dtype=exact, device=losses.device)
    dist.all_gather_single(everyone, pairs, group=group)
    rows = torch.cat([everyone[r * longest : r * longest + size] for r, size in enumerate(sizes)])
    start = sum(sizes[:rank])
    return Gathered(rows[:, 0].contiguous(), rows[:, 1].contiguous(), slice(start, start + sizes[rank]), world_size)
