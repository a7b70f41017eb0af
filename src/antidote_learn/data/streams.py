"""An epoch's plan: streams of samples, how many views of each, and what they are trained towards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn.data.batches import Index, cut_batches, epoch_order, rank_slice

VIEWS = ("plain", "weak")


@dataclass(frozen=True, eq=False)
class Stream:
    """Samples that an epoch visits in an order of their own.

    Attributes:
        name: By which a batch gives the stream: ``batch["unlabelled"]``.
        index: (n,) positions of the samples in the training set; None for all that are trained on.
        targets: (n,) classes or (n, K) probabilities, in the order of ``index``; None for the labels that were given.
        views: For each view of a sample "weak", the data set's own augmentation, drawn anew, or "plain", none.
        batch_size: Samples of a global batch; None for the run's.
    """

    name: str = "labelled"
    index: Index | None = None
    targets: Tensor | None = None
    views: tuple[str, ...] = ("weak",)
    batch_size: int | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be visited."""
        if not self.views or not set(self.views) <= set(VIEWS):
            raise ValueError(f"views of a stream are some of {', '.join(VIEWS)}; received {self.views!r}")
        if self.targets is not None and (self.index is None or len(self.targets) != len(self.index)):
            raise ValueError(f"stream {self.name!r}: targets need an index of as many samples")


@dataclass(frozen=True, eq=False)
class Plan:
    """The streams of an epoch, and how many steps it has.

    The epoch is as long as its first stream that has samples. A shorter stream begins anew, in another order; a longer
    one ends with the epoch; an empty one gives batches without samples.

    Attributes:
        streams: With different names; by default all samples once.
        steps: How many steps the epoch has, where that is not the length of a stream.
    """

    streams: tuple[Stream, ...] = (Stream(),)
    steps: int | None = None

    def __post_init__(self) -> None:
        """Refuses streams that cannot be told apart."""
        names = [stream.name for stream in self.streams]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"an epoch needs streams with different names; received {names}")


@dataclass(frozen=True, eq=False)
class Share:
    """One process's part of a stream's batch."""

    places: Index  # of its samples in the stream
    index: Index  # of its samples in the training set
    start: int  # of the part in the whole batch
    total: int  # samples of the whole batch


def cut_plan(
    plan: Plan, everything: Index, *, seeds: Sequence[int], epoch: int, batch_size: int, rank: int, processes: int
) -> list[list[Share]]:
    """For each step of an epoch a process's share of every stream.

    Args:
        plan: Of the epoch.
        everything: (n,) positions of the samples that a stream without an index visits.
        seeds: One for each stream: its orders are a function of the seed and the epoch.
        epoch: From 0.
        batch_size: Of streams that have none of their own.
        rank: This process's number.
        processes: How many there are.
    """
    visits = [everything if stream.index is None else stream.index for stream in plan.streams]
    cuts = [
        _batches_without_end(len(visit), seed, epoch, stream.batch_size or batch_size, processes)
        for stream, visit, seed in zip(plan.streams, visits, seeds, strict=True)
    ]
    steps = _steps_of(plan, visits, batch_size, processes)
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


def _steps_of(plan: Plan, visits: Sequence[Index], batch_size: int, processes: int) -> int:
    if plan.steps is not None:
        return plan.steps
    for stream, visit in zip(plan.streams, visits, strict=True):
        if len(visit):
            return len(cut_batches(visit, batch_size=stream.batch_size or batch_size, processes=processes))
    return 0


def _batches_without_end(size: int, seed: int, epoch: int, batch_size: int, processes: int) -> Iterator[Index]:
    """Places of a stream's samples, a batch at a time; every round through the stream has an order of its own."""
    for lap in count():
        own = seed if lap == 0 else int(np.random.SeedSequence((seed, lap)).generate_state(1, np.uint64)[0]) >> 2
        order = epoch_order(size, seed=own, epoch=epoch)
        yield from cut_batches(order, batch_size=batch_size, processes=processes) if size else [order]


def plan_state(plan: Plan) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A plan as tensors and a JSON value, for a checkpoint."""
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


def plan_from_state(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Plan:
    """What `plan_state` gave."""
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
    return Plan(tuple(streams), state["steps"])
