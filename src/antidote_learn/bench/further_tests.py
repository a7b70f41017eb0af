"""The figures of a finished run on another test set than its own, computed once and kept beside its record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antidote_learn._types import ImageFiles
from antidote_learn.bench.layout import RUN, Cell
from antidote_learn.bench.records import NUMBER, error_line
from antidote_learn.data.builtin import data_root
from antidote_learn.data.imagenet import read_imagenet_validation
from antidote_learn.training.checkpoint import read_json, write_sealed
from antidote_learn.training.evaluate import hits
from antidote_learn.training.runs import load

KEPT_FIGURES = "test-{}.json"  # the file in a cell's folder, by the name of the test set
# The further test sets: the data set whose classes they have, and a function of the data root that reads them.
READERS: dict[str, tuple[str, Callable[[Path], tuple[ImageFiles, NDArray[np.int64]]]]]
READERS = {"imagenet-val": ("mini-webvision", read_imagenet_validation)}


def further_figures(cell: Cell, test: str, folder: Path) -> dict[str, Any]:
    """The figures ``last`` and ``last_top5`` of a run on a further test set; or the ``error`` for which it has none.

    They are those of the model after the last epoch, with the run's own preprocessing. An error is not kept: the next
    call tries again.

    Args:
        cell: The cell, whose run has ended.
        test: The name of the test set, a key of `READERS`.
        folder: The folder of all cells.

    Raises:
        ValueError: The file of the figures is damaged.
    """
    path = folder / cell.name / KEPT_FIGURES.format(test)
    if path.exists():
        return read_json(path, {"last": NUMBER, "last_top5": NUMBER})
    data, read = READERS[test]
    if cell.data != data:
        return {"error": f"{test} has the classes of {data}, and the run those of {cell.data}"}
    try:
        inputs, labels = read(data_root(cell.options.get("data_root")))
        found, truth = torch.from_numpy(load(folder / cell.name / RUN).predict_proba(inputs)), torch.from_numpy(labels)
    except Exception as error:
        return {"error": error_line(error)}
    figures = {"last": hits(found, truth, top=1), "last_top5": hits(found, truth, top=5), "images": len(labels)}
    write_sealed(path, figures)
    return figures
