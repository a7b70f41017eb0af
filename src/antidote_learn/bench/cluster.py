"""Grids on a Ray cluster: the same cells on many machines (extra ``ray``)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from antidote_learn.bench.grid import Engine, Record, cores
from antidote_learn.bench.layout import Cell
from antidote_learn.bench.records import run_cell
from antidote_learn.training.interrupts import Interrupted


def ray_engine(jobs: int | None = None) -> Engine:
    """Returns an engine that runs cells on the Ray cluster that RAY_ADDRESS names, else on one on this machine.

    All machines must see the grid's folder, as cells are continued from it; records come back to the caller. A cell
    takes this machine's number of cores divided by ``jobs``, or one core without ``jobs``.

    Raises:
        ValueError: Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ValueError("`engine=ray` needs Ray: pip install 'antidote-learn[ray]'") from error
    threads = 1 if jobs is None else max(1, cores() // jobs)

    def run(cells: Sequence[Cell], folder: Path) -> Iterator[Record | None]:
        if not cells:
            return
        started = not ray.is_initialized()
        if started:
            ray.init(log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
        task = ray.remote(num_cpus=threads, max_retries=0)(_run_remote_cell)
        waiting = [task.remote(cell, folder, threads) for cell in cells]
        try:
            while waiting:
                ready, waiting = ray.wait(waiting)
                yield ray.get(ready[0])
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            if started:
                ray.shutdown()

    return run


def _run_remote_cell(cell: Cell, folder: Path, threads: int) -> Record | None:
    torch.set_num_threads(threads)
    return run_cell(cell, folder)
