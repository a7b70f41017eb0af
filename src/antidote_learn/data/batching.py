"""The order of an epoch's samples, its plan cut into batches for each process, and the plan as it is saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antidote_learn.data.streams import EpochPlan, Stream

Index = NDArray[np.int64]
"""The positions (n,) of samples."""


def epoch_order(count: int, *, seed: int, epoch: int) -> Index:
    """The order (count,) of an epoch, a function of the seed and the epoch, so that a resumed run sees the same."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def cut_batches(order: Index, *, batch_size: int, processes: int = 1) -> list[Index]:
    """Cut an order into global batches without dropping any sample.

    A last batch with fewer than two samples for each process is joined to the batch before, as batch norm cannot train
    on a single sample.
    """
    starts = list(range(0, len(order), batch_size))
    if len(starts) > 1 and len(order) - starts[-1] < 2 * processes:
        starts.pop()
    return [order[a:b] for a, b in zip(starts, [*starts[1:], len(order)], strict=True)]


def rank_slice(batch: Index, rank: int, processes: int) -> slice:
    """The slice of a global batch that is this process's; slices are contiguous, and equal up to one sample."""
    ends = [len(batch) * r // processes for r in (rank, rank + 1)]
    return slice(*ends)


@dataclass(frozen=True, eq=False)
class Share:
    """One process's part of a stream's batch.

    Attributes:
        places: The positions of the samples in the stream.
        index: The positions of the samples in the training set.
        start: The position of the first sample in the whole batch.
        total: The number of samples of the whole batch.
    """

    places: Index
    index: Index
    start: int
    total: int


def cut_plan(
    plan: EpochPlan, everything: Index, *, seeds: Sequence[int], epoch: int, batch_size: int, rank: int, processes: int
) -> list[list[Share]]:
    """Cut an epoch into steps, each a process's share of every stream.

    Args:
        plan: The plan of the epoch.
        everything: (n,) positions of the samples that a stream without an index visits.
        seeds: A seed for each stream, which with the epoch determines its order.
        epoch: The epoch, from 0.
        batch_size: The size of a global batch for streams that have none of their own.
        rank: The number of this process.
        processes: The number of processes.
    """
    visits = [everything if stream.index is None else stream.index for stream in plan.streams]
    leader = next((number for number, visit in enumerate(visits) if len(visit)), None)
    cuts: list[Iterator[Index]] = []
    steps = 0 if plan.steps is None else plan.steps
    for number, (stream, visit, seed) in enumerate(zip(plan.streams, visits, seeds, strict=True)):
        size = stream.batch_size or batch_size
        if number == leader and plan.steps is None:
            order = epoch_order(len(visit), seed=seed, epoch=epoch)
            once = cut_batches(order, batch_size=size, processes=processes)
            steps = len(once)
            cuts.append(iter(once))
        else:
            cuts.append(_full_batches(len(visit), seed, epoch, size))
    shares = []
    for _ in range(steps):
        wholes = [next(cut) for cut in cuts]
        parts = [rank_slice(whole, rank, processes) for whole in wholes]
        shares.append(
            [
                Share(whole[part], visit[whole[part]], part.start, len(whole))
                for whole, part, visit in zip(wholes, parts, visits, strict=True)
            ]
        )
    return shares


def _full_batches(size: int, seed: int, epoch: int, batch_size: int) -> Iterator[Index]:
    """Yield the places of a stream's samples batch by batch, without end; every round has its own order.

    All batches have the same size, at most that of the stream, so that no process is without samples at the end of a
    round.
    """
    rest = np.empty(0, dtype=np.int64)
    for lap in count():
        own = seed if lap == 0 else int(np.random.SeedSequence((seed, lap)).generate_state(1, np.uint64)[0]) >> 2
        rest = np.concatenate([rest, epoch_order(size, seed=own, epoch=epoch)])
        length = min(batch_size, size)
        while len(rest) >= max(length, 1) or not size:
            yield rest[:length]
            rest = rest[length:]


def plan_state(plan: EpochPlan) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON value that a checkpoint holds of a plan."""
    tensors = {}
    for stream in plan.streams:
        if stream.index is not None:
            tensors[f"{stream.name}.index"] = torch.from_numpy(stream.index)
        if stream.targets is not None:
            tensors[f"{stream.name}.targets"] = stream.targets
    streams = [
        {"name": stream.name, "views": list(stream.views), "batch_size": stream.batch_size} for stream in plan.streams
    ]
    return tensors, {"streams": streams, "steps": plan.steps}


def plan_from_state(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> EpochPlan:
    """Restore a plan from the result of `plan_state`."""
    streams = []
    for entry in state["streams"]:
        index = tensors.get(f"{entry['name']}.index")
        streams.append(
            Stream(
                name=entry["name"],
                index=None if index is None else index.numpy(),
                targets=tensors.get(f"{entry['name']}.targets"),
                views=tuple(entry["views"]),
                batch_size=entry["batch_size"],
            )
        )
    return EpochPlan(tuple(streams), state["steps"])
