"""Corrections by a transition matrix: the formulas as slow loops, means over labels and over draws, gradients."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from antidote_learn.core.losses.grammar import loss_function
from antidote_learn.core.losses.likelihood import cross_entropy
from antidote_learn.core.transition_losses import (
    backward_targets,
    draw_dirichlet_weights,
    forward_logits,
    importance_weights,
)

RNG = np.random.default_rng(0)
LOGITS = torch.tensor(RNG.normal(size=(6, 3)) * 2.0)
LABELS = torch.tensor([0, 2, 1, 2, 0, 1])
MATRIX = torch.tensor([[0.7, 0.2, 0.1], [0.05, 0.6, 0.35], [0.15, 0.25, 0.6]], dtype=torch.float64)  # not symmetric
IDENTITY = torch.eye(3, dtype=torch.float64)
ALPHAS = (0.0, 0.1, 1.0, 100.0)
WEIGHTS = torch.tensor([0.2, 1.0, 0.0, 0.5, 2.3, 1.0], dtype=torch.float64)
MEANS = WEIGHTS / WEIGHTS.mean()  # (B,) expectations
FARTHEST = 4.5  # standard deviations that a mean over draws may be off: about once in 100 000 numbers


def given_probability(logits: list[float], k: int, matrix: torch.Tensor) -> float:
    """(p T)_k of one sample, written out."""
    exps = [math.exp(z - max(logits)) for z in logits]
    return sum(e / sum(exps) * matrix[i, k].item() for i, e in enumerate(exps))


# --- forward ---------------------------------------------------------------------------------------------------------


def test_forward_with_the_identity_is_cross_entropy():
    found = forward_logits(LOGITS, IDENTITY)
    torch.testing.assert_close(found, LOGITS.log_softmax(dim=1))
    torch.testing.assert_close(cross_entropy(found, LABELS), F.cross_entropy(LOGITS, LABELS, reduction="none"))


def test_forward_gives_the_probabilities_of_the_given_labels():
    found = forward_logits(LOGITS, MATRIX).exp()
    torch.testing.assert_close(found.sum(dim=1), torch.ones(6, dtype=torch.float64))
    expected = [[given_probability(row, k, MATRIX) for k in range(3)] for row in LOGITS.tolist()]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["ce", "gce:q=0.5", "mae", "nce+rce"])
def test_any_loss_of_forward_is_the_loss_of_the_mixed_probabilities(name):
    """Losses see logits through their softmax alone, and these are log-probabilities."""
    mixed = LOGITS.softmax(dim=1) @ MATRIX
    expected = loss_function(name)(mixed.log() + 5.0, LABELS)
    torch.testing.assert_close(loss_function(name)(forward_logits(LOGITS, MATRIX), LABELS), expected)


# --- backward --------------------------------------------------------------------------------------------------------


def test_backward_is_its_formula_sample_by_sample():
    inverse = np.linalg.inv(MATRIX.numpy())
    logs = LOGITS.log_softmax(dim=1).numpy()
    expected = [-sum(inverse[y, j] * logs[i, j] for j in range(3)) for i, y in enumerate(LABELS.tolist())]
    found = cross_entropy(LOGITS, backward_targets(LABELS, MATRIX))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["ce", "gce:q=0.5", "mae", "focal"])
def test_backward_is_unbiased(name):
    """The mean over the labels that a true class i gets is the loss of i."""
    losses = [loss_function(name)(LOGITS, backward_targets(torch.full((6,), j), MATRIX)) for j in range(3)]
    for i in range(3):
        mean = sum(MATRIX[i, j] * losses[j] for j in range(3))
        torch.testing.assert_close(mean, loss_function(name)(LOGITS, torch.full((6,), i)), rtol=1e-12, atol=1e-12)


def test_backward_with_the_identity_is_the_labels():
    torch.testing.assert_close(backward_targets(LABELS, IDENTITY), F.one_hot(LABELS, 3).double())


# --- importance weights ----------------------------------------------------------------------------------------------


def test_weights_are_one_for_the_identity():
    torch.testing.assert_close(importance_weights(LOGITS, LABELS, IDENTITY), torch.ones(6, dtype=torch.float64))


def test_weights_are_ratios_of_the_true_to_the_given_probability():
    found = importance_weights(LOGITS, LABELS, MATRIX)
    pairs = list(zip(LOGITS.tolist(), LABELS.tolist(), strict=True))
    expected = [given_probability(row, y, IDENTITY) / given_probability(row, y, MATRIX) for row, y in pairs]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)  # 1e-12 is added to both


def test_weights_are_largest_where_the_label_is_sure():
    bounds = 1.0 / MATRIX.diagonal()
    many = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 5.0
    for y in range(3):
        found = importance_weights(many, torch.full((1000,), y), MATRIX)
        assert (found <= bounds[y] + 1e-12).all()
        sure = importance_weights(60.0 * IDENTITY[y][None], torch.tensor([y]), MATRIX)
        torch.testing.assert_close(sure, bounds[y][None])


# --- random weights --------------------------------------------------------------------------------------------------


def draws(weights: torch.Tensor, alpha: float, count: int = 3000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.stack([draw_dirichlet_weights(weights, alpha, generator) for _ in range(count)])


def check_mean(found: torch.Tensor, expected: torch.Tensor) -> None:
    """A test of (M, B) numbers by their own standard errors; those that do not vary must be exact."""
    errors = found.std(dim=0) / len(found) ** 0.5
    torch.testing.assert_close(found.mean(dim=0)[errors == 0.0], expected[errors == 0.0])
    assert ((found.mean(dim=0) - expected).abs() <= FARTHEST * errors + 1e-12).all()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_drawn_weights_have_the_weights_as_their_mean_and_a_known_variance(alpha):
    found = draws(WEIGHTS, alpha)
    check_mean(found, MEANS)
    share, count = MEANS / 6, 6
    variance = share * (1.0 - share) / (count * (alpha + 1.0)) * count**2
    check_mean((found - MEANS).square(), variance)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_drawn_weights_sum_to_their_number_and_leave_zeros_out(alpha):
    found = draws(WEIGHTS, alpha, 50)
    torch.testing.assert_close(found.sum(dim=1), torch.full((50,), 6.0, dtype=torch.float64))
    assert (found >= 0.0).all()
    assert (found[:, 2] == 0.0).all()
    assert (found[:, WEIGHTS > 0.0].amax(dim=0) > 0.0).all()


def test_without_a_concentration_samples_are_counted():
    found = draws(WEIGHTS, 0.0, 50)
    assert torch.equal(found, found.round())


def test_a_large_concentration_gives_the_weights_themselves():
    far, near = (float((draws(WEIGHTS, alpha, 20) - MEANS).abs().max()) for alpha in (1e4, 1e10))
    assert near < 1e-3 < far < 1.0


@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_that_are_all_zero_are_equal_weights(alpha):
    check_mean(draws(torch.zeros(4, dtype=torch.float64), alpha, 1000), torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_draws_follow_from_the_generator(alpha):
    def drawn(seed: int) -> torch.Tensor:
        return draw_dirichlet_weights(WEIGHTS, alpha, torch.Generator().manual_seed(seed))

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize("alpha", [1e-320, 1e-100, 1e-3, 1e100, 1.7e308])
def test_the_ends_of_the_concentrations_are_finite(alpha):
    tiny = torch.tensor([0.0, 1e-38, 1.0, 2.0])
    found = draws(tiny, alpha, 20)
    assert found.isfinite().all()
    torch.testing.assert_close(found.sum(dim=1), torch.full((20,), 4.0))


# --- gradients and precision -----------------------------------------------------------------------------------------


def test_gradients_are_those_of_finite_differences():
    logits, matrix = LOGITS.clone().requires_grad_(), MATRIX.clone().requires_grad_()
    assert torch.autograd.gradcheck(forward_logits, (logits, matrix))
    assert torch.autograd.gradcheck(lambda z, t: importance_weights(z, LABELS, t), (logits, matrix))
    assert torch.autograd.gradcheck(lambda z: cross_entropy(z, backward_targets(LABELS, MATRIX)), (logits,))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(kind):
    half, matrix = LOGITS.to(kind), MATRIX.float()
    for function in (forward_logits, lambda z, t: importance_weights(z, LABELS, t)):
        found = function(half, matrix)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), function(half.double(), MATRIX), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("matrix", [MATRIX, IDENTITY], ids=["mixed", "identity"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_extreme_logits_have_finite_values_and_gradients(matrix, kind):
    extreme = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [1e4, 1e4, 1e4]], dtype=kind)
    sure = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]], dtype=kind)
    torch.testing.assert_close(forward_logits(extreme, matrix.to(kind)).exp(), sure @ matrix.to(kind))
    for label in range(3):
        labels = torch.full((3,), label)
        logits, own = extreme.clone().requires_grad_(), matrix.to(kind).requires_grad_()
        logs, weights = forward_logits(logits, own), importance_weights(logits, labels, own)
        assert logs.isfinite().all()
        assert ((weights >= 0.0) & (weights <= 1.0 / matrix[label, label] + 1e-5)).all()
        (F.nll_loss(logs, labels) + weights.sum()).backward()
        assert logits.grad.isfinite().all()
        assert own.grad.isfinite().all()


@pytest.mark.parametrize("gap", range(20, 120, 5))
@pytest.mark.parametrize(
    "zeros", [IDENTITY.tolist(), [[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]]], ids=["identity", "pair"]
)
def test_labels_that_are_nearly_impossible_have_finite_gradients(zeros, gap):
    """In float32, with a loss beside the weight that is as large as the gap: squares of gradients must be finite."""
    for label in range(3):
        logits, matrix = torch.tensor([[float(gap), 0.0, -5.0]]).requires_grad_(), torch.tensor(zeros).float()
        labels, own = torch.tensor([label]), matrix.clone().requires_grad_()
        weights = importance_weights(logits, labels, own)
        assert weights.item() == pytest.approx(1.0) or not torch.equal(matrix, torch.eye(3))
        loss = weights * F.cross_entropy(logits, labels) + F.nll_loss(forward_logits(logits, matrix), labels)
        loss.backward()
        assert logits.grad.square().isfinite().all()
        assert own.grad.square().isfinite().all()
