"""The nearest rows of each row, and the votes of their labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from antidote_learn.core.beliefs import Beliefs

NEAREST = 20  # neighbours of a row
EXACT_ROWS = 50_000  # the most rows with an exact search, which is O(N^2): some ten seconds
LINKS = 16  # links of a row in the graph of more rows; the library's default is 12
CHOICE = 200  # candidates for the links of a row
DEPTH = 100  # candidates that a search in the graph keeps; docs/speed.md tells the recall
QUERIES = 2048  # rows that are searched at a time, between two reports of progress
SMOOTHING = 0.5  # the votes that all classes share, so that none has a probability of 0
FAINTEST = 0.02  # the least weight of a vote, so that no neighbour is silent

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Search = Callable[[Integers], Integers]
Tell = Callable[[int, int], None]


def nearest_rows(features: NDArray[np.float32], tell: Tell = lambda done, total: None) -> Integers:
    """Returns the nearest other rows (N, m) by Euclidean distance, m = min(20, N - 1).

    With more than 50 000 rows the search misses a few, the same ones in every call; see docs/speed.md.

    Args:
        features: (N, D) numbers.
        tell: Called with (rows done, N) in each pass over the rows; many rows take two passes, else one.
    """
    total = len(features)
    count = min(NEAREST, total - 1)
    is_small = total <= EXACT_ROWS
    look = _exact_search(features, count + 1) if is_small else _graph_search(features, count + 1, tell)
    found = np.empty((total, count), dtype=np.int64)
    for start in range(0, total, QUERIES):
        rows = np.arange(start, min(start + QUERIES, total))
        around = look(rows)
        own = around == rows[:, None]
        own[~own.any(axis=1), -1] = True  # the row has so many duplicates that it is not among them
        found[rows] = around[~own].reshape(len(rows), count)
        tell(len(rows) + start, total)
    return found


def _exact_search(features: NDArray[np.float32], count: int) -> Search:
    """Returns a search that maps rows (B,) to their nearest rows (B, count), themselves included."""
    search = NearestNeighbors(n_neighbors=count).fit(features)
    return lambda rows: np.asarray(search.kneighbors(features[rows], return_distance=False))


def _graph_search(features: NDArray[np.float32], count: int, tell: Tell) -> Search:
    """Returns a search by a graph (HNSW) of the different rows, which finds nearly all in O(log N) a row.

    One thread links the rows, so that the number of threads changes nothing. The order is random, as clusters of data
    that are sorted by class would have no links to others; it is always the same.
    """
    from voyager import RecallError

    same = duplicate_groups([features])
    members, sizes = np.argsort(same, kind="stable"), np.bincount(same)
    starts = np.cumsum(sizes) - sizes
    distinct = features[members[starts]]
    graph = _graph(distinct, tell)
    wanted = min(count, len(distinct))

    def look(rows: Integers) -> Integers:
        asked = features[rows]
        try:
            near = graph.query(asked, wanted, num_threads=torch.get_num_threads(), query_ef=DEPTH)[0].astype(np.int64)
        except RecallError:  # the search is caught in a part of the graph with fewer rows
            near = NearestNeighbors(n_neighbors=wanted).fit(distinct).kneighbors(asked, return_distance=False)
        return members[_first_members(near, sizes, starts, count)]

    return look


def _graph(points: NDArray[np.float32], tell: Tell) -> Any:
    """Builds the graph of points, named by their numbers; its library is imported here as only many rows need it."""
    from voyager import Index, Space

    total = len(points)
    graph = Index(Space.Euclidean, points.shape[1], LINKS, CHOICE, random_seed=1, max_elements=total)
    order = np.random.default_rng(0).permutation(total)
    for start in range(0, total, QUERIES):
        rows = order[start : start + QUERIES]
        graph.add_items(points[rows], rows, num_threads=1)
        tell(len(rows) + start, total)
    return graph


def _first_members(near: Integers, sizes: Integers, starts: Integers, count: int) -> Integers:
    """Returns the places (B, count) of the first members of groups (B, k), the first group first.

    Args:
        near: (B, k) groups that have at least ``count`` members together.
        sizes: (G,) the number of members of each group.
        starts: (G,) the place of the first member of each group.
        count: The number of members to return.
    """
    ends = np.cumsum(sizes[near], axis=1)
    wanted = np.arange(count)
    which = (ends[:, None, :] <= wanted[:, None]).sum(axis=2)
    group = np.take_along_axis(near, which, axis=1)
    places: Integers = starts[group] + wanted - (np.take_along_axis(ends, which, axis=1) - sizes[group])
    return places


def votes(around: Integers, labels: Integers, weights: Floats, count: int) -> Floats:
    """Returns the votes (B, K) of the neighbours' labels: .5/K + sum_j w_j 1[y_j = c], normalised.

    Args:
        around: (B, m) neighbours.
        labels: (N,) given labels.
        weights: (N,) trust in each label; less than .02 counts as .02.
        count: K, the number of classes.
    """
    return _class_shares(labels[around], np.maximum(weights, FAINTEST)[around], count)


def second_votes(around: Integers, posterior: Beliefs) -> Floats:
    """Returns the votes (B, K) of the beliefs about the neighbours: .5/K + sum_j R_j(c), normalised."""
    rows, kept = len(around), posterior.classes.shape[1]
    shape = (rows, around.shape[1] * kept)
    classes, probs = posterior.classes[around].reshape(shape), posterior.probs[around].reshape(shape)
    return _class_shares(classes.astype(np.int64), probs.astype(np.float64), posterior.count)


def _class_shares(classes: Integers, weights: Floats, count: int) -> Floats:
    """Returns the sums (B, K) of weights (B, m) by class, smoothed and normalised."""
    rows = len(classes)
    cells = classes + count * np.arange(rows)[:, None]
    sums = np.bincount(cells.ravel(), weights.ravel(), minlength=rows * count).reshape(rows, count)
    block = sums + SMOOTHING / count
    shared: Floats = block / block.sum(axis=1, keepdims=True)
    return shared


def duplicate_groups(parts: Iterable[NDArray[np.generic]]) -> Integers:
    """Returns a number (N,) for each row of all parts, which rows of the same bytes share."""
    numbers: dict[bytes, int] = {}
    digests = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for part in parts for row in part)
    return np.array([numbers.setdefault(digest, len(numbers)) for digest in digests], dtype=np.int64)
