"""Arrays in a .npz file, each checked by its header before anything of it is unpacked."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from antidote_learn.data.safety import check_room

KINDS = "biufcSUMm"  # NumPy's kinds of plain values; objects and records are not among them
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
SUFFIX = ".npy"  # the end of a member's name, which savez appends to the name of its array


def read_archive(path: Path, names: Sequence[str] | None = None) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Read arrays of a .npz file by name, and list the names of all; pickled objects are never loaded.

    Args:
        path: A file of numpy.savez.
        names: The arrays to read, as far as the file holds them; None for all.

    Raises:
        ValueError: The file is no archive, or an array is not what its header says.
        MemoryError: The arrays do not fit into this machine's memory.
    """
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no archive of numpy.savez")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(SUFFIX): info for info in archive.infolist()}
        wanted = [name for name in (members if names is None else names) if name in members]
        check_room(sum(members[name].file_size for name in wanted))
        return {name: _read_array(archive, members[name], name) for name in wanted}, list(members)


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    with archive.open(member) as stream:
        _check_header(stream, member.file_size, name)
    with archive.open(member) as stream:
        array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
        stream.read()  # zipfile compares the checksum at the end
    return array


def _check_header(stream: Any, size: int, name: str) -> None:
    """Refuse an array that is not of plain values, or has another number of bytes than its shape needs."""
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise ValueError(f"the array {name!r} has the unknown format {version}")
    shape, _, dtype = HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError(f"Object arrays cannot be loaded, and {name!r} is one: save numbers or strings")
    if dtype.kind not in KINDS:
        raise ValueError(f"the array {name!r} holds records of type {dtype!s:.40}; accepted are numbers and strings")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - stream.tell() or not dtype.itemsize:
        raise ValueError(f"the array {name!r} has another size than its shape {shape!s:.60} needs")
