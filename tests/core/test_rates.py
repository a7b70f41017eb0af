"""The noise rate from held-out probabilities: known rates, a slow oracle, symmetries, limits and messages."""

import itertools
import math
import warnings
from dataclasses import FrozenInstanceError, fields

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from antidote_learn.core.rates import NoiseRate, estimate_noise_rate

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def symmetric(k: int, rate: float) -> Array:
    transition = np.full((k, k), rate / (k - 1))
    np.fill_diagonal(transition, 1 - rate)
    return transition


def pair(k: int, rate: float) -> Array:
    return (1 - rate) * np.eye(k) + rate * np.roll(np.eye(k), 1, axis=1)


def noisy(clean: Labels, transition: Array, rng: np.random.Generator) -> Labels:
    return (rng.random(len(clean))[:, None] > transition[clean].cumsum(axis=1)[:, :-1]).sum(axis=1)


def softmax(logits: Array) -> Array:
    exp = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def held_out(
    seed: int, transition: Array, *, n: int, epochs: int = 6, skill: float = 6.0, jitter: float = 6.0
) -> tuple[Array, Labels, Labels]:
    """Probabilities of networks that learn the noisy labels: ``(W, N, K)``, given labels, clean labels.

    Samples differ in difficulty (the margin of the true class is exponential with mean ``skill``), carry an error of
    their own that stays, and one that fades as ``jitter / epoch``.
    """
    rng = np.random.default_rng(seed)
    k = len(transition)
    clean = rng.integers(k, size=n)
    labels = noisy(clean, transition, rng)
    signal = skill * rng.exponential(size=(n, 1)) * np.eye(k)[clean] + rng.normal(size=(n, k))
    logits = [signal + jitter / w * rng.normal(size=(n, k)) for w in range(1, epochs + 1)]
    return softmax(np.stack(logits)) @ transition, labels, clean


