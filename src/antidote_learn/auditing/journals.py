"""Changes of files that happen whole or not at all: a journal is written first, and finished after a kill.

All of it lies in a hidden folder beside the log, the room: the new files, the journal, and the lock. A room without a
journal is what a killed process left before it changed anything: it is cleared. With a journal, the next command
finishes what it says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from antidote_learn.auditing.logs import SUFFIX
from antidote_learn.auditing.moving import check_inside
from antidote_learn.training.checkpoint import FolderInUse, digest, read_json, write_json

ROOM = ".applying"  # how the name of a room ends
JOURNAL = "journal.json"
FORMAT = 1  # of the journal
ATTEMPTS = 100  # to enter a room that others have just left


@dataclass(frozen=True)
class Plan:
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


def settle(beside: Path) -> None:
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
    with _lock_room(room):
        finished = _finish_journal(room)
        _clear(room)
        try:
            yield Room(room, finished)
        finally:
            if not os.path.lexists(room / JOURNAL):
                shutil.rmtree(room, ignore_errors=True)


@contextlib.contextmanager
def _lock_room(room: Path) -> Iterator[None]:
    """An OS lock on the room, which a kill does not leave behind; the room is made where there is none."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(FileExistsError):
            room.mkdir(mode=0o700)
        if room.is_symlink() or not room.is_dir():
            raise ValueError(f"{room} is in the way, which is no folder: remove it")
        if os.name == "nt":  # a folder cannot be locked there
            yield
            return
        try:
            handle = os.open(room, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            _lock_handle(handle, room)
            if os.path.lexists(room) and os.path.samestat(os.fstat(handle), os.lstat(room)):
                yield
                return
        finally:
            os.close(handle)
    raise FolderInUse(f"{room.parent} is in use by another process: wait for it")


def _lock_handle(handle: int, room: Path) -> None:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FolderInUse(f"another process applies decisions in {room.parent}: wait for it") from error
    except OSError:
        pass  # network file systems do not lock folders


def _clear(room: Path) -> None:
    for path in room.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def carry_out(room: Path, plan: Plan) -> None:
    """Writes the journal, then does what it says; a move that fails is taken back with all before it."""
    check_plan(room, plan)
    content: dict[str, Any] = asdict(plan)
    write_json(room / JOURNAL, {"format": FORMAT, "digest": _plan_hash(content), **content})
    sync_folders([room, room.parent])
    try:
        _move_all(room.parent, plan)
    except OSError:
        _take_back(room.parent, plan)
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
        _take_back(room.parent, plan)
        journal.unlink()
        return ""
    except OSError as error:
        raise OSError(
            f"a change that was interrupted cannot be finished: {error}; mend that and give the command again, or "
            f"delete {room} to leave the files as they are"
        ) from error
    return plan.kind


def _move_all(base: Path, plan: Plan) -> None:
    new, name = plan.replaced[0]
    if plan.expected and (digest(base / name) == plan.expected) != os.path.lexists(base / new):
        raise Overtaken(f"{base / name} was changed by another program: nothing is written over it")
    for old, moved_to in plan.moves:
        _move(base / old, base / moved_to)


def _move(old: Path, new: Path) -> None:
    """A move that may have been made already, in whole or in part."""
    if not os.path.lexists(new):
        new.parent.mkdir(parents=True, exist_ok=True)
        place_file(old, new)
    elif os.path.lexists(old):
        if not os.path.samestat(os.lstat(old), os.lstat(new)):
            raise FileExistsError(f"{old} cannot be moved, {new} is in the way: move one of them elsewhere")
        old.unlink()


def place_file(old: Path, new: Path) -> None:
    """Renames a file, never over another one, whenever that appears."""
    try:
        os.link(old, new, follow_symlinks=False)
    except (FileExistsError, FileNotFoundError):
        raise
    except (OSError, NotImplementedError):  # a file system without links
        if os.path.lexists(new):
            raise FileExistsError(f"{new} exists already: nothing is written over it") from None
        os.rename(old, new)
    else:
        os.unlink(old)


def _take_back(base: Path, plan: Plan) -> None:
    for old, new in reversed(plan.moves):
        if os.path.lexists(base / new) and not os.path.lexists(base / old):
            _move(base / new, base / old)
        elif os.path.lexists(base / new) and os.path.samestat(os.lstat(base / old), os.lstat(base / new)):
            os.unlink(base / new)
    if plan.kind == "apply":
        _remove_empty(base, plan.folders)


def _replace_all(room: Path, plan: Plan) -> None:
    """The end: new data and log take their places, and the journal goes."""
    base = room.parent
    sync_folders({(base / name).parent for pair in plan.moves for name in pair})
    for new, name in plan.replaced:
        if os.path.lexists(base / new):
            os.replace(base / new, base / name)
    if plan.kind == "undo":
        _remove_empty(base, plan.folders)
    sync_folders([base])
    (room / JOURNAL).unlink()


def _remove_empty(base: Path, folders: Iterable[str]) -> None:
    for name in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):
            (base / name).rmdir()


def sync_folders(folders: Iterable[Path]) -> None:
    """Has the disk keep the names in these folders."""
    for folder in folders if os.name != "nt" else ():
        if folder.is_dir():
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def sync_file(path: Path) -> None:
    """Has the disk keep a file's bytes."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def check_plan(room: Path, plan: Plan) -> None:
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
    if plan.kind not in ("apply", "undo") or last != log or others or not all(part.startswith(hidden) for part in parts):
        raise ValueError("it names files that are none of its business")


def _plan_hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_plan(room: Path) -> Plan:
    """The plan in a journal; ValueError, and nothing changed, where it is damaged."""
    journal = room / JOURNAL
    try:
        if journal.is_symlink() or not journal.is_file():
            raise ValueError("it is no file")
        content = read_json(journal)
        stored = {name: content[name] for name in ("kind", "moves", "replaced", "expected", "folders")}
        if content["format"] != FORMAT or content["digest"] != _plan_hash(stored):
            raise ValueError("its digest is another")
        moves, replaced = (tuple((str(a), str(b)) for a, b in stored[name]) for name in ("moves", "replaced"))
        plan = Plan(stored["kind"], moves, replaced, str(stored["expected"]), tuple(map(str, stored["folders"])))
        check_plan(room, plan)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"the journal of an interrupted change, {journal}, is damaged ({error}): nothing was changed; see which "
            f"files were moved, then delete {room}"
        ) from error
    return plan
