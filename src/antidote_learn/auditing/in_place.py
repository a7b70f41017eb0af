"""`apply_in_place` changes the data themselves: once, whole or not at all, and so that it can be undone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from antidote_learn.auditing.contents import content_hash, folder_hash, image_hashes
from antidote_learn.auditing.decisions import HASH, Change, data_hash, decisions_hash
from antidote_learn.auditing.disk import sync_file
from antidote_learn.auditing.editing import DataKind, Editor, review_of_file
from antidote_learn.auditing.image_moves import file_changes, is_dropped, plan_moves, review_of_folder
from antidote_learn.auditing.journals import ChangePlan, carry_out_plan, working_room
from antidote_learn.auditing.logs import (
    Application,
    Applied,
    application_text,
    applications,
    log_of,
    outcome,
    read_log,
    unsure_text,
)
from antidote_learn.training.checkpoint import digest, write_bytes

OTHER_DATA = (
    f"the decisions are of other data: their {HASH!r} is not the digest of this; give the data that was audited, as it "
    "was then, audit it again"
)


def apply_in_place(given: pd.DataFrame, source: Path, kind: DataKind) -> Applied:
    """Changes a file or a folder; see `apply_decisions`."""
    wanted, log = _demand_hash(given), log_of(source)
    with working_room(log) as room:
        before = read_log(log)
        history, now = applications(before, log), content_hash(source)
        if now != wanted:
            return _earlier_outcome(given, source, history, now)
        if kind.suffix:
            return _change_file(room.path, given, source, kind, before)
        return _change_folder(room.path, given, source, before)


def _demand_hash(given: pd.DataFrame) -> str:
    found = data_hash(given)
    if found is None:
        raise ValueError(
            f"decisions without a {HASH!r} are not applied in place, since nobody can tell whether the data are still "
            "those that were audited: export them from the review page of a new audit, or give `out` for a copy"
        )
    return found


def _earlier_outcome(given: pd.DataFrame, source: Path, history: list[Application], now: str) -> Applied:
    """Returns what the same decisions did before; data that were changed otherwise since are a ValueError."""
    same = [one for one in history if one.decisions == decisions_hash(given) and one.data_hash == data_hash(given)]
    if not same or history[-1].new_data_hash != now:
        undo = f", or undo what was applied since by its log, {log_of(source)}" if history else ""
        raise ValueError(f"{source.name}: {OTHER_DATA}{undo}")
    done = same[-1]
    return Applied(source, log_of(source), done.relabelled, done.dropped, done.kept, done.unsure, already=True)


def _change_file(room: Path, given: pd.DataFrame, source: Path, kind: DataKind, before: bytes) -> Applied:
    edited, found = review_of_file(given, source, kind)
    done = outcome(found, source, log_of(source))
    if not found.changes:
        return done
    edited.write(room / "data", found.changes)
    shutil.copymode(source, room / "data")
    sync_file(room / "data")
    old_hash, new_hash = str(data_hash(given)), digest(room / "data")
    backup = f".{source.name}.{old_hash[:16]}.backup"  # a hidden file is not read as data
    moves = _back_up(source, room, backup, old_hash)
    changes = [_change_record(change, edited) for change in found.changes]
    write_bytes(room / "log", before + _log_lines(given, done, new_hash, changes, backup=backup) + unsure_text(found))
    replaced = ((f"{room.name}/data", source.name), (f"{room.name}/log", done.log.name))
    carry_out_plan(room, ChangePlan("apply", moves, replaced, expected=old_hash))
    return done


def _log_lines(
    given: pd.DataFrame,
    done: Applied,
    new_hash: str,
    changes: Sequence[Mapping[str, Any]],
    *,
    backup: str = "",
    folders: tuple[str, ...] = (),
) -> bytes:
    """Returns the lines of the log about this application."""
    application = Application(
        data_hash=str(data_hash(given)),
        new_data_hash=new_hash,
        decisions=decisions_hash(given),
        relabelled=done.relabelled,
        dropped=done.dropped,
        kept=done.kept,
        unsure=done.unsure,
        backup=backup,
        folders=folders,
        changes=tuple(changes),
    )
    return application_text(application)


def _change_record(change: Change, edited: Editor) -> dict[str, Any]:
    """Returns the log's record of a change; for a dropped row it holds the cells, too."""
    cells = edited.cells(change.index) if change.new_label is None else []
    return asdict(change) | ({"row": cells} if cells else {})


def _back_up(source: Path, room: Path, name: str, content: str) -> tuple[tuple[str, str], ...]:
    """Copies the file into the room, and returns the move to its place; an equal backup there needs none."""
    there = source.with_name(name)
    if os.path.lexists(there):
        if there.is_symlink() or not there.is_file() or digest(there) != content:
            raise ValueError(f"{there} is in the way, where the data are kept as they were: move it elsewhere")
        return ()
    shutil.copy2(source, room / "backup")
    if digest(room / "backup") != content:
        raise ValueError(f"{source.name} was changed by another program just now: nothing was written")
    sync_file(room / "backup")
    return ((f"{room.name}/backup", name),)


def _change_folder(room: Path, given: pd.DataFrame, source: Path, before: bytes) -> Applied:
    images, found = review_of_folder(given, source)
    done = outcome(found, source, log_of(source))
    if not found.changes:
        return done
    moves = plan_moves(images, found.changes, in_place=True)
    root, hashes = image_hashes(source)
    if folder_hash(hashes) != data_hash(given):
        raise ValueError(f"{source.name} was changed by another program just now: nothing was written")
    new = {moves.names[row]: str(name) for row, name in moves.new.items()}
    below = PurePosixPath(root.relative_to(source).as_posix())
    renames = tuple((str(below / old), str(below / name)) for old, name in new.items())
    folders = _new_folders(source, (name for _, name in renames))
    new_hash, changes = folder_hash(_hashes_after_moves(hashes, new)), file_changes(found.changes, moves)
    write_bytes(room / "log", before + _log_lines(given, done, new_hash, changes, folders=folders) + unsure_text(found))
    carry_out_plan(room, ChangePlan("apply", renames, ((f"{room.name}/log", done.log.name),), folders=folders))
    return done


def _hashes_after_moves(hashes: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Returns the digests by the files' new names; dropped files are no data any more."""
    names = {old: new.get(old, old) for old in hashes}
    return {name: hashes[old] for old, name in names.items() if not is_dropped(name)}


def _new_folders(base: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the folders that the new names need and that do not exist yet."""
    parents = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    return tuple(sorted(name for name in parents if not (base / name).exists()))
