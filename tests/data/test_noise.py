"""Noise by counting: how many labels change, which ones, into what, and what is recorded about it."""

import hashlib
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, hypergeom, truncnorm
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

from antidote_learn.data.maps import CIFAR100_SUPERCLASS, MAPS
from antidote_learn.data.noise import from_human, inject
from antidote_learn.data.noise_grammar import HUMAN, KINDS, NoiseSpec, parse_noise

BALANCED = np.repeat(np.arange(10), 1000)
DIGITS, DIGIT_LABELS = load_digits(return_X_y=True)


def counted(result, k):
    """[i, j]: how many samples of class i are labelled j, by a slow loop."""
    pairs = np.zeros((k, k), dtype=int)
    for clean, label in zip(result.clean_labels.tolist(), result.labels.tolist(), strict=True):
        pairs[clean, label] += 1
    return pairs


def symmetric(k, rate):
    return np.where(np.eye(k, dtype=bool), 1 - rate, rate / (k - 1))


def assert_likely(number, size, rate):
    """A number that a binomial law gives all but once in ten thousand million times."""
    low, high = binom.interval(1 - 1e-10, size, rate)
    assert low <= number <= high


# --- symmetric -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.2, 0.4, 0.6, 0.8, 1.0])
def test_symmetric_relabels_an_exact_share_of_each_class_and_never_keeps_the_class(rate):
    result = inject(BALANCED, f"symmetric:{rate}", seed=3)
    pairs = counted(result, 10)
    assert np.diag(pairs).tolist() == [round(1000 * (1 - rate))] * 10
    for c in range(10):
        assert chisquare(np.delete(pairs[c], c)).pvalue > 1e-6
    assert result.rate == result.expected == pytest.approx(rate, abs=1e-15)
    np.testing.assert_allclose(result.transition, symmetric(10, rate), atol=1e-15)


def test_which_samples_of_a_class_are_relabelled_is_random():
    times = sum(inject([0] * 50 + [1] * 50, "symmetric:0.4", seed=seed).mask.astype(int) for seed in range(200))
    for number in times:
        assert_likely(number, 200, 0.4)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12), st.integers(1, 200), st.floats(0, 1), st.integers(0, 10**6))
def test_exact_counts_are_right_in_total_and_within_one_in_each_class(k, n, rate, seed):
    y = np.random.default_rng(seed).integers(k, size=n)
    result = inject(y, f"symmetric:{rate!r}", seed=seed, num_classes=k)
    sizes, wrong = np.bincount(y, minlength=k), np.bincount(y[result.mask], minlength=k)
    assert abs(wrong.sum() - rate * n) <= 0.5 + 1e-9
    assert (abs(wrong - rate * sizes) <= 1 + 1e-9).all()


def test_a_class_of_one_sample_each_still_gets_its_share():
    assert inject(np.arange(100), "symmetric:0.4").mask.sum() == 40


@pytest.mark.parametrize(("k", "rate", "per_target"), [(100, 0.2, 1), (10, 0.2, 11), (10, 0.9, 50), (4, 0.3, 50)])
def test_exact_pairs_rounds_down_each_pair_of_classes(k, rate, per_target):
    result = inject(np.repeat(np.arange(k), 500), f"symmetric:{rate}:count=exact-pairs")
    off_diagonal = counted(result, k)[~np.eye(k, dtype=bool)]
    assert set(off_diagonal.tolist()) == {per_target}
    np.testing.assert_allclose(result.transition * 500, counted(result, k), atol=1e-9)
    assert result.expected == pytest.approx(per_target * (k - 1) / 500, abs=1e-12)
    assert result.rate == pytest.approx(result.expected, abs=1e-12)


def test_exact_pairs_of_a_product_just_below_an_integer():
    assert 0.29 * 100 < 29
    assert inject([0] * 100 + [1] * 100, "pair:0.29:count=exact-pairs").mask.sum() == 58


def test_independent_flips_are_binomial_in_each_class():
    wrong = [
        np.bincount(BALANCED[inject(BALANCED, "symmetric:0.3:count=iid", seed=seed).mask], minlength=10)
        for seed in range(40)
    ]
    for number in np.ravel(wrong):
        assert_likely(number, 1000, 0.3)
    assert np.var(wrong) == pytest.approx(1000 * 0.3 * 0.7, rel=0.4)


