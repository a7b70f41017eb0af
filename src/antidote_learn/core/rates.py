"""The rate of wrong labels, read off held-out probabilities."""

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from antidote_learn._checks import real_number

MIN_CLASS_SIZE = 5  # a predicted class with fewer samples gives no anchors
SUM_TOLERANCE = 1e-2  # of a row's sum; a bfloat16 softmax over 100 classes is off by less
IDENTIFIABLE = 0.1  # least agreement above chance, as a share of the possible, that identifies a rate
SHARES = (5 / 3, 1.0, 2 / 3, 1 / 3, 1 / 6)  # factors of the anchors' share, through which the line is drawn
SLACK = 1e-12  # of comparisons, which rounding must not decide: it depends on the order of the classes

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NoiseRate:
    """The estimated share of wrong labels, and how far to trust it.

    Attributes:
        rate: The estimate, in [0, min(0.8, 0.95 (1 - 1/K))].
        low: Lower end of the interval; ``0 <= low <= rate``, and 0 where the agreement may be chance alone.
        high: Upper end of the interval; ``rate <= high <= 1 - 1/K``. It covers what the anchors, being easy, miss.
        per_class: ``(K,)``, read-only: 1 - a / (1 - v/2) from the anchors of one predicted class k alone, times what
            the steady agreement took off the rate. It stands for 1 - transition[k, k], the share of wrong labels among
            the samples that belong to class k (not among those labelled k). NaN where fewer than 5 samples are
            predicted as k. Nothing is pooled between classes: one of 50 samples has 15 anchors and a standard error of
            up to 0.13.
        identifiable: False where the agreement with the labels is near chance; a warning then says so.
        agreement: a, the weighted share of anchors whose label is the predicted class.
        instability: v, the weighted share of late predictions of the anchors that differ from their final one.
        steady: a_0, the agreement to be expected of anchors that never waver.
        anchors: The number of anchors.
    """

    rate: float
    low: float
    high: float
    per_class: Floats
    identifiable: bool
    agreement: float
    instability: float
    steady: float
    anchors: int


def estimate_noise_rate(
    probs: npt.ArrayLike | torch.Tensor, labels: npt.ArrayLike | torch.Tensor, *, share: float = 0.3
) -> NoiseRate:
    r"""Estimate the share of wrong labels from the samples a held-out network is most sure of.

    With p_i the mean over epochs of the probabilities, :math:`\hat y_i` its argmax (the first one of a tie) and c_i its
    maximum, the anchors J are, within each predicted class k of n_k >= 5 samples, the max(5, share n_k) with the
    largest c_i (rounded; ties with the last one are anchors too), each of weight :math:`w_i \propto n_k / |J_k|`:

    .. math::
        a = \sum_J w_i 1[y_i = \hat y_i], \quad
        v = \sum_J w_i \operatorname{mean}_{w > W/3} 1[\arg\max p_i^w \ne \hat y_i], \quad
        r = 1 - \frac{a}{1 - v/2}, \quad \mathrm{rate} = \min(r, 1 - a_0)

    clipped to [0, min(0.8, 0.95 (1 - 1/K))]; v stands for the anchors' own error. A weak network is wrong more often
    than it wavers, but both fall as anchors are chosen more strictly: a_0 is where the line through (v, a) of 5/3, 1,
    2/3, 1/3 and 1/6 of the share (least squares, weighted by the number of anchors; a slope above 0 counts as 0) meets
    v = 0. With :math:`d = \operatorname{mean} 1[y_i \ne \hat y_i]` and :math:`se^2 = \max(a(1-a), 1/|J|)
    \sum_J w_i^2` the interval is

    .. math::
        \mathrm{low} = \min\Bigl(1 - \frac{a + 2 se}{1 - v} - 0.02,\ 2\,\mathrm{rate} - r - 2 se\Bigr), \quad
        \mathrm{high} = \max(d, 1 - a) + 2 \sqrt{d (1 - d) / N}

    (the line may have seen half of the anchors' error), clipped to [0, rate] and to at most 1 - 1/K; low is 0 where
    a - 2 se <= 1/K, as the agreement may then be chance alone. Nothing is random. Agreement near chance,
    (a - 1/K) / (1 - 1/K) < 0.1, is not identifiable (are the labels wrong, or has the network not learned?): a
    ``UserWarning`` says so and gives the interval.

    Limits: probabilities that name the true class of every anchor give the share of wrong labels among the anchors;
    labels that all equal the prediction give 0. Noise that depends on the sample is underestimated by 0.04 to 0.10, as
    anchors are easy samples (``high`` covers it). A weak network (held-out accuracy near 40 %) still makes it too
    large, by up to 0.14 where it was 0.2 without the line, and ``low`` with it; so do few samples a class (K = 100). In
    a single epoch nothing wavers. One dominant class lets agreement by chance exceed 1/K.

    Args:
        probs: Held-out probabilities, ``(N, K)``, or ``(W, N, K)`` with one slice an epoch. No sample may have been
            trained on by the network that predicts it.
        labels: Given labels, ``(N,)``, integers in 0 ... K - 1.
        share: The share of each predicted class that serves as anchors, in (0, 1].

    Returns:
        The estimate with its interval, rates per class and what they were computed from.

    Raises:
        ValueError: For probabilities or labels that are none, or if no predicted class has 5 samples.

    Example:
        >>> probs = np.repeat(np.eye(2), 10, axis=0) * 0.8 + 0.1
        >>> labels = np.repeat([0, 0, 1], [10, 2, 8])  # two samples of class 1 are labelled 0
        >>> round(estimate_noise_rate(probs, labels, share=1.0).rate, 3)
        0.1
    """
    epochs = _check_probs(probs)
    given = _check_labels(labels, *epochs.shape[1:])
    part = real_number(share)
    if part is None or not 0.0 < part <= 1.0:
        raise ValueError(f"share must lie in (0, 1], the part of each class that serves as anchors; received {share!r}")
    result = rate_of_probabilities(epochs, given, share=part)
    if not result.identifiable:
        warnings.warn(doubt(result, epochs.shape[2]), UserWarning, stacklevel=2)
    return result


