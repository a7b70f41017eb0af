"""Which cells a grid has, each a training run named by what determines it; nothing here needs torch."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from antidote_learn.data.noise_grammar import parse_noise
from antidote_learn.registry import resolved, stand_in_note
from antidote_learn.training.requests import Request, check_request, method_for

FORMAT = 1
RECORD = "record.json"  # in a cell's folder, once it has ended
PASSING = ("workers", "download")  # options that change no number
MOST_CELLS = 100_000


@dataclass(frozen=True)
class Cell:
    """A run to make.

    Attributes:
        data: As `train` takes it, in a string.
        method: As the user wrote it: presets and aliases are resolved for the data and the noise.
        noise: Of the training labels.
        seed: Of everything.
        options: Further arguments of `train`.
    """

    data: str
    method: str
    noise: str
    seed: int
    options: Mapping[str, Any]

    @property
    def concrete_method(self) -> str:
        """The method as it is trained."""
        return resolved(self.method, data=self.data, noise=self.noise)

    @property
    def note(self) -> str:
        """Where the method is a preset without published values for the data or the noise; else ""."""
        return stand_in_note(self.method, data=self.data, noise=self.noise)

    @property
    def name(self) -> str:
        """Of its folder: a hash of all that determines it."""
        options = {key: value for key, value in self.options.items() if key not in PASSING}
        what = {**asdict(self), "options": options, "method": self.concrete_method, "format": FORMAT}
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def request(self) -> Request:
        """What is asked of the training."""
        return Request(self.data, method=self.concrete_method, noise=self.noise, seed=self.seed, **self.options)


def make_cells(
    data: str, *, methods: Sequence[str], noises: Sequence[str], seeds: Sequence[int], options: Mapping[str, Any]
) -> list[Cell]:
    """All cells, checked; seeds vary slowest, so that a grid that is not done has whole rows first.

    Raises:
        ValueError: For a method or noise that is none, or one that is there twice.
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
    """All that can be told without the data of the cells that are still to be made, one of each method and noise.

    Raises:
        ValueError: Bad options, or a bad value in a method.
        FileNotFoundError: There is no such data.
    """
    missing = [cell for cell in cells if not (folder / cell.name / RECORD).exists()]
    for cell in {(cell.method, cell.noise): cell for cell in missing}.values():
        check_request(cell.request)
