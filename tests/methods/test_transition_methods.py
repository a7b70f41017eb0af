"""Forward, Backward, RW, RENT, T-Revision and VolMinNet against loops that are written out sample by sample."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from antidote_learn import estimate_transition, relax
from antidote_learn.core.budgets import delta_from_rate
from antidote_learn.core.transition_losses import draw_dirichlet_weights
from antidote_learn.methods.base import Hooks, Stage
from antidote_learn.methods.corrections import Backward, Forward, Rent, Rw
from antidote_learn.methods.t_revision import TRevision
from antidote_learn.methods.volminnet import VolMinNet
from antidote_learn.nn.antidote import AntidoteLoss
from antidote_learn.nn.mean import MeanLoss
from tests.methods.steps import (
    batch_of,
    built,
    check_mean_over_draws,
    check_step,
    copy_of,
    iris_context,
    losses_over_draws,
    mean,
    samples,
    surprise,
)

T = np.array([[0.7, 0.2, 0.1], [0.05, 0.6, 0.35], [0.0, 0.25, 0.75]])  # not symmetric, with a zero
ROWS = [3, 1, 4, 15, 9, 2, 6, 5]
RATE = 0.3
CORRECTIONS = {
    "forward": lambda source, **more: Forward(source, MeanLoss("ce"), **more).method(),
    "backward": lambda source, **more: Backward(source, **more).method(),
    "rw": lambda source, **more: Rw(source, MeanLoss("ce"), **more).method(),
    "rent": lambda source, **more: Rent(source, **more).method(),
}


@pytest.fixture
def ctx(tmp_path):
    return iris_context(tmp_path)


def ratio(p, y, matrix):
    """p_y / (p T)_y."""
    return p[y] / sum(p[k] * matrix[k][y] for k in range(len(matrix)))


def forgetting(losses, weights=None):
    """ANTIDOTE over a batch of losses, in one solve."""
    measure = None if weights is None else torch.stack(weights).detach()
    return relax(torch.stack(losses), delta_from_rate(RATE), kappa=0.05, base_weight=measure).value


# --- a given matrix --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", [MeanLoss("ce"), AntidoteLoss(noise_rate=RATE)], ids=["ce", "antidote"])
def test_forward_mixes_probabilities_before_the_objective(ctx, objective):
    method, batch = built(Forward(T, objective).method(), ctx), batch_of(ctx, ROWS)
    before = copy_of(method.one.net)
    stats = method.step(batch, ctx)
    losses = [-torch.log(sum(p[k] * T[k, y] for k in range(3))) for _, p, y in samples(before, batch)]
    check_step(stats, method.one.net, before, mean(losses) if isinstance(objective, MeanLoss) else forgetting(losses))


def test_backward_mixes_losses_by_the_inverse(ctx):
    method, batch = built(Backward(T).method(), ctx), batch_of(ctx, ROWS)
    before, inverse = copy_of(method.one.net), np.linalg.inv(T)
    stats = method.step(batch, ctx)
    losses = [sum(inverse[y, j] * surprise(z, j) for j in range(3)) for z, _, y in samples(before, batch)]
    check_step(stats, method.one.net, before, mean(losses))


@pytest.mark.parametrize("objective", [MeanLoss("ce"), AntidoteLoss(noise_rate=RATE)], ids=["ce", "antidote"])
def test_reweighting_gives_samples_weights_that_have_no_gradient(ctx, objective):
    method, batch = built(Rw(T, objective).method(), ctx), batch_of(ctx, ROWS)
    before = copy_of(method.one.net)
    stats = method.step(batch, ctx)
    found = samples(before, batch)
    weights = [ratio(p, y, T).detach() for _, p, y in found]
    losses = [surprise(z, y) for z, _, y in found]
    weighted = mean([w * loss for w, loss in zip(weights, losses, strict=True)])
    check_step(
        stats, method.one.net, before, weighted if isinstance(objective, MeanLoss) else forgetting(losses, weights)
    )


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_rent_draws_weights_over_the_batch(ctx, alpha):
    method, batch = built(Rent(T, alpha).method(), ctx), batch_of(ctx, ROWS)
    before = copy_of(method.one.net)
    ctx.set_seed(7)
    stats = method.step(batch, ctx)
    found = samples(before, batch)
    weights = torch.stack([ratio(p, y, T).detach() for _, p, y in found])
    drawn = draw_dirichlet_weights(weights, alpha, torch.Generator().manual_seed(7)).tolist()
    check_step(
        stats, method.one.net, before, mean([w * surprise(z, y) for w, (z, _, y) in zip(drawn, found, strict=True)])
    )


@pytest.mark.parametrize("alpha", [0.0, 0.5, 50.0])
def test_rent_is_on_average_the_reweighted_loss(ctx, alpha):
    method, batch = built(Rent(T, alpha).method(), ctx), batch_of(ctx, ROWS)
    with torch.no_grad():
        found = samples(copy_of(method.one.net), batch)
        weights = [ratio(p, y, T).item() for _, p, y in found]
        total = sum(w * surprise(z, y).item() for w, (z, _, y) in zip(weights, found, strict=True))
    check_mean_over_draws(losses_over_draws(method, batch, ctx), total / sum(weights))


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_given_matrix_needs_no_warm_up_and_is_reported_as_given(ctx, name):
    method = built(CORRECTIONS[name](T), ctx)
    assert [stage.epochs for stage in method.stages(1)] == [0, 1]
    method.begin_stage(Stage("training", 20), ctx)
    found = method.transition_estimate()
    np.testing.assert_allclose(found.transition, T, atol=1e-7)
    assert (found.source, found.samples.tolist()) == ("given", [0, 0, 0])
    assert np.isnan(found.standard_errors).all()


# --- an estimated matrix ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["dual-t", "anchor", "anchor-max", "confident"])
@pytest.mark.parametrize("name", CORRECTIONS)
def test_the_matrix_is_estimated_after_a_warm_up_by_cross_entropy(ctx, name, estimator):
    method, batch = built(CORRECTIONS[name](estimator, warmup=0.2), ctx), batch_of(ctx, ROWS)
    first, second = method.stages(20)
    assert (first.epochs, second.epochs) == (4, 16)
    net, before = method.one.net, copy_of(method.one.net)
    ctx.epoch = 3
    check_step(method.step(batch, ctx), net, before, mean([surprise(z, y) for z, _, y in samples(before, batch)]))
    assert torch.equal(method.noise.matrix, torch.eye(3))

    method.begin_stage(first, ctx)
    assert torch.equal(method.noise.matrix, torch.eye(3))
    for _ in range(30):  # a network that tells classes apart, so that its matrix can be inverted
        method.step(batch_on(ctx), ctx)
    method.begin_stage(second, ctx)
    expected = estimate_transition(ctx.score(net).probs.numpy(), ctx.labels.numpy(), method=estimator)
    found = method.transition_estimate()
    np.testing.assert_allclose(found.transition, expected.transition, atol=1e-6)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-6)
    assert (found.source, found.samples.tolist()) == (estimator, expected.samples.tolist())

    ctx.epoch, before = 4, copy_of(net)
    loss = method.step(batch, ctx).loss.item()
    plain = mean([surprise(z, y) for z, _, y in samples(before, batch)]).item()
    assert loss != pytest.approx(plain, rel=1e-3)


def batch_on(ctx):
    """A batch of all samples, with inputs that tell their labels."""
    batch = batch_of(ctx, range(ctx.samples))
    batch.inputs[:, :3] += 3.0 * F.one_hot(ctx.labels, 3)
    return batch


@pytest.mark.parametrize("name", ["backward", "forward"])
def test_an_estimate_without_an_inverse_is_refused_by_backward_alone(ctx, name):
    method = built(CORRECTIONS[name]("anchor"), ctx)
    for parameter in method.one.net.parameters():
        torch.nn.init.zeros_(parameter)  # all samples have the same probabilities
    refused = pytest.raises(ValueError, match="this transition matrix is singular")
    with refused if name == "backward" else nullcontext():
        method.begin_stage(Stage("training", 16), ctx)
    torch.testing.assert_close(method.noise.matrix, torch.full((3, 3), 1 / 3))


@pytest.mark.parametrize("matrix", [np.full((3, 3), 1 / 3), np.eye(3)[[0, 0, 2]]])
def test_a_matrix_without_an_inverse_is_refused_by_backward_alone(matrix):
    with pytest.raises(ValueError, match="singular"):
        Backward(matrix).method()
    for name in ("forward", "rw", "rent"):
        assert CORRECTIONS[name](matrix).noise.source is matrix


# --- T-Revision ------------------------------------------------------------------------------------------------------

SHIFT = torch.tensor([[0.04, -0.03, 0.02], [-0.01, 0.05, -0.06], [-0.03, 0.02, 0.01]])  # moves the zero of T below 0


def revised(matrix, shift):
    """Rows of probabilities: the sum without what is negative, scaled."""
    rows = [[torch.clamp(torch.tensor(matrix[i][j]) + shift[i, j], min=0.0) for j in range(3)] for i in range(3)]
    return [[entry / sum(row) for entry in row] for row in rows]


def test_the_revision_learns_the_network_and_the_matrix_together(ctx):
    """Every sample sees the same matrix, and the gradient of the weights reaches it."""
    method, batch = built(TRevision(T, lr=1e-3), ctx), batch_of(ctx, ROWS)
    with torch.no_grad():
        method.slack[0].copy_(SHIFT)
    before, ctx.epoch = copy_of(method.net), 15
    stats = method.step(batch, ctx)

    shift = SHIFT.clone().requires_grad_()
    matrix = revised(T, shift)
    loss = mean([ratio(p, y, matrix) * surprise(z, y) for z, p, y in samples(before, batch)])
    (gradient,) = torch.autograd.grad(loss, shift, retain_graph=True)
    assert gradient.abs().max() > 1e-3
    torch.testing.assert_close(method.slack[0].grad, gradient, rtol=1e-4, atol=1e-6)
    moved = (method.slack[0].detach() - SHIFT)[gradient != 0.0]
    torch.testing.assert_close(moved, -1e-3 * gradient.sign()[gradient != 0.0], rtol=1e-3, atol=1e-8)  # Adam's first
    check_step(stats, method.net, before, loss)


def test_the_stage_before_it_leaves_the_matrix_alone(ctx):
    method, batch = built(TRevision(T), ctx), batch_of(ctx, ROWS)
    before, ctx.epoch = copy_of(method.net), 5
    stats = method.step(batch, ctx)
    found = samples(before, batch)
    check_step(stats, method.net, before, mean([ratio(p, y, T).detach() * surprise(z, y) for z, p, y in found]))
    assert method.slack[0].grad is None
    assert torch.equal(method.slack[0], torch.zeros(3, 3))


def test_the_revised_matrix_is_the_estimate_and_its_rows_are_probabilities(ctx):
    method = built(TRevision(T), ctx)
    with torch.no_grad():
        method.slack[0].copy_(SHIFT)
    found = method.transition_estimate()
    np.testing.assert_allclose(found.transition, revised(T, SHIFT), rtol=1e-6)
    np.testing.assert_allclose(found.transition.sum(axis=1), 1.0, atol=1e-12)
    assert found.transition[2, 0] == 0.0
    assert found.source == "given, then learned"


@pytest.mark.parametrize(
    ("epochs", "lengths"), [(20, [4, 8, 8]), (2, [1, 1, 0]), (3, [1, 1, 1]), (7, [1, 3, 3]), (200, [40, 80, 80])]
)
def test_revision_has_three_stages(epochs, lengths):
    assert [stage.epochs for stage in Hooks(TRevision("anchor")).stages(epochs)] == lengths


def test_the_first_matrix_is_estimated_once(ctx):
    method = built(TRevision("anchor"), ctx)
    _, reweighting, revision = method.stages(20)
    method.begin_stage(revision, ctx)
    assert torch.equal(method.noise.matrix, torch.eye(3))
    method.begin_stage(reweighting, ctx)
    expected = estimate_transition(ctx.score(method.net).probs.numpy(), ctx.labels.numpy(), method="anchor")
    np.testing.assert_allclose(method.transition_estimate().transition, expected.transition, atol=1e-6)
    assert method.transition_estimate().source == "anchor, then learned"


# --- VolMinNet -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "diagonal"), [(10, 0.48), (100, 0.48), (3, 0.48), (2, 1 / 1.9)])
def test_volminnet_starts_with_half_of_the_labels_right(tmp_path, classes, diagonal):
    """The published start: -2 before the sigmoid for 10 classes, -4.5 for 100."""
    method = built(VolMinNet(), iris_context(tmp_path, classes=classes))
    matrix = method.matrix().detach()
    torch.testing.assert_close(matrix.diagonal(), torch.full((classes,), diagonal), rtol=1e-4, atol=1e-4)
    off = matrix[~torch.eye(classes, dtype=torch.bool)]
    torch.testing.assert_close(off, torch.full_like(off, (1.0 - diagonal) / (classes - 1)), rtol=1e-3, atol=1e-6)
    published = {10: -2.0, 100: -4.5}
    if classes in published:
        assert method.scores[0][0, 1].item() == pytest.approx(published[classes], abs=0.05)


def test_volminnet_is_forward_correction_with_the_volume_of_the_matrix(ctx):
    method, batch = built(VolMinNet(strength=0.3, lr=1e-2), ctx), batch_of(ctx, ROWS)
    start = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        method.scores[0].copy_(start)
    before = copy_of(method.net)
    stats = method.step(batch, ctx)

    scores = start.clone().requires_grad_()
    rows = [[1.0 if i == j else torch.sigmoid(scores[i, j]) for j in range(3)] for i in range(3)]
    rows = [[entry / sum(row) for entry in row] for row in rows]
    (a, b, c), (d, e, f), (g, h, i) = rows
    volume = torch.log(torch.abs(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)))
    losses = [-torch.log(sum(p[k] * rows[k][y] for k in range(3))) for _, p, y in samples(before, batch)]
    loss = mean(losses) + 0.3 * volume
    (gradient,) = torch.autograd.grad(loss, scores, retain_graph=True)
    torch.testing.assert_close(method.scores[0].grad, gradient, rtol=1e-4, atol=1e-6)
    assert (method.scores[0].grad.diagonal() == 0.0).all()
    moved = (method.scores[0].detach() - start)[gradient != 0.0]
    torch.testing.assert_close(moved, -1e-2 * gradient.sign()[gradient != 0.0], rtol=1e-3, atol=1e-6)
    check_step(stats, method.net, before, loss)
    assert float(stats.numbers["noise_rate"]) == pytest.approx(1.0 - (a + e + i).item() / 3, rel=1e-5)


def test_the_matrix_of_volminnet_is_reported_as_learned(ctx):
    method = built(VolMinNet(), ctx)
    found = method.transition_estimate()
    np.testing.assert_allclose(found.transition, method.matrix().detach(), rtol=1e-6)
    np.testing.assert_allclose(found.transition.sum(axis=1), 1.0, atol=1e-12)
    assert found.source == "learned"


# --- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rent(alpha=-0.1), "rent needs alpha >= 0, got -0.1"),
        (lambda: Rent(alpha=math.inf), "rent needs alpha >= 0, got inf"),
        (lambda: TRevision(lr=0.0), "t-revision needs lr > 0, got 0.0"),
        (lambda: TRevision(lr=math.inf), "t-revision needs lr > 0, got inf"),
        (lambda: TRevision(warmup=1.0), r"t-revision needs warmup in \[0, 1\)"),
        (lambda: VolMinNet(strength=-1.0), "volminnet needs strength >= 0"),
        (lambda: VolMinNet(strength=math.inf), "volminnet needs strength >= 0"),
        (lambda: VolMinNet(lr=math.nan), "volminnet needs strength >= 0 and lr > 0"),
        (lambda: Forward(warmup=1.0, objective=MeanLoss("ce")).method(), r"forward needs warmup in \[0, 1\)"),
        (lambda: Forward().method(), "objective must be built from its name 'ce' first"),
    ],
)
def test_parameters_out_of_range_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
