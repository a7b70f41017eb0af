"""Checks of a file before it is opened: it is a regular file, its name is text, and it fits into memory."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t", ".txt": ","}  # of text files, by suffix
LINES, PARQUET, WORKBOOK = ".jsonl", ".parquet", ".xlsx"
TABLE_SUFFIXES = (*SEPARATORS, LINES, WORKBOOK, PARQUET)
MOST_COLUMNS = 100_000  # columns of a table; each takes a millisecond, so that more would take minutes
GROWTH = 4  # the bytes of memory that a byte of text takes as a table, at least
CELL = 8  # the bytes of memory that a cell of a table takes, at least: those of a double
KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class TableFault(ValueError):
    """A fault in the content of a file, in words that say how to mend it."""


def table_suffix(path: Path) -> str | None:
    """The end of a table's name, one of `TABLE_SUFFIXES`; None for other files."""
    return next((suffix for suffix in TABLE_SUFFIXES if path.name.lower().endswith(suffix)), None)


def special_kind(path: Path) -> str:
    """The kind of a pipe, a socket or a device, in words; empty for files, folders and nothing."""
    try:
        return KINDS.get(stat.S_IFMT(path.stat().st_mode), "")
    except (OSError, ValueError):
        return ""


def check_regular(path: Path) -> None:
    """Raise OSError for a pipe, a socket or a device, whose reading may never end."""
    kind = special_kind(path)
    if kind:
        raise OSError(f"{kind}, not a file")


def check_file(path: Path) -> None:
    """Raise ValueError for a pipe, a socket or a device, and FileNotFoundError where there is no file."""
    accepted = ", ".join((*TABLE_SUFFIXES, ".npz"))
    kind = special_kind(path)
    if kind:
        raise ValueError(f"{path} is {kind}, which is not opened: give the path of a file that ends in {accepted}")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}: give the path of a file that ends in {accepted}")


def check_excel() -> None:
    """Raise TableFault where the package that reads workbooks is not installed."""
    if importlib.util.find_spec("openpyxl") is None:
        raise TableFault(
            "reading a .xlsx file needs openpyxl: pip install 'antidote-learn[excel]', or save the sheet as .csv"
        )


def is_text(name: str | Path) -> bool:
    """Whether a name is UTF-8, which file systems do not ask of names."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        return False
    return True


def readable_name(name: str | Path) -> str:
    """The name, or its bytes where it is no text."""
    return str(name) if is_text(name) else repr(os.fsencode(name))


def check_name(path: Path) -> None:
    """Raise ValueError for a name that is not UTF-8, which no table and no page can hold."""
    if not is_text(path):
        raise ValueError(f"the name {readable_name(path)} is not UTF-8: rename it")


def check_room(size: int) -> None:
    """Raise MemoryError where ``size`` bytes are more than this machine's memory."""
    most = _memory()
    if most is not None and size > most:
        raise MemoryError(f"{size / 2**30:.3g} GiB, and this machine has {most / 2**30:.3g} GiB")


def check_table_room(rows: int, columns: int) -> None:
    """Raise MemoryError where a table of this size is larger than this machine's memory."""
    check_room(rows * columns * CELL)


def _memory() -> int | None:
    """The bytes of this machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