def quiet(probs: Array, labels: Labels, **options: float) -> NoiseRate:
    """The estimate without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimate_noise_rate(probs, labels, **options)


KNOWN = [
    *[(2, kind, rate) for kind in (symmetric, pair) for rate in (0.1, 0.2, 0.3, 0.4)],
    *[(3, symmetric, rate) for rate in (0.1, 0.2, 0.4, 0.5)],
    *[(10, symmetric, rate) for rate in (0.1, 0.2, 0.4, 0.6, 0.8)],
    *[(100, symmetric, rate) for rate in (0.2, 0.8)],
    *[(k, pair, rate) for k in (3, 10) for rate in (0.1, 0.2, 0.3, 0.4, 0.45)],
    (100, pair, 0.4),
]
KNOWN_IDS = [f"{k}-{kind.__name__}-{rate}" for k, kind, rate in KNOWN]


# --- known rates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "kind", "rate"), KNOWN, ids=KNOWN_IDS)
def test_perfect_probabilities_give_the_rate(k, kind, rate):
    rng = np.random.default_rng(k)
    clean = np.arange(100 * k) % k
    labels = noisy(clean, kind(k, rate), rng)
    probs = 0.9 * np.eye(k)[clean] + 0.1 / k  # every confidence is tied: all samples are anchors
    result = quiet(probs, labels)
    assert result.rate == pytest.approx(min(np.mean(labels != clean), 0.8, 0.95 * (1 - 1 / k)), abs=1e-12)
    assert result.anchors == len(clean)


@pytest.mark.parametrize(("k", "kind", "rate"), KNOWN, ids=KNOWN_IDS)
@pytest.mark.parametrize("skill", [20.0, 6.0])  # 91 and 73 percent held-out accuracy at K = 10
def test_imperfect_networks_give_the_rate(k, kind, rate, skill):
    seeds = range(8 if k < 100 else 2)
    errors = []
    for seed in seeds:
        probs, labels, clean = held_out(seed, kind(k, rate), n=1000 if k < 100 else 4000, skill=skill)
        errors.append(quiet(probs, labels).rate - np.mean(labels != clean))
    assert abs(np.mean(errors)) < 0.025  # measured: at most 0.014
    assert np.max(np.abs(errors)) < 0.1  # measured: at most 0.069, from 300 anchors


@pytest.mark.parametrize(("k", "n"), [(2, 400), (3, 600), (10, 2000), (100, 4000)])
@pytest.mark.parametrize("epochs", [4, 6, 9])
def test_clean_labels_give_nearly_zero(k, n, epochs):
    for seed in range(3 if k < 100 else 1):
        probs, labels, clean = held_out(seed, np.eye(k), n=n, epochs=epochs)
        assert np.mean(probs.mean(axis=0).argmax(axis=1) != clean) > 0.05  # the network is not perfect
        result = estimate_noise_rate(probs, labels)
        assert result.rate < 0.01
        assert result.low == 0.0
        assert np.nanmax(result.per_class) < 0.25


def test_labels_that_equal_the_prediction_give_zero():
    probs, _, _ = held_out(0, np.eye(5), n=300)
    result = estimate_noise_rate(probs, probs.mean(axis=0).argmax(axis=1))
    assert (result.rate, result.low, result.agreement) == (0.0, 0.0, 1.0)


def test_per_class_is_the_share_of_wrong_labels_in_the_true_class():
    rates = np.array([0.0, 0.1, 0.3, 0.45])
    transition = np.diag(1 - rates) + rates[:, None] / 3 * (1 - np.eye(4))
    estimates = [quiet(*held_out(seed, transition, n=4000, skill=20.0)[:2]).per_class for seed in range(5)]
    np.testing.assert_allclose(np.mean(estimates, axis=0), rates, atol=0.03)


def test_rate_is_the_class_mean_of_per_class_when_predictions_do_not_move():
    probs, labels, _ = held_out(3, symmetric(4, 0.3), n=800)
    result = estimate_noise_rate(probs[-1], labels)
    sizes = np.bincount(probs[-1].argmax(axis=1), minlength=4)
    assert result.rate == pytest.approx(sizes @ result.per_class / sizes.sum(), abs=1e-12)


def test_per_class_is_nan_where_a_class_has_fewer_than_five_samples():
    predicted = np.repeat([0, 1, 3], [20, 4, 5])
    result = estimate_noise_rate(0.7 * np.eye(4)[predicted] + 0.075, np.repeat([0, 1, 2, 3], [20, 4, 1, 4]))
    np.testing.assert_allclose(result.per_class, [0.0, math.nan, math.nan, 0.2])
    assert result.anchors == 25  # and the four samples of class 1 do not count
    assert result.rate == pytest.approx(5 / 25 * 0.2)


# --- the interval ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "seeds"), [(2, 40), (3, 40), (10, 25), (100, 2)])
def test_the_interval_covers_the_share_of_wrong_labels(k, seeds):
    """Conservative: measured 1.000 of 3 000 runs at K = 2, 0.999 of 3 600 at K = 3, 1.000 of 2 100 at K = 10."""
    noises = [symmetric(k, r) for r in (0.0, 0.2, 0.4, 0.6, 0.8) if r < 1 - 1 / k] + [pair(k, r) for r in (0.2, 0.4)]
    inside = []
    for transition in noises:
        for skill in (20.0, 6.0, 3.0):
            for seed in range(seeds):
                probs, labels, clean = held_out(100 + seed, transition, n=500 if k < 100 else 4000, skill=skill)
                result = quiet(probs, labels)
                inside.append(result.low <= np.mean(labels != clean) <= result.high)
    assert np.mean(inside) >= 0.98


@pytest.mark.parametrize("seed", range(5))
def test_noise_on_hard_samples_is_underestimated_but_covered(seed):
    rng = np.random.default_rng(seed)
    k, n = 5, 2000
    clean = rng.integers(k, size=n)
    margin = rng.exponential(4.0, size=n)
    probs = softmax(margin[:, None] * np.eye(k)[clean] + rng.normal(size=(n, k)))
    flipped = rng.random(n) < 0.6 * np.exp(-margin / 4)  # hard samples are mislabelled more often; 0.3 on average
    labels = np.where(flipped, (clean + rng.integers(1, k, size=n)) % k, clean)
    result = estimate_noise_rate(probs, labels)
    assert result.rate < flipped.mean() - 0.04
    assert result.low <= flipped.mean() <= result.high


def test_a_weak_network_over_many_classes_is_off_and_covered():
    probs, labels, clean = held_out(0, symmetric(100, 0.2), n=4000, skill=3.0)
    assert np.mean(probs.mean(axis=0).argmax(axis=1) == clean) < 0.4
    result = estimate_noise_rate(probs, labels)
    assert 0.03 < abs(result.rate - np.mean(labels != clean)) < 0.1
    assert result.low <= np.mean(labels != clean) <= result.high


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_errors_that_do_not_waver_show_in_stricter_anchors(rate):
    """A weak network whose mistakes mostly stay: without the line through stricter choices the rate is far too high."""
    for seed in range(5):
        probs, labels, clean = held_out(seed, symmetric(10, rate), n=10_000, skill=1.5, jitter=1.0)
        assert 0.4 < np.mean(probs.mean(axis=0).argmax(axis=1) == clean) < 0.5
        result, truth = estimate_noise_rate(probs, labels), np.mean(labels != clean)
        plain = 1 - result.agreement / (1 - result.instability / 2)
        assert plain - truth > 0.09
        assert abs(result.rate - truth) < 0.65 * (plain - truth)  # measured: 0.45 to 0.6
        assert result.low - truth < 0.02


def test_a_single_untrained_epoch_misleads():
    """The limit that several epochs exist for: nothing in one slice tells a weak network from wrong labels."""
    probs, labels, clean = held_out(0, np.eye(10), n=2000, epochs=1)
    assert np.mean(probs[0].argmax(axis=1) == clean) < 0.4
    assert estimate_noise_rate(probs, labels).low > 0.3  # every label is right


@pytest.mark.parametrize("seed", range(10))
def test_several_epochs_betray_a_network_that_one_epoch_trusts(seed):
    probs, labels, _ = held_out(seed, np.eye(10), n=1000, skill=1.5, jitter=9.0)
    many, last = estimate_noise_rate(probs, labels), estimate_noise_rate(probs.mean(axis=0), labels)
    assert many.instability > 0.1
    assert last.instability == 0.0
    assert many.rate < last.rate
    assert many.low <= last.low


# --- near chance -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("wrong", ["the network", "the labels"])
def test_agreement_near_chance_warns_and_gives_the_interval(k, wrong):
    rng = np.random.default_rng(0)
    clean = rng.integers(k, size=2000)
    others = rng.integers(k, size=2000)
    probs = softmax(5.0 * np.eye(k)[others if wrong == "the network" else clean])
    labels = clean if wrong == "the network" else others
    with pytest.warns(
        UserWarning, match=r"cannot be told.*chance is 0\.\d+.*\[0\.000, 0\.\d+\].*give the rate"
    ) as caught:
        result = estimate_noise_rate(probs, labels)
    assert caught[0].filename == __file__
    assert not result.identifiable
    assert result.low == 0.0  # the labels may all be right
    assert result.high == pytest.approx(1 - 1 / k, abs=0.05)
    assert f"[{result.low:.3f}, {result.high:.3f}]" in str(caught[0].message)


@pytest.mark.parametrize(("k", "rate"), [(2, 0.3), (2, 0.4), (3, 0.5), (10, 0.7), (100, 0.8)])
def test_agreement_above_chance_does_not_warn(k, rate):
    probs, labels, _ = held_out(1, symmetric(k, rate), n=2000 if k < 100 else 4000, skill=20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate_noise_rate(probs, labels).identifiable


@pytest.mark.parametrize(("agree", "known"), [(52, False), (56, True), (58, True)])
def test_two_classes_are_identifiable_from_an_agreement_of_55_percent(agree, known):
    predicted = np.repeat([0, 1], 50)
    labels = np.where(np.arange(100) % 50 < agree // 2, predicted, 1 - predicted)
    assert quiet(0.8 * np.eye(2)[predicted] + 0.1, labels).identifiable is known


@pytest.mark.parametrize(("k", "cap"), [(2, 0.475), (5, 0.76), (10, 0.8), (100, 0.8)])
def test_the_rate_is_capped_below_chance(k, cap):
    predicted = np.arange(20 * k) % k
    result = quiet(0.8 * np.eye(k)[predicted] + 0.2 / k, (predicted + 1) % k)
    assert result.rate == pytest.approx(cap, abs=1e-15)
    assert result.low <= result.rate < result.high <= 1 - 1 / k
    np.testing.assert_allclose(result.per_class, cap)


# --- an independent oracle -------------------------------------------------------------------------------------------


def slow_anchors(mean: list[list[float]], predicted: list[int], k: int, share: float) -> dict[int, float]:
    """The anchors with their weights."""
    weight: dict[int, float] = {}
    for c in range(k):
        members = sorted((i for i in range(len(mean)) if predicted[i] == c), key=lambda i: -max(mean[i]))
        if len(members) < 5:
            continue
        count = max(5, round(share * len(members)))
        last = max(mean[members[count - 1]])
        chosen = [i for i in members if max(mean[i]) >= last]
        weight |= {i: len(members) / len(chosen) for i in chosen}
    total = sum(weight.values())
    return {i: w / total for i, w in weight.items()}


def slow_estimate(probs: Array, labels: Labels, share: float) -> dict[str, object]:
    """The formulas one sample at a time, in plain Python, and the line by NumPy's polynomial fit."""
    epochs, n, k = probs.shape
    mean = [[sum(float(probs[w, i, c]) for w in range(epochs)) / epochs for c in range(k)] for i in range(n)]
    predicted = [row.index(max(row)) for row in mean]

    def moved(i: int) -> float:
        late = [w for w in range(1, epochs + 1) if w > epochs / 3]
        rows = [probs[w - 1, i].tolist() for w in late]
        return sum(row.index(max(row)) != predicted[i] for row in rows) / len(late)

    def seen(weight: dict[int, float]) -> tuple[float, float]:
        agreement = sum(w * (labels[i] == predicted[i]) for i, w in weight.items())
        return agreement, sum(w * moved(i) for i, w in weight.items())

    def corrected(agreement: float, instability: float) -> float:
        return min(max(1 - agreement / (1 - instability / 2), 0), min(0.8, 0.95 * (1 - 1 / k)))

    weight = slow_anchors(mean, predicted, k, share)
    a, v = seen(weight)
    choices = [slow_anchors(mean, predicted, k, min(1.0, part * share)) for part in (5 / 3, 1, 2 / 3, 1 / 3, 1 / 6)]
    counts = [len(choice) for choice in choices]
    a_s, v_s = zip(*map(seen, choices), strict=True)
    steady = a
    if np.cov(v_s, fweights=counts, ddof=0) > 1e-12:
        slope, steady = np.polyfit(v_s, a_s, 1, w=np.sqrt(counts))
        steady = steady if slope <= 0 else np.average(a_s, weights=counts)
    plain = corrected(a, v)
    rate = min(plain, max(0, 1 - steady))
    per_class = []
    for c in range(k):
        own = [i for i in weight if predicted[i] == c]
        agreement = [float(labels[i] == c) for i in own]
        apart = corrected(sum(agreement) / len(own), sum(map(moved, own)) / len(own)) if own else math.nan
        per_class.append(apart * (rate / plain if plain > 0 else 1.0))
    se = (max(a * (1 - a), 1 / len(weight)) * sum(w * w for w in weight.values())) ** 0.5
    d = sum(labels[i] != predicted[i] for i in range(n)) / n
    open_end = a - 2 * se <= 1 / k + 1e-12 or v == 1
    low = 0.0 if open_end else max(0, min(1 - (a + 2 * se) / (1 - v) - 0.02, 2 * rate - plain - 2 * se))
    return {
        "rate": rate,
        "low": min(low, rate),
        "high": min(1 - 1 / k, max(d, 1 - a) + 2 * (d * (1 - d) / n) ** 0.5),
        "per_class": per_class,
        "identifiable": (a - 1 / k) / (1 - 1 / k) >= 0.1 - 1e-12,
        "agreement": a,
        "instability": v,
        "steady": steady,
        "anchors": len(weight),
    }


