"""F-Div, Peer, negative smoothing and MixUp against loops that are written out sample by sample."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import beta, kstest

from antidote_learn import relax
from antidote_learn.core.budgets import delta_from_rate
from antidote_learn.core.losses.grammar import loss_function
from antidote_learn.methods.f_div import FDiv
from antidote_learn.methods.mixup import MixUp
from antidote_learn.methods.nls import Nls
from antidote_learn.methods.peer import Peer
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

ROWS = [3, 1, 4, 15, 9, 2, 6, 5]
RATE = 0.3
# g, and f* as a function of v, from the published table; the last one with the sign that the package corrects.
FORMULAS = {
    "total-variation": (lambda v: torch.tanh(v) / 2, lambda v: torch.tanh(v) / 2),
    "jensen-shannon": (
        lambda v: math.log(2) - torch.log(1 + torch.exp(-v)),
        lambda v: v + torch.log(1 + torch.exp(-v)) - math.log(2),
    ),
    "kl": (lambda v: v, lambda v: torch.exp(v - 1)),
    "pearson": (lambda v: v, lambda v: v**2 / 4 + v),
    "reverse-kl": (lambda v: -torch.exp(-v), lambda v: v - 1),
}


@pytest.fixture
def ctx(tmp_path):
    return iris_context(tmp_path)


def shares(ctx):
    """How frequent each label is in the training set."""
    return [ctx.labels.tolist().count(k) / ctx.samples for k in range(3)]


def drawn_labels(ctx, seed, count):
    """The labels of samples that are drawn from the training set, one for each sample of the batch."""
    return ctx.labels[torch.randint(ctx.samples, (count,), generator=torch.Generator().manual_seed(seed))].tolist()


def others(form, ctx, seed, count):
    """For each sample, the labels that do not belong to it with their shares."""
    if form == "expected":
        return [list(enumerate(shares(ctx)))] * count
    return [[(k, 1.0)] for k in drawn_labels(ctx, seed, count)]


# --- F-Div -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sampled", "expected"])
@pytest.mark.parametrize("name", FORMULAS)
def test_f_div_is_its_formula_sample_by_sample(ctx, name, form):
    method, batch = built(FDiv(name, form), ctx), batch_of(ctx, ROWS)
    before, ctx.epoch = copy_of(method.net), 10
    ctx.set_seed(5)
    stats = method.step(batch, ctx)
    g, conjugate = FORMULAS[name]
    losses = [
        sum(share * conjugate(p[k] + 1e-5) for k, share in foreign) - g(p[y] + 1e-5)
        for (_, p, y), foreign in zip(samples(before, batch), others(form, ctx, 5, 8), strict=True)
    ]
    check_step(stats, method.net, before, mean(losses))


@pytest.mark.parametrize("make", [lambda form: FDiv("kl", form, 0.0), lambda form: Peer(0.7, form, 0.0)])
def test_drawn_labels_give_the_expected_form_on_average(tmp_path, make):
    drawn, whole = (iris_context(tmp_path / form) for form in ("sampled", "expected"))
    batch, drawn.progress, whole.progress = batch_of(drawn, ROWS), 1.0, 1.0
    (expected,) = losses_over_draws(built(make("expected"), whole), batch, whole, 1)
    check_mean_over_draws(losses_over_draws(built(make("sampled"), drawn), batch, drawn), expected)


@pytest.mark.parametrize("method", [FDiv(), Nls()])
def test_the_warm_up_is_plain_cross_entropy(ctx, method):
    method.build(ctx)
    batch, before = batch_of(ctx, ROWS), copy_of(method.net)
    ctx.epoch = method.stages(20)[0].epochs - 1
    stats = method.step(batch, ctx)
    check_step(stats, method.net, before, mean([surprise(z, y) for z, _, y in samples(before, batch)]))
    ctx.epoch += 1
    before = copy_of(method.net)
    plain = mean([surprise(z, y) for z, _, y in samples(before, batch)])
    assert method.step(batch, ctx).loss.item() != pytest.approx(plain.item(), rel=1e-2)


# --- Peer ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sampled", "expected"])
@pytest.mark.parametrize(("progress", "weight"), [(0.0, 0.0), (0.2, 0.0), (0.4, 0.5), (0.6, 1.0), (1.0, 2.0)])
def test_peer_is_its_formula_and_its_weight_rises_after_the_warm_up(ctx, form, progress, weight):
    method, batch = built(Peer(2.0, form, warmup=0.2), ctx), batch_of(ctx, ROWS)
    before, ctx.progress = copy_of(method.net), progress
    ctx.set_seed(5)
    stats = method.step(batch, ctx)
    losses = [
        -torch.log(p[y] + 1e-5) + weight * sum(share * torch.log(p[k] + 1e-5) for k, share in foreign)
        for (_, p, y), foreign in zip(samples(before, batch), others(form, ctx, 5, 8), strict=True)
    ]
    check_step(stats, method.net, before, mean(losses))
    assert stats.numbers["alpha"] == pytest.approx(weight)


# --- negative label smoothing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [-6.0, -0.4, 0.0, 0.6])
def test_smoothing_is_its_formula_sample_by_sample(ctx, rate):
    method, batch = built(Nls(rate), ctx), batch_of(ctx, ROWS)
    before, ctx.epoch = copy_of(method.net), 10
    stats = method.step(batch, ctx)
    losses = [
        -(1 - rate) * torch.log(p[y] + 1e-5) - rate / 3 * sum(torch.log(p[k] + 1e-5) for k in range(3))
        for _, p, y in samples(before, batch)
    ]
    check_step(stats, method.net, before, mean(losses))


def test_smoothing_comes_second_and_at_a_lower_rate():
    stages = Nls(lr_scale=0.01, warmup=0.25).stages(20)
    assert [(stage.epochs, stage.lr_scale) for stage in stages] == [(5, 1.0), (15, 0.01)]


# --- MixUp -----------------------------------------------------------------------------------------------------------


class Watched(torch.nn.Module):
    """A network that keeps its last inputs."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, inputs):
        self.seen = inputs.detach().clone()
        return self.net(inputs)


