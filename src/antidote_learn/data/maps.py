"""Noise that depends on the class alone: the published maps, and drawing from a map or a matrix.

A map sends a class to the classes it is mistaken for, all equally likely; a class that it leaves out is never mistaken.
The order of its entries is the order in which the published code flips them: it matters only where the flips of one
class start from labels that others have already changed (``sequential=true``).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

ClassMap = dict[int, tuple[int, ...]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COUNTS = ("exact", "iid", "exact-all", "exact-pairs")
"""How many samples of each class are relabelled; see `inject`."""

SLACK = 1e-9  # of a count that is rounded down: 0.29 * 100 is 28.999999999999996

# truck -> automobile, bird -> airplane, cat <-> dog, deer -> horse
CIFAR10: ClassMap = {9: (1,), 2: (0,), 3: (5,), 5: (3,), 4: (7,)}

MNIST: ClassMap = {7: (1,), 2: (7,), 5: (6,), 6: (5,), 3: (8,)}

# The super-class of each of the 100 fine classes (from the data set's own fine and coarse labels).
CIFAR100_SUPERCLASS = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7,
    6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10,
    16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16,
    12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)  # fmt: skip


def next_of(group: list[int]) -> ClassMap:
    """Each class of the group turns into the next, the last one into the first."""
    return {a: (b,) for a, b in zip(group, group[1:] + group[:1], strict=True)}


def others_of(group: list[int]) -> ClassMap:
    """Each class of the group turns into any of the others."""
    return {a: tuple(b for b in group if b != a) for a in group}


def _sorted(*parts: ClassMap) -> ClassMap:
    """One map of several, by class."""
    return dict(sorted((a, targets) for part in parts for a, targets in part.items()))


_BLOCKS = [list(range(first, first + 5)) for first in range(0, 100, 5)]
_SUPERCLASSES = [[fine for fine, coarse in enumerate(CIFAR100_SUPERCLASS) if coarse == c] for c in range(20)]

MAPS: dict[str, tuple[int, ClassMap]] = {
    "cifar10": (10, CIFAR10),
    # Five consecutive fine labels, as in the published code; they are alphabetical, so no super-classes.
    "cifar100-block5": (100, _sorted(*map(next_of, _BLOCKS))),
    "cifar100-superclass-next": (100, _sorted(*map(next_of, _SUPERCLASSES))),
    "cifar100-superclass-uniform": (100, _sorted(*map(others_of, _SUPERCLASSES))),
    "mnist": (10, MNIST),
}
"""Name -> (number of classes, map)."""

DATA_MAPS = {"cifar10": "cifar10", "cifar100": "cifar100-block5", "mnist": "mnist", "digits": "mnist"}
"""The map that ``asymmetric`` takes for a data set; pair flip for any other."""


def class_map(name: str, num_classes: int, *, data: str | None = None) -> ClassMap:
    """A map by its name: one of `MAPS`, ``pair`` (i to i + 1, the last to 0) or ``auto`` (what suits the data set)."""
    if name == "auto":
        name = DATA_MAPS.get(data or "", "pair")
    if name == "pair":
        return next_of(list(range(num_classes)))
    required, targets = MAPS[name]
    if num_classes != required:
        raise ValueError(
            f"the map {name!r} is for {required} classes, received {num_classes}: pass num_classes={required} "
            "if some have no sample here, or use map=pair"
        )
    return targets


def target_matrix(targets: ClassMap, num_classes: int) -> Floats:
    """(K, K), row i the distribution of the new label of a sample of class i that was chosen to be relabelled."""
    matrix = np.eye(num_classes)
    for source, classes in targets.items():
        matrix[source] = 0.0
        matrix[source, list(classes)] = 1.0 / len(classes)
    return matrix


def relabel(
    labels: Integers, targets: ClassMap, rate: float, *, num_classes: int, count: str, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """A share ``rate`` of each class redrawn from its targets: the labels (N,) and their transition matrix (K, K)."""
    matrix = target_matrix(targets, num_classes)
    sizes = np.bincount(labels, minlength=num_classes)
    if count == "exact-pairs":
        pairs = np.floor(rate * matrix * sizes[:, None] + SLACK).astype(np.int64)
        moved = pairs / np.maximum(sizes, 1)[:, None]
    else:
        pairs = rng.multinomial(_numbers(sizes, matrix, rate, count, rng), matrix)
        moved = rate * matrix
    return _assign(labels, pairs, rng), moved + np.diag(1.0 - moved.sum(axis=1))


def relabel_sequentially(
    labels: Integers, targets: ClassMap, rate: float, *, num_classes: int, count: str, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """`relabel`, one class of the map after the other, each on the labels that the ones before have left."""
    transition = np.eye(num_classes)
    for source in targets:
        only = {source: targets[source]}
        labels, step = relabel(labels, only, rate, num_classes=num_classes, count=count, rng=rng)
        transition = transition @ step
    return labels, transition


def draw(labels: Integers, transition: Floats, rng: np.random.Generator) -> Integers:
    """(N,) labels, each drawn on its own from its row of ``transition`` (K, K)."""
    return _assign(labels, rng.multinomial(np.bincount(labels, minlength=len(transition)), transition), rng)


def expected_rate(labels: Integers, transition: Floats) -> float:
    """The share of wrong labels that the matrix gives for these classes, free of rounding in the last digits."""
    return round(float(np.mean(1.0 - np.diag(transition)[labels])), 12)


def empirical_transition(labels: Integers, clean_labels: Integers, num_classes: int) -> Floats:
    """(K, K), the share of each class that got each label; a class without samples keeps its own."""
    pairs = np.bincount(clean_labels * num_classes + labels, minlength=num_classes**2).reshape(num_classes, -1)
    sizes = pairs.sum(axis=1, keepdims=True)
    return np.where(sizes > 0, pairs / np.maximum(sizes, 1), np.eye(num_classes))


def rounded(number: float) -> int:
    """To the nearest integer, halves up."""
    return math.floor(number + 0.5)


def _numbers(sizes: Integers, matrix: Floats, rate: float, count: str, rng: np.random.Generator) -> Integers:
    """(K,), how many samples of each class are redrawn."""
    if count == "iid":
        return rng.binomial(sizes, rate)
    if count == "exact-all":
        return rng.multivariate_hypergeometric(sizes, rounded(rate * sizes.sum()))
    moving = np.where(np.diag(matrix) < 1.0, sizes, 0)
    return np.diff([rounded(rate * total) for total in moving.cumsum()], prepend=0)


def _assign(labels: Integers, pairs: Integers, rng: np.random.Generator) -> Integers:
    """(N,), labels of which ``pairs[i, j]`` of class i, chosen at random, are j now."""
    assigned = labels.copy()
    ends = np.bincount(labels, minlength=len(pairs)).cumsum()
    for rows, numbers in zip(np.split(labels.argsort(kind="stable"), ends[:-1]), pairs, strict=True):
        new = np.repeat(np.arange(len(pairs)), numbers)
        assigned[rng.choice(rows, size=len(new), replace=False)] = new
    return assigned