SIZES = {
    "seed": st.integers(0, 2**32 - 1),
    "k": st.integers(2, 6),
    "n": st.integers(30, 120),
    "epochs": st.integers(1, 7),
}


def random_case(seed: int, k: int, n: int, epochs: int) -> tuple[Array, Labels]:
    """Networks and labels of any quality, from informed to useless."""
    rng = np.random.default_rng(seed)
    transition = (1 - (u := rng.random())) * np.eye(k) + u * rng.dirichlet(np.ones(k), size=k)
    probs, labels, _ = held_out(seed, transition, n=n, epochs=epochs, skill=10 * rng.random(), jitter=9 * rng.random())
    return probs, labels


def assert_same(result: NoiseRate, expected: dict[str, object]) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(result, name), value, rtol=0, atol=1e-12, err_msg=name)


@settings(deadline=None, max_examples=150)
@given(**SIZES, share=st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.77, 1.0]))
def test_equals_a_slow_loop(seed, k, n, epochs, share):
    probs, labels = random_case(seed, k, n, epochs)
    assert_same(quiet(probs, labels, share=share), slow_estimate(probs, labels, share))


@settings(deadline=None, max_examples=50)
@given(seed=SIZES["seed"], n=st.integers(30, 120))
def test_equals_a_slow_loop_with_tied_confidences(seed, n):
    rng = np.random.default_rng(seed)
    rows = np.array(
        [[0.5, 0.3, 0.2], [0.25, 0.75, 0.0], [0.0, 0.5, 0.5 - 2**-20], [0.125, 0.25, 0.625], [0.2, 0.3, 0.5]]
    )
    probs, labels = rows[rng.integers(5, size=n)][None], rng.integers(3, size=n)
    assert_same(quiet(probs, labels), slow_estimate(probs, labels, 0.3))


