"""Label noise, drawn from a short description or read from human labels.

These descriptions give the noise of published generators, with the rate R as their papers state it:

- APL, ALFs, NLNL, eps-softmax ("method1"), ANTIDOTE: ``symmetric:R``, where the classes are equally large
- eps-softmax ("method1") on MNIST: ``symmetric:R:count=iid``, ``asymmetric:R:count=iid``
- eps-softmax ("method2"): ``symmetric:R:count=exact-pairs``, ``asymmetric:R:count=exact-pairs``
- LogitClip: ``symmetric:R:count=exact-all``
- Co-teaching, T-Revision, VolMinNet, CORES: ``symmetric:R:count=iid``
- DivideMix, CSOT, ELR, SOP: ``symmetric:R:mode=inclusive:count=exact-all``
- PES: ``symmetric:R:mode=inclusive:count=iid``
- APL, ALFs on CIFAR-10: ``asymmetric:R:count=exact-pairs:sequential=true``
- DivideMix, CSOT on CIFAR-10: ``asymmetric:R:count=exact-all``
- APL, ALFs, ELR on CIFAR-100: ``asymmetric:R:count=iid``
- C2D on CIFAR-100: ``asymmetric:R:map=cifar100-superclass-uniform``
- Instance-dependent as in eps-softmax and LogitClip: ``instance:R:mode=dependent``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from antidote_learn._checks import check_whole
from antidote_learn._types import NoisyLabels
from antidote_learn.data.instance import relabel_adversarially, relabel_by_instance, standardise_features
from antidote_learn.data.labels import as_numpy, label_numbers, short_list
from antidote_learn.data.maps import (
    AnyClass,
    ClassMap,
    Floats,
    Integers,
    class_map,
    draw_labels,
    empirical_transition,
    mean_rate,
    next_of,
    relabel,
    relabel_sequentially,
)
from antidote_learn.data.noise_grammar import NoiseSpec, parse_noise

MOST_CLASSES = 10_000_000
"""The largest number of classes; more of them mean that the labels were never numbered."""


def inject(
    y: ArrayLike | torch.Tensor,
    spec: str | ArrayLike | torch.Tensor,
    *,
    X: ArrayLike | torch.Tensor | None = None,
    seed: int = 0,
    num_classes: int | None = None,
    data: str | None = None,
    names: Sequence[str] | None = None,
) -> NoisyLabels:
    """Add noise of a known kind to labels, and keep the truth beside them.

    The parameter ``count`` says how many of the n samples of a class are relabelled:

    - ``exact``: R n, rounded so that the total over all classes that can change is rounded correctly, too;
    - ``iid``: each with probability R;
    - ``exact-all``: R N of all samples, whatever their class;
    - ``exact-pairs``: R n q_j, rounded down, for each target class j of probability q_j.

    ``sequential=true`` flips class after class on labels already changed, as some published code does: cat <-> dog at
    R = 0.4 then leaves 0.24 of the cats wrong.

    ``instance`` relabels sample i with a probability q_i that is drawn from N(R, 0.1^2) truncated to [0, 1]. The new
    class is drawn from softmax(x_i W_y) without y, where x is standardised and W_y (D, K) is standard normal for each
    class y. ``mode=dependent`` relabels R N samples chosen at random instead.

    ``adversarial`` draws nothing. A ridge regression of the one-hot true labels on standardised x gives scores, and the
    R N samples of the smallest margin (true class minus best other) get that other class. This takes about
    N D min(N, D) operations.

    Limits: ``none`` and rate 0 give the labels unchanged. The mean of a truncated normal is not R near the ends:
    ``instance:0.05`` has an expected rate of 0.10, ``instance:0.95`` of 0.90 (``expected`` tells the one in effect).

    Args:
        y: (N,), the true labels, integers in 0 ... K - 1.
        spec: The noise, as in `parse_noise`; or a (K, K) matrix, [i, j] the probability that class i is labelled j.
        X: (N, ...), the samples, for ``instance`` and ``adversarial``, which need one float64 copy of them.
        seed: The seed of the noise alone.
        num_classes: K; by default the largest label + 1, or the size of the matrix.
        data: The name of the data set, by which ``asymmetric`` finds its published map.
        names: The names of the classes, by which ``one-sided`` finds its class; their numbers by default.

    Returns:
        The labels; ``transition`` is the matrix they were drawn from (instance, adversarial: the realised one).

    Raises:
        ValueError: The labels, the noise or the samples cannot be used.

    Example:
        >>> noisy = inject([0, 1, 2, 3] * 50, "symmetric:0.4", seed=1)
        >>> noisy.rate, int(noisy.mask.sum())
        (0.4, 80)
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, received {seed!r}")
    num_classes = None if num_classes is None else check_whole("num_classes", num_classes, 2, MOST_CLASSES)
    rng = np.random.default_rng(seed)
    if isinstance(spec, str):
        noise = parse_noise(spec)
        clean, k = label_numbers(y, num_classes)
        if k > MOST_CLASSES:
            raise ValueError(f"labels must lie below {MOST_CLASSES}, received {k - 1}: number the classes from 0")
        labels, transition, expected = _draw(clean, noise, X, k, data, names, rng)
        return NoisyLabels(labels, clean, transition, expected, spec.strip(), int(seed))
    transition = _check_matrix(spec, num_classes)
    clean, _ = label_numbers(y, len(transition))
    expected = mean_rate(clean, 1.0 - np.diag(transition))
    return NoisyLabels(draw_labels(clean, transition, rng), clean, transition, expected, "matrix", int(seed))


