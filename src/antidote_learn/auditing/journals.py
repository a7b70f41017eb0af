"""Changes of files that happen whole or not at all: a journal is written first, and finished after a kill.

All of it lies in a hidden folder beside the log, the room: the new files, the journal, and the lock. A room without a
journal is what a killed process left before it changed anything: it is cleared. With a journal, the next command
finishes what it says.
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

ROOM = ".applying"  # how the name of a room ends
JOURNAL = "journal.json"
FORMAT = 1  # of the journal
HOLDING = {"format": int, "kind": str, "moves": list, "replaced": list, "expected": str, "folders": list}


@dataclass(frozen=True)
class ChangePlan:
    """What is to happen to files below a folder; names are relative to it.

    Attributes:
        kind: "apply" or "undo".
        moves: Files that get another name, which nothing has; they can be taken back.
        replaced: Files that take the place of another one, the data before the log.
        expected: SHA-256 of the data file that is replaced; empty for a folder of images.
        folders: Those that only the corrected data have: "undo" removes them where they are empty.
    """

    kind: str
    moves: tuple[tuple[str, str], ...]
    replaced: tuple[tuple[str, str], ...]
    expected: str = ""
    folders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Room:
    """A folder to prepare files in; ``finished`` is the kind of the journal that was found there, and carried out."""

    path: Path
    finished: str


class Overtaken(OSError):
    """The data file was changed by others before it could be replaced."""


def room_of(beside: Path) -> Path:
    """Where the room for changes of a log, or of a folder that is to be made, lies."""
    return beside.with_name(f".{beside.name}{ROOM}")


def settle_leftovers(beside: Path) -> None:
    """Finishes, or clears away, what a killed process left."""
    if os.path.lexists(room_of(beside)):
        with working_room(beside):
            pass


@contextlib.contextmanager
def working_room(beside: Path) -> Iterator[Room]:
    """A room for this process alone, empty, and gone afterwards unless it holds a journal that could not be finished.

    Raises:
        FolderInUse: Another process works there.
        ValueError: The journal that was found is damaged.
        OSError: What the journal says cannot be finished.
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
    """Writes the journal, then does what it says; a move that fails is taken back with all before it."""
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
    """Goes on where a killed process stopped; the kind of the plan that was finished, if there was one."""
    journal = room / JOURNAL
    if not os.path.lexists(journal):
        return ""
    plan = _read_plan(room)
    try:
        if os.path.lexists(room.parent / plan.replaced[-1][0]):  # the log comes last: without it all is done
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
    """The end: new data and log take their places, and the journal goes."""
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
    """ValueError for a plan that would touch more than the data, their log and what belongs to them."""
    log = room.name[1 : -len(ROOM)]
    data = log.removesuffix(SUFFIX)
    hidden = (f"{room.name}/", f".{data}.")
    names = [name for pair in (*plan.moves, *plan.replaced) for name in pair]
    for name in (*names, *plan.folders):
        check_inside(room.parent, name, linked=True)
    parts = [new for new, _ in plan.replaced]
    if log.endswith(SUFFIX):  # of a file: only what is made here is moved
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
    """The plan in a journal; ValueError, and nothing changed, where it is damaged."""
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