def test_comparisons_do_not_depend_on_the_order_of_the_classes():
    """Three classes, an agreement of exactly 0.4 = 1/3 + 0.1 * 2/3: on the boundary of being identifiable."""
    for sizes in itertools.permutations([10, 30, 50]):
        predicted = np.repeat(np.arange(3), sizes)
        right = np.concatenate([np.arange(n) < 0.4 * n for n in sizes])
        assert quiet(0.7 * np.eye(3)[predicted] + 0.1, np.where(right, predicted, (predicted + 1) % 3)).identifiable


def test_predictions_that_always_move_leave_the_lower_end_open():
    early, late = np.array([0.9, 0.05, 0.05]), np.array([[0.1, 0.5, 0.4], [0.1, 0.4, 0.5]])
    probs = np.repeat(np.stack([early, *late])[:, None], 10, axis=1)
    result = estimate_noise_rate(probs, np.zeros(10, dtype=int))
    assert result.instability == 1.0
    assert result.low == 0.0


# --- symmetries ------------------------------------------------------------------------------------------------------


def assert_unchanged(result: NoiseRate, expected: NoiseRate, classes: Labels | None = None) -> None:
    for field in fields(NoiseRate):
        value, other = getattr(result, field.name), getattr(expected, field.name)
        if field.name == "per_class" and classes is not None:
            value = value[classes]
        np.testing.assert_allclose(value, other, rtol=0, atol=1e-12, err_msg=field.name)


