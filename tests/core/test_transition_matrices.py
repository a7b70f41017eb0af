"""Estimators of transition matrices: a known T is found again, by slow loops and cleanlab; bad input is one line.

An error is that of the labels that were drawn, which falls as 1/sqrt(n), where the probabilities name the true class.
"""

import numpy as np
import pytest
from scipy import stats

from antidote_learn import estimate_transition, total_variation_error
from antidote_learn.core.transition_matrices import ESTIMATORS, check_transition, transpose_transition

PAIR = np.array([[0.7, 0.3, 0.0], [0.0, 0.8, 0.2], [0.1, 0.0, 0.9]])
BROAD = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.25, 0.65]])
UNSURE = np.array([[0.5, 0.4, 0.1], [0.2, 0.5, 0.3], [0.6, 0.0, 0.4]])  # of class 2
LEARNED = {"anchor", "anchor-max", "dual-t"}  # take the probabilities of given labels; the others of true classes


def draw_classes(rng, probs):
    return (rng.random((len(probs), 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)


def judgements(transition, n, *, seed=0, sharpness=6.0, noisy_probs=True):
    """Clean posteriors of Gaussian logits, labels drawn through T, and probabilities of the given or true classes."""
    rng = np.random.default_rng(seed)
    k = len(transition)
    truth = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k)) + sharpness * np.eye(k)[truth]
    clean = np.exp(logits - logits.max(axis=1, keepdims=True))
    clean /= clean.sum(axis=1, keepdims=True)
    labels = draw_classes(rng, transition[draw_classes(rng, clean)])
    return (clean @ transition if noisy_probs else clean), labels


@pytest.mark.parametrize("transition", [PAIR, BROAD], ids=["pair", "broad"])
@pytest.mark.parametrize(
    ("method", "tolerance"),
    [("anchor", 0.002), ("anchor-max", 0.002), ("dual-t", 0.03), ("confident", 0.03), ("audit", 0.06)],
)
def test_a_known_transition_is_found_again(method, tolerance, transition):
    probs, labels = judgements(transition, 12_000, noisy_probs=method in LEARNED)
    found = estimate_transition(probs, labels, method=method)
    np.testing.assert_allclose(found.transition, transition, atol=tolerance)
    np.testing.assert_allclose(found.transition.sum(axis=1), 1.0, atol=1e-12)
    assert found.noise_rate == pytest.approx(1 - np.diag(transition).mean(), abs=tolerance)


@pytest.mark.parametrize("method", ["dual-t", "confident", "audit"])
def test_a_sixteenth_of_the_samples_makes_errors_four_times_as_large(method):
    """And most entries lie within the standard errors that are said, in both cases."""
    errors = {}
    for n in (1000, 16_000):
        runs = [
            estimate_transition(
                *judgements(BROAD, n, seed=seed, sharpness=10.0, noisy_probs=method in LEARNED), method=method
            )
            for seed in range(30)
        ]
        missed = np.abs([run.transition - BROAD for run in runs])
        said = np.array([run.standard_errors for run in runs])
        errors[n] = missed.mean()
        assert (missed < 3 * said).mean() > 0.95
        assert 0.5 < (missed < said).mean() < 0.8  # of a normal variable .68
    assert 2.5 < errors[1000] / errors[16_000] < 5.5


@pytest.mark.parametrize("method", ["dual-t", "confident"])
def test_standard_errors_are_those_of_repeated_draws(method):
    """The spread over draws of the labels is what is said, within a factor; a quarter of the rows doubles it."""
    spreads, said = {}, {}
    for n in (500, 2000):
        runs = [
            estimate_transition(*judgements(PAIR, n, seed=seed, noisy_probs=method in LEARNED), method=method)
            for seed in range(60)
        ]
        spreads[n] = np.std([run.transition for run in runs], axis=0)
        said[n] = np.mean([run.standard_errors for run in runs], axis=0)
        large = spreads[n] > 0.005
        assert ((said[n][large] / spreads[n][large] > 0.5) & (said[n][large] / spreads[n][large] < 2.0)).all()
    assert said[500].max() == pytest.approx(2 * said[2000].max(), rel=0.2)


