"""Embeddings of images or texts: an audit keeps them in its folder, for itself and for audits beside it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
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

ROOM = "embeddings"  # the folder of the files, in the audit's folder, and the name of the array in a file
KEPT = 4096  # images or texts in a file: few files, and a kill loses little
WINDOW = 1000  # characters of a text that count: about as many as the encoder reads
LONG = 60.0  # seconds of embedding from which on users are told how long it takes
WORKERS = 2  # threads that decode image files, as many as `train` has by default
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH  # permissions that let other users change a file

Index = NDArray[np.int64]
Numbers = NDArray[np.float32]


class Embeddable(Protocol):
    """Images or texts that an encoder reads in batches."""

    encoder: ClassVar[Encoder]
    batch: ClassVar[int]

    def __len__(self) -> int: ...

    def work(self) -> Index:
        """Returns the work (M,) that each takes, in a unit of its own."""
        ...

    def digest(self) -> str:
        """Returns a digest of all inputs, whatever the labels."""
        ...

    def embed(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """Yields the embeddings (B, D) of each batch of images or texts."""
        ...

    def of_rows(self, embeddings: Numbers) -> Numbers:
        """Returns the embeddings (N, W) of the rows, given those of all images or texts."""
        ...


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images of a data set; two files count as the same if name, size and time of change agree."""

    rows: SampleRows
    encoder: ClassVar[Encoder] = IMAGES
    batch: ClassVar[int] = 32

    def __len__(self) -> int:
        """Returns the number of images."""
        return len(self.rows)

    def work(self) -> Index:
        """Returns 1 for each image: all have one size."""
        return np.ones(len(self), dtype=np.int64)

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

    def embed(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """See `Embeddable.embed`."""
        for images in read_ahead(self.rows, batches, workers=WORKERS):
            yield embed_images(images).numpy()

    def of_rows(self, embeddings: Numbers) -> Numbers:
        """Returns the embeddings as they are: each image is a row."""
        return embeddings


class Texts:
    """Columns of text, with embeddings side by side; each different text is read once, the longest first.

    Args:
        columns: The N texts of each column.
    """

    encoder: ClassVar[Encoder] = TEXT
    batch: ClassVar[int] = 256

    def __init__(self, columns: Sequence[Sequence[str]]) -> None:
        self.distinct = sorted({text for column in columns for text in column}, key=lambda text: (-len(text), text))
        place = {text: i for i, text in enumerate(self.distinct)}
        self.places = [np.array([place[text] for text in column]) for column in columns]

    def __len__(self) -> int:
        """Returns the number of different texts."""
        return len(self.distinct)

    def work(self) -> Index:
        """Returns the number of characters of each text; a long text counts as 1000, an empty one as 1."""
        return np.array([min(max(len(text), 1), WINDOW) for text in self.distinct])

    def digest(self) -> str:
        """See `Embeddable.digest`."""
        return hashlib.sha256(json.dumps(self.distinct).encode()).hexdigest()

    def embed(self, batches: Sequence[Index]) -> Iterator[Numbers]:
        """See `Embeddable.embed`."""
        for batch in batches:
            yield embed_texts([self.distinct[i] for i in batch])

    def of_rows(self, embeddings: Numbers) -> Numbers:
        """See `Embeddable.of_rows`."""
        return np.concatenate([embeddings[places] for places in self.places], axis=1)


def all_embeddings(
    inputs: Embeddable, folder: Path, tell: Callable[[int, int], None], note: Callable[[str], None]
) -> Numbers:
    """Returns the embeddings (N, W) of all rows.

    Files of 4096 images or texts each keep them; files that the folder, or one beside it, holds already are read.

    Args:
        inputs: M images or texts.
        folder: The folder of the audit, which has a folder for embeddings.
        tell: Called with (images or texts done, M), which go up with the work that is done.
        note: Called with a sentence about each file that cannot be used, and on how long it will take.
    """
    count, progress = len(inputs), _Progress(inputs, tell, note)
    key = hashlib.sha256(f"{inputs.encoder.name} {inputs.digest()}".encode()).hexdigest()
    found = []
    for rows in parts(count, KEPT):
        name = f"{key[:16]}-{rows[0]}.safetensors"
        block = _find_block(folder, name, key, (len(rows), inputs.encoder.width), note)
        if block is None:
            block = _embed_rows(inputs, rows, progress)
            _write_block(folder / ROOM / name, key, block)
        progress.reach(int(rows[-1]) + 1)
        found.append(block)
    return inputs.of_rows(np.concatenate(found))


class _Progress:
    """The work that is done, of all; it notes once how long the rest will take, if that is long."""

    def __init__(self, inputs: Embeddable, tell: Callable[[int, int], None], note: Callable[[str], None]) -> None:
        self.ends, self.encoder, self.tell, self.note = np.cumsum(inputs.work()), inputs.encoder.name, tell, note
        self.start: tuple[float, int] | None = None
        self.is_measured = False

    def reach(self, place: int) -> None:
        """Tells that all before a place are embedded."""
        self.tell(round(len(self.ends) * float(self.ends[place - 1] / self.ends[-1])), len(self.ends))

    def measure(self, place: int) -> None:
        """Takes the speed of the second batch, as the encoder is loaded with the first, when it reaches a place."""
        now = (time.monotonic(), int(self.ends[place - 1]))
        if self.start is not None and not self.is_measured:
            left = (self.ends[-1] - now[1]) * (now[0] - self.start[0]) / (now[1] - self.start[1])
            if left >= LONG:
                self.note(f"embedding by {self.encoder} takes about {left / 60.0:.0f} min more")
            self.is_measured = True
        self.start = now


def _embed_rows(inputs: Embeddable, rows: Index, progress: _Progress) -> Numbers:
    batches = [rows[start : start + inputs.batch] for start in range(0, len(rows), inputs.batch)]
    blocks = []
    for batch, block in zip(batches, inputs.embed(batches), strict=True):
        blocks.append(block)
        progress.measure(int(batch[-1]) + 1)
        progress.reach(int(batch[-1]) + 1)
    return np.concatenate(blocks)


def _find_block(
    folder: Path, name: str, key: str, shape: tuple[int, int], note: Callable[[str], None]
) -> Numbers | None:
    """Returns a block from this audit's files or from another audit of this user's beside it; None if there is none."""
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
    """Tells whether the file is this user's and no other user may write it; systems without users say yes."""
    if not hasattr(os, "geteuid"):
        return True
    state = path.stat()
    return state.st_uid == os.geteuid() and not state.st_mode & OTHERS_WRITE


def _read_block(path: Path, key: str, shape: tuple[int, int]) -> Numbers | None:
    """Reads a block; None if the file is damaged, or of another key or shape."""
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
    path.chmod(path.stat().st_mode & ~OTHERS_WRITE)  # audits beside this one read no file that others may write


def _block_state(key: str, block: Numbers) -> dict[str, str]:
    """Returns a file's state: the key of its block, and a digest of key and block."""
    content = hashlib.sha256(f"{key} {block.shape} ".encode())
    content.update(np.ascontiguousarray(block).data)
    return {"key": key, "sha256": content.hexdigest()}