@settings(deadline=None, max_examples=60)
@given(**SIZES)
def test_the_order_of_the_samples_does_not_matter(seed, k, n, epochs):
    probs, labels = random_case(seed, k, n, epochs)
    order = np.random.default_rng(seed + 1).permutation(n)
    assert_unchanged(quiet(probs[:, order], labels[order]), quiet(probs, labels))


@settings(deadline=None, max_examples=60)
@given(**SIZES)
def test_the_order_of_tied_samples_does_not_matter(seed, k, n, epochs):
    probs, labels = random_case(seed, k, n, epochs)
    coarse = np.round(probs * 4) + np.linspace(0, 0.1, k)  # few distinct rows, never a tie within one
    coarse /= coarse.sum(axis=-1, keepdims=True)
    order = np.random.default_rng(seed + 1).permutation(n)
    assert_unchanged(quiet(coarse[:, order], labels[order]), quiet(coarse, labels))


@settings(deadline=None, max_examples=60)
@given(**SIZES)
def test_the_names_of_the_classes_do_not_matter(seed, k, n, epochs):
    probs, labels = random_case(seed, k, n, epochs)
    new = np.random.default_rng(seed + 1).permutation(k)
    renamed = np.empty_like(probs)
    renamed[..., new] = probs
    assert_unchanged(quiet(renamed, new[labels]), quiet(probs, labels), classes=new)


