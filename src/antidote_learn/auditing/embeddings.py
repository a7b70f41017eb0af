"""Embeddings of all images or texts: made once, kept in the audit's folder, found by audits of the same inputs."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from antidote_learn.auditing.features import parts
from antidote_learn.data.encoders import IMAGES, TEXT, Encoder
from antidote_learn.data.loaders import read_ahead
from antidote_learn.data.pictures import embed_images
from antidote_learn.data.rows import FileRows, SampleRows
from antidote_learn.data.safety import check_regular
from antidote_learn.data.sentences import embed_texts
from antidote_learn.training.checkpoint import read_tensors, write_tensors

ROOM = "embeddings"
KEPT = 4096  # images or texts in a file
WINDOW = 1000  # characters, about as many as the encoder of text reads
WORKERS = 2  # threads that decode image files
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

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

    rows: SampleRows
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
            yield embed_images(images).numpy()

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
            yield embed_texts([self.distinct[i] for i in batch])

    def of_rows(self, embeddings: Numbers) -> Numbers:
        """See `Embeddable.of_rows`."""
        return np.concatenate([embeddings[places] for places in self.places], axis=1)


def all_embeddings(
    inputs: Embeddable, folder: Path, told: Callable[[int, int], None], note: Callable[[str], None]
) -> Numbers:
    """(N, W) of all rows.

    What is made goes into files of 4096 images or texts each. What the folder, or one beside it, holds already is read.

    Args:
        inputs: M images or texts.
        folder: Of the audit, with its room for embeddings.
        told: Called with (images or texts done, M).
        note: Called with a sentence where a file is there that cannot be used.
    """
    count = len(inputs)
    key = hashlib.sha256(f"{inputs.encoder.name} {inputs.digest()}".encode()).hexdigest()
    found = []
    for rows in parts(count, KEPT):
        name = f"{key[:16]}-{rows[0]}.safetensors"
        block = _find_block(folder, name, key, (len(rows), inputs.encoder.width), note)
        if block is None:
            block = _made(inputs, rows, count, told)
            _write_block(folder / ROOM / name, key, block)
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


def _find_block(
    folder: Path, name: str, key: str, shape: tuple[int, int], note: Callable[[str], None]
) -> Numbers | None:
    """What this audit has kept, or one of this user's whose folder lies beside it; what is damaged is made again."""
    own = folder / ROOM / name
    for path in (own, *sorted({*folder.parent.glob(f"*/{ROOM}/{name}")} - {own})):
        if not os.path.lexists(path):
            continue
        if path != own and not _is_ours(path):
            note(f"the embeddings in {path} were not used: another user made them, or could have changed them")
            continue
        block = _read_block(path, key, shape)
        if block is not None:
            return block
        note(f"the embeddings in {path} were not used: the file is damaged, or of another version")
    return None


def _is_ours(path: Path) -> bool:
    """Whether the file is this user's, and nobody else's to write, where the system knows users."""
    if not hasattr(os, "geteuid"):
        return True
    state = path.stat()
    return state.st_uid == os.geteuid() and not state.st_mode & OTHERS_WRITE


def _read_block(path: Path, key: str, shape: tuple[int, int]) -> Numbers | None:
    """The block, where the file is whole and its digest is the one of this content for this key."""
    try:
        check_regular(path)
        tensors, state = read_tensors(path)
    except (OSError, ValueError):
        return None
    tensor = tensors.get(ROOM)
    if tensor is None or tensor.dtype != torch.float32 or tuple(tensor.shape) != shape:
        return None
    block: Numbers = tensor.numpy()
    return block if state == _block_state(key, block) else None


def _write_block(path: Path, key: str, block: Numbers) -> None:
    write_tensors(path, {ROOM: torch.from_numpy(block)}, _block_state(key, block))
    path.chmod(path.stat().st_mode & ~OTHERS_WRITE)  # else no audit beside this one would take it


def _block_state(key: str, block: Numbers) -> dict[str, str]:
    """What a file says of its block: whose it is, and a digest of both."""
    content = hashlib.sha256(f"{key} {block.shape} ".encode())
    content.update(np.ascontiguousarray(block).data)
    return {"key": key, "sha256": content.hexdigest()}
