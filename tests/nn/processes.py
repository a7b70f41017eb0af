"""Several processes on one machine, joined by gloo."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD_SIZE = 2


def run_in_processes(worker: Callable[[], Callable[[int], Any]], folder: Path) -> list[Any]:
    """``worker()(rank)`` of every rank: ``worker()`` runs before the group exists, what it returns runs within it."""
    mp.start_processes(_main, args=(worker, str(folder)), nprocs=WORLD_SIZE, start_method="spawn")
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(WORLD_SIZE)]


def _main(rank: int, worker: Callable[[], Callable[[int], Any]], folder: str) -> None:
    torch.set_num_threads(1)
    job = worker()
    dist.init_process_group(
        "gloo",
        init_method=(Path(folder) / "rendezvous").as_uri(),
        rank=rank,
        world_size=WORLD_SIZE,
        timeout=datetime.timedelta(seconds=60),
    )
    try:
        torch.save(job(rank), Path(folder) / f"rank{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()