def unmixed(inputs, mixed):
    """The share and the order of a mixture, from its rows: row i lies between x_i and x_order[i]."""
    share, order = None, []
    for x, z in zip(inputs.double(), mixed.double(), strict=True):
        if torch.allclose(x, z, atol=1e-7):
            order.append(len(order))
            continue
        ways = x - inputs.double()  # z - x_j = share (x - x_j)
        parts = ((z - inputs) * ways).sum(dim=1) / ways.square().sum(dim=1).clamp_min(1e-12)
        misses = (z - inputs - parts[:, None] * ways).norm(dim=1)
        misses[len(order)] = math.inf
        order.append(int(misses.argmin()))
        assert misses.min() < 1e-5
        assert share is None or parts[order[-1]].item() == pytest.approx(share, abs=1e-4)
        share = parts[order[-1]].item()
    assert sorted(order) == list(range(len(inputs)))
    return share, order


OBJECTIVES = {
    "ce": lambda: MeanLoss("ce"),
    "gce": lambda: MeanLoss("gce:q=0.5"),
    "antidote": lambda: AntidoteLoss(noise_rate=RATE),
    "antidote, chi2": lambda: AntidoteLoss(noise_rate=RATE, divergence="chi2"),
    "antidote, mae": lambda: AntidoteLoss(noise_rate=RATE, base_loss="mae"),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("seed", [1, 2])
def test_mixup_has_one_mixed_loss_for_each_sample(ctx, name, seed):
    method, batch = built(MixUp(1.0, OBJECTIVES[name]()), ctx), batch_of(ctx, ROWS)
    net = method.one.net
    before, method.one.net = copy_of(net), Watched(net)
    ctx.set_seed(seed)
    stats = method.step(batch, ctx)
    mixed = method.one.net.seen
    share, order = unmixed(batch.inputs, mixed)
    loss_of = loss_function({"gce": "gce:q=0.5", "antidote, mae": "mae"}.get(name, "ce"))
    logits, losses = before(mixed), []
    for i, (own, other) in enumerate(zip(batch.labels.tolist(), batch.labels[order].tolist(), strict=True)):
        one, two = (loss_of(logits[i][None], torch.tensor([k]))[0] for k in (own, other))
        losses.append(share * one + (1 - share) * two)
    if name.startswith("antidote"):
        divergence = "chi2" if name.endswith("chi2") else "kl"
        delta = delta_from_rate(RATE, divergence)
        expected = relax(torch.stack(losses), delta, kappa=0.05, divergence=divergence).value
    else:
        expected = mean(losses)
    check_step(stats, net, before, expected)
    assert order != list(range(8))


def test_probabilities_are_mixed_like_labels(tmp_path):
    found = []
    for kind in ("labels", "probabilities"):
        ctx = iris_context(tmp_path / kind)
        method, batch = built(MixUp(1.0, MeanLoss("ce")), ctx), batch_of(ctx, ROWS)
        if kind == "probabilities":
            batch = type(batch)(batch.inputs, F.one_hot(batch.labels, 3).float(), batch.index, batch.total)
        ctx.set_seed(3)
        found.append(method.step(batch, ctx).loss)
    assert torch.equal(*found)


@pytest.mark.parametrize("alpha", [1.0, 4.0, 32.0])
def test_the_share_of_a_mixture_is_drawn_from_a_beta_distribution(ctx, alpha):
    method, batch = built(MixUp(alpha, MeanLoss("ce")), ctx), batch_of(ctx, [3, 1, 4])
    method.one.net = Watched(method.one.net)
    ctx.update = lambda loss, *optimizers: None
    found, fixed = [], 0
    for seed in range(300):
        ctx.set_seed(seed)
        method.step(batch, ctx)
        share, order = unmixed(batch.inputs, method.one.net.seen)
        fixed += order == [0, 1, 2]
        found += [] if share is None else [share]
    assert kstest(found, beta(alpha, alpha).cdf).pvalue > 1e-4
    assert 20 < fixed < 90  # one order of six leaves all in place; so do shares of nearly 1


# --- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FDiv("total"), "f-div knows no generator 'total'; accepted: total-variation, jensen-shannon, kl"),
        (lambda: FDiv(warmup=1.0), r"f-div needs warmup in \[0, 1\)"),
        (lambda: Peer(-1.0), "peer needs alpha >= 0, got -1.0"),
        (lambda: Peer(math.inf), "peer needs alpha >= 0, got inf"),
        (lambda: Peer(warmup=-0.1), r"peer needs warmup in \[0, 1\)"),
        (lambda: Nls(1.0), "nls needs rate < 1 and lr_scale > 0, got 1.0 and 0.1"),
        (lambda: Nls(-math.inf), "nls needs rate < 1 and lr_scale > 0, got -inf"),
        (lambda: Nls(lr_scale=0.0), "nls needs rate < 1 and lr_scale > 0"),
        (lambda: MixUp(0.0), "mixup needs alpha > 0, got 0.0"),
        (lambda: MixUp(np.nan), "mixup needs alpha > 0, got nan"),
    ],
)
def test_parameters_out_of_range_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
