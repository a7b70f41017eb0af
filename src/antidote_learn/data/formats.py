"""The official binary files of CIFAR and MNIST, as arrays."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CIFAR_SHAPE = (3, 32, 32)
PIXELS = math.prod(CIFAR_SHAPE)
RECORDS_AT_ONCE = 1024  # images read at a time, 3 MB
IDX_BYTES = 0x08  # the type code of unsigned bytes, the only one in MNIST's files


def content_digest(path: Path) -> str:
    """SHA-256 of a file's content in hexadecimal; a ``.gz`` file is uncompressed for it."""
    with _open_content(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_cifar(
    files: Sequence[Path], *, label_bytes: int, label_at: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images and labels of CIFAR's binary version, file after file.

    A record is ``label_bytes`` labels, then 1024 red, 1024 green and 1024 blue bytes, rows first. The images are read
    into one array, so that hardly more memory is needed than for the result.

    Args:
        files: The files, in order.
        label_bytes: Labels in a record: 1 in CIFAR-10, 2 (coarse, fine) in CIFAR-100.
        label_at: The position of the label to return among them, from 0.

    Returns:
        (N, 3, 32, 32) uint8 images and (N,) int64 labels.

    Raises:
        ValueError: A file does not consist of whole records.
    """
    record = label_bytes + PIXELS
    counts = [_count_records(path, record) for path in files]
    images = np.empty((sum(counts), PIXELS), dtype=np.uint8)
    labels = np.empty(sum(counts), dtype=np.int64)
    start = 0
    for path, count in zip(files, counts, strict=True):
        with path.open("rb") as stream:
            for first in range(start, start + count, RECORDS_AT_ONCE):
                last = min(first + RECORDS_AT_ONCE, start + count)
                rows = np.fromfile(stream, dtype=np.uint8, count=(last - first) * record).reshape(-1, record)
                images[first:last], labels[first:last] = rows[:, label_bytes:], rows[:, label_at]
        start += count
    return images.reshape(-1, *CIFAR_SHAPE), labels


def _count_records(path: Path, record: int) -> int:
    size = path.stat().st_size
    if size == 0 or size % record:
        raise ValueError(
            f"{path} is truncated or no CIFAR binary file: expected a positive multiple of {record} bytes, found {size}"
            " bytes; fetch it again"
        )
    return size // record


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read the array of unsigned bytes in an idx file, plain or ``.gz``.

    Raises:
        ValueError: The file is no idx file of unsigned bytes, or its size is not the one in its header.
    """
    with _open_content(path) as stream:
        content = stream.read()
    dimensions = content[3] if len(content) >= 4 else 0
    if content[:3] != bytes([0, 0, IDX_BYTES]) or dimensions == 0:
        raise ValueError(
            f"{path} is no idx file of unsigned bytes: expected it to start with 00 00 08 and the number of dimensions,"
            f" found {content[:4].hex(' ') or 'nothing'}; fetch it again"
        )
    header = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4]) for at in range(4, header, 4))
    if len(content) != header + math.prod(shape):
        raise ValueError(
            f"{path} is truncated or damaged: expected {header + math.prod(shape)} bytes for shape {shape}, found"
            f" {len(content)} bytes; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()


@contextmanager
def _open_content(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file's uncompressed content; damaged compression is a ValueError."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); fetch it again") from error
