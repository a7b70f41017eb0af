"""F-Div, Peer and bounded label smoothing: mutual information, means over draws, gradients, extremes."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from antidote_learn.core.independent_pairs import GENERATORS, divergence_losses, peer_losses, smooth_label_losses
from antidote_learn.core.losses.likelihood import cross_entropy, ls

RNG = np.random.default_rng(0)
LOGITS = torch.tensor(RNG.normal(size=(4, 3)) * 2.0)
LABELS = torch.tensor([0, 2, 1, 2])
PRIOR = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64)  # the shares of LABELS
# (logits, labels, other) -> (B,) losses.
ALL = {
    name: lambda logits, labels, other, name=name: divergence_losses(torch.softmax(logits, 1), labels, other, name)
    for name in GENERATORS
} | {"peer": lambda logits, labels, other: peer_losses(logits, labels, other, 0.7)}
# Divergences of p from q; the published conjugate of jeffrey is not exact.
DIVERGENCES = {
    "total-variation": lambda p, q: 0.5 * np.abs(p - q).sum(),
    "jensen-shannon": lambda p, q: (p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q))).sum(),
    "kl": lambda p, q: (p * np.log(p / q)).sum(),
    "pearson": lambda p, q: ((p - q) ** 2 / q).sum(),
    "reverse-kl": lambda p, q: (q * np.log(q / p)).sum(),
    "neyman": lambda p, q: ((p - q) ** 2 / p).sum(),
    "squared-hellinger": lambda p, q: ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(),
}


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("seed", range(3))
def test_the_best_free_values_give_the_mutual_information(name, seed):
    joint = np.random.default_rng(seed).dirichlet(np.ones(6)).reshape(2, 3)
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    g, conjugate = (
        function(torch.linspace(-20.0, 20.0, 400_001, dtype=torch.float64)) for function in GENERATORS[name]
    )
    best = sum((p * g - q * conjugate).max().item() for p, q in zip(joint.ravel(), independent.ravel(), strict=True))
    assert best == pytest.approx(DIVERGENCES[name](joint, independent), abs=1e-7)


def test_jeffrey_is_its_formula():
    v = np.linspace(0.0, 1.0, 50)
    g, conjugate = (function(torch.tensor(v)).numpy() for function in GENERATORS["jeffrey"])
    np.testing.assert_allclose(g, v)
    np.testing.assert_allclose(conjugate, v + v**2 / 4 + v**3 / 16, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", GENERATORS)
def test_f_div_is_its_definition_sample_by_sample(name):
    probs, other = torch.softmax(LOGITS, 1), [1, 1, 0, 2]
    found = divergence_losses(probs, LABELS, torch.tensor(other), name)
    g, conjugate = GENERATORS[name]
    for i in range(4):
        own, foreign = probs[i, LABELS[i]] + 1e-5, probs[i, other[i]] + 1e-5
        assert found[i].item() == pytest.approx(conjugate(foreign).item() - g(own).item(), abs=1e-12)


def test_peer_is_its_definition_sample_by_sample():
    probs, other = torch.softmax(LOGITS, 1).numpy(), [1, 1, 0, 2]
    found = peer_losses(LOGITS, LABELS, torch.tensor(other), 0.7)
    for i in range(4):
        expected = -math.log(probs[i, LABELS[i]] + 1e-5) + 0.7 * math.log(probs[i, other[i]] + 1e-5)
        assert found[i].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_probabilities_are_the_mean_over_draws(name):
    """Over each label by its probability, and over all orders of the batch's own labels."""
    expected = ALL[name](LOGITS, LABELS, PRIOR)
    drawn = [share * ALL[name](LOGITS, LABELS, torch.full((4,), k)) for k, share in enumerate(PRIOR.tolist())]
    torch.testing.assert_close(expected, torch.stack(drawn).sum(0))
    orders = [ALL[name](LOGITS, LABELS, LABELS[list(order)]) for order in itertools.permutations(range(4))]
    torch.testing.assert_close(expected, torch.stack(orders).mean(0))
    torch.testing.assert_close(expected, ALL[name](LOGITS, LABELS, PRIOR.expand(4, 3)))
    hot = torch.nn.functional.one_hot(LABELS, 3).double()
    torch.testing.assert_close(expected, ALL[name](LOGITS, hot, PRIOR))