def test_exact_all_has_an_exact_total_and_hypergeometric_classes():
    wrong = [
        np.bincount(BALANCED[inject(BALANCED, "symmetric:0.3:count=exact-all", seed=seed).mask], minlength=10)
        for seed in range(40)
    ]
    assert set(np.sum(wrong, axis=1).tolist()) == {3000}
    low, high = hypergeom.interval(1 - 1e-7, 10000, 1000, 3000)
    assert (low <= np.array(wrong)).all()
    assert (np.array(wrong) <= high).all()
    assert np.var(wrong) == pytest.approx(hypergeom.var(10000, 1000, 3000), rel=0.4)


@pytest.mark.parametrize("count", ["exact", "iid", "exact-all"])
def test_inclusive_may_draw_the_true_class(count):
    result = inject(BALANCED, f"symmetric:0.5:mode=inclusive:count={count}", seed=5)
    assert result.expected == pytest.approx(0.45, abs=1e-12)
    assert_likely(result.mask.sum(), 10000, 0.45)
    np.testing.assert_allclose(result.transition, 0.5 * np.eye(10) + 0.05, atol=1e-12)


def test_inclusive_at_rate_1_leaves_no_trace_of_the_class():
    pairs = counted(inject(BALANCED, "symmetric:1:mode=inclusive"), 10)
    assert chisquare(pairs.ravel()).pvalue > 1e-6


# --- asymmetric ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "pairs"),
    [
        ("cifar10", {9: 1, 2: 0, 3: 5, 5: 3, 4: 7}),
        ("mnist", {7: 1, 2: 7, 5: 6, 6: 5, 3: 8}),
        ("digits", {7: 1, 2: 7, 5: 6, 6: 5, 3: 8}),
        ("fashion-mnist", {c: (c + 1) % 10 for c in range(10)}),
        (None, {c: (c + 1) % 10 for c in range(10)}),
    ],
)
def test_asymmetric_takes_the_map_of_the_data_set(data, pairs):
    result = inject(BALANCED, "asymmetric:0.4", data=data)
    expected = 1000 * np.eye(10, dtype=int)
    for source, target in pairs.items():
        expected[source, source], expected[source, target] = 600, 400
    assert (counted(result, 10) == expected).all()
    np.testing.assert_allclose(result.transition, expected / 1000, atol=1e-12)
    assert result.expected == result.rate == 0.04 * len(pairs)


def test_a_map_can_be_named_and_beats_the_data_set():
    by_name, by_data = (
        inject(BALANCED, "asymmetric:0.4:map=cifar10"),
        inject(BALANCED, "asymmetric:0.4", data="cifar10"),
    )
    assert by_name.hash == by_data.hash
    assert inject(BALANCED, "asymmetric:0.4:map=cifar10", data="mnist").hash == by_name.hash


def test_pair_flip_is_the_next_class_and_closes_the_circle():
    result = inject(BALANCED, "pair:0.45")
    assert set((result.labels - BALANCED)[result.mask] % 10) == {1}
    assert np.bincount(BALANCED[result.mask]).tolist() == [450] * 10
    assert inject(BALANCED, "asymmetric:0.45:map=pair").hash == result.hash


@pytest.mark.parametrize("count", ["exact", "exact-pairs"])
def test_sequential_flips_turn_some_cats_back(count):
    result = inject(np.repeat(np.arange(10), 5000), f"asymmetric:0.4:map=cifar10:sequential=true:count={count}")
    pairs = counted(result, 10) / 5000
    # 2000 cats join 5000 dogs; of these 7000, 2800 become cats: in the mean 800 cats are back.
    cats_wrong, dogs_wrong = 1 - pairs[3, 3], 1 - pairs[5, 5]
    assert cats_wrong == pytest.approx(0.24, abs=0.03)
    assert dogs_wrong == pytest.approx(0.40, abs=0.03)
    assert np.bincount(result.labels)[[3, 5]].tolist() == [3000 + 2800, 5000 + 2000 - 2800]
    assert result.expected == pytest.approx(0.184, abs=1e-12)
    assert result.transition[3, 3] == pytest.approx(0.76, abs=1e-12)
    assert pairs[[9, 2, 4], [1, 0, 7]].tolist() == [0.4] * 3