def test_anchors_are_worse_with_fewer_samples():
    """The surest of few samples are not sure: the row of an anchor is then a mixture of rows."""

    def error(n):
        found = [
            estimate_transition(*judgements(PAIR, n, seed=s, sharpness=1.0), method="anchor-max") for s in range(40)
        ]
        return np.mean([np.abs(estimate.transition - PAIR) for estimate in found])

    assert error(30) > 1.5 * error(300) > 1.5 * error(3000)


def test_dual_t_is_its_definition_sample_by_sample():
    probs, labels = judgements(PAIR, 300, seed=3, sharpness=1.0)
    found = estimate_transition(probs, labels, method="dual-t").transition
    predicted = [max(range(3), key=lambda k: probs[s, k]) for s in range(300)]
    for i in range(3):
        anchors = sorted(range(300), key=lambda s: -probs[s, i])[:9]
        for j in range(3):
            total = 0.0
            for middle in range(3):
                same = [s for s in range(300) if predicted[s] == middle]
                share = sum(predicted[s] == middle for s in anchors) / 9
                total += share * sum(labels[s] == j for s in same) / len(same)
            assert found[i, j] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("count", [2, 4])
def test_the_errors_of_an_audit_s_transition_are_those_of_draws_from_its_posterior(count):
    """a and b are drawn by their likelihoods, which are scipy's, the shares of errors and their kinds given them."""
    rng, grid = np.random.default_rng(0), np.geomspace(1.0, 1000.0, 31)
    truth = rng.dirichlet(np.full(count, 0.5), count) * 0.4 + 0.6 * np.eye(count)
    probs, labels = judgements(truth, 150 * count, noisy_probs=False)
    found = estimate_transition(probs, labels, method="audit")
    seen = np.zeros((count, count))
    for k in range(count):
        rows = sorted(np.flatnonzero(probs.argmax(axis=1) == k), key=lambda i: -probs[i, k])
        for i in rows[: max(10, round(0.1 * len(rows)))]:
            seen[k, labels[i]] += 1
    total, wrong = seen.sum(axis=1), seen.sum(axis=1) - np.diag(seen)
    others = np.array([np.delete(seen[k], k) for k in range(count)])
    m, even = (wrong.sum() + 0.5) / (total.sum() + 1), np.full(count - 1, 1 / (count - 1))
    for_a = [stats.betabinom.logpmf(wrong, total, a * m, a * (1 - m)).sum() for a in grid]
    for_b = [
        sum(stats.dirichlet_multinomial.logpmf(row, b * even, sum(row)) for row in others if any(row)) for b in grid
    ]
    a, b = (rng.choice(grid, 20_000, p=np.exp(x) / np.exp(x).sum()) for x in (for_a, for_b))
    np.testing.assert_array_equal(found.samples, total)
    for k in range(count):
        e = rng.beta(wrong[k] + a * m, total[k] - wrong[k] + a * (1 - m))
        parts = rng.gamma(others[k] + b[:, None] * even)  # which are Dirichlet when divided by their sum
        draws = np.insert(e[:, None] * parts / parts.sum(axis=1, keepdims=True), k, 1 - e, axis=1)
        spread = np.sqrt(np.square(draws - found.transition[k]).mean(axis=0))
        np.testing.assert_allclose(found.standard_errors[k], spread, rtol=0.04)


def test_the_confident_joint_is_cleanlab_s():
    count = pytest.importorskip("cleanlab.count")
    probs, labels = judgements(PAIR, 800, seed=1, sharpness=3.0, noisy_probs=False)
    joint = count.compute_confident_joint(labels, probs, calibrate=False)  # (given, true); calibrated it is rounded
    joint = joint * np.bincount(labels)[:, None] / joint.sum(axis=1, keepdims=True)
    expected = (joint / joint.sum(axis=0)).T
    np.testing.assert_allclose(estimate_transition(probs, labels, method="confident").transition, expected, atol=1e-12)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_clean_labels_give_the_identity(method):
    probs, labels = judgements(np.eye(4), 4000, sharpness=12.0)
    np.testing.assert_allclose(estimate_transition(probs, labels, method=method).transition, np.eye(4), atol=0.02)


