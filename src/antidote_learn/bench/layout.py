"""The cells of a grid: training runs, each named by a hash of all that determines it; nothing here needs torch."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from antidote_learn.bench.classifiers import build_classifier, is_classifier
from antidote_learn.data.noise_grammar import parse_noise
from antidote_learn.presets.aliases import expand_name, stand_in_note
from antidote_learn.training.resolve import Request, method_for, resolve_request

FORMAT = 1  # the version of cells' names; a new one runs every cell again
RECORD = "record.json"  # the record in the folder of a cell that has ended
RUN = "run"  # the folder of the run in a cell's folder
PASSING = ("workers", "download")  # options that change no number, and no cell's name
MOST_CELLS = 100_000  # the most cells of a grid: more are taken for a mistake


@dataclass(frozen=True)
class Cell:
    """A run to make.

    Attributes:
        data: The data as `train` takes them, in a string.
        method: The method as the user wrote it; presets and aliases are resolved for the data and the noise.
        noise: The noise of the training labels.
        seed: The seed of the whole run.
        options: Further arguments of `train`.
    """

    data: str
    method: str
    noise: str
    seed: int
    options: Mapping[str, Any]

    @property
    def concrete_method(self) -> str:
        """The method that is trained: presets and aliases are resolved."""
        return expand_name(self.method, data=self.data, noise=self.noise)

    @property
    def note(self) -> str:
        """A note about a preset without published values for the data or the noise; else ""."""
        return stand_in_note(self.method, data=self.data, noise=self.noise)

    @property
    def name(self) -> str:
        """The name of the cell's folder: a hash of all that determines the run."""
        options = {key: value for key, value in self.options.items() if key not in PASSING}
        what = {**asdict(self), "options": options, "method": self.concrete_method, "format": FORMAT}
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def request(self) -> Request:
        """The request for the training run; of a classifier, that of a run on the same data."""
        method = "ce" if is_classifier(self.method) else self.concrete_method
        return Request(self.data, method=method, noise=self.noise, seed=self.seed, **self.options)


def make_cells(
    data: str, *, methods: Sequence[str], noises: Sequence[str], seeds: Sequence[int], options: Mapping[str, Any]
) -> list[Cell]:
    """Returns all cells after checks; seeds vary slowest, so that an unfinished grid has whole rows first.

    Raises:
        ValueError: A method or noise is unknown, or is there twice.
    """
    if len(methods) * len(noises) * len(seeds) > MOST_CELLS:
        raise ValueError(f"a grid has at most {MOST_CELLS} cells; leave out methods, noises or seeds")
    for what, given in (("method", methods), ("noise", noises), ("seed", seeds)):
        if not given:
            raise ValueError(f"give at least one {what}")
        twice = [value for value, times in Counter(given).items() if times > 1]
        if twice:
            raise ValueError(f"the {what} {twice[0]!r} is there twice: leave one out")
    cells = [
        Cell(data, method, noise, seed, options) for seed, noise, method in itertools.product(seeds, noises, methods)
    ]
    for noise in noises:
        parse_noise(noise)
    for cell in cells[: len(methods) * len(noises)]:
        method_for(cell.request)
    return cells


def check_layout(cells: Sequence[Cell], folder: Path) -> None:
    """Checks all that needs no data, on one missing cell of each method and noise.

    Raises:
        ValueError: Bad options, or a bad value in a method.
        FileNotFoundError: There is no such data.
    """
    missing = [cell for cell in cells if not (folder / cell.name / RECORD).exists()]
    for cell in {(cell.method, cell.noise): cell for cell in missing}.values():
        if is_classifier(cell.method):
            build_classifier(cell.method, seed=cell.seed)
        resolve_request(cell.request)