def test_sequential_flips_follow_the_published_order():
    """MNIST flips 7 to 1 before 2 to 7, so that no 2 becomes a 1."""
    pairs = counted(inject(BALANCED, "asymmetric:0.4:map=mnist:sequential=true"), 10)
    assert pairs[2, [2, 7, 1]].tolist() == [600, 400, 0]


def test_flips_of_all_samples_leave_the_classes_that_the_map_omits():
    result = inject(BALANCED, "asymmetric:0.4:map=cifar10:count=exact-all", seed=1)
    moved = np.bincount(BALANCED[result.mask], minlength=10)
    assert moved[[0, 1, 6, 7, 8]].tolist() == [0] * 5
    assert set(moved[[2, 3, 4, 5, 9]].tolist()) != {400}
    assert result.expected == pytest.approx(0.2, abs=1e-12)
    assert_likely(result.mask.sum(), 10000, 0.2)


SUPERCLASSES = """
beaver dolphin otter seal whale / aquarium_fish flatfish ray shark trout / orchid poppy rose sunflower tulip /
bottle bowl can cup plate / apple mushroom orange pear sweet_pepper / clock keyboard lamp telephone television /
bed chair couch table wardrobe / bee beetle butterfly caterpillar cockroach / bear leopard lion tiger wolf /
bridge castle house road skyscraper / cloud forest mountain plain sea / camel cattle chimpanzee elephant kangaroo /
fox porcupine possum raccoon skunk / crab lobster snail spider worm / baby boy girl man woman /
crocodile dinosaur lizard snake turtle / hamster mouse rabbit shrew squirrel /
maple_tree oak_tree palm_tree pine_tree willow_tree / bicycle bus motorcycle pickup_truck train /
lawn_mower rocket streetcar tank tractor"""  # CIFAR-100, in the order of the coarse labels


def test_superclasses_hold_the_classes_that_the_data_set_says():
    groups = [group.split() for group in SUPERCLASSES.split("/")]
    fine = sorted(name for group in groups for name in group)  # fine labels are alphabetical
    assert len(fine) == 100
    for coarse, group in enumerate(groups):
        assert [CIFAR100_SUPERCLASS[fine.index(name)] for name in group] == [coarse] * 5


@pytest.mark.parametrize(("name", "inside"), [("block5", 6), ("superclass-next", 100), ("superclass-uniform", 400)])
def test_transitions_inside_a_superclass(name, inside):
    _, targets = MAPS[f"cifar100-{name}"]
    steps = [(source, target) for source, classes in targets.items() for target in classes]
    assert sum(CIFAR100_SUPERCLASS[a] == CIFAR100_SUPERCLASS[b] for a, b in steps) == inside
    assert list(targets) == list(range(100))
    assert all(a != b for a, b in steps)


