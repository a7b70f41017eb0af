"""A journal makes changes of files happen whole or not at all: it is written first, and finished after a kill.

A hidden folder beside the log, the room, holds the new files and the journal, and is locked. A room without a journal
was left by a process that was killed before it changed anything: the next command clears it. A room with a journal was
left in the middle of the changes: the next command finishes them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from antidote_learn.auditing.disk import clear_room, lock_room, move_file, remove_empty, sync_folders
from antidote_learn.auditing.image_moves import check_inside
from antidote_learn.auditing.logs import SUFFIX
from antidote_learn.training.checkpoint import digest, read_json, write_sealed

ROOM = ".applying"  # the ending of a room's name
JOURNAL = "journal.json"  # the journal's name in its room
FORMAT = 1  # the version of the journal; others are refused
HOLDING = {"format": int, "kind": str, "moves": list, "replaced": list, "expected": str, "folders": list}


@dataclass(frozen=True)
class ChangePlan:
    """Changes to make to files below a folder; names are relative to it.

    Attributes:
        kind: "apply" or "undo".
        moves: Pairs of old and new names; new names are free, so that moves can be taken back.
        replaced: Pairs of a new file and the name it takes over, the data before the log.
        expected: The SHA-256 of the data file before it is replaced; empty for a folder of images.
        folders: The folders that only the corrected data have; "undo" removes them if they are empty.
    """

    kind: str
    moves: tuple[tuple[str, str], ...]
    replaced: tuple[tuple[str, str], ...]
    expected: str = ""
    folders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Room:
    """A folder to prepare files in; ``finished`` is the kind of the journal that was found and finished, or ""."""

    path: Path
    finished: str


class Overtaken(OSError):
    """Another program changed the data file before it could be replaced."""


def room_of(beside: Path) -> Path:
    """Returns the path of the room that belongs to a log, or to a folder that is to be made."""
    return beside.with_name(f".{beside.name}{ROOM}")


def settle_leftovers(beside: Path) -> None:
    """Finishes or clears away the changes that a killed process left."""
    if os.path.lexists(room_of(beside)):
        with working_room(beside):
            pass


@contextlib.contextmanager
def working_room(beside: Path) -> Iterator[Room]:
    """Gives this process an empty room of its own, and removes it afterwards unless its journal is unfinished.

    Raises:
        FolderInUse: Another process works there.
        ValueError: The journal that was found is damaged.
        OSError: The changes in the journal cannot be finished.
    """
    room = room_of(beside)
    with lock_room(room):
        finished = _finish_journal(room)
        clear_room(room)
        try:
            yield Room(room, finished)
        finally:
            if not os.path.lexists(room / JOURNAL):
                shutil.rmtree(room, ignore_errors=True)


def carry_out_plan(room: Path, plan: ChangePlan) -> None:
    """Writes the journal, then makes its changes; if a move fails, all moves are taken back."""
    check_plan(room, plan)
    write_sealed(room / JOURNAL, {"format": FORMAT, **asdict(plan)})
    sync_folders([room, room.parent])
    try:
        _move_all(room.parent, plan)
    except OSError:
        _take_back_moves(room.parent, plan)
        (room / JOURNAL).unlink()
        raise
    _replace_all(room, plan)


def _finish_journal(room: Path) -> str:
    """Finishes the changes of a killed process, and returns their kind, or "" if there were none."""
    journal = room / JOURNAL
    if not os.path.lexists(journal):
        return ""
    plan = _read_plan(room)
    try:
        if os.path.lexists(room.parent / plan.replaced[-1][0]):  # the log moves last: if it is gone, all is done
            _move_all(room.parent, plan)
        _replace_all(room, plan)
    except Overtaken:
        _take_back_moves(room.parent, plan)
        journal.unlink()
        return ""
    except OSError as error:
        raise OSError(
            f"a change that was interrupted cannot be finished: {error}; mend that and give the command again, or "
            f"delete {room} to leave the files as they are"
        ) from error
    return plan.kind


def _move_all(base: Path, plan: ChangePlan) -> None:
    new, name = plan.replaced[0]
    if plan.expected and (digest(base / name) == plan.expected) != os.path.lexists(base / new):
        raise Overtaken(f"{base / name} was changed by another program: nothing is written over it")
    for old, moved_to in plan.moves:
        move_file(base / old, base / moved_to)


def _take_back_moves(base: Path, plan: ChangePlan) -> None:
    for old, new in reversed(plan.moves):
        if os.path.lexists(base / new) and not os.path.lexists(base / old):
            move_file(base / new, base / old)
        elif os.path.lexists(base / new) and os.path.samestat(os.lstat(base / old), os.lstat(base / new)):
            os.unlink(base / new)
    if plan.kind == "apply":
        remove_empty(base, plan.folders)


def _replace_all(room: Path, plan: ChangePlan) -> None:
    """Puts new data and log in their places, and removes the journal."""
    base = room.parent
    sync_folders({(base / name).parent for pair in plan.moves for name in pair})
    for new, name in plan.replaced:
        if os.path.lexists(base / new):
            os.replace(base / new, base / name)
    if plan.kind == "undo":
        remove_empty(base, plan.folders)
    sync_folders([base])
    (room / JOURNAL).unlink()


def check_plan(room: Path, plan: ChangePlan) -> None:
    """Raises a ValueError for a plan that would touch other files than the data, their log and their backup."""
    log = room.name[1 : -len(ROOM)]
    data = log.removesuffix(SUFFIX)
    hidden = (f"{room.name}/", f".{data}.")
    names = [name for pair in (*plan.moves, *plan.replaced) for name in pair]
    for name in (*names, *plan.folders):
        check_inside(room.parent, name, linked=True)
    parts = [new for new, _ in plan.replaced]
    if log.endswith(SUFFIX):  # the data are a file: only files from the room or backups may move
        parts += [name for pair in plan.moves for name in pair]
    last = plan.replaced[-1][1] if plan.replaced else None
    others = [name for _, name in plan.replaced if name not in (log, data)]
    if (
        plan.kind not in ("apply", "undo")
        or last != log
        or others
        or not all(part.startswith(hidden) for part in parts)
    ):
        raise ValueError("it names files that are none of its business")


def _read_plan(room: Path) -> ChangePlan:
    """Reads the plan in a journal; a damaged one is a ValueError, and nothing is changed."""
    journal = room / JOURNAL
    try:
        content = read_json(journal, holding=HOLDING)
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, known is {FORMAT}")
        moves, replaced = (tuple((str(a), str(b)) for a, b in content[name]) for name in ("moves", "replaced"))
        plan = ChangePlan(content["kind"], moves, replaced, content["expected"], tuple(map(str, content["folders"])))
        check_plan(room, plan)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"the journal of an interrupted change, {journal}, is damaged ({error}): nothing was changed; see which "
            f"files were moved, then delete {room}"
        ) from error
    return plan
