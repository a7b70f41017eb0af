"""`apply_decisions` writes a data set with the labels that its reviewers chose, and logs every change."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from antidote_learn.auditing.contents import content_hash
from antidote_learn.auditing.decisions import data_hash, read_decisions
from antidote_learn.auditing.disk import place_file, sync_file
from antidote_learn.auditing.editing import EDITORS, DataKind, review_of_file
from antidote_learn.auditing.image_moves import copy_images, file_changes, plan_moves, review_of_folder
from antidote_learn.auditing.in_place import OTHER_DATA, apply_in_place
from antidote_learn.auditing.journals import settle_leftovers, working_room
from antidote_learn.auditing.logs import LOG, SUFFIX, Applied, log_of, log_text, outcome, read_log, unsure_text
from antidote_learn.data.load import check_form
from antidote_learn.data.text_forms import TextForm, text_form

ACCEPTED = f"a file that ends in {', '.join(EDITORS)}, or a folder of images by class"
CORRECTED = "-corrected"


def apply_decisions(
    decisions: str | Path | pd.DataFrame,
    data: str | Path,
    *,
    label: str | None = None,
    out: str | Path | None = None,
    in_place: bool = False,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
) -> Applied:
    r"""Writes a data set with the labels that people decided on.

    Tables and arrays stay what they are but for the labels, and for the rows that are dropped; of a text file all other
    bytes stay. Image files are copied into the folders of their classes; in place they are moved, and those that are
    dropped go to ``.dropped``.

    A call that was interrupted in place is finished by the next one; decisions that were applied in place already
    change nothing. `undo_decisions` takes back what was done in place.

    Args:
        decisions: The file that the review page exports, or its table.
        data: The file or folder that was audited.
        label: The label column of a table.
        out: The path of the corrected data set, of the same kind; by default it lies beside the data, with
            ``-corrected`` in its name. Neither it nor its log may exist.
        in_place: Change the data themselves. The decisions must name their data by digest (``data_hash``).
        encoding: The encoding of a text file; detected if it is not given, as are the next.
        separator: The separator of its columns.
        decimal: The decimal mark of its numbers.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The decisions do not fit the data, or ``out`` will not do; nothing was written.

    Example:
        >>> import tempfile
        >>> data = Path(tempfile.mkdtemp()) / "data.csv"
        >>> _ = data.write_text("x,label\n1,cat\n2,dog\n")
        >>> decided = {"index": [0], "given_label": ["cat"], "decision": ["relabel"], "new_label": ["dog"]}
        >>> done = apply_decisions(pd.DataFrame(decided), data)
        >>> done.out.name, done.out.read_text()
        ('data-corrected.csv', 'x,label\n1,dog\n2,dog\n')
    """
    given, source = read_decisions(decisions), Path(data).expanduser()
    settle_leftovers(log_of(source.resolve()))
    if in_place:
        source = source.resolve()  # a link to the data stays a link
    kind = _data_kind(source, label, text_form(encoding, separator, decimal))
    if in_place:
        if out is not None:
            raise ValueError(f"`in_place=True` and `out={out}`: give one of them")
        return apply_in_place(given, source, kind)
    wanted = data_hash(given)
    if wanted is not None and content_hash(source) != wanted:
        raise ValueError(f"{source.name}: {OTHER_DATA}, or take out the column to compare rows and labels alone")
    target = Path(out).expanduser() if out is not None else _default_target(source, kind.suffix)
    return _write_file(given, source, kind, target) if kind.suffix else _write_folder(given, source, target)


def _write_file(given: pd.DataFrame, source: Path, kind: DataKind, target: Path) -> Applied:
    log = target.with_name(f"{target.name}{SUFFIX}")
    settle_leftovers(log)
    if not target.name.lower().endswith(kind.suffix):
        raise ValueError(f"{source.name} is written as a file that ends in {kind.suffix}; received `out={target}`")
    _check_free(target)
    edited, found = review_of_file(given, source, kind)
    lines = log_text([asdict(change) for change in found.changes]) + unsure_text(found)
    parts = {"data": target} if _is_begun(log, lines) else {"log": log, "data": target}
    log.parent.mkdir(parents=True, exist_ok=True)
    with working_room(log) as room:
        edited.write(room.path / "data", found.changes)
        (room.path / "log").write_bytes(lines)
        for name, path in parts.items():
            sync_file(room.path / name)
            place_file(room.path / name, path)
    return outcome(found, target, log)


def _write_folder(given: pd.DataFrame, source: Path, target: Path) -> Applied:
    settle_leftovers(target)
    if target.is_symlink() or not target.is_dir() or any(target.iterdir()):
        _check_free(target)
    if target.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{target} lies in the data itself: choose another `out`")
    images, found = review_of_folder(given, source)
    moves = plan_moves(images, found.changes, in_place=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    with working_room(target) as room:
        copy_images(images, moves, source, room.path / "copy")
        (room.path / "copy" / LOG).write_bytes(log_text(file_changes(found.changes, moves)) + unsure_text(found))
        os.replace(room.path / "copy", target)  # the target is absent or an empty folder
    return outcome(found, target, target / LOG)


def _data_kind(source: Path, label: str | None, form: TextForm) -> DataKind:
    """Returns the kind of data that can be written anew; a ValueError for other data, or an option they do not take."""
    ends = [""] if source.is_dir() else [suffix for suffix in EDITORS if source.name.lower().endswith(suffix)]
    if not ends:
        raise ValueError(f"decisions can be applied to {ACCEPTED}; received {str(source)!r}")
    if label is not None and ends[0] in ("", ".npz"):
        raise ValueError(f"{source.name!r} takes no `label`: that is for tables in files")
    check_form(source.name, form)
    return DataKind(ends[0], label, form)


def _default_target(source: Path, suffix: str) -> Path:
    """Returns the path beside the data that the corrected data set gets by default."""
    stem = source.name[: len(source.name) - len(suffix)] or source.resolve().name
    return source.with_name(f"{stem}{CORRECTED}{source.name[len(stem) :]}")


def _check_free(path: Path) -> None:
    """Raises a ValueError if the path exists, even as a broken link."""
    if os.path.lexists(path):
        raise ValueError(f"{path} exists already: choose another `out`")


def _is_begun(log: Path, lines: bytes) -> bool:
    """Tells whether a killed process has written this very log; any other log is a ValueError."""
    if not os.path.lexists(log):
        return False
    if read_log(log) != lines:
        raise ValueError(f"{log} exists already, a log of other changes: choose another `out`, or move it elsewhere")
    return True