@settings(deadline=None, max_examples=60)
@given(**SIZES)
def test_the_interval_contains_the_rate(seed, k, n, epochs):
    result = quiet(*random_case(seed, k, n, epochs))
    assert 0 <= result.low <= result.rate <= result.high <= 1 - 1 / k


@settings(deadline=None, max_examples=30)
@given(**SIZES)
def test_one_epoch_is_the_same_as_none(seed, k, n, epochs):
    probs, labels = random_case(seed, k, n, epochs)
    one, none = quiet(probs[:1], labels), quiet(probs[0], labels)
    assert one.instability == 0.0
    assert_unchanged(one, none)


@settings(deadline=None, max_examples=30)
@given(seed=SIZES["seed"], k=SIZES["k"], n=SIZES["n"], epochs=st.sampled_from([2, 4, 8]))
def test_epochs_that_are_all_alike_are_the_same_as_one(seed, k, n, epochs):
    probs, labels = random_case(seed, k, n, 1)
    assert_unchanged(quiet(np.repeat(probs, epochs, axis=0), labels), quiet(probs, labels))


@pytest.mark.parametrize(("epochs", "unlike", "moved"), [(3, 1, 0), (4, 1, 0), (5, 2, 1 / 4), (6, 2, 0), (9, 4, 1 / 6)])
def test_only_epochs_after_the_first_third_count_as_moves(epochs, unlike, moved):
    predicted = np.arange(30) % 3
    probs = np.repeat(0.7 * np.eye(3)[predicted][None] + 0.1, epochs, axis=0)
    probs[:unlike] = np.roll(probs[:unlike], 1, axis=-1)
    assert estimate_noise_rate(probs, predicted).instability == pytest.approx(moved, abs=1e-15)


# --- what may be passed, and what comes back -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_every_precision_are_accepted(dtype):
    probs, labels, _ = held_out(0, symmetric(3, 0.3), n=600)
    tensor = torch.tensor(probs, dtype=dtype, requires_grad=True)
    expected = quiet(tensor.detach().double().numpy(), labels)
    assert_unchanged(estimate_noise_rate(tensor, torch.tensor(labels)), expected)
    assert_unchanged(estimate_noise_rate(tensor, torch.tensor(labels, dtype=torch.uint8)), expected)


def test_lists_are_accepted():
    probs, labels, _ = held_out(0, symmetric(3, 0.3), n=60)
    assert_unchanged(estimate_noise_rate(probs.tolist(), labels.tolist()), estimate_noise_rate(probs, labels))


