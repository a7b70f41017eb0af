"""The folder of a run or an audit: made, begun, continued, or refused."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from antidote_learn.training.checkpoint import PART, remove_parts
from antidote_learn.training.progress import Reporter
from antidote_learn.training.specs import differences, environment, read_spec, write_spec


def make_folder(folder: Path) -> None:
    """The folder, with those above it; ValueError where it is a file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(f"{folder} is a file: choose another --out") from error


def is_finished(folder: Path, spec: Any, reporter: Reporter, *, resume: bool, rooms: tuple[str, ...]) -> bool:
    """Whether what the spec says is finished there; begins it otherwise, and refuses a folder that holds anything else.

    Args:
        folder: Locked.
        spec: A `Spec`, or a record like it.
        reporter: Told where it is continued in another environment.
        resume: Whether the user wants what is there to go on.
        rooms: Folders in it that are written to.
    """
    others = [path.name for path in folder.iterdir() if path.name != ".lock"]
    if not (folder / "spec.json").exists():
        if [name for name in others if not name.endswith(PART)]:
            raise ValueError(f"{folder} is not empty and holds no {spec.kind}: choose another --out")
        write_spec(folder, spec)
        _make_rooms(folder, rooms)
        return False
    if not resume:
        raise ValueError(
            f"{folder} holds {spec.article} {spec.kind} already: continue it with --resume, or choose another --out"
        )
    stored, where = read_spec(folder, type(spec))
    differing = differences(stored, asdict(spec))
    if differing:
        raise ValueError(f"{folder} holds another {spec.kind}: {'; '.join(differing)}. Choose another --out")
    changed = differences(where, environment())
    if changed:
        reporter.note(f"continued in another environment, numbers may differ: {'; '.join(changed)}")
    if (folder / "done").exists():
        return True
    _make_rooms(folder, rooms)
    return False


def _make_rooms(folder: Path, rooms: tuple[str, ...]) -> None:
    """What is written into, without what a killed process left behind."""
    for name in rooms:
        (folder / name).mkdir(exist_ok=True)
    remove_parts(folder)