def test_cifar100_takes_blocks_of_five_by_default():
    y = np.repeat(np.arange(100), 50)
    result = inject(y, "asymmetric:0.4", data="cifar100")
    assert (result.labels // 5 == y // 5).all()
    assert ((result.labels - y)[result.mask] % 5 == 1).all()
    assert np.bincount(y[result.mask]).tolist() == [20] * 100


def test_superclass_uniform_reaches_all_four_others_alike():
    y = np.repeat(np.arange(100), 400)
    pairs = counted(inject(y, "asymmetric:0.5:map=cifar100-superclass-uniform"), 100)
    of = np.array(CIFAR100_SUPERCLASS)
    assert (pairs[of[:, None] != of] == 0).all()
    assert (np.diag(pairs) == 200).all()
    assert chisquare(pairs[(of[:, None] == of) & ~np.eye(100, dtype=bool)]).pvalue > 1e-6


@pytest.mark.parametrize("name", MAPS)
def test_a_map_for_another_number_of_classes_is_refused(name):
    with pytest.raises(
        ValueError, match=rf"'{name}' is for 100? classes, received 7: pass num_classes=.*or use map=pair"
    ):
        inject(np.arange(7), f"asymmetric:0.2:map={name}")


# --- any matrix ------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 12), st.integers(0, 10**6))
def test_a_matrix_is_what_its_labels_realise(k, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(k, 0.5), size=k)
    y = rng.integers(k, size=2000)
    result = inject(y, matrix, seed=seed)
    pairs = counted(result, k)
    for c, size in enumerate(np.bincount(y, minlength=k)):
        for target in range(k):
            assert_likely(pairs[c, target], size, matrix[c, target])
    assert result.spec == "matrix"
    assert result.expected == pytest.approx(sum(1 - matrix[c, c] for c in y) / 2000, abs=1e-9)
    np.testing.assert_allclose(result.transition, matrix, atol=1e-12)


def test_a_matrix_may_be_a_tensor_or_a_list():
    matrix = [[0.75, 0.25], [0.5, 0.5]]
    hashes = {inject([0, 1] * 50, m, seed=1).hash for m in (matrix, np.array(matrix), torch.tensor(matrix))}
    assert len(hashes) == 1


@pytest.mark.parametrize("count", ["iid", "exact", "exact-all", "exact-pairs"])
@pytest.mark.parametrize(
    "spec", ["symmetric:0.3", "symmetric:0.3:mode=inclusive", "pair:0.3", "asymmetric:0.3:map=mnist"]
)
def test_design_and_realised_transition_agree(spec, count):
    result = inject(np.repeat(np.arange(10), 5000), f"{spec}:count={count}", seed=2)
    np.testing.assert_allclose(counted(result, 10) / 5000, result.transition, atol=0.04)
    np.testing.assert_allclose(result.transition.sum(axis=1), 1, atol=1e-12)


def test_the_names_of_the_classes_do_not_matter():
    new = np.random.default_rng(0).permutation(10)
    y = np.random.default_rng(1).integers(10, size=3000)
    for spec in ("symmetric:0.3", "symmetric:0.3:mode=inclusive", "symmetric:0.3:count=exact-pairs"):
        plain, renamed = inject(y, spec), inject(new[y], spec)
        np.testing.assert_allclose(renamed.transition[np.ix_(new, new)], plain.transition, atol=1e-12)
        assert renamed.expected == pytest.approx(plain.expected, abs=1e-12)


# --- noise that depends on the sample --------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.95])
def test_instance_rates_are_truncated_normal(rate):
    y = np.arange(20000) % 4
    result = inject(y, f"instance:{rate}", X=np.random.default_rng(0).normal(size=(20000, 3)), seed=4)
    law = truncnorm(-rate / 0.1, (1 - rate) / 0.1, loc=rate, scale=0.1)
    assert result.expected == pytest.approx(law.mean(), abs=5 * law.std() / math.sqrt(20000))
    assert_likely(result.mask.sum(), 20000, result.expected)
    np.testing.assert_allclose(result.transition, counted(result, 4) / 5000, atol=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.6, 1.0])
def test_dependent_noise_has_an_exact_total(rate):
    result = inject(DIGIT_LABELS, f"instance:{rate}:mode=dependent", X=DIGITS)
    assert result.mask.sum() == round(rate * 1797)
    assert result.expected == result.rate


def log_odds(seed):
    """(3, 2): of the two wrong classes of each of 3 classes, in order, for one feature that is -1 or 1."""
    x, y = np.tile([-1.0, 1.0], 6000), np.repeat([0, 1, 2], 4000)
    labels = inject(y, "instance:0.9", X=x[:, None], seed=seed).labels
    count = np.array(
        [[[((y == c) & (x == s) & (labels == j)).sum() for j in range(3)] for s in (-1, 1)] for c in range(3)]
    )
    wrong = [np.delete(count[c], c, axis=1) + 0.5 for c in range(3)]
    return np.log([pair[:, 0] / pair[:, 1] for pair in wrong])


def test_instance_targets_follow_a_softmax_of_x_times_a_standard_normal_matrix_of_each_class():
    odds = np.array([log_odds(seed) for seed in range(60)])
    np.testing.assert_allclose(odds[..., 0], -odds[..., 1], atol=0.6)  # linear in x
    assert np.corrcoef(odds[..., 0].ravel(), odds[..., 1].ravel())[0, 1] < -0.98
    assert np.mean(odds**2) == pytest.approx(2, rel=0.35)  # the difference of two standard normal weights
    # One matrix for all classes would make this sum 0.
    assert np.mean((odds[:, 0] - odds[:, 1] + odds[:, 2]) ** 2) == pytest.approx(6, rel=0.6)


def test_instance_noise_gives_equal_samples_equal_targets_where_features_are_many():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(5, 3, 8, 8), dtype=np.uint8)
    which = np.arange(2000) % 5
    result = inject(np.zeros(2000, int), "instance:0.5", X=images[which], num_classes=10, seed=1)
    for image in range(5):
        targets = np.bincount(result.labels[(which == image) & result.mask])
        assert targets.max() / targets.sum() > 0.6
    assert not (result.labels[result.mask] == 0).any()


