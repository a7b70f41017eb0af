"""`undo_decisions` restores data that decisions changed in place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from antidote_learn.auditing.contents import content_hash, folder_hash, image_hashes
from antidote_learn.auditing.image_moves import check_inside, is_dropped
from antidote_learn.auditing.journals import ChangePlan, carry_out_plan, working_room
from antidote_learn.auditing.logs import Application, applications, data_of, read_log, undo_text
from antidote_learn.training.checkpoint import digest, write_bytes


@dataclass(frozen=True)
class Undone:
    """The outcome of `undo_decisions`.

    Attributes:
        data: The file or folder, as it was before.
        log: The log, which notes the undoing, too.
        relabelled: The number of labels that are again what they were.
        dropped: The number of rows that are back.
        already: Whether there was nothing left to undo.
    """

    data: Path
    log: Path
    relabelled: int
    dropped: int
    already: bool = False


def undo_decisions(log: str | Path) -> Undone:
    r"""Takes back the latest application of decisions in place, to the byte; a second call takes back the one before.

    A call that was interrupted is finished by the next one.

    Args:
        log: The log of `apply_decisions`: ``FILE.changes.jsonl`` beside a file, ``changes.jsonl`` in a folder.

    Raises:
        FileNotFoundError: There is no such log, or no data beside it.
        ValueError: The data were changed since, or dropped rows are lost; nothing was changed.

    Example:
        >>> import tempfile
        >>> import pandas as pd
        >>> from antidote_learn import apply_decisions
        >>> from antidote_learn.auditing.contents import content_hash
        >>> data = Path(tempfile.mkdtemp()) / "data.csv"
        >>> _ = data.write_text("x,label\n1,cat\n2,dog\n")
        >>> row = {"index": [0], "given_label": ["cat"], "decision": ["drop"], "new_label": [""]}
        >>> decided = pd.DataFrame({**row, "data_hash": content_hash(data)})
        >>> done = apply_decisions(decided, data, in_place=True)
        >>> undo_decisions(done.log).dropped, data.read_text()
        (1, 'x,label\n1,cat\n2,dog\n')
    """
    path = Path(log).expanduser()
    path = path.parent.resolve() / path.name
    data = data_of(path)
    if not data.exists():
        raise FileNotFoundError(f"there is no {data}, of which {path.name} would be the log")
    with working_room(path) as room:
        before = read_log(path)
        if not os.path.lexists(path):
            raise FileNotFoundError(f"there is no log {path}: nothing was applied in place there")
        history = applications(before, path)
        if room.finished == "undo" or not history:
            return Undone(data, path, 0, 0, already=True)
        latest = history[-1]
        if content_hash(data) != latest.new_data_hash:
            raise ValueError(f"{data} was changed since the decisions were applied: nothing is undone, nothing changed")
        plan = _folder_plan(latest, data, room.path) if data.is_dir() else _file_plan(latest, data, room.path)
        write_bytes(room.path / "log", before + undo_text(latest))
        carry_out_plan(room.path, plan)
    return Undone(data, path, latest.relabelled, latest.dropped)


def _file_plan(latest: Application, data: Path, room: Path) -> ChangePlan:
    """Plans to put the backup in the place of the file."""
    check_inside(data.parent, latest.backup, linked=True)
    backup = data.with_name(latest.backup or "?")
    if backup.is_symlink() or not backup.is_file() or digest(backup) != latest.data_hash:
        raise ValueError(f"{backup}, the data as they were, is missing or was changed: nothing is undone")
    replaced = ((backup.name, data.name), (f"{room.name}/log", f"{data.name}.changes.jsonl"))
    return ChangePlan("undo", (), replaced, expected=latest.new_data_hash)


def _folder_plan(latest: Application, data: Path, room: Path) -> ChangePlan:
    """Plans to move every file back to where it was."""
    root, hashes = image_hashes(data)
    back = {str(change.get("new_file")): str(change.get("file")) for change in latest.changes}
    for name in (*back, *back.values()):
        check_inside(root, name, linked=True)
    dropped = {name: digest(root / name) for name in back if is_dropped(name) and (root / name).is_file()}
    restored = {back.get(name, name): content for name, content in {**hashes, **dropped}.items()}
    if folder_hash(restored) != latest.data_hash:
        raise ValueError(f"images that were moved or dropped in {data} are missing or changed: nothing is undone")
    below = PurePosixPath(root.relative_to(data).as_posix())
    moves = tuple((str(below / name), str(below / old)) for name, old in back.items())
    return ChangePlan("undo", moves, ((f"{room.name}/log", "changes.jsonl"),), folders=latest.folders)
