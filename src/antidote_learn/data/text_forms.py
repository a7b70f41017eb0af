"""The form of a table in a text file: its encoding, the separator of its columns, and its decimal mark."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
import string
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import BinaryIO

from antidote_learn.data.safety import TableFault

CHUNK = 2**20  # bytes that are looked at together; the first ones tell the separator
DECIMALS = (".", ",")
TAB_WORDS = ("tab", "\\t")  # a tab, as people write it on a command line
NEVER = f'{string.ascii_letters}{string.digits}"\r\n. '  # characters that part no columns
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # byte order marks
BROAD = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}  # encodings that would swallow the mark, and those that keep it
MOSTLY = 0.9  # the share of rows that must have as many cells as the header where none of the separators fits all rows
SEPARATOR_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

Opener = Callable[[], AbstractContextManager[BinaryIO]]
"""A function that opens a file's bytes."""


Note = Callable[[str], None]
"""A function that takes a sentence for the user."""


def ignore_note(text: str) -> None:
    """Do nothing with a sentence for the user."""


@dataclass(frozen=True)
class TextForm:
    """The form of a text table; None stands for what is not given, or not known.

    Attributes:
        encoding: The encoding, such as "utf-8" or "cp1252"; a byte order mark stays in the text.
        separator: The character between two cells.
        decimal: The decimal mark, "." or ",".
    """

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None


UNKNOWN = TextForm()


def text_form(encoding: str | None = None, separator: str | None = None, decimal: str | None = None) -> TextForm:
    """Check the form that a user gives; ValueError where a part of it is none."""
    if encoding is not None:
        try:
            b"a".decode(encoding)
        except UnicodeError:
            pass  # it wants more bytes
        except (LookupError, ValueError) as error:
            raise ValueError(f"unknown `encoding={encoding}`; accepted: utf-8, utf-16, cp1252, latin-1, ...") from error
    if separator in TAB_WORDS:
        separator = "\t"
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in NEVER):
        raise ValueError(f"separator must be one character, such as ';', '|' or 'tab'; received {separator!r}")
    if decimal is not None and decimal not in DECIMALS:
        raise ValueError(f"decimal must be '.' or ','; received {decimal!r}")
    return TextForm(encoding, separator, decimal)


def settle_form(open_bytes: Opener, given: TextForm, usual: str) -> TextForm:
    """Settle encoding and separator of a file: those that are given, else those that its bytes show.

    Args:
        open_bytes: Opens the file.
        given: The form that the user gives.
        usual: The separator of a file with such a name.

    Raises:
        TableFault: The bytes are text in no encoding that can be told.
    """
    with open_bytes() as file:
        start = file.read(CHUNK)
    marked = next((name for mark, name in MARKS.items() if start.startswith(mark)), None)
    encoding = given.encoding and codecs.lookup(given.encoding).name
    if encoding in BROAD:
        encoding = marked or BROAD[encoding]
    encoding = encoding or marked or _detect_encoding(open_bytes)
    text = start.decode(encoding, "replace").removeprefix("\ufeff")
    separator = given.separator or detect_separator(text, usual, is_cut=len(start) == CHUNK)
    return replace(given, encoding=encoding, separator=separator)


def form_words(found: TextForm, given: TextForm, usual: str) -> list[str]:
    """The parts of a form that were detected and are not the usual ones, in words."""
    words = []
    if given.encoding is None and found.encoding != "utf-8":
        words.append(f"as {found.encoding}")
    if given.separator is None and found.separator != usual:
        words.append(f"with {SEPARATOR_WORDS[str(found.separator)]} between the columns")
    return words


def _detect_encoding(open_bytes: Opener) -> str:
    """Detect UTF-8, cp1252 or latin-1 by all bytes of a file; TableFault where it looks like none of them."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_bytes() as file:
        try:
            while chunk := file.read(CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _detect_western(open_bytes)
    return "utf-8"


def _detect_western(open_bytes: Opener) -> str:
    """Tell cp1252 from latin-1, and both from damaged UTF-8 and from other scripts, whose high bytes stand together."""
    whole = broken = high = grouped = 0
    controls: set[bytes] = set()
    with open_bytes() as file:
        while chunk := file.read(CHUNK) + file.readline():
            text = chunk.decode("utf-8", "surrogateescape")
            broken += len(re.findall("[\udc80-\udcff]", text))
            whole += len(re.findall("[^\x00-\x7f\udc80-\udcff]", text))
            high += len(re.findall(rb"[\x80-\xff]", chunk))
            grouped += sum(map(len, re.findall(rb"[\x80-\xff]{3,}", chunk)))
            controls |= {*re.findall(rb"[\x80-\x9f]", chunk)}
    if whole > broken:
        raise TableFault(f"{broken} of its bytes are no UTF-8, unlike the rest: mend them, or name its `encoding`")
    if 2 * grouped > high or controls & {b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d"}:
        raise TableFault("its text is neither UTF-8 nor cp1252 nor latin-1: name its `encoding`, or save it as UTF-8")
    return "cp1252" if controls else "latin-1"


def detect_separator(text: str, usual: str, *, is_cut: bool = False) -> str:
    """Detect the separator of a table by its first lines.

    A separator fits if it parts the header, and every row into as many cells as the header. The usual one is taken
    where it fits, unless another one fits, too, and leaves no comma in the cells but decimal ones.

    Args:
        text: The first lines.
        usual: The separator that files with such a name have.
        is_cut: Whether the text ends anywhere, so that its last row does not count.
    """
    tables = {mark: _split_cells(text, mark, is_cut) for mark in SEPARATOR_WORDS}
    fits = {mark: _share_of_header(rows) for mark, rows in tables.items() if rows and len(rows[0]) > 1}
    whole = sorted((mark for mark, share in fits.items() if share == 1.0), key=lambda mark: -len(tables[mark][0]))
    if usual in whole:
        rivals = [mark for mark in whole if usual == "," and mark != usual and _keeps_decimals(tables[mark])]
        return rivals[0] if rivals else usual
    most = [mark for mark, share in fits.items() if share >= MOSTLY]
    if whole or usual in most or not most:
        return whole[0] if whole else usual
    return max(most, key=lambda mark: len(tables[mark][0]))


def _split_cells(text: str, mark: str, is_cut: bool) -> list[list[str]]:
    """The rows of a text as cells, without empty lines; a cell beyond the limits of `csv` ends the text."""
    rows = []
    with contextlib.suppress(csv.Error):
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True):
            if row:
                rows.append(row)
    return rows[:-1] if is_cut and len(rows) > 1 else rows


def _share_of_header(rows: list[list[str]]) -> float:
    """The share of rows that have as many cells as the header."""
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows)


def _keeps_decimals(rows: list[list[str]]) -> bool:
    """Whether cells hold commas, and none but decimal ones."""
    found = [cell for row in rows[1:] for cell in row if "," in cell]
    return bool(found) and all(re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell) for cell in found)
