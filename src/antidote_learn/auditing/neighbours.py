"""The nearest rows, and what their labels say."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from antidote_learn.core.beliefs import Beliefs

NEAREST = 20
QUERIES = 2048  # rows that look for their neighbours at a time
SMOOTHING = 0.5  # votes, shared by all classes
FAINTEST = 0.02  # of a vote: no neighbour is silent

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def nearest(features: NDArray[np.float32], told: Callable[[int, int], None] = lambda done, total: None) -> Integers:
    """(N, m) the nearest other rows by Euclidean distance, m = min(20, N - 1).

    Args:
        features: (N, D).
        told: Called with (rows done, N).
    """
    total = len(features)
    count = min(NEAREST, total - 1)
    search = NearestNeighbors(n_neighbors=count + 1).fit(features)
    found = np.empty((total, count), dtype=np.int64)
    for start in range(0, total, QUERIES):
        rows = np.arange(start, min(start + QUERIES, total))
        around = search.kneighbors(features[rows], return_distance=False)
        own = around == rows[:, None]
        own[~own.any(axis=1), -1] = True  # so many duplicates that the row itself is not among them
        found[rows] = around[~own].reshape(len(rows), count)
        told(len(rows) + start, total)
    return found


def votes(around: Integers, labels: Integers, weights: Floats, count: int) -> Floats:
    """(B, K), the neighbours' given labels: .5/K + sum_j w_j 1[y_j = c], normalised.

    Args:
        around: (B, m) rows.
        labels: (N,).
        weights: (N,), how far each label is trusted; at least .02 is.
        count: K.
    """
    return _shared(labels[around], np.maximum(weights, FAINTEST)[around], count)


def second_votes(around: Integers, posterior: Beliefs) -> Floats:
    """(B, K), what is believed of the neighbours: .5/K + sum_j R_j(c), normalised."""
    rows, kept = len(around), posterior.classes.shape[1]
    shape = (rows, around.shape[1] * kept)
    classes, probs = posterior.classes[around].reshape(shape), posterior.probs[around].reshape(shape)
    return _shared(classes.astype(np.int64), probs.astype(np.float64), posterior.count)


def _shared(classes: Integers, weights: Floats, count: int) -> Floats:
    """(B, K) sums of (B, m) weights by class, smoothed and normalised."""
    rows = len(classes)
    cells = classes + count * np.arange(rows)[:, None]
    sums = np.bincount(cells.ravel(), weights.ravel(), minlength=rows * count).reshape(rows, count)
    block = sums + SMOOTHING / count
    shared: Floats = block / block.sum(axis=1, keepdims=True)
    return shared


def identical(parts: Iterable[NDArray[np.generic]]) -> Integers:
    """(N,) a number for each row of the parts together, the same for rows of the same bytes."""
    numbers: dict[bytes, int] = {}
    digests = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for part in parts for row in part)
    return np.array([numbers.setdefault(digest, len(numbers)) for digest in digests], dtype=np.int64)
