"""Embeddings of all rows: made once, kept in the audit's folder, and found again by audits of the same inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from antidote_learn.auditing.features import parts
from antidote_learn.data.encoders import IMAGES, TEXT, Encoder
from antidote_learn.data.loaders import read_ahead
from antidote_learn.data.pictures import embedded_images
from antidote_learn.data.rows import FileRows, Rows
from antidote_learn.data.sentences import embedded
from antidote_learn.training.checkpoint import read_tensors, write_tensors

ROOM = "embeddings"
KEPT = 4096  # rows in a file
WORKERS = 2  # threads that decode image files

Index = NDArray[np.int64]
Numbers = NDArray[np.float32]


class Embeddable(Protocol):
    """Inputs that an encoder reads, so many at a time."""

    encoder: ClassVar[Encoder]
    batch: ClassVar[int]

    def digest(self) -> str:
        """Of all inputs, whatever their labels."""
        ...

    def embedded(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """(B, D) of each batch of rows."""
        ...


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images; files are taken for the same where name, size and time of change are."""

    rows: Rows
    encoder: ClassVar[Encoder] = IMAGES
    batch: ClassVar[int] = 32

    def digest(self) -> str:
        """See `Embeddable.digest`."""
        found = hashlib.sha256()
        if isinstance(self.rows, FileRows):
            files = self.rows.files
            found.update(f"{files.root.resolve()} {files.size}".encode())
            for name in files.names:
                state = (files.root / name).stat()
                found.update(json.dumps([name, state.st_size, state.st_mtime_ns]).encode())
        else:
            for part in parts(len(self.rows)):
                images = self.rows.take(part).numpy()
                found.update(str(images.shape).encode() + images.tobytes())
        return found.hexdigest()

    def embedded(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """See `Embeddable.embedded`."""
        for images in read_ahead(self.rows, batches, workers=WORKERS):
            yield embedded_images(images).numpy()


@dataclass(frozen=True, eq=False)
class Texts:
    """Columns of text, whose embeddings stand side by side."""

    columns: list[list[str]]
    encoder: ClassVar[Encoder] = TEXT
    batch: ClassVar[int] = 256

    def digest(self) -> str:
        """See `Embeddable.digest`."""
        return hashlib.sha256(json.dumps(self.columns).encode()).hexdigest()

    def embedded(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """See `Embeddable.embedded`."""
        for rows in batches:
            yield np.concatenate([embedded([column[i] for i in rows]) for column in self.columns], axis=1)


def all_embeddings(inputs: Embeddable, count: int, folder: Path, told: Callable[[int, int], None]) -> Numbers:
    """(N, D) of all rows.

    What is made goes into files of 4096 rows each. What the folder, or one beside it, holds already is read.

    Args:
        inputs: N of them.
        count: N.
        folder: Of the audit, with its room for embeddings.
        told: Called with (rows done, N).
    """
    key = hashlib.sha256(f"{inputs.encoder.name} {inputs.digest()}".encode()).hexdigest()
    found = []
    for rows in parts(count, KEPT):
        name = f"{key[:16]}-{rows[0]}.safetensors"
        block = _read(folder, name, {"key": key, "rows": len(rows)})
        if block is None:
            block = _made(inputs, rows, count, told)
            write_tensors(folder / ROOM / name, {ROOM: torch.from_numpy(block)}, {"key": key, "rows": len(rows)})
        told(int(rows[-1]) + 1, count)
        found.append(block)
    return np.concatenate(found)


def _made(inputs: Embeddable, rows: Index, count: int, told: Callable[[int, int], None]) -> Numbers:
    batches = [rows[start : start + inputs.batch] for start in range(0, len(rows), inputs.batch)]
    blocks = []
    for batch, block in zip(batches, inputs.embedded(batches), strict=True):
        blocks.append(block)
        told(int(batch[-1]) + 1, count)
    return np.concatenate(blocks)


def _read(folder: Path, name: str, state: Any) -> Numbers | None:
    """What this audit, or one whose folder lies beside it, has kept; a file that is damaged is none."""
    for path in (folder / ROOM / name, *sorted(folder.parent.glob(f"*/{ROOM}/{name}"))):
        try:
            tensors, stored = read_tensors(path)
        except (OSError, ValueError):
            continue
        if stored == state:
            block: Numbers = tensors[ROOM].numpy()
            return block
    return None