@pytest.mark.parametrize("name", GENERATORS)
def test_losses_fall_with_the_label_s_probability(name):
    probs = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
    sure, unsure = divergence_losses(probs, torch.zeros(2, dtype=torch.long), torch.tensor([0.5, 0.5]), name)
    assert sure < unsure


@pytest.mark.parametrize("rate", [-2.0, -0.4, 0.3])
def test_smoothing_is_peer_with_uniform_labels(rate):
    uniform = torch.full((3,), 1 / 3, dtype=torch.float64)
    peer = (1 - rate) * peer_losses(LOGITS, LABELS, uniform, -rate / (1 - rate))
    torch.testing.assert_close(smooth_label_losses(LOGITS, LABELS, rate), peer)
    torch.testing.assert_close(
        smooth_label_losses(LOGITS, LABELS, rate), ls(LOGITS, LABELS, rate=rate), atol=0.02, rtol=0
    )


def test_without_the_other_labels_it_is_cross_entropy_up_to_the_offset():
    expected = cross_entropy(LOGITS, LABELS)
    slack = 1e-5 / torch.softmax(LOGITS, 1).min().item()
    for found in (smooth_label_losses(LOGITS, LABELS, 0.0), peer_losses(LOGITS, LABELS, PRIOR, 0.0)):
        assert ((expected - found) > 0).all()
        assert ((expected - found) <= slack).all()


def test_smoothing_has_a_lower_bound_with_a_negative_rate():
    far = torch.tensor([[0.0, -1e4, -1e4], [-1e4, 0.0, -1e4]], dtype=torch.float64)
    labels = torch.zeros(2, dtype=torch.long)
    found = smooth_label_losses(far, labels, -2.0)
    assert found[0].item() == pytest.approx(-2 / 3 * 2 * -math.log(1e-5), abs=1e-4)
    assert (found >= -2.0 * -math.log(1e-5) - 1e-4).all()
    assert ls(far, labels, rate=-2.0)[0] < -1e4


@pytest.mark.parametrize("name", [*ALL, "smooth"])
@pytest.mark.parametrize("other", [LABELS.flip(0), PRIOR], ids=["drawn", "expected"])
def test_gradients_are_finite_differences(name, other):
    def losses(logits):
        return smooth_label_losses(logits, LABELS, -1.5) if name == "smooth" else ALL[name](logits, LABELS, other)

    assert torch.autograd.gradcheck(losses, LOGITS.clone().requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*ALL, "smooth"])
def test_certain_and_impossible_labels_have_finite_losses_and_gradients(name, dtype):
    logits = torch.tensor([[1e4, 0.0, 0.0], [0.0, 1e4, 0.0], [0.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    labels = torch.tensor([0, 0, 1])
    for other in (torch.tensor([0, 1, 2]), torch.tensor([0.0, 0.5, 0.5], dtype=dtype)):
        found = smooth_label_losses(logits, labels, -1.0) if name == "smooth" else ALL[name](logits, labels, other)
        assert found.dtype == torch.promote_types(dtype, torch.float32)
        assert found.isfinite().all()
        (gradient,) = torch.autograd.grad(found.sum(), logits)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_generators_have_finite_values_and_slopes_on_their_whole_range(name, dtype):
    v = torch.tensor([0.0, 1e-5, 0.5, 1.0 - 1e-5, 1.0, 1.0 + 1e-5], dtype=dtype, requires_grad=True)
    for function in GENERATORS[name]:
        (slope,) = torch.autograd.grad(function(v).sum(), v)
        assert function(v).isfinite().all()
        assert (slope.abs() < 400.0).all()


def test_an_unknown_generator_is_one_line():
    with pytest.raises(ValueError, match=r"^generator must be one of total-variation, .*; got 'hellinger'$"):
        divergence_losses(torch.softmax(LOGITS, 1), LABELS, PRIOR, "hellinger")


def test_names_need_no_torch():
    program = (
        "import sys; from antidote_learn.core.independent_pairs import GENERATORS; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
