"""`apply_decisions`: a data set as the review of its audit corrects it, with a log of every change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from antidote_learn.auditing.decisions import Decisions, checked, read_decisions
from antidote_learn.auditing.editing import EDITORS
from antidote_learn.auditing.moving import Moves, copied, moved, planned
from antidote_learn.data.folders import read_folder
from antidote_learn.data.labels import class_names
from antidote_learn.data.tabular import about
from antidote_learn.training.checkpoint import replacing, write_bytes

ACCEPTED = "a .csv, .tsv, .parquet or .npz file, or a folder of images by class"
CORRECTED = "-corrected"
LOG = "changes.jsonl"  # in a folder


@dataclass(frozen=True)
class Applied:
    """A review carried out.

    Attributes:
        out: The corrected data set.
        log: JSON lines, one for each change: ``index`` (in the data as they were), ``given_label``, ``new_label`` (null
            where the row was dropped), and of image files ``file`` and ``new_file``.
        relabelled: How many labels were changed.
        dropped: How many rows were left out.
        kept: How many rows were looked at and stay as they are.
    """

    out: Path
    log: Path
    relabelled: int
    dropped: int
    kept: int


def apply_decisions(
    decisions: str | Path | pd.DataFrame,
    data: str | Path,
    *,
    label: str | None = None,
    out: str | Path | None = None,
    in_place: bool = False,
) -> Applied:
    r"""Writes a data set with the labels that people decided on.

    Tables and arrays stay what they are but for the labels, and for the rows that are dropped. Image files are copied
    into the folders of their classes; in place they are moved, and those that are dropped go to ``.dropped``.

    Args:
        decisions: What the review page exports, a file or a table.
        data: The file or folder that was audited.
        label: The label column of a table.
        out: Where the corrected data set goes, of the same kind; by default beside the data, with ``-corrected`` in
            its name. It must not exist.
        in_place: Change the data themselves.

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
    if in_place:
        source = source.resolve()  # a link stays one
    suffix = _suffix(source, label)
    target = _target(source, suffix, None if out is None else Path(out).expanduser(), in_place)
    apply = _apply_to_file if suffix else _apply_to_folder
    return apply(given, source, suffix, label, target)


def _apply_to_file(given: pd.DataFrame, source: Path, suffix: str, label: str | None, target: Path) -> Applied:
    edited = EDITORS[suffix](source, label)
    with about(source):
        found = checked(given, edited.words, class_names({*edited.spelled}))
    log = target.with_name(f"{target.name}.changes.jsonl")
    _write_log(log, [asdict(change) for change in found.changes], after=target == source)
    with replacing(target) as temporary:
        edited.write(temporary, found.changes)
    return _applied(found, target, log)


def _apply_to_folder(given: pd.DataFrame, source: Path, suffix: str, label: str | None, target: Path) -> Applied:
    images = read_folder(source)
    with about(source):
        found = checked(given, [images.classes[k] for k in images.labels], images.classes)
    moves = planned(images, found.changes, in_place=target == source)
    if target == source:
        _write_log(source / LOG, _with_files(found, moves), after=True)
        moved(moves)
    else:
        with copied(images, moves, source, target) as temporary:
            _write_log(temporary / LOG, _with_files(found, moves), after=False)
    return _applied(found, target, target / LOG)


def _with_files(found: Decisions, moves: Moves) -> list[dict[str, Any]]:
    names = [{"file": moves.names[change.index], "new_file": moves.new.get(change.index)} for change in found.changes]
    return [asdict(change) | files for change, files in zip(found.changes, names, strict=True)]


def _write_log(path: Path, records: Sequence[dict[str, Any]], *, after: bool) -> None:
    """``after`` what is there already, where data are changed in place: that can happen several times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_bytes() if after and path.exists() else b""
    write_bytes(path, before + "".join(json.dumps(record) + "\n" for record in records).encode())


def _applied(found: Decisions, target: Path, log: Path) -> Applied:
    dropped = sum(change.new_label is None for change in found.changes)
    return Applied(target, log, len(found.changes) - dropped, dropped, found.kept)


def _suffix(source: Path, label: str | None) -> str:
    """How the name of a file ends; empty for a folder."""
    ends = [""] if source.is_dir() else [suffix for suffix in EDITORS if source.name.lower().endswith(suffix)]
    if not ends:
        raise ValueError(f"decisions can be applied to {ACCEPTED}; received {str(source)!r}")
    if label is not None and ends[0] in ("", ".npz"):
        raise ValueError(f"{source.name!r} takes no --label: that is for tables in files")
    return ends[0]


def _target(source: Path, suffix: str, out: Path | None, in_place: bool) -> Path:
    """Where the corrected data set goes: nowhere where something is already, unless that is meant."""
    if in_place:
        if out is not None:
            raise ValueError(f"--in-place and --out {out}: give one of them")
        return source
    stem = source.name[: len(source.name) - len(suffix)] or source.resolve().name
    out = out or source.with_name(f"{stem}{CORRECTED}{source.name[len(stem) :]}")
    if suffix and not out.name.lower().endswith(suffix):
        raise ValueError(f"{source.name} is written as a file that ends in {suffix}; received --out {out}")
    if out.exists() and not (suffix == "" and out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} exists already: choose another --out")
    if suffix == "" and out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} lies in the data itself: choose another --out")
    return out