def rate_of_probabilities(epochs: Floats, labels: Integers, *, share: float = 0.3) -> NoiseRate:
    """`estimate_noise_rate` of probabilities (W, N, K) that need no check; without its warning."""
    mean = epochs.mean(axis=0)
    late = epochs[len(epochs) // 3 :].argmax(axis=2)  # epochs w > W/3, counted from 1
    return rate_of_predictions(mean.argmax(axis=1), mean.max(axis=1), late, labels, mean.shape[1], share=share)


def rate_of_predictions(
    predicted: Integers, confidence: Floats, late: Integers, labels: Integers, k: int, *, share: float = 0.3
) -> NoiseRate:
    """`estimate_noise_rate` from predictions alone, without its warning: probabilities need not be kept.

    Args:
        predicted: (N,) the class of the largest mean probability.
        confidence: (N,) that probability.
        late: (L, N) the likeliest class after each of the late epochs w > W/3.
        labels: (N,) given.
        k: The number of classes.
        share: Of each predicted class that serves as anchors.
    """
    agrees = (labels == predicted).astype(np.float64)
    unstable = (late != predicted).mean(axis=0)
    strictness = [
        _anchor_agreement(_anchors(confidence, predicted, k, min(part * share, 1.0)), predicted, agrees, unstable, k)
        for part in SHARES
    ]
    chosen = strictness[SHARES.index(1.0)]
    return _summary(chosen, _steady(strictness, chosen), 1 - float(agrees.mean()), len(agrees), k)


class _Agreement(NamedTuple):
    """Agreement and instability of a choice of anchors: of each class, and the mean by the classes' sizes."""

    anchors: int
    a: float
    v: float
    squares: float  # the sum over J of w_i^2
    class_a: Floats  # (K,), NaN without anchors
    class_v: Floats


def _anchor_agreement(anchors: Integers, predicted: Integers, agrees: Floats, unstable: Floats, k: int) -> _Agreement:
    """The agreement of anchors, which are indices into the other arrays, all ``(N,)``."""
    where = predicted[anchors]
    counts, agreeing, moving = (np.bincount(where, x, k) for x in (None, agrees[anchors], unstable[anchors]))
    used = counts > 0
    size = np.where(used, np.bincount(predicted, minlength=k), 0).astype(np.float64)  # n_k
    share = size / size.sum()
    class_a, class_v = (np.divide(x, counts, out=np.full(k, np.nan), where=used) for x in (agreeing, moving))
    a, v = (float(share[used] @ x[used]) for x in (class_a, class_v))
    return _Agreement(len(anchors), a, v, float(share[used] ** 2 @ (1 / counts[used])), class_a, class_v)


def _steady(strictness: list[_Agreement], chosen: _Agreement) -> float:
    """a_0 of `estimate_noise_rate`; where no choice of anchors wavers more than another, the agreement itself."""
    n, a, v = np.array([(s.anchors, s.a, s.v) for s in strictness]).T
    middle_a, middle_v = n @ a / n.sum(), n @ v / n.sum()
    spread = n @ (v - middle_v) ** 2 / n.sum()
    if spread <= SLACK:
        return chosen.a
    slope = n @ ((v - middle_v) * (a - middle_a)) / n.sum() / spread
    return float(middle_a - min(slope, 0.0) * middle_v)


def _summary(chosen: _Agreement, steady: float, d: float, n: int, k: int) -> NoiseRate:
    """The estimate by the formulas of `estimate_noise_rate`."""
    a, v, most = chosen.a, chosen.v, min(0.8, 0.95 * (1 - 1 / k))
    plain = min(max(0.0, _rate_from_agreement(a, v)), most)
    rate = min(plain, max(0.0, 1 - steady))
    se = math.sqrt(max(a * (1 - a), 1 / chosen.anchors) * chosen.squares)
    low = min(1 - (a + 2 * se) / (1 - v) - 0.02, 2 * rate - plain - 2 * se) if v < 1 else 0.0
    if not a - 2 * se > 1 / k + SLACK:
        low = 0.0
    high = max(d, 1 - a) + 2 * math.sqrt(d * (1 - d) / n)
    per_class = np.clip(_rate_from_agreement(chosen.class_a, chosen.class_v), 0.0, most) * (
        rate / plain if plain > 0 else 1.0
    )
    per_class.setflags(write=False)
    known = (a - 1 / k) / (1 - 1 / k) >= IDENTIFIABLE - SLACK
    low, high = min(max(0.0, low), rate), min(high, 1 - 1 / k)
    return NoiseRate(rate, low, high, per_class, known, a, v, steady, chosen.anchors)


def _rate_from_agreement(agreement: Any, instability: Any) -> Any:
    """1 - a / (1 - v/2), of numbers or arrays."""
    return 1 - agreement / (1 - instability / 2)


def _anchors(confidence: Floats, predicted: Integers, k: int, share: float) -> Integers:
    """Indices of the most confident samples of each predicted class, ties with the last one included."""
    order = np.argsort(predicted, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(predicted, minlength=k))[:-1])
    chosen = [order[:0]]
    for group in groups:
        n = len(group)
        if n >= MIN_CLASS_SIZE:
            count = max(MIN_CLASS_SIZE, round(share * n))
            threshold = np.partition(confidence[group], n - count)[n - count]
            chosen.append(group[confidence[group] >= threshold])
    anchors = np.concatenate(chosen)
    if not len(anchors):
        raise ValueError(
            f"no predicted class has {MIN_CLASS_SIZE} samples: received {len(predicted)} samples over {k} classes, "
            f"at most {max(map(len, groups))} in one; give held-out probabilities of more samples"
        )
    return anchors