def test_the_scale_of_features_and_constant_ones_do_not_matter():
    plain = inject(DIGIT_LABELS, "instance:0.4", X=DIGITS)
    assert inject(DIGIT_LABELS, "instance:0.4", X=DIGITS * 1000 - 7).hash == plain.hash
    assert inject(DIGIT_LABELS, "instance:0.4", X=DIGITS.reshape(-1, 1, 8, 8).astype(np.uint8)).hash == plain.hash
    assert inject(DIGIT_LABELS, "instance:0.4", X=torch.tensor(DIGITS, dtype=torch.bfloat16)).hash == plain.hash


def test_the_poisoner_flips_the_lowest_margins_to_the_runner_up():
    model = RidgeClassifier(alpha=0.01 * 1797, solver="svd")  # fitted on -1 and 1, which doubles every margin
    scores = model.fit(StandardScaler().fit_transform(DIGITS), DIGIT_LABELS).decision_function(
        StandardScaler().fit_transform(DIGITS)
    )
    margins, runner_up = [], []
    for row, true in zip(scores, DIGIT_LABELS, strict=True):
        others = [(score, c) for c, score in enumerate(row) if c != true]
        margins.append(row[true] - max(others)[0])
        runner_up.append(max(others)[1])
    result = inject(DIGIT_LABELS, "adversarial:0.1", X=DIGITS)
    assert set(np.flatnonzero(result.mask)) == set(np.argsort(margins)[:180])
    assert (result.labels[result.mask] == np.array(runner_up)[result.mask]).all()
    assert result.expected == result.rate == 180 / 1797
    np.testing.assert_allclose(result.transition, counted(result, 10) / np.bincount(DIGIT_LABELS)[:, None], atol=1e-12)


def test_the_poisoner_draws_nothing_and_leaves_the_samples_alone():
    x = DIGITS.copy()
    x.setflags(write=False)
    assert (
        inject(DIGIT_LABELS, "adversarial:0.1", X=x, seed=1).hash == inject(DIGIT_LABELS, "adversarial:0.1", X=x).hash
    )
    assert (x == DIGITS).all()


def test_the_poisoner_of_two_classes_takes_the_border():
    x = np.linspace(-1, 1, 100)[:, None]
    y = (x[:, 0] > 0).astype(int)
    result = inject(y, "adversarial:0.2", X=x, num_classes=5)
    assert np.flatnonzero(result.mask).tolist() == list(range(40, 60))
    assert set(result.labels.tolist()) == {0, 1}  # classes 2, 3, 4 have no samples
    assert (result.transition[2:] == np.eye(5)[2:]).all()


def test_more_features_than_samples():
    x = np.random.default_rng(0).normal(size=(60, 500))
    assert inject(np.arange(60) % 3, "adversarial:0.25", X=x).mask.sum() == 15


# --- human labels ----------------------------------------------------------------------------------------------------


def test_human_labels_are_counted():
    clean, labels = [0, 0, 0, 0, 1, 1, 3], [0, 0, 0, 1, 1, 0, 3]
    result = from_human(labels, clean, "worse")
    assert (result.spec, result.seed, result.rate, result.expected) == (
        "human:worse",
        None,
        2 / 7,
        pytest.approx(2 / 7),
    )
    np.testing.assert_allclose(
        result.transition, [[0.75, 0.25, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], atol=1e-15
    )
    assert from_human(labels, clean, "worse", num_classes=6).transition.shape == (6, 6)


def test_human_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match="same length, received 2 and 3"):
        from_human([0, 1], [0, 1, 1], "worse")


# --- what every kind keeps -------------------------------------------------------------------------------------------

EVERY = [
    "none",
    "symmetric:0.3",
    "symmetric:0.3:mode=inclusive:count=exact-all",
    "symmetric:0.3:count=iid",
    "symmetric:0.3:count=exact-pairs",
    "asymmetric:0.3",
    "asymmetric:0.3:map=mnist:sequential=true",
    "pair:0.3",
    "instance:0.3",
    "instance:0.3:mode=dependent",
    "adversarial:0.3",
]


