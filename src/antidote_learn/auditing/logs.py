"""The log of changes: JSON lines, one for each change; each application in place begins with a line of its own.

That line holds the digests of the data before and after, by which an application is recognised and undone.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from antidote_learn.auditing.decisions import UNSURE, Decisions
from antidote_learn.training.checkpoint import damage_told

LOG = "changes.jsonl"  # the log's name in a folder
SUFFIX = f".{LOG}"  # the ending of a log's name beside a file
FORMAT = 1  # the version of the lines; others are refused
APPLIED, UNDONE = "applied", "undone"


@dataclass(frozen=True)
class Applied:
    """The outcome of `apply_decisions`.

    Attributes:
        out: The corrected data set.
        log: JSON lines, one for each change: ``index`` (in the data as they were), ``given_label``, ``new_label`` (null
            where the row was dropped), and of image files ``file`` and ``new_file``. In place they follow a line with
            the data's digests before and after, and tell the cells of a dropped ``row`` of a table; nothing is logged
            where nothing changes. A line with ``"decision": "unsure"`` names a row that nobody was sure of.
        relabelled: The number of labels that were changed.
        dropped: The number of rows that were left out.
        kept: The number of rows that were looked at and stay as they are.
        unsure: The number of rows that nobody was sure of; they stay as they are.
        already: Whether an earlier call had applied the same decisions in place.
    """

    out: Path
    log: Path
    relabelled: int
    dropped: int
    kept: int
    unsure: int
    already: bool = False


def outcome(found: Decisions, out: Path, log: Path) -> Applied:
    """Returns the outcome of decisions in numbers."""
    dropped = sum(change.new_label is None for change in found.changes)
    return Applied(out, log, len(found.changes) - dropped, dropped, found.kept, len(found.unsure))


def unsure_text(found: Decisions) -> bytes:
    """Returns the lines of a log about the rows that nobody was sure of."""
    rows = [{"index": row.index, "given_label": row.given_label, "decision": UNSURE} for row in found.unsure]
    return log_text(rows)


@dataclass(frozen=True)
class Application:
    """One application in place, as its log tells it.

    Attributes:
        data_hash: The digest of the data before.
        new_data_hash: The digest of the data afterwards.
        decisions: The digest of the decisions.
        relabelled: As in `Applied`.
        dropped: As in `Applied`.
        kept: As in `Applied`.
        backup: The name of a copy of the file as it was; empty for a folder, whose files are only moved.
        folders: The folders that were made, relative to the data.
        changes: The records of the changes.
        unsure: As in `Applied`; logs of before there was such a decision lack it.
    """

    data_hash: str
    new_data_hash: str
    decisions: str
    relabelled: int
    dropped: int
    kept: int
    backup: str
    folders: tuple[str, ...]
    changes: tuple[Mapping[str, Any], ...]
    unsure: int = 0


def log_of(data: Path) -> Path:
    """Returns the path of the log of changes in place."""
    return data / LOG if data.is_dir() else data.with_name(data.name + SUFFIX)


def data_of(log: Path) -> Path:
    """Returns the path of the data that a log belongs to; a name that is no log's is a ValueError."""
    if log.name == LOG:
        return log.parent
    if not log.name.endswith(SUFFIX) or log.name == SUFFIX:
        raise ValueError(f"{log.name!r} is no log: expected FOLDER/{LOG}, or FILE{SUFFIX} beside the file")
    return log.with_name(log.name.removesuffix(SUFFIX))


def read_log(path: Path) -> bytes:
    """Reads the bytes of a log, b"" if it is missing; a link, a pipe or any other special file is a ValueError."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return b""
    if not stat.S_ISREG(kind):
        raise ValueError(f"{path} is {_kind_name(kind)}, where the log of the changes belongs: move it elsewhere")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags), "rb") as file:
        return file.read()


def _kind_name(mode: int) -> str:
    known = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return known.get(stat.S_IFMT(mode), "a device")


def log_text(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Returns one line of JSON for each record."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def application_text(application: Application) -> bytes:
    """Returns the lines of an application."""
    first = {"event": APPLIED, "format": FORMAT, **asdict(application), "changes": len(application.changes)}
    return log_text([first, *application.changes])


def undo_text(application: Application) -> bytes:
    """Returns the line that marks the latest application as undone."""
    return log_text([{"event": UNDONE, "format": FORMAT, "data_hash": application.data_hash}])


def applications(content: bytes, log: Path) -> list[Application]:
    """Returns the applications in a log that were not undone, the latest last; a damaged log is a ValueError.

    Lines that belong to no application come from logs of copies and are skipped.
    """
    with damage_told(log):
        return _standing_applications([json.loads(line) for line in content.decode().splitlines()])


def _standing_applications(records: Sequence[dict[str, Any]]) -> list[Application]:
    found: list[Application] = []
    for at, record in enumerate(records):
        event = record.get("event")
        if event is not None and record["format"] != FORMAT:
            raise ValueError(f"its format is {record['format']!r}, known is {FORMAT}")
        if event == APPLIED:
            found.append(_application(record, records[at + 1 : at + 1 + record["changes"]]))
        elif event == UNDONE:
            found.pop()
    return found


def _application(record: dict[str, Any], changes: Sequence[dict[str, Any]]) -> Application:
    if len(changes) != record["changes"]:
        raise ValueError("lines are missing")
    record = {"unsure": 0, **record}
    known = {field.name: record[field.name] for field in fields(Application)}
    known |= {"folders": tuple(map(str, record["folders"])), "changes": tuple(changes)}
    kinds: dict[str, type] = dict.fromkeys(("data_hash", "new_data_hash", "decisions", "backup"), str)
    kinds |= dict.fromkeys(("relabelled", "dropped", "kept", "unsure"), int)
    wrong = [name for name, kind in kinds.items() if not isinstance(known[name], kind)]
    if wrong or not all(isinstance(change, dict) for change in changes):
        raise TypeError(f"{wrong[0] if wrong else 'a change'} is not what it was")
    return Application(**known)