def _check_probs(probs: npt.ArrayLike | torch.Tensor) -> Floats:
    """Probabilities as float64 ``(W, N, K)``, or a ValueError."""
    if isinstance(probs, torch.Tensor):
        probs = probs.detach().cpu().double() if probs.is_floating_point() else probs.detach().cpu()
    given = np.asarray(probs)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"probs must be numbers (N, K) or (W, N, K); received {given.dtype} of shape {given.shape}")
    array = given.astype(np.float64, copy=False)
    if array.ndim not in (2, 3) or array.shape[-1] < 2 or array.size == 0:
        raise ValueError(
            f"probs must be (N, K) or (W, N, K), not empty, with a column for each of K >= 2 classes; received shape "
            f"{array.shape}: for two classes give both columns, stack([1 - p, p], axis=-1)"
        )
    if bad := int(np.isnan(array).any(axis=-1).sum()):
        raise ValueError(
            f"probs must be numbers; received NaN in {bad} row(s): leave those samples out of both arguments"
        )
    if array.min() < 0:
        raise ValueError(
            f"probs must be at least 0; received a minimum of {array.min():.4g}: "
            "logits go through softmax(dim=-1), log-probabilities through exp, first"
        )
    gap = np.abs(array.sum(axis=-1) - 1)
    if gap.max() > SUM_TOLERANCE:
        raise ValueError(
            f"every row of probs must sum to 1 within {SUM_TOLERANCE}; received a sum that is off by {gap.max():.4g} "
            f"({int((gap > SUM_TOLERANCE).sum())} row(s)): apply softmax(dim=-1), or divide by the sum"
        )
    return array if array.ndim == 3 else array[None]


def _check_labels(labels: npt.ArrayLike | torch.Tensor, n: int, k: int) -> Integers:
    """Labels as int64 ``(N,)``, or a ValueError."""
    array = np.asarray(labels.detach().cpu() if isinstance(labels, torch.Tensor) else labels)
    if array.shape != (n,):
        raise ValueError(f"labels must be ({n},), one for each sample of probs; received shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers in 0 ... {k - 1}; received {array.dtype}: astype(int) or .long()")
    if array.min() < 0 or array.max() >= k:
        raise ValueError(
            f"labels must lie in 0 ... {k - 1}, as probs has {k} classes; received {array.min()} ... {array.max()}: "
            "remove samples without a label, and number the classes from 0"
        )
    return array.astype(np.int64)


def doubt(result: NoiseRate, k: int) -> str:
    """The warning that the rate is not identifiable."""
    return (
        f"the noise rate cannot be told from these probabilities: the most confident predictions agree with "
        f"{result.agreement:.3f} of the labels, chance is {1 / k:.3f}; nearly all labels are wrong, or the network has "
        f"not learned. Its interval is [{result.low:.3f}, {result.high:.3f}]. Train longer or on more data, or give "
        "the rate yourself."
    )


def too_few(labels: npt.NDArray[np.int64], count: int) -> str:
    """The note that there are too few rows to estimate a rate; empty where there are enough."""
    if len(labels) > (MIN_CLASS_SIZE - 1) * count and np.sort(np.bincount(labels))[-2] >= 2:
        return ""
    return (
        f"{len(labels)} rows of {count} classes are too few to estimate how many labels are wrong; none is taken to "
        "be: give noise_rate, or more rows"
    )