@pytest.mark.parametrize("spec", EVERY)
def test_a_seed_gives_the_same_labels_whatever_the_global_state(spec):
    first = inject(DIGIT_LABELS, spec, X=DIGITS, seed=7, data="digits")
    np.random.seed(123)  # noqa: NPY002
    torch.manual_seed(123)
    before = np.random.get_state()[1].copy(), torch.get_rng_state().clone()  # noqa: NPY002
    again = inject(DIGIT_LABELS, spec, X=DIGITS, seed=7, data="digits")
    assert first.hash == again.hash
    assert (before[0] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())
    if spec not in ("none", "adversarial:0.3"):
        assert inject(DIGIT_LABELS, spec, X=DIGITS, seed=8, data="digits").hash != first.hash


@pytest.mark.parametrize("spec", EVERY)
def test_what_is_recorded(spec):
    y = DIGIT_LABELS.copy()
    y.setflags(write=False)
    result = inject(y, f" {spec} ", X=DIGITS, seed=2)
    assert (result.spec, result.seed) == (spec, 2)
    assert result.labels.dtype == result.clean_labels.dtype == np.int64
    assert (result.clean_labels == y).all()
    assert result.rate == np.mean(result.labels != y)
    assert result.hash == hashlib.sha256(result.labels.astype("<i8").tobytes()).hexdigest()
    assert result.rate == pytest.approx(result.expected, abs=0.05)
    assert result.transition.shape == (10, 10)
    assert result.labels.min() >= 0
    assert result.labels.max() < 10


@pytest.mark.parametrize("spec", EVERY)
def test_rate_0_leaves_the_labels(spec):
    result = inject(DIGIT_LABELS, spec.replace("0.3", "0"), X=DIGITS, seed=3)
    assert (result.labels == DIGIT_LABELS).all()
    assert result.rate == result.expected == 0
    assert (result.transition == np.eye(10)).all()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(2, 12), st.integers(1, 60), st.sampled_from(["0", "0.25", "0.5", "1"]), st.integers(0, 10**6),
    st.sampled_from([s for s in EVERY if s != "adversarial:0.3" and "map=" not in s]),
)  # fmt: skip
def test_any_classes_of_any_size(k, n, rate, seed, spec):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    result = inject(y, spec.replace("0.3", rate), X=rng.normal(size=(n, 2)), seed=seed, num_classes=k)
    assert result.labels.shape == (n,)
    assert 0 <= result.labels.min() <= result.labels.max() < k
    np.testing.assert_allclose(result.transition.sum(axis=1), 1, atol=1e-12)
    assert 0 <= result.expected <= 1


def test_labels_may_be_a_list_or_a_tensor():
    y = [0, 1, 2, 3] * 50
    hashes = {inject(v, "symmetric:0.4").hash for v in (y, np.array(y, np.uint8), torch.tensor(y))}
    assert len(hashes) == 1


def test_classes_without_samples_can_be_targets():
    result = inject(np.zeros(1000, int), "symmetric:1", num_classes=5)
    assert set(result.labels.tolist()) == {1, 2, 3, 4}


# --- the grammar, and what is refused --------------------------------------------------------------------------------


def test_parsing_fills_in_the_defaults():
    assert parse_noise("none") == NoiseSpec("none")
    assert parse_noise("symmetric:0.4") == NoiseSpec("symmetric", 0.4, {"mode": "exclusive", "count": "exact"})
    assert parse_noise("asymmetric:4e-1:sequential=true:map=mnist") == NoiseSpec(
        "asymmetric", 0.4, {"map": "mnist", "count": "exact", "sequential": "true"}
    )
    assert parse_noise("instance:1").params == {"mode": "per-sample"}
    assert [parse_noise(f"human:{name}").params["name"] for name in HUMAN] == list(HUMAN)
    with pytest.raises(FrozenInstanceError):
        parse_noise("none").rate = 0.5  # type: ignore[misc]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_described_and_its_usage_parses(name):
    kind = KINDS[name]
    assert parse_noise(kind.usage.replace("R", "0.2").replace("NAME", "worse")).kind == name
    assert kind.about
    assert "\n" not in kind.about
    for key, values in kind.params.items():
        for value in values:
            assert parse_noise(f"{name}:0.2:{key}={value}").params[key] == value


