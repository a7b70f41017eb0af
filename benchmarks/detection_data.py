"""The data sets of `detection.py`: features as every contender reads them, labels, and the truth where people erred."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from text import table as sections

from antidote_learn import inject
from antidote_learn.data.builtin import load_named
from antidote_learn.data.load import open_data
from antidote_learn.data.pictures import embed_images
from antidote_learn.data.sentences import embed_texts

NOISES = (
    "symmetric:0.1", "symmetric:0.2", "symmetric:0.4", "symmetric:0.6", "symmetric:0.8", "pair:0.2", "pair:0.4",
    "instance:0.2", "instance:0.4", "imbalanced symmetric:0.2",
)  # fmt: skip
TWO_CLASSES = ("symmetric:0.1", "symmetric:0.2", "symmetric:0.4", "instance:0.2", "instance:0.4")
IMBALANCED = "imbalanced "  # every second class keeps a tenth of its rows
HUMAN = "as given"
ROWS = 6000  # of a larger data set, the first ones


@dataclass(frozen=True, eq=False)
class Data:
    """(N, D) features, (N,) labels as they are given, (N,) true ones, and what the encoder took for all rows."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    seconds: float = 0.0

    @property
    def noises(self) -> tuple[str, ...]:
        """What is added to the labels."""
        if (self.y != self.truth).any():
            return (HUMAN,)
        return NOISES if self.y.max() > 1 else TWO_CLASSES

    def with_noise(self, noise: str, seed: int) -> Data:
        """The same rows, or fewer, with other labels."""
        if noise == HUMAN:
            return self
        data, kind = self, noise.removeprefix(IMBALANCED)
        if noise != kind:
            data = self._imbalanced(seed)
        return replace(data, y=inject(data.y, kind, X=scaled(data.X), seed=seed).labels)

    def _imbalanced(self, seed: int) -> Data:
        rng = np.random.default_rng([seed, 10])
        kept = np.concatenate(
            [
                rng.permutation(rows)[: len(rows) // 10 if k % 2 else None]
                for k in range(int(self.y.max()) + 1)
                for rows in [np.flatnonzero(self.y == k)]
            ]
        )
        kept.sort()
        return replace(self, X=self.X[kept], y=self.y[kept], truth=self.truth[kept])


def data_of(name: str, cache: Path) -> Data:
    """A built-in name, `text:FILE` with what `apt-cache dumpavail` prints, or CIFAR with human labels, embedded."""
    if name.startswith("text:"):
        table = sections(Path(name.removeprefix("text:")).read_text(encoding="utf-8"))
        labels = np.unique(table["section"], return_inverse=True)[1]
        texts = table["description"].tolist()
        X, seconds = _kept(cache / "text.npz", lambda: embed_texts(texts))
        return Data(X, labels, labels, seconds)
    if name.startswith("cifar"):
        arrays = load_named(name)
        images, source = np.asarray(arrays.inputs)[:ROWS], name.split("n")[0]
        X, seconds = _kept(cache / f"{source}.npz", lambda: _embedded(images))
        truth = arrays.clean_labels
        assert truth is not None
        return Data(X, arrays.labels[:ROWS], truth[:ROWS], seconds)
    arrays = open_data(name)
    inputs: Any = arrays.inputs
    flat = np.asarray(inputs, dtype=np.float32)[:ROWS]
    return Data(flat.reshape(len(flat), -1), arrays.labels[:ROWS], arrays.labels[:ROWS])


def scaled(X: np.ndarray) -> np.ndarray:
    """Standardised by column for a few columns, else on one common scale: what suits the network, for all alike."""
    few = X.shape[1] <= 40
    spread = X.std(axis=0 if few else None)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), dtype=np.float32)


def _embedded(images: np.ndarray) -> np.ndarray:
    return torch.cat([embed_images(part) for part in torch.from_numpy(images).split(32)]).numpy()


def _kept(path: Path, make: Any) -> tuple[np.ndarray, float]:
    """Embeddings, made once for all contenders, and the seconds that this took."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        X = make()
        np.savez(path, X=X, seconds=time.perf_counter() - start)
    file = np.load(path)
    return file["X"], float(file["seconds"])