def test_the_other_convention_is_converted():
    np.testing.assert_array_equal(transpose_transition(PAIR.T), PAIR)
    with pytest.raises(ValueError, match="its columns do: pass its transpose"):
        check_transition(PAIR.T)


@pytest.mark.parametrize(
    ("matrix", "given", "message"),
    [
        ([[0.5, 0.4], [0.0, 1.0]], {}, "rows of a transition matrix must sum to 1; one misses it by 0.1"),
        ([[1.5, -0.5], [0.0, 1.0]], {}, "must not have negative entries or NaN; its smallest is -0.5"),
        ([[np.nan, 1.0], [0.0, 1.0]], {}, "negative entries or NaN"),
        (np.eye(3), {"classes": 4}, r"shape \(4, 4\), as there are 4 classes; received \(3, 3\)"),
        (np.ones((2, 3)) / 3, {}, r"shape \(K, K\); received \(2, 3\)"),
        ([1.0], {}, r"shape \(K, K\); received \(1,\)"),
        (np.full((2, 2), 0.5), {"invertible": True}, "is singular: classes are labelled alike"),
    ],
)
def test_what_is_no_transition_is_said(matrix, given, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_transition(matrix, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("probs", "labels", "method", "message"),
    [
        (np.eye(2), [0, 1], "guess", "unknown method 'guess' of a transition matrix; accepted: anchor, anchor-max"),
        (np.eye(2), [0, 2], "anchor", "labels must be 0 to 1, as probs has 2 columns; received 2"),
        (np.eye(2), [0.0, 1.0], "anchor", "labels must be 2 whole numbers"),
        (np.eye(2), [0], "anchor", "one for each row of probs"),
        (np.ones(2), [0, 1], "anchor", r"shape \(N, K\) with K >= 2"),
        (np.ones((2, 2)), [0, 1], "anchor", "every row with the sum 1"),
        (np.eye(3), [0, 1, 1], "confident", "no sample is labelled 2: leave that class out"),
        (UNSURE, [0, 1, 2], "confident", "no sample is sure enough of class 2: train longer, or use 'dual-t'"),
        (UNSURE, [0, 1, 2], "audit", "no sample is predicted as 2: train longer, or use 'dual-t'"),
        *((np.eye(3)[:2], [0, 1], m, "all probs of class 2 are 0: leave that class out") for m in ESTIMATORS),
    ],
)
def test_what_cannot_be_estimated_is_said(probs, labels, method, message):
    with pytest.raises(ValueError, match=message) as caught:
        estimate_transition(probs, labels, method=method)
    assert "\n" not in str(caught.value)


def test_an_estimate_says_by_which_method_it_was_made():
    probs, labels = judgements(PAIR, 300)
    assert [estimate_transition(probs, labels, method=name).source for name in ESTIMATORS] == list(ESTIMATORS)


def test_the_total_variation_error_is_the_largest_difference_in_the_probability_of_any_set_of_labels():
    """The definition of total variation, over all sets of labels."""
    rng = np.random.default_rng(0)
    estimate, truth = rng.dirichlet(np.ones(4), size=(2, 4))
    sets = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1)
    expected = np.mean([max(np.abs((row - right) @ sets)) for row, right in zip(estimate, truth, strict=True)])
    assert total_variation_error(estimate, truth) == pytest.approx(expected, abs=1e-12)
    assert total_variation_error(truth, truth) == 0.0
    assert total_variation_error(np.eye(3), np.roll(np.eye(3), 1, axis=1)) == 1.0
    assert total_variation_error(np.eye(3), PAIR) == pytest.approx(np.mean([0.3, 0.2, 0.1]))


@pytest.mark.parametrize(
    ("estimate", "truth", "says"),
    [
        (np.eye(2), PAIR, r"shape \(3, 3\), as there are 3 classes; received \(2, 2\)"),
        (PAIR.T, PAIR, "pass its transpose"),
        (PAIR, -PAIR, "negative entries"),
        (PAIR, PAIR[0], r"shape \(K, K\); received \(3,\)"),
    ],
)
def test_what_is_no_transition_matrix_has_no_error(estimate, truth, says):
    with pytest.raises(ValueError, match=says) as caught:
        total_variation_error(estimate, truth)
    assert "\n" not in str(caught.value)
