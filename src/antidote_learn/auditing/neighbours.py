"""The nearest rows, and what their labels say."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from antidote_learn.core.beliefs import Beliefs

NEAREST = 20
EXACT_ROWS = 50_000  # up to which the nearest rows are exact, in O(N^2): some ten seconds
LINKS = 16  # of a row in the graph of more rows; a library's default is 12
CHOICE = 200  # rows that these are chosen from
DEPTH = 100  # rows that a search in the graph keeps in sight; the recall that follows is in docs/speed.md
QUERIES = 2048  # rows that look for their neighbours at a time
SMOOTHING = 0.5  # votes, shared by all classes
FAINTEST = 0.02  # of a vote: no neighbour is silent

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Search = Callable[[Integers], Integers]
Tell = Callable[[int, int], None]


def nearest_rows(features: NDArray[np.float32], tell: Tell = lambda done, total: None) -> Integers:
    """(N, m) the nearest other rows by Euclidean distance, m = min(20, N - 1).

    Of more than 50 000 rows a few are missed, see docs/speed.md; the same ones in every call.

    Args:
        features: (N, D).
        tell: Called with (rows done, N), in each of the passes over the rows: one, or two where there are many.
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
        own[~own.any(axis=1), -1] = True  # so many duplicates that the row itself is not among them
        found[rows] = around[~own].reshape(len(rows), count)
        tell(len(rows) + start, total)
    return found


def _exact_search(features: NDArray[np.float32], count: int) -> Search:
    """(rows) -> (B, count) the nearest ones, themselves included."""
    search = NearestNeighbors(n_neighbors=count).fit(features)
    return lambda rows: np.asarray(search.kneighbors(features[rows], return_distance=False))


def _graph_search(features: NDArray[np.float32], count: int, tell: Tell) -> Search:
    """The same by a graph (HNSW) of the different rows, which finds nearly all in O(log N) for each.

    One thread links the rows, so that their number does not matter. It links them in a random order, which is always
    the same: in data that are sorted by class, clusters would be left without links to others.
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
        except RecallError:  # the graph has a part of fewer rows that nothing leads out of
            near = NearestNeighbors(n_neighbors=wanted).fit(distinct).kneighbors(asked, return_distance=False)
        return members[_first_members(near, sizes, starts, count)]

    return look


def _graph(points: NDArray[np.float32], tell: Tell) -> Any:
    """The graph of points, whose numbers are its names. Only many rows need its library, which not every Python has."""
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
    """(B, count) places of the first members of groups (B, k), the first group first.

    Args:
        near: (B, k) groups, of no fewer than ``count`` members together.
        sizes: (G,) how many members each has.
        starts: (G,) the place of its first.
        count: How many are wanted.
    """
    ends = np.cumsum(sizes[near], axis=1)
    wanted = np.arange(count)
    which = (ends[:, None, :] <= wanted[:, None]).sum(axis=2)
    group = np.take_along_axis(near, which, axis=1)
    places: Integers = starts[group] + wanted - (np.take_along_axis(ends, which, axis=1) - sizes[group])
    return places


def votes(around: Integers, labels: Integers, weights: Floats, count: int) -> Floats:
    """(B, K), the neighbours' given labels: .5/K + sum_j w_j 1[y_j = c], normalised.

    Args:
        around: (B, m) rows.
        labels: (N,).
        weights: (N,), how far each label is trusted; at least .02 is.
        count: K.
    """
    return _class_shares(labels[around], np.maximum(weights, FAINTEST)[around], count)


def second_votes(around: Integers, posterior: Beliefs) -> Floats:
    """(B, K), what is believed of the neighbours: .5/K + sum_j R_j(c), normalised."""
    rows, kept = len(around), posterior.classes.shape[1]
    shape = (rows, around.shape[1] * kept)
    classes, probs = posterior.classes[around].reshape(shape), posterior.probs[around].reshape(shape)
    return _class_shares(classes.astype(np.int64), probs.astype(np.float64), posterior.count)


def _class_shares(classes: Integers, weights: Floats, count: int) -> Floats:
    """(B, K) sums of (B, m) weights by class, smoothed and normalised."""
    rows = len(classes)
    cells = classes + count * np.arange(rows)[:, None]
    sums = np.bincount(cells.ravel(), weights.ravel(), minlength=rows * count).reshape(rows, count)
    block = sums + SMOOTHING / count
    shared: Floats = block / block.sum(axis=1, keepdims=True)
    return shared


def duplicate_groups(parts: Iterable[NDArray[np.generic]]) -> Integers:
    """(N,) a number for each row of the parts together, the same for rows of the same bytes."""
    numbers: dict[bytes, int] = {}
    digests = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for part in parts for row in part)
    return np.array([numbers.setdefault(digest, len(numbers)) for digest in digests], dtype=np.int64)