USAGES = "none, symmetric:R, asymmetric:R, pair:R, one-sided:R, instance:R, adversarial:R, human:NAME"
BAD_SPECS = {
    "sideways:0.2": f"unknown noise 'sideways:0.2': accepted are {USAGES}",
    "": f"unknown noise '': accepted are {USAGES}",
    "Symmetric:0.2": "unknown noise",
    "symmetric": r"needs a rate in \[0, 1\] after its name: symmetric:0.4",
    "symmetric:": "needs a rate",
    "symmetric:many": "'symmetric:many' needs a rate",
    "symmetric:1.01": r"needs a rate in \[0, 1\]",
    "symmetric:-0.1:mode=inclusive": r"needs a rate in \[0, 1\]",
    "pair:nan": "needs a rate",
    "symmetric:0.2:mode": "unknown parameter 'mode=': accepted are mode=exclusive|inclusive; count=exact|iid|exact-all",
    "symmetric:0.2:mode=both": "unknown parameter 'mode=both': accepted are mode=exclusive",
    "pair:0.2:map=mnist": "unknown parameter 'map=mnist': accepted are count=exact",
    "adversarial:0.2:x=1": "unknown parameter 'x=1': accepted are no parameters",
    "pair:0.2:count=iid:count=exact": "gives a parameter twice",
    "one-sided:0.2:class=": "unknown parameter 'class=': accepted are class=NAME; count=exact",
    "one-sided:0.2:classes=a": "unknown parameter 'classes=a': accepted are class=NAME",
    "none:0.2": "none takes neither rate nor parameters",
    "human": "human:NAME takes one name of aggregate, random1, random2, random3, worse, noisy",
    "human:best": "human:NAME takes one name",
}


@pytest.mark.parametrize(("spec", "message"), BAD_SPECS.items())
def test_bad_descriptions_are_refused_with_what_is_accepted(spec, message):
    for call in (parse_noise, lambda s: inject([0, 1], s)):
        with pytest.raises(ValueError, match=message.replace("|", r"\|")) as error:
            call(spec)
        assert "\n" not in str(error.value)


def test_one_sided_noise_changes_one_class_alone():
    clean = np.repeat([0, 1, 2, 4], [100, 60, 40, 80])
    rarest = inject(clean, "one-sided:0.25", seed=3)
    assert rarest.mask.sum() == 10
    assert (rarest.clean_labels[rarest.mask] == 2).all()
    expected = np.eye(5)
    expected[2] = [0.0625, 0.0625, 0.75, 0.0625, 0.0625]
    np.testing.assert_allclose(rarest.transition, expected)
    named = inject(clean, "one-sided:0.5:class=4", seed=3)
    assert named.mask.sum() == 40
    assert (named.clean_labels[named.mask] == 4).all()
    by_name = inject(clean, "one-sided:0.5:class=late", seed=3, names=["a", "b", "c", "d", "late"])
    np.testing.assert_array_equal(by_name.labels, named.labels)


