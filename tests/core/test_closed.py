"""Losses with gradients in closed form: what autograd gives for the formulas, for every entry of the registry."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antidote_learn import RobustLoss
from antidote_learn.core import fused
from antidote_learn.core.losses import LOSSES, rowwise
from antidote_learn.core.losses.closed import SLOPES
from antidote_learn.core.losses.grammar import build_closed_form, loss_function
from antidote_learn.core.losses.rowwise import GRADIENTS

PARAMETERS = [
    "ls:rate=-1", "focal:gamma=2", "focal:gamma=0", "focal:detach=true", "gce:q=0.2", "rce:floor=0.01",
    "sce:alpha=6:beta=0.1", "nfl:gamma=3", "nfl:detach=true", "aul:a=3:q=0.1", "ael:a=1.5", "agce:a=0.6:q=0.6",
    "ldr-kl:temperature=1:margin=2", "logitclip:clip=2.5:mode=reference", "eps-ce:m=100:floor=1e-5",
    "eps-focal:m=10:gamma=1", "eps-focal:detach=true", "nlnl:draws=5",
    "nnce:floor=0.001", "nnfl:gamma=3:floor=0.001", "nnfl:detach=true",
]  # fmt: skip
SUMS = ["nce+0.5*mae", "0.01*eps-ce:m=1e5+5*mae", "nfl:gamma=0.5+rce", "2*nlnl+ldr-kl+0.1*nce+gce", "5*nce+5*nnce"]
each_loss = pytest.mark.parametrize("name", [*LOSSES, *PARAMETERS, *SUMS])


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    """As small and as large batches are treated, whatever their size."""
    if request.param == "large":
        monkeypatch.setattr(fused, "SMALL", 0)
        monkeypatch.setattr(rowwise, "SMALL", 0)
        monkeypatch.setattr(rowwise, "CHUNK", 40)


def batch(rows, classes, *, scale=2.0, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = (scale * torch.randn((rows, classes), generator=generator, dtype=torch.float64)).to(dtype)
    return logits.requires_grad_(), torch.randint(0, classes, (rows,), generator=generator)


def by_autograd(name, logits, labels):
    """(mean loss, its gradient) of the formula, in float64."""
    leaf = logits.detach().double().requires_grad_()
    mean = loss_function(name)(leaf, labels).mean()
    return mean.item(), torch.autograd.grad(mean, leaf)[0]


def test_every_loss_has_one_closed_form():
    assert sorted([*SLOPES, *GRADIENTS]) == sorted(LOSSES)


@each_loss
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 60),
    classes=st.integers(2, 30),
    scale=st.floats(0.001, 30.0),
    seed=st.integers(0, 2**31),
)
def test_value_and_gradient_are_those_of_the_formula(size, name, rows, classes, scale, seed):
    logits, labels = batch(rows, classes, scale=scale, seed=seed)
    found = build_closed_form(name)(logits, labels, 1.0 / rows)
    if found is None:  # logits too far apart
        return
    value, gradient = by_autograd(name, logits, labels)
    assert found[0] == pytest.approx(value, rel=1e-9, abs=1e-12)
    largest = gradient.abs().max().item()
    torch.testing.assert_close(found[1], gradient, rtol=0.0, atol=3e-9 * largest + 1e-15)


@each_loss
@pytest.mark.parametrize("scale", [0.01, 2.0, 10.0])
def test_float32_keeps_the_digits_that_autograd_keeps(size, name, scale):
    logits, labels = batch(200, 10, scale=scale, dtype=torch.float32)
    found = build_closed_form(name)(logits, labels, 1.0 / 200)
    value, gradient = by_autograd(name, logits, labels)
    mean = loss_function(name)(logits, labels).mean()
    theirs, unit = torch.autograd.grad(mean, logits)[0], gradient.abs().max()
    assert found is not None
    assert found[1].dtype == torch.float32
    assert abs(found[0] - value) <= max(1e-6 * abs(value), 4 * abs(mean.item() - value))
    error = (found[1] - gradient).abs().max() / unit
    assert error <= max(3e-6, 4 * (theirs - gradient).abs().max() / unit)


@each_loss
def test_a_module_takes_it_and_gives_the_numbers_of_its_graph(name):
    logits, labels = batch(40, 7)
    for reduction in ("mean", "sum"):
        module = RobustLoss(name, reduction=reduction)
        value = module(logits, labels)
        assert type(value.grad_fn).__name__ == "_GivenGradientBackward"
        expected = getattr(loss_function(name)(logits, labels), reduction)()
        torch.testing.assert_close(value, expected)
        got, want = torch.autograd.grad(value, logits)[0], torch.autograd.grad(expected, logits)[0]
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9)


@each_loss
def test_backward_can_be_called_again_and_adds_the_same(name):
    logits, labels = batch(40, 7)
    value = RobustLoss(name)(logits, labels)
    (3.0 * value).backward(retain_graph=True)
    once = logits.grad.clone()
    torch.testing.assert_close(once, 3.0 * by_autograd(name, logits.detach(), labels)[1], rtol=1e-6, atol=1e-9)
    (3.0 * value).backward()
    torch.testing.assert_close(logits.grad, 2.0 * once, rtol=1e-6, atol=1e-9)


@each_loss
def test_second_derivatives_are_those_of_the_formula(name):
    logits, labels = batch(6, 5)

    def curvature(function):
        (gradient,) = torch.autograd.grad(function(logits, labels), logits, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), logits, allow_unused=True)[0]

    got, want = curvature(RobustLoss(name)), curvature(lambda z, y: loss_function(name)(z, y).mean())
    torch.testing.assert_close(got, want)


@each_loss
@pytest.mark.parametrize("far", [200.0, 1e4, 1e30, float("inf"), float("nan")])
def test_what_is_unusual_goes_by_the_graph(size, name, far):
    logits, labels = batch(12, 5, dtype=torch.float32)
    with torch.no_grad():
        logits[3, 1], logits[5, 2] = far, -far
    module = RobustLoss(name)
    value, expected = module(logits, labels), loss_function(name)(logits, labels).mean()
    torch.testing.assert_close(value, expected, equal_nan=True)
    if far <= 1e4:
        got, want = torch.autograd.grad(value, logits)[0], torch.autograd.grad(expected, logits)[0]
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_equal_logits_have_a_top_class_as_argmax_has():
    logits, labels = torch.zeros(8, 4, requires_grad=True), torch.arange(8) % 4
    torch.testing.assert_close(RobustLoss("eps-ce")(logits, labels), loss_function("eps-ce")(logits, labels).mean())


@pytest.mark.parametrize("name", ["gce", "nlnl"])
def test_labels_that_are_none_are_refused_and_the_input_is_left_alone(name):
    logits, labels = batch(6, 4)
    before = logits.detach().clone()
    with pytest.raises(ValueError, match=r"labels outside 0 \.\.\. 3, the first is 4"):
        RobustLoss(name)(logits, torch.tensor([0, 1, 2, 3, 4, 0]))
    RobustLoss(name)(logits, labels).backward()
    torch.testing.assert_close(logits.detach(), before, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["gce", "nfl"])
def test_gradients_of_functions_and_of_single_samples(name):
    logits, labels = batch(6, 4)
    expected = by_autograd(name, logits, labels)[1]
    module = RobustLoss(name)
    torch.testing.assert_close(torch.func.grad(module)(logits.detach(), labels), expected)
    rows = torch.func.vmap(torch.func.grad(lambda z, y: module(z[None], y[None])))(logits.detach(), labels)
    torch.testing.assert_close(rows / 6, expected)
