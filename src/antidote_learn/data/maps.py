"""Noise that depends on the class alone: the published maps, and labels drawn from a map or a matrix.

A map sends a class to the classes it is mistaken for, all equally likely; a class that it leaves out is never mistaken.
Its entries are in the order in which the published code flips them. That order matters only with ``sequential=true``,
where the flips of one class start from labels that other flips have already changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ClassMap = Mapping[int, tuple[int, ...]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COUNTS = ("exact", "iid", "exact-all", "exact-pairs")
"""The ways to count the samples that are relabelled; see `inject`."""

MANY = 2000  # classes; up to so many a dense (K, K) matrix is small, and a class draws from all its targets at once
SLACK = 1e-9  # added to a count before it is rounded down, as 0.29 * 100 is 28.999999999999996

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
    """The map from each class of a group to the next, and from the last to the first."""
    return {a: (b,) for a, b in zip(group, group[1:] + group[:1], strict=True)}


def others_of(group: list[int]) -> ClassMap:
    """The map from each class of a group to all the others."""
    return {a: tuple(b for b in group if b != a) for a in group}


class AnyClass(Mapping[int, tuple[int, ...]]):
    """The map from each of ``count`` classes to any other class, or (``inclusive``) to any, without storing them."""

    def __init__(self, count: int, *, inclusive: bool) -> None:
        self.count, self.inclusive = count, inclusive

    def __getitem__(self, source: int) -> tuple[int, ...]:
        return tuple(b for b in range(self.count) if self.inclusive or b != source)

    def __contains__(self, source: object) -> bool:
        return source in range(self.count)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))

    def __len__(self) -> int:
        return self.count


def _merge_maps(*parts: ClassMap) -> ClassMap:
    """Merge maps of different classes into one, sorted by class."""
    return dict(sorted((a, targets) for part in parts for a, targets in part.items()))


_BLOCKS = [list(range(first, first + 5)) for first in range(0, 100, 5)]
_SUPERCLASSES = [[fine for fine, coarse in enumerate(CIFAR100_SUPERCLASS) if coarse == c] for c in range(20)]

MAPS: dict[str, tuple[int, ClassMap]] = {
    "cifar10": (10, CIFAR10),
    # The published code takes blocks of five consecutive labels, which are alphabetical and no super-classes.
    "cifar100-block5": (100, _merge_maps(*map(next_of, _BLOCKS))),
    "cifar100-superclass-next": (100, _merge_maps(*map(next_of, _SUPERCLASSES))),
    "cifar100-superclass-uniform": (100, _merge_maps(*map(others_of, _SUPERCLASSES))),
    "mnist": (10, MNIST),
}
"""The published maps by name, each with its number of classes."""

DATA_MAPS = {"cifar10": "cifar10", "cifar100": "cifar100-block5", "mnist": "mnist", "digits": "mnist"}
"""The map that ``asymmetric`` takes for a data set; for any other it flips pairs."""


def class_map(name: str, num_classes: int, *, data: str | None = None) -> ClassMap:
    """The map of a name: one of `MAPS`, ``pair`` (i to i + 1, the last to 0) or ``auto`` (the data set's own)."""
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
    """The matrix (K, K) whose row i is the distribution of a new label, for a sample of class i that is relabelled."""
    matrix = np.eye(num_classes)
    for source, classes in targets.items():
        matrix[source] = 0.0
        matrix[source, list(classes)] = 1.0 / len(classes)
    return matrix


class LabelDraw(NamedTuple):
    """The way in which labels were drawn, without a matrix of all classes.

    Attributes:
        targets: The classes that each class is mistaken for.
        rate: The share of the samples that are redrawn.
        sizes: (K,) the number of samples of each class.
        by_pairs: Whether the number of each pair of classes is rounded down by itself.
    """

    targets: ClassMap
    rate: float
    sizes: Integers
    by_pairs: bool

    def transition(self) -> Floats:
        """The transition matrix (K, K)."""
        moved = self.rate * target_matrix(self.targets, len(self.sizes))
        if self.by_pairs:
            moved = np.floor(moved * self.sizes[:, None] + SLACK) / np.maximum(self.sizes, 1)[:, None]
        return moved + np.diag(1.0 - moved.sum(axis=1))

    def wrong(self) -> Floats:
        """The share of each class that gets another label, (K,): 1 less the diagonal of the transition."""
        shares = np.zeros(len(self.sizes))
        for source in self.targets:
            count, own = _target_counts(self.targets, source)
            share = self.rate / count
            if self.by_pairs:
                share = math.floor(share * self.sizes[source] + SLACK) / max(int(self.sizes[source]), 1)
            shares[source] = share * (count - own)
        return shares


def _target_counts(targets: ClassMap, source: int) -> tuple[int, int]:
    """The number of a class's targets, and how many of them are the class itself."""
    if isinstance(targets, AnyClass):
        return (targets.count, 1) if targets.inclusive else (targets.count - 1, 0)
    return len(targets[source]), targets[source].count(source)


def relabel(
    labels: Integers, targets: ClassMap, rate: float, *, num_classes: int, count: str, rng: np.random.Generator
) -> tuple[Integers, LabelDraw]:
    """Redraw a share ``rate`` of each class from its targets; the result is labels (N,) and the way of the draw."""
    sizes = np.bincount(labels, minlength=num_classes)
    drawn = LabelDraw(targets, rate, sizes, count == "exact-pairs")
    if drawn.by_pairs:
        pairs = [_round_pairs(targets, source, rate, int(sizes[source])) for source in range(num_classes)]
    else:
        numbers = _draw_numbers(sizes, targets, rate, count, rng)
        pairs = [_draw_pairs(targets, source, int(n), num_classes, rng) for source, n in enumerate(numbers)]
    return _assign(labels, pairs, num_classes, rng), drawn


def relabel_sequentially(
    labels: Integers, targets: ClassMap, rate: float, *, num_classes: int, count: str, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """Relabel one class of the map after the other, each on the labels so far; gives labels (N,) and T (K, K)."""
    if num_classes > MANY:
        raise ValueError(f"sequential=true is for at most {MANY} classes, received {num_classes}: leave it out")
    transition = np.eye(num_classes)
    for source in targets:
        only = {source: targets[source]}
        labels, step = relabel(labels, only, rate, num_classes=num_classes, count=count, rng=rng)
        transition = transition @ step.transition()
    return labels, transition


def draw_labels(labels: Integers, transition: Floats, rng: np.random.Generator) -> Integers:
    """Draw labels (N,), each by itself from its row of ``transition`` (K, K)."""
    numbers = rng.multinomial(np.bincount(labels, minlength=len(transition)), transition)
    everything = np.arange(len(transition))
    return _assign(labels, [(everything, row) for row in numbers], len(transition), rng)


def mean_rate(labels: Integers, wrong: Floats) -> float:
    """The share of wrong labels, given that of each class, ``wrong`` (K,); it is free of noise in the last digits."""
    return round(float(np.mean(wrong[labels])), 12)


def empirical_transition(labels: Integers, clean_labels: Integers, num_classes: int) -> Floats:
    """The share of each class that got each label, (K, K); a class without samples keeps its own."""
    pairs = np.bincount(clean_labels * num_classes + labels, minlength=num_classes**2).reshape(num_classes, -1)
    sizes = pairs.sum(axis=1, keepdims=True)
    return np.where(sizes > 0, pairs / np.maximum(sizes, 1), np.eye(num_classes))


def round_half_up(number: float) -> int:
    """Round to the nearest integer, halves up."""
    return math.floor(number + 0.5)


Pairs = tuple[Integers, Integers]
"""The classes that samples of one class turn into, and the number of samples for each."""


def _round_pairs(targets: ClassMap, source: int, rate: float, size: int) -> Pairs:
    """Divide ``rate`` of a class among its targets, rounded down for each."""
    if source not in targets:
        return np.array([source]), np.array([math.floor(rate * size + SLACK)])
    share = math.floor(rate * (1.0 / _target_counts(targets, source)[0]) * size + SLACK)
    classes = np.array(targets[source] if share else (), dtype=np.int64)
    return classes, np.full(len(classes), share)


def _draw_pairs(targets: ClassMap, source: int, number: int, num_classes: int, rng: np.random.Generator) -> Pairs:
    """Draw the targets of ``number`` samples of a class; among many classes each sample draws by itself."""
    if isinstance(targets, AnyClass) and targets.count > MANY:
        drawn = rng.integers(0, targets.count - (not targets.inclusive), number)
        return np.unique(drawn + (drawn >= source) * (not targets.inclusive), return_counts=True)
    classes = np.sort(np.array(targets.get(source, (source,)), dtype=np.int64))
    odds = np.full(len(classes), 1.0 / len(classes))
    if classes[-1] < num_classes - 1:  # the remaining classes have no mass
        odds = np.append(odds, 0.0)
    return classes, rng.multinomial(number, odds)[: len(classes)]


def _draw_numbers(sizes: Integers, targets: ClassMap, rate: float, count: str, rng: np.random.Generator) -> Integers:
    """Draw the number of samples of each class that are redrawn, (K,)."""
    if count == "iid":
        return rng.binomial(sizes, rate)
    if count == "exact-all":
        return rng.multivariate_hypergeometric(sizes, round_half_up(rate * sizes.sum()))
    concerned = np.zeros(len(sizes), dtype=bool)
    concerned[[source for source in targets if _target_counts(targets, source) != (1, 1)]] = True
    moving = np.where(concerned, sizes, 0)
    return np.diff([round_half_up(rate * total) for total in moving.cumsum()], prepend=0)


def _assign(labels: Integers, pairs: Iterable[Pairs], num_classes: int, rng: np.random.Generator) -> Integers:
    """Choose samples of each class i at random, and give them the labels of the i-th of ``pairs``; (N,)."""
    assigned = labels.copy()
    ends = np.bincount(labels, minlength=num_classes).cumsum()
    for rows, (classes, numbers) in zip(np.split(labels.argsort(kind="stable"), ends[:-1]), pairs, strict=True):
        new = np.repeat(classes, numbers)
        if len(new):
            assigned[rng.choice(rows, size=len(new), replace=False)] = new
    return assigned