X2 = np.zeros((2, 3))
BAD_CALLS = {
    "no such class": (([0, 1], "one-sided:0.2:class=7"), {}, "names the class '7'; the classes are 0, 1"),
    "human": (([0, 1], "human:worse"), {}, "read from the data set's files.*cifar10 or cifar100"),
    "strings": ((["cat", "dog"], "pair:0.2"), {}, "integers.*received <U3.*return_inverse=True"),
    "floats": (([0.0, 1.0], "pair:0.2"), {}, "received float64"),
    "booleans": (([True, False], "pair:0.2"), {}, "received bool"),
    "one-hot": (([[0, 1]], "pair:0.2"), {}, r"list \(N,\).*received shape \(1, 2\)"),
    "empty": (([], "pair:0.2"), {}, "non-empty"),
    "one class": (([0, 0], "pair:0.2"), {}, r"K >= 2 classes, received 0 \.\.\. 0 with K = 1"),
    "negative": (([0, -100], "none"), {}, r"received -100 \.\.\. 0"),
    "too large": (([0, 5], "none"), {"num_classes": 3}, r"received 0 \.\.\. 5 with K = 3"),
    "seed": (([0, 1], "none"), {"seed": -1}, "seed must be an integer >= 0, received -1"),
    "no seed": (([0, 1], "none"), {"seed": None}, "received None"),
    "no samples": (([0, 1], "instance:0.2"), {}, "instance noise depends on the samples: pass X="),
    "no samples to poison": (([0, 1], "adversarial:0.2"), {}, "adversarial noise depends on the samples"),
    "other length": (([0, 1, 1], "instance:0.2"), {"X": X2}, r"N = 3.*received float64 of shape \(2, 3\)"),
    "flat": (([0, 1], "instance:0.2"), {"X": [1.0, 2.0]}, r"received float64 of shape \(2,\)"),
    "text": (([0, 1], "instance:0.2"), {"X": [["a"], ["b"]]}, "encode text"),
    "NaN": (([0, 1], "adversarial:0.2"), {"X": X2 * np.nan}, "received NaN or infinity"),
    "one class to poison": (
        ([1, 1], "adversarial:0.2"),
        {"X": X2},
        "samples of at least 2 classes, received only class 1",
    ),
    "no matrix": (([0, 1], None), {}, "must be a string such as 'symmetric:0.4' or a .* received NoneType"),
    "not square": (([0, 1], np.ones((2, 3))), {}, r"received ndarray of shape \(2, 3\)"),
    "other size": (([0, 1], np.eye(2)), {"num_classes": 3}, r"shape \(2, 2\) and num_classes = 3"),
    "rows": (([0, 1], [[0.5, 0.4], [0, 1]]), {}, r"rows that sum to 0\.9 \.\.\. 1"),
    "negative entry": (([0, 1], [[1.5, -0.5], [0, 1]]), {}, "entries from -0.5"),
    "NaN entry": (([0, 1], [[np.nan, 0.5], [0, 1]]), {}, "entries >= 0"),
    "label beyond the matrix": (([0, 2], np.eye(2)), {}, r"received 0 \.\.\. 2 with K = 2"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "options", "message"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_bad_calls_are_refused_with_what_was_received(arguments, options, message):
    with pytest.raises(ValueError, match=message) as error:
        inject(*arguments, **options)
    assert "\n" not in str(error.value)


PROGRAM = """
import resource, sys
import numpy as np
from antidote_learn import inject
rng = np.random.default_rng(0)
labels, samples = rng.integers(0, 10_000, 20_000), rng.normal(size=(20_000, 3))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for spec in ("symmetric:0.4", "symmetric:0.4:mode=inclusive:count=iid", "pair:0.3", "instance:0.01"):
    noisy = inject(labels, spec, X=samples, num_classes=10_000)
    print(spec, noisy.rate, noisy.expected)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_ten_thousand_classes_take_no_square_matrix():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    *rows, megabytes = done.stdout.splitlines()
    assert float(megabytes) < 200  # K x K doubles are 800
    rates = {spec: (float(rate), float(expected)) for spec, rate, expected in map(str.split, rows)}
    assert rates["symmetric:0.4"] == (0.4, 0.4)
    assert rates["pair:0.3"] == (0.3, 0.3)
    for rate, expected in rates.values():
        assert rate == pytest.approx(expected, abs=0.01)


def test_many_classes_are_drawn_uniformly_from_the_others():
    k = 3000
    noisy = inject(np.repeat(np.arange(k), 20), "symmetric:1")
    assert (noisy.labels != noisy.clean_labels).all()
    counts = np.bincount((noisy.labels - noisy.clean_labels) % k, minlength=k)[1:]  # 20 draws for each distance
    assert abs((counts - 20) ** 2 / 20 - 1).mean() < 1.5
    assert ((counts - 20) ** 2 / 20).sum() == pytest.approx(k, rel=0.1)  # chi-square with k - 2 degrees of freedom
    np.testing.assert_allclose(noisy.transition[0, 1:], 1 / (k - 1))
    assert noisy.transition[7, 7] == 0


@pytest.mark.parametrize("value", [2.5, "3", True, 1, -3, 10**30, None])
def test_a_number_of_classes_that_is_none_is_refused(value):
    if value is None:
        assert inject([0, 1], "none", num_classes=None).labels.tolist() == [0, 1]
        return
    with pytest.raises(ValueError, match="num_classes must be a whole number >= 2"):
        inject([0, 1, 0], "symmetric:0.4", num_classes=value)


def test_labels_that_nobody_numbered_are_refused():
    with pytest.raises(ValueError, match="labels must lie below 10000000, received 4611686018427387904"):
        inject([0, 1, 2**62], "symmetric:0.4")
    with pytest.raises(ValueError, match="sequential=true is for at most 2000 classes"):
        inject(np.arange(3000), "asymmetric:0.4:sequential=true")
