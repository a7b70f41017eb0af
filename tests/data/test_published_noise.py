"""What published generators of noise do, written again from their descriptions, and which of ours is the same."""

import re
from pathlib import Path

import numpy as np
import pytest

from antidote_learn import inject
from antidote_learn.data import noise
from antidote_learn.data.maps import MAPS

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
BALANCED = np.repeat(np.arange(10), 500)
UNEQUAL = np.repeat(np.arange(10), np.arange(100, 1100, 100))
MNIST = np.repeat(np.arange(10), [592, 674, 596, 613, 584, 542, 592, 627, 585, 595])  # a tenth of its classes


def moved(noisy) -> np.ndarray:
    """(K, K), how many samples of class i have label j; the diagonal left out."""
    k = noisy.clean_labels.max() + 1
    table = np.zeros((k, k), dtype=np.int64)
    np.add.at(table, (noisy.clean_labels, noisy.labels), 1)
    return table * (1 - np.eye(k, dtype=np.int64))


def method2(labels: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """eps-softmax "method2": a whole number of each pair of classes, cut off."""
    sizes = np.bincount(labels)
    return (transition * sizes[:, None]).astype(int) * (1 - np.eye(len(sizes), dtype=np.int64))


def uniform(rate: float, k: int) -> np.ndarray:
    return np.full((k, k), rate / (k - 1))


@pytest.mark.parametrize("rate", [0.2, 0.4, 0.6, 0.8])
def test_method2_of_eps_softmax_is_exact_pairs(rate):
    hundred = np.repeat(np.arange(100), 500)
    for labels in (BALANCED, UNEQUAL, hundred):
        k = labels.max() + 1
        found = moved(inject(labels, f"symmetric:{rate}:count=exact-pairs", seed=3))
        assert np.array_equal(found, method2(labels, uniform(rate, k)))
    transition = np.zeros((10, 10))
    for source, (target,) in MAPS["mnist"][1].items():
        transition[source, target] = rate
    found = moved(inject(MNIST, f"asymmetric:{rate}:count=exact-pairs", seed=3, data="mnist"))
    assert np.array_equal(found, method2(MNIST, transition))


def test_method2_leaves_fewer_labels_wrong_where_it_rounds_down():
    hundred = np.repeat(np.arange(100), 500)
    assert inject(hundred, "symmetric:0.2:count=exact-pairs").rate == pytest.approx(0.198)


def test_the_mnist_noise_of_eps_softmax_is_iid():
    """Each sample has its own draw from its row of the transition: numbers vary as those of a binomial do."""
    counts = np.array([moved(inject(MNIST, "symmetric:0.4:count=iid", seed=seed)) for seed in range(300)])
    wrong, sizes = counts.sum(2), np.bincount(MNIST)
    np.testing.assert_allclose(wrong.mean(0), 0.4 * sizes, rtol=0.02)
    np.testing.assert_allclose(wrong.var(0).sum(), (0.24 * sizes).sum(), rtol=0.15)
    np.testing.assert_allclose(counts[:, 3, 7].mean(), 0.4 / 9 * sizes[3], rtol=0.05)
    exact = [moved(inject(MNIST, "symmetric:0.4", seed=seed)).sum(1) for seed in range(3)]
    assert np.ptp(exact, axis=0).max() == 0


def test_the_symmetric_noise_of_logitclip_is_exact_all():
    """It shuffles all samples and takes the first R N: an exact total, of which classes have what chance gives."""
    wrong = np.array([moved(inject(UNEQUAL, "symmetric:0.4:count=exact-all", seed=s)).sum(1) for s in range(300)])
    sizes = np.bincount(UNEQUAL)
    assert set(wrong.sum(1)) == {int(0.4 * len(UNEQUAL))}
    np.testing.assert_allclose(wrong.mean(0), 0.4 * sizes, rtol=0.02)
    hypergeometric = 0.24 * sizes * (len(UNEQUAL) - sizes) / (len(UNEQUAL) - 1)
    np.testing.assert_allclose(wrong.var(0).sum(), hypergeometric.sum(), rtol=0.15)


@pytest.mark.parametrize(("labels", "same"), [(BALANCED, True), (UNEQUAL, False), (MNIST, False)])
def test_the_symmetric_noise_of_apl_is_ours_for_equal_classes_alone(labels, same):
    """It changes int(R N / K) samples of every class, however large the class is."""
    apl = np.full(10, int(int(0.2 * len(labels)) / 10))
    ours = moved(inject(labels, "symmetric:0.2", seed=1)).sum(1)
    assert np.array_equal(ours, apl) == same
    np.testing.assert_allclose(ours, 0.2 * np.bincount(labels), atol=1.0)


ROWS = {
    'eps-softmax, "method2"': ["symmetric:R:count=exact-pairs", "asymmetric:R:count=exact-pairs"],
    'eps-softmax ("method1") on MNIST': ["symmetric:R:count=iid", "asymmetric:R:count=iid"],
    "LogitClip, symmetric": ["symmetric:R:count=exact-all"],
}


def test_the_table_of_published_noises_says_so():
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]*) \|$", PAGE.partition("| published code |")[2], re.MULTILINE))
    for code, specs in ROWS.items():
        assert re.findall(r"`(.*?)`", rows[code]) == specs
        for spec in specs:
            assert f"``{spec}``" in noise.__doc__
            noise.parse_noise(spec.replace("R", "0.4"))
    apl = next(spec for code, spec in rows.items() if code.startswith("APL, ALFs, NLNL"))
    assert apl == "`symmetric:R`, where the classes are equally large"
