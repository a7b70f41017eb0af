"""Grids of runs, and the engine that runs their missing cells on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol

import torch

from antidote_learn.bench.layout import Cell
from antidote_learn.bench.records import check_cell, record_of, run_cell
from antidote_learn.training.checkpoint import locked
from antidote_learn.training.engine import RunFailed
from antidote_learn.training.interrupts import Interrupted

Record = dict[str, Any]


class Listener(Protocol):
    """A listener to the progress of a grid."""

    def begin(self, known: Sequence[Record]) -> None:
        """Hears the records of the cells that are done already."""

    def end_cell(self, record: Record) -> None:
        """Hears the record of a cell that has ended."""


def check_cells(cells: Sequence[Cell], folder: Path) -> None:
    """Checks data, options and noises, on one missing cell of each noise.

    Raises:
        ValueError: A run of the grid could not begin.
        FileNotFoundError: There is no such data.
    """
    for noise in dict.fromkeys(cell.noise for cell in cells):
        missing = [cell for cell in cells if cell.noise == noise and record_of(cell, folder) is None]
        for cell in missing[:1]:
            check_cell(cell)


Engine = Callable[[Sequence[Cell], Path], Iterator["Record | None"]]
"""Runs cells in a folder and gives their records as they end; None for one that was stopped."""


def run_grid(cells: Sequence[Cell], folder: Path, engine: Engine, listener: Listener) -> list[Record]:
    """Runs the missing cells, and returns the records of all; cells that failed for a passing reason come last.

    Raises:
        Interrupted: Ctrl-C; every cell that was running can be continued.
        RunFailed: A worker died.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        missing = {cell.name: cell for cell in cells if record_of(cell, folder) is None}
        listener.begin(known_records(cells, folder))
        stopped, failed = False, []
        for record in engine(list(missing.values()), folder):
            if record is None:
                stopped = True
                continue
            listener.end_cell(record)
            if "error" in record:
                failed.append(record)
        if stopped:
            raise Interrupted
    known = known_records(cells, folder)
    return known + [record for record in failed if record not in known]


def known_records(cells: Sequence[Cell], folder: Path) -> list[Record]:
    """Returns the records of the cells that have ended."""
    return [record for cell in cells if (record := record_of(cell, folder)) is not None]


def local_engine(jobs: int) -> Engine:
    """Returns an engine of ``jobs`` processes that share this machine's cores; each imports torch once."""

    def run(cells: Sequence[Cell], folder: Path) -> Iterator[Record | None]:
        workers = min(jobs, len(cells))
        if workers <= 1:
            for cell in cells:
                record = run_cell(cell, folder)
                yield record
                if record is None:
                    return
            return
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(
            workers, context, initializer=_prepare_worker, initargs=(max(1, cores() // workers),)
        )
        try:
            futures = [pool.submit(run_cell, cell, folder) for cell in cells]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise RunFailed(
                "a worker died, perhaps for lack of memory: run the same command again to go on, with fewer `jobs`"
            ) from error
        except KeyboardInterrupt:  # the workers hear it, too, and end after their step
            raise Interrupted from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return run


def _prepare_worker(threads: int) -> None:
    """Gives a new worker its cores, has it ignore Ctrl-C outside of runs, and ends it with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def default_jobs() -> int:
    """Returns the default number of jobs: one for each core, or one in all if there is an accelerator."""
    return 1 if torch.cuda.is_available() else cores()


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
