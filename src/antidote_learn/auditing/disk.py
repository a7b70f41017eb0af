"""Files and folders handled with care: locked, moved but never over others, synced to the disk."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from antidote_learn.training.checkpoint import FolderInUse

ATTEMPTS = 100  # tries to lock a folder that other processes may remove meanwhile: far more than there are others


@contextlib.contextmanager
def lock_room(room: Path) -> Iterator[None]:
    """Holds an OS lock on the room, which ends with the process; makes the room if it is missing."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(FileExistsError):
            room.mkdir(mode=0o700)
        if room.is_symlink() or not room.is_dir():
            raise ValueError(f"{room} is in the way, which is no folder: remove it")
        if os.name == "nt":  # Windows cannot lock a folder
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


def clear_room(room: Path) -> None:
    """Removes everything in the room."""
    for path in room.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def move_file(old: Path, new: Path) -> None:
    """Moves a file, also if a killed process has made a part of the move."""
    if not os.path.lexists(new):
        new.parent.mkdir(parents=True, exist_ok=True)
        place_file(old, new)
    elif os.path.lexists(old):
        if not os.path.samestat(os.lstat(old), os.lstat(new)):
            raise FileExistsError(f"{old} cannot be moved, {new} is in the way: move one of them elsewhere")
        old.unlink()


def place_file(old: Path, new: Path) -> None:
    """Renames a file, but never over another one, even if that appears in the same moment."""
    try:
        os.link(old, new, follow_symlinks=False)
    except (FileExistsError, FileNotFoundError):
        raise
    except (OSError, NotImplementedError):  # the file system has no links
        if os.path.lexists(new):
            raise FileExistsError(f"{new} exists already: nothing is written over it") from None
        os.rename(old, new)
    else:
        os.unlink(old)


def remove_empty(base: Path, folders: Iterable[str]) -> None:
    """Removes the empty ones among the folders below ``base``."""
    for name in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):
            (base / name).rmdir()


def sync_folders(folders: Iterable[Path]) -> None:
    """Writes the folders' lists of names through to the disk."""
    for folder in folders if os.name != "nt" else ():
        if folder.is_dir():
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def sync_file(path: Path) -> None:
    """Writes a file's bytes through to the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
