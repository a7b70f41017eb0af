"""Moves of images between class folders: which image goes where, and a copy of the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from antidote_learn._types import Arrays, ImageFiles
from antidote_learn.auditing.decisions import Change, Decisions, match_decisions
from antidote_learn.data.image_folders import read_folder
from antidote_learn.data.tabular import name_in_errors

DROPPED = ".dropped"  # the folder of images that are dropped in place; hidden folders are no classes


@dataclass(frozen=True)
class Moves:
    """The images' new places below ``root``.

    Attributes:
        root: The folder of the class folders.
        names: (N,) names of the files as they are.
        new: The new names by row; None for an image that is left out. Other rows keep their names.
    """

    root: Path
    names: tuple[str, ...]
    new: dict[int, str | None]


def review_of_folder(given: pd.DataFrame, source: Path) -> tuple[Arrays, Decisions]:
    """Reads the images and matches the decisions with them; decisions that do not fit are a ValueError."""
    images = read_folder(source)
    assert isinstance(images.inputs, ImageFiles)
    labels = [images.classes[k] for k in images.labels]
    with name_in_errors(source):
        return images, match_decisions(given, labels, images.classes, images.inputs.names)


def file_changes(changes: Sequence[Change], moves: Moves) -> list[dict[str, Any]]:
    """Returns the changes with the names of their files, for the log."""
    names = [{"file": moves.names[change.index], "new_file": moves.new.get(change.index)} for change in changes]
    return [asdict(change) | files for change, files in zip(changes, names, strict=True)]


def plan_moves(images: Arrays, changes: Sequence[Change], *, in_place: bool) -> Moves:
    """Plans new names that are free; a name that would lead out of the folder is a ValueError."""
    files = images.inputs
    assert isinstance(files, ImageFiles)
    taken = {name.casefold() for name in files.names}
    new: dict[int, str | None] = {}
    for row, label in ((change.index, change.new_label) for change in changes):
        if label is None and not in_place:
            new[row] = None
            continue
        old = PurePosixPath(files.names[row])
        wanted = PurePosixPath(DROPPED, old) if label is None else PurePosixPath(label, *old.parts[1:])
        new[row] = _free_name(wanted, old.parts[0], taken, files.root if in_place else None)
    for name in {*files.names, *new.values()} - {None}:
        check_inside(files.root, str(name), linked=in_place)
    return Moves(files.root, files.names, new)


def is_dropped(name: str) -> bool:
    """Tells whether a file lies in the folder of dropped images."""
    return name.startswith(f"{DROPPED}/")


def check_inside(root: Path, name: str, *, linked: bool) -> None:
    """Raises a ValueError for a name that leads out of the folder, with ``linked`` also by a link."""
    parts = PurePosixPath(name).parts
    out = PurePosixPath(name).is_absolute() or ".." in parts
    if out or (linked and not (root / name).resolve().is_relative_to(root.resolve())):
        raise ValueError(f"{name!r} lies outside {root}: nothing is written there; rename it, or give another folder")


def _free_name(wanted: PurePosixPath, old: str, taken: set[str], root: Path | None) -> str:
    """Returns the wanted name, or one like it that no other image has."""
    name, number = wanted, 1
    while name.as_posix().casefold() in taken or (root is not None and os.path.lexists(root / name)):
        name = wanted.with_name(f"{wanted.stem}-{old}{'' if number == 1 else f'-{number}'}{wanted.suffix}")
        number += 1
    taken.add(name.as_posix().casefold())
    return name.as_posix()


def copy_images(images: Arrays, moves: Moves, source: Path, target: Path) -> None:
    """Copies the images under their new names, and the images of the test part as they are."""
    below = target / moves.root.relative_to(source)
    for row, old in enumerate(moves.names):
        new = moves.new.get(row, old)
        if new is not None:
            _copy_file(moves.root / old, below / new)
    if isinstance(images.test_inputs, ImageFiles):
        held = images.test_inputs
        for name in held.names:
            check_inside(held.root, name, linked=False)
            _copy_file(held.root / name, target / held.root.relative_to(source) / name)


def _copy_file(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(old, new)
