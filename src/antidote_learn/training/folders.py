"""The folder of a run or an audit: claimed, begun, continued, or refused."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from antidote_learn.training.checkpoint import LOCK, PART, lock_folder, remove_parts
from antidote_learn.training.progress import Reporter
from antidote_learn.training.specs import SPEC, differences, environment, read_spec, spec_fields, write_spec


@contextlib.contextmanager
def claim_folder(folder: Path, spec: Any) -> Iterator[None]:
    """Makes the folder with its parents, and locks it; a folder with other content is refused untouched.

    A new folder leaves no trace where bad input ends the block before anything is kept.
    """
    _check_own(folder, spec)
    missing = _make_folder(folder)
    with lock_folder(folder):
        begun = (folder / SPEC).exists()
        try:
            yield
        except (ValueError, FileNotFoundError):
            if not begun and _keeps_nothing(folder):
                _remove_traces(folder, missing)
            raise


def is_finished(folder: Path, spec: Any, reporter: Reporter, *, resume: bool, rooms: tuple[str, ...]) -> bool:
    """Whether the folder holds the job of the spec finished; if not, the folder is made ready for the job, or refused.

    Args:
        folder: The folder, claimed by this process.
        spec: A `Spec`, or a record like it.
        reporter: The reporter, which is told where a job is continued in another environment.
        resume: Whether to continue the job that the folder holds.
        rooms: The names of the folders inside the folder that are written to.
    """
    _check_own(folder, spec)
    if not (folder / SPEC).exists():
        write_spec(folder, spec)
        _make_rooms(folder, rooms)
        return False
    if not resume:
        raise ValueError(
            f"{folder} holds {spec.article} {spec.kind} already: continue it with `resume=True`, or choose "
            "another `out`"
        )
    stored, where = read_spec(folder, type(spec))
    differing = differences(stored, spec_fields(spec))
    if differing:
        raise ValueError(f"{folder} holds another {spec.kind}: {'; '.join(differing)}. Choose another `out`")
    changed = differences(where, environment())
    if changed:
        reporter.note(f"continued in another environment, numbers may differ: {'; '.join(changed)}")
    if (folder / "done").exists():
        return True
    _make_rooms(folder, rooms)
    return False


def _check_own(folder: Path, spec: Any) -> None:
    """Raises ValueError where the folder holds anything but a run or an audit."""
    if not folder.is_dir() or (folder / SPEC).exists():
        return
    if any(path.name != LOCK and not path.name.endswith(PART) for path in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no {spec.kind}: choose another `out`")


def _make_folder(folder: Path) -> list[Path]:
    """Makes the folder and its parents, and returns those that were missing, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _make_rooms(folder: Path, rooms: tuple[str, ...]) -> None:
    """Makes the folders that are written to, and removes files that a killed process left behind."""
    for name in rooms:
        (folder / name).mkdir(exist_ok=True)
    remove_parts(folder)


def _keeps_nothing(folder: Path) -> bool:
    """Whether the folder holds nothing that took time to make."""
    return all(path.is_dir() or path.name in (SPEC, LOCK) for path in folder.rglob("*"))


def _remove_traces(folder: Path, missing: list[Path]) -> None:
    """Empties the folder, and removes the folders that were missing before."""
    with contextlib.suppress(OSError):  # a file that cannot be removed does no harm
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for path in missing:
            path.rmdir()
