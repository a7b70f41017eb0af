"""Noise that depends on the sample: rates and targets of its own, or a poisoner's choice; see `inject`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from antidote_learn.data.labels import as_numpy
from antidote_learn.data.maps import MANY, Floats, Integers, round_half_up

SPREAD = 0.1  # the deviation of the per-sample rates, as in the published generators
RIDGE = 1e-2  # the penalty of the poisoner's linear model per sample, small beside standardised features
LARGEST = 1e100  # the bound of a feature, so that its square is still a double
ROWS = 4096  # the rows that are standardised at a time, to save memory


def relabel_by_instance(
    labels: Integers, x: Floats, rate: float, *, num_classes: int, exact: bool, rng: np.random.Generator
) -> tuple[Integers, float]:
    """Draw noisy labels (N,) that depend on the samples, and give their expected rate.

    The target of a sample of class c is drawn from softmax(x W_c) without c, by the largest of logit + Gumbel.

    Args:
        labels: (N,), the true labels.
        x: (N, D), the result of `standardise_features`.
        rate: The share of wrong labels.
        num_classes: K, the number of classes.
        exact: Whether ``rate`` N samples are chosen at random, instead of each by a rate of its own.
        rng: Draws everything.
    """
    count = len(labels)
    if exact:
        flips = np.zeros(count, dtype=bool)
        flips[rng.choice(count, size=round_half_up(rate * count), replace=False)] = True
        expected = float(flips.mean())
    else:
        rates = _draw_rates(rate, count, rng)
        flips = rng.random(count) < rates
        expected = float(rates.mean())
    noisy = labels.copy()
    for c in range(num_classes) if num_classes <= MANY else np.unique(labels[flips]):
        rows = np.flatnonzero(flips & (labels == c))
        logits = x[rows] @ rng.standard_normal((x.shape[1], num_classes))
        logits[:, c] = -np.inf
        noisy[rows] = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return noisy, expected


def relabel_adversarially(labels: Integers, x: Floats, rate: float) -> tuple[Integers, float]:
    """Give the samples of the smallest margin the best other class; the result is labels (N,) and their rate.

    ``x`` (N, D), the result of `standardise_features`, is overwritten. A class without samples is never a target.
    """
    classes, own = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"adversarial noise needs samples of at least 2 classes, received only class {classes[0]}")
    margin, other = _margins(x, own, len(classes))
    weakest = np.argsort(margin, kind="stable")[: round_half_up(rate * len(labels))]
    noisy = labels.copy()
    noisy[weakest] = classes[other[weakest]]
    return noisy, len(weakest) / len(labels)


def _margins(x: Floats, own: Integers, count: int) -> tuple[Floats, Integers]:
    """The margins (N,) by which a linear model prefers the true class to the best other class, and that class (N,)."""
    model = Ridge(alpha=RIDGE * len(x), solver="cholesky", copy_X=False)
    true, best, other = np.empty(len(x)), np.full(len(x), -np.inf), np.zeros(len(x), dtype=np.int64)
    for start in range(0, count, MANY):
        part = np.arange(start, min(start + MANY, count))
        scores = model.fit(x, (own[:, None] == part).astype(np.float64)).predict(x).reshape(len(x), -1)
        mine = np.flatnonzero((own >= start) & (own <= part[-1]))
        true[mine], scores[mine, own[mine] - start] = scores[mine, own[mine] - start], -np.inf
        top = scores.argmax(axis=1)
        most = scores[np.arange(len(x)), top]
        better = most > best
        best[better], other[better] = most[better], top[better] + start
    return true - best, other


def standardise_features(X: Any, n: int, *, kind: str) -> Floats:
    """Scale every feature to mean 0 and variance 1 (0 where it is constant), in a new array (N, D) of float64.

    Args:
        X: (N, ...) numbers; None is refused with a message that names the noise.
        n: N, the number of labels.
        kind: The noise that needs it.
    """
    if X is None:
        raise ValueError(f"{kind} noise depends on the samples: pass X=, an array (N, ...) of {n} samples' features")
    array = np.asarray(as_numpy(X))
    if array.dtype.kind not in "biuf" or array.ndim < 2 or len(array) != n or array.size == 0:
        raise ValueError(
            f"X must be numbers of shape (N, ...) with N = {n}, one row a label; received {array.dtype} "
            f"of shape {array.shape}: encode text and categories as numbers first"
        )
    x = array.reshape(n, -1).astype(np.float64)
    if not (np.abs(x) < LARGEST).all():
        raise ValueError(
            f"X must be finite and below {LARGEST:g}, received NaN or infinity or more: fill or remove missing values"
        )
    scaler = StandardScaler(copy=False)
    for start in range(0, n, ROWS):
        scaler.partial_fit(x[start : start + ROWS])
    scaled: Floats = scaler.transform(x)
    return scaled


def _draw_rates(rate: float, size: int, rng: np.random.Generator) -> Floats:
    """Draw rates (N,) from N(rate, 0.1^2) truncated to [0, 1]; all are 0 at rate 0."""
    if rate == 0.0:
        return np.zeros(size)
    low, high = ndtr(-rate / SPREAD), ndtr((1.0 - rate) / SPREAD)
    draws: Floats = rate + SPREAD * ndtri(low + (high - low) * rng.random(size))
    return draws.clip(0.0, 1.0)