def from_human(
    labels: ArrayLike | torch.Tensor,
    clean_labels: ArrayLike | torch.Tensor,
    name: str,
    *,
    num_classes: int | None = None,
) -> NoisyLabels:
    """Put labels by people (N,) beside the truth (N,), with the transition and the rate that they realise."""
    clean, k_clean = label_numbers(clean_labels, num_classes)
    given, k_given = label_numbers(labels, num_classes)
    if given.shape != clean.shape:
        raise ValueError(f"labels and clean_labels must have the same length, received {len(given)} and {len(clean)}")
    transition = partial(empirical_transition, given, clean, max(k_clean, k_given))
    return NoisyLabels(given, clean, transition, round(float(np.mean(given != clean)), 12), f"human:{name}", None)


def _draw(
    clean: Integers,
    noise: NoiseSpec,
    X: Any,
    k: int,
    data: str | None,
    names: Sequence[str] | None,
    rng: np.random.Generator,
) -> tuple[Integers, Floats | Callable[[], Floats], float]:
    """Draw labels (N,); with their transition (K, K), or a function that gives it, and their expected rate."""
    if noise.kind == "human":
        raise ValueError(
            f"human labels ({noise.params['name']}) are not drawn but read from the data set's files of them: "
            "use the built-in data sets cifar10 or cifar100, or from_human(labels, clean_labels, name)"
        )
    if noise.kind in ("instance", "adversarial"):
        x = standardise_features(X, len(clean), kind=noise.kind)
        if noise.kind == "instance":
            exact = noise.params["mode"] == "dependent"
            labels, expected = relabel_by_instance(clean, x, noise.rate, num_classes=k, exact=exact, rng=rng)
        else:
            labels, expected = relabel_adversarially(clean, x, noise.rate)
        return labels, partial(empirical_transition, labels, clean, k), expected
    targets, count = _targets(clean, noise, k, data, names), noise.params.get("count", "exact")
    if noise.params.get("sequential") == "true":
        labels, matrix = relabel_sequentially(clean, targets, noise.rate, num_classes=k, count=count, rng=rng)
        return labels, matrix, mean_rate(clean, 1.0 - np.diag(matrix))
    labels, drawn = relabel(clean, targets, noise.rate, num_classes=k, count=count, rng=rng)
    return labels, drawn.transition, mean_rate(clean, drawn.wrong())


def _targets(clean: Integers, noise: NoiseSpec, k: int, data: str | None, names: Sequence[str] | None) -> ClassMap:
    """The map of the classes that each class is mistaken for."""
    if noise.kind == "one-sided":
        return _one_class(clean, noise.params["class"], k, names)
    if noise.kind == "symmetric":
        return AnyClass(k, inclusive=noise.params["mode"] == "inclusive")
    if noise.kind == "asymmetric":
        return class_map(noise.params["map"], k, data=data)
    return next_of(list(range(k))) if noise.kind == "pair" else {}


def _one_class(clean: Integers, wanted: str, k: int, names: Sequence[str] | None) -> ClassMap:
    """The map from one class to all others: the class of the wanted name, or the rarest of those that occur."""
    known = [str(number) for number in range(k)] if names is None else [str(name) for name in names]
    if wanted and wanted not in known:
        raise ValueError(f"one-sided noise names the class {wanted!r}; the classes are {short_list(known)}")
    sizes = np.bincount(clean, minlength=k)
    rarest = int(np.where(sizes > 0, sizes, len(clean) + 1).argmin())
    source = known.index(wanted) if wanted else rarest
    return {source: tuple(other for other in range(k) if other != source)}


def _check_matrix(spec: Any, num_classes: int | None) -> Floats:
    """Check a transition matrix, and divide its rows by their sums; (K, K) float64."""
    array = np.asarray(as_numpy(spec))
    k = len(array) if array.ndim and num_classes is None else num_classes
    if array.dtype.kind not in "iuf" or array.shape != (k, k):
        raise ValueError(
            "spec must be a string such as 'symmetric:0.4' or a (K, K) matrix of numbers, K the number of classes; "
            f"received {type(spec).__name__} of shape {array.shape} and num_classes = {num_classes}"
        )
    matrix = array.astype(np.float64)
    sums = matrix.sum(axis=1, keepdims=True)
    if not (matrix >= 0).all() or not (abs(sums - 1.0) < 1e-4).all():
        raise ValueError(
            "a transition matrix must have entries >= 0 and rows that sum to 1 (row i: true class i), "
            f"received entries from {matrix.min():g} and rows that sum to {sums.min():g} ... {sums.max():g}"
        )
    checked: Floats = matrix / sums
    return checked
