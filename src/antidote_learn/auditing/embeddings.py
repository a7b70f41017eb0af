"""Embeddings of all images or texts: made once, kept in the audit's folder, found by audits of the same inputs."""

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
KEPT = 4096  # images or texts in a file
WINDOW = 1000  # characters, about as many as the encoder of text reads
WORKERS = 2  # threads that decode image files

Index = NDArray[np.int64]
Numbers = NDArray[np.float32]


class Embeddable(Protocol):
    """Images or texts that an encoder reads, so many at a time."""

    encoder: ClassVar[Encoder]
    batch: ClassVar[int]

    def __len__(self) -> int: ...

    def digest(self) -> str:
        """Of all that is embedded, whatever the labels."""
        ...

    def embedded(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """(B, D) of each batch of images or texts."""
        ...

    def of_rows(self, embeddings: Numbers) -> Numbers:
        """(N, W) of the N rows, from those of all images or texts."""
        ...


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images; files are taken for the same where name, size and time of change are."""

    rows: Rows
    encoder: ClassVar[Encoder] = IMAGES
    batch: ClassVar[int] = 32

    def __len__(self) -> int:
        """How many images."""
        return len(self.rows)

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

    def of_rows(self, embeddings: Numbers) -> Numbers:
        """An image is a row."""
        return embeddings


class Texts:
    """Columns of text, whose embeddings stand side by side; each different text is read once, the shortest first.

    Args:
        columns: The N texts of each.
    """

    encoder: ClassVar[Encoder] = TEXT
    batch: ClassVar[int] = 256

    def __init__(self, columns: Sequence[Sequence[str]]) -> None:
        self.distinct = sorted({text for column in columns for text in column}, key=lambda text: (len(text), text))
        place = {text: i for i, text in enumerate(self.distinct)}
        self.places = [np.array([place[text] for text in column]) for column in columns]

    def __len__(self) -> int:
        """How many different texts."""
        return len(self.distinct)

    @property
    def characters(self) -> int:
        """How many are to be read: of a long text the first 1000."""
        return sum(min(len(text), WINDOW) for text in self.distinct)

    def digest(self) -> str:
        """See `Embeddable.digest`."""
        return hashlib.sha256(json.dumps(self.distinct).encode()).hexdigest()

    def embedded(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """See `Embeddable.embedded`."""
        for batch in batches:
            yield embedded([self.distinct[i] for i in batch])

    def of_rows(self, embeddings: Numbers) -> Numbers:
        """See `Embeddable.of_rows`."""
        return np.concatenate([embeddings[places] for places in self.places], axis=1)


def all_embeddings(inputs: Embeddable, folder: Path, told: Callable[[int, int], None]) -> Numbers:
    """(N, W) of all rows.

    What is made goes into files of 4096 images or texts each. What the folder, or one beside it, holds already is read.

    Args:
        inputs: M images or texts.
        folder: Of the audit, with its room for embeddings.
        told: Called with (images or texts done, M).
    """
    count = len(inputs)
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
    return inputs.of_rows(np.concatenate(found))


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