def test_arguments_are_left_alone_and_the_result_is_frozen():
    probs, labels, _ = held_out(0, symmetric(3, 0.3), n=60)
    probs.setflags(write=False)
    labels.setflags(write=False)
    result = estimate_noise_rate(probs, labels)
    with pytest.raises(FrozenInstanceError):
        result.rate = 0.5  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        result.per_class[0] = 0.5
    assert all(type(getattr(result, name)) is float for name in ("rate", "low", "high", "agreement", "instability"))
    assert type(result.identifiable) is bool
    assert result.per_class.shape == (3,)


@pytest.mark.parametrize(("share", "anchors"), [(1e-9, 5), (0.1, 5), (0.3, 12), (0.5, 20), (1.0, 40)])
def test_share_is_the_part_of_each_class_that_serves_as_anchors(share, anchors):
    confidence = np.linspace(0.6, 0.9, 40)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    assert estimate_noise_rate(probs, np.zeros(40, dtype=int), share=share).anchors == anchors


def test_anchors_are_the_most_confident_of_their_class():
    confidence = np.linspace(0.6, 0.9, 40)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    labels = (np.arange(40) < 28).astype(int)  # wrong except for the 12 most confident
    assert estimate_noise_rate(probs, labels).rate == 0.0


GOOD = np.repeat(np.eye(3), 5, axis=0)
NAMES = np.repeat(np.arange(3), 5)


def changed(array: Array, index: object, value: float) -> Array:
    array = array.copy()
    array[index] = value  # type: ignore[index]
    return array


BAD = {
    "probabilities of one class of two": (GOOD[:, 0], NAMES, r"probs must be \(N, K\).*shape \(15,\).*both columns"),
    "one column": (GOOD[:, :1], NAMES, r"K >= 2 classes; received shape \(15, 1\).*both columns"),
    "four dimensions": (GOOD[None, None], NAMES, r"\(W, N, K\).*received shape \(1, 1, 15, 3\)"),
    "no samples": (GOOD[:0], NAMES[:0], r"not empty.*received shape \(0, 3\)"),
    "no epochs": (GOOD[None][:0], NAMES, r"not empty.*received shape \(0, 15, 3\)"),
    "NaN": (changed(GOOD, (slice(2), 1), np.nan), NAMES, r"received NaN in 2 row\(s\): leave those samples out"),
    "negative": (changed(GOOD, (0, 0), -0.25), NAMES, r"at least 0; received a minimum of -0\.25.*softmax"),
    "sum": (changed(GOOD, (0, 1), 0.5), NAMES, r"sum to 1 within 0\.01; received a sum that is off by 0\.5 \(1 row"),
    "infinite": (changed(GOOD, (0, 1), np.inf), NAMES, r"sum to 1 within.*off by inf"),
    "too few labels": (GOOD, NAMES[1:], r"labels must be \(15,\), one for each sample.*received shape \(14,\)"),
    "one-hot labels": (GOOD, GOOD.astype(int), r"labels must be \(15,\).*received shape \(15, 3\)"),
    "floats": (GOOD, NAMES.astype(float), r"labels must be integers in 0 \.\.\. 2; received float64: astype\(int\)"),
    "label too large": (
        GOOD,
        NAMES + 1,
        r"0 \.\.\. 2, as probs has 3 classes; received 1 \.\.\. 3.*number the classes",
    ),
    "ignored label": (GOOD, np.where(NAMES, NAMES, -100), r"received -100 \.\.\. 2: remove samples without a label"),
    "tiny": (
        GOOD[::2],
        NAMES[::2],
        r"no predicted class has 5 samples: received 8 samples over 3 classes, at most 3 in",
    ),
}


@pytest.mark.parametrize(("probs", "labels", "message"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("convert", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_bad_input_is_refused_with_what_was_received(probs, labels, message, convert):
    with pytest.raises(ValueError, match=message.replace("float64", r"(torch\.)?float64")):
        estimate_noise_rate(convert(probs), convert(labels))


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, math.nan, math.inf])
def test_a_share_outside_0_1_is_refused(share):
    with pytest.raises(ValueError, match=rf"share must lie in \(0, 1\].*received {share}"):
        estimate_noise_rate(GOOD, NAMES, share=share)
