"""Probabilities of true classes from those of given labels, against the inverse of T and a general minimiser."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import rel_entr, softmax

from antidote_learn.core.clean_posteriors import clean_posteriors


def noisy_matrix(count: int, rate: float) -> np.ndarray:
    return (1.0 - rate) * np.eye(count) + rate * np.roll(np.eye(count), 1, axis=1)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.floats(0.0, 0.3), st.integers(0, 1000))
def test_probabilities_that_were_mixed_are_unmixed_again(count, rate, seed):
    clean = softmax(np.random.default_rng(seed).normal(size=(20, count)), axis=1)
    matrix = noisy_matrix(count, rate)
    found = clean_posteriors(clean @ matrix, matrix)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found @ matrix, clean @ matrix, atol=0.02)  # thirty steps come so near
    if rate <= 0.2:
        np.testing.assert_allclose(found, (clean @ matrix) @ np.linalg.inv(matrix), atol=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_where_the_inverse_is_negative_it_is_the_nearest_in_divergence(seed):
    rng = np.random.default_rng(seed)
    matrix = noisy_matrix(3, 0.3)
    given = softmax(3.0 * rng.normal(size=(1, 3)), axis=1)
    found = clean_posteriors(given, matrix)

    def cost(logits):
        return rel_entr(given, softmax(logits)[None] @ matrix).sum()

    best = min(
        minimize(cost, start, method="Nelder-Mead", options={"maxiter": 4000}).fun for start in (3.0 * np.eye(3))
    )
    assert cost(np.log(found[0])) == pytest.approx(best, abs=2e-3)
    assert (found >= 0.0).all()


def test_without_noise_nothing_changes():
    probs = softmax(np.random.default_rng(0).normal(size=(10, 4)), axis=1)
    np.testing.assert_allclose(clean_posteriors(probs, np.eye(4)), probs)
