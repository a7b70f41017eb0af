"""How long a grid will take, measured on the first steps of its runs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from antidote_learn.bench.grid import cores
from antidote_learn.bench.layout import Cell
from antidote_learn.training.prepare import prepare_run
from antidote_learn.training.resolve import resolve_request
from antidote_learn.training.runs import train

STEPS = 6  # the steps that are measured: enough to pass the slow first one
MOST_PROBES = 6  # the most kinds of runs that are measured; others take the mean of these


def forecast_seconds(cells: Sequence[Cell], jobs: int) -> tuple[float, list[str]]:
    """About how many seconds the cells take with so many at a time, and why some cannot run.

    Runs of the same data and options are measured once, by a few steps of plain cross-entropy. A method that costs more
    than cross-entropy takes longer.
    """
    kinds: dict[str, list[Cell]] = {}
    for cell in cells:
        kinds.setdefault(json.dumps([cell.data, dict(cell.options)], sort_keys=True, default=str), []).append(cell)
    measured, lacking, threads = dict[str, float](), list[str](), torch.get_num_threads()
    try:
        torch.set_num_threads(max(1, cores() // jobs))
        for kind, alike in list(kinds.items())[:MOST_PROBES]:
            try:
                measured[kind] = _run_seconds(alike[0])
            except (FileNotFoundError, ValueError) as error:
                measured[kind] = 0.0
                lacking.append(str(error))
    finally:
        torch.set_num_threads(threads)
    usual = sum(measured.values()) / len(measured) if measured else 0.0
    seconds = sum(measured.get(kind, usual) * len(alike) for kind, alike in kinds.items()) / jobs
    return seconds, list(dict.fromkeys(lacking))


def _run_seconds(cell: Cell) -> float:
    """The seconds of a whole run, from its first steps."""
    job = prepare_run(resolve_request(cell.request))
    settings, samples = job.spec.settings, job.spec.samples
    part = min(samples, max(STEPS * settings.batch_size, 2 * job.spec.classes))
    options = {**cell.options, "subset": part, "epochs": 1, "holdout": None, "snapshots": ""}
    with tempfile.TemporaryDirectory() as folder:
        short = train(cell.data, method="ce", noise=cell.noise, seed=cell.seed, out=Path(folder) / "run", **options)
    return float(short.summary["seconds"]) / part * samples * settings.epochs
