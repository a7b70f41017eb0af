"""Cross-entropy and relaxation in one node: the same as `relax` over torch's own cross-entropy."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antidote_learn import AntidoteLoss, Status, relax
from antidote_learn.core import fused as module
from antidote_learn.core.fused import FARTHEST, SMALL, relax_cross_entropy
from antidote_learn.core.sample_numpy import CHUNK


@pytest.fixture(params=["by NumPy", "by torch"])
def way(request, monkeypatch):
    """Both ways, whatever the size."""
    monkeypatch.setattr(module, "SMALL", SMALL if request.param == "by NumPy" else 0)


def batch(rows, classes, *, scale=2.0, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = (scale * torch.randn((rows, classes), generator=generator, dtype=torch.float64)).to(dtype)
    return logits.requires_grad_(), torch.randint(0, classes, (rows,), generator=generator)


def by_parts(logits, labels, delta, kappa):
    """(value, weights, gradient) through the graph of torch's losses, in float64."""
    leaf = logits.detach().double().requires_grad_()
    relaxed = relax(F.cross_entropy(leaf, labels, reduction="none"), delta, kappa=kappa)
    return relaxed, torch.autograd.grad(relaxed.value, leaf)[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(2, 200),
    classes=st.integers(2, 30),
    scale=st.floats(0.01, 9.0),
    delta=st.floats(0.01, 1.5),
    kappa=st.floats(0.01, 3.0),
    seed=st.integers(0, 2**31),
)
def test_value_weights_and_gradient_are_those_of_the_parts(way, rows, classes, scale, delta, kappa, seed):
    logits, labels = batch(rows, classes, scale=scale, dtype=torch.float64, seed=seed)
    fused = relax_cross_entropy(logits, labels, kappa, delta)
    expected, gradient = by_parts(logits, labels, delta, kappa)
    if fused is None:  # too far apart, or a step that was taken on trust missed
        return
    torch.testing.assert_close(fused.value, expected.value, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(fused.weights, expected.weights, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(torch.autograd.grad(fused.value, logits)[0], gradient, rtol=1e-6, atol=1e-10)
    assert fused.status == expected.status
    assert fused.residual <= 2e-8


def test_it_is_taken_for_a_common_batch_and_only_there(way):
    def taken(logits, labels, kappa=0.05, delta=0.5):
        return relax_cross_entropy(logits, labels, kappa, delta) is not None

    logits, labels = batch(64, 10)
    assert taken(logits, labels)
    assert not taken(logits, labels, kappa=0.0)
    assert not taken(logits, labels, delta=0.0)
    assert not taken(logits, labels - 1 if labels.min() == 0 else -labels)
    assert not taken(logits, labels.clamp(max=8) + 2)
    assert not taken(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64))  # all losses are equal
    assert not taken(torch.empty(0, 10), torch.empty(0, dtype=torch.int64))
    with torch.no_grad():
        for bad in (torch.nan, torch.inf, -torch.inf, -2 * FARTHEST):
            wrong = logits.clone()
            wrong[3, labels[3]] = bad
            assert not taken(wrong, labels)


@pytest.mark.parametrize("rows", [CHUNK + 1, 3 * CHUNK])
def test_a_batch_that_is_read_in_chunks_gives_the_numbers_of_the_parts(way, rows):
    logits, labels = batch(rows, 3, dtype=torch.float64)
    fused = relax_cross_entropy(logits, labels, 0.05, 0.5)
    expected, gradient = by_parts(logits, labels, 0.5, 0.05)
    torch.testing.assert_close(fused.value, expected.value, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(fused.weights, expected.weights, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(torch.autograd.grad(fused.value, logits)[0], gradient, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("gap", [1.0, 8.0, 14.0])
def test_small_losses_next_to_large_ones_keep_the_digits_of_float32(gap):
    """Rows of another level do not cost digits: every loss is taken relative to its own label's logit."""
    logits = torch.tensor([[gap, 0.0, 0.0], [0.0, gap, 1.0], [-20.0, -20.0 - gap, -25.0], [30.0, 31.0, 29.0]])
    labels = torch.tensor([0, 1, 0, 0])
    losses = F.cross_entropy(logits.double(), labels, reduction="none")
    fused = relax_cross_entropy(logits, labels, 0.05, 0.3)
    expected = relax(losses, 0.3, kappa=0.05)
    torch.testing.assert_close(fused.value.double(), expected.value, rtol=3e-7, atol=2e-7)
    torch.testing.assert_close(fused.weights.double(), expected.weights, rtol=2e-5, atol=1e-9)


def test_logits_in_another_memory_order(way):
    logits, labels = batch(64, 10)
    turned = logits.detach().t().contiguous().t().requires_grad_()
    every_second = torch.stack([logits.detach(), torch.zeros_like(logits)], 2)[..., 0].requires_grad_()
    expected = torch.autograd.grad(relax_cross_entropy(logits, labels, 0.05, 0.5).value, logits)[0]
    for other in (turned, every_second):
        assert not other.is_contiguous()
        value = relax_cross_entropy(other, labels, 0.05, 0.5).value
        torch.testing.assert_close(torch.autograd.grad(value, other)[0], expected, rtol=1e-6, atol=1e-9)


def test_inputs_are_left_as_they_were_and_gradients_scale_and_accumulate(way):
    logits, labels = batch(64, 10)
    before, loss = logits.detach().clone(), AntidoteLoss(0.5)
    (3.0 * loss(logits, labels)).backward()
    first = logits.grad.clone()
    loss(logits, labels).backward()
    assert torch.equal(logits.detach(), before)
    torch.testing.assert_close(logits.grad, first * (4 / 3), rtol=1e-6, atol=1e-9)


def test_backward_twice_through_a_retained_graph():
    logits, labels = batch(32, 4)
    value = AntidoteLoss(0.5)(logits, labels)
    one = torch.autograd.grad(value, logits, retain_graph=True)[0].clone()
    two = torch.autograd.grad(value, logits)[0]
    assert torch.equal(one, two)


def test_second_derivatives_are_refused():
    logits, labels = batch(32, 4)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(AntidoteLoss(0.5)(logits, labels), logits, create_graph=True)


@pytest.mark.parametrize("constant", [1.0, 0.3, 7.0])
def test_weights_that_are_all_alike_count_as_none_bit_for_bit(way, constant):
    logits, labels = batch(64, 10)
    loss = AntidoteLoss(0.5)
    without = loss(logits, labels)
    weighted = loss(logits, labels, sample_weight=torch.full((64,), constant))
    assert torch.equal(without, weighted)
    assert torch.equal(*(torch.autograd.grad(value, logits)[0] for value in (without, weighted)))


def test_a_user_of_last_sees_the_solution():
    logits, labels = batch(64, 10)
    loss = AntidoteLoss(0.5)
    value = loss(logits, labels)
    assert loss.last.status is Status.BUDGET
    torch.testing.assert_close(loss.last.weights.mean(), torch.tensor(1.0))
    assert not loss.last.value.requires_grad
    assert torch.equal(loss.last.value, value.detach())
