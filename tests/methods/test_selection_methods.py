"""Co-teaching and ELR against loops that are written out sample by sample, in the real context of a run."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import SGD

from antidote_learn.core.selection import small_loss_weights
from antidote_learn.methods.co_teaching import CoTeaching
from antidote_learn.methods.elr import Elr
from tests.methods.steps import batch_of, iris_context


@pytest.fixture
def ctx(tmp_path):
    return iris_context(tmp_path)


@given(
    st.lists(st.floats(0, 10, width=32), min_size=1, max_size=30, unique=True),
    st.floats(0, 1),
    st.integers(0, 30),
)
def test_weights_are_equal_on_the_smallest_losses_of_the_whole_batch(losses, share, cut):
    whole = torch.tensor(losses)
    kept = max(1, int(share * len(losses)))
    smallest = set(sorted(losses)[:kept])
    expected = [len(losses) / kept if loss in smallest else 0.0 for loss in whole.tolist()]
    parts = torch.cat([small_loss_weights(part, whole, share=share) for part in (whole[:cut], whole[cut:])])
    np.testing.assert_allclose(parts.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("epoch", [0, 1, 5, 9, 15])
def test_each_network_of_co_teaching_trains_on_what_the_other_finds_easy(ctx, epoch):
    method = CoTeaching(noise_rate=0.4)
    method.build(ctx)
    nets = [copy.deepcopy(net.module) for net in method.nets]
    batch, ctx.epoch = batch_of(ctx, range(30)), epoch
    stats = method.step(batch, ctx)

    left_out = np.linspace(0, 0.4, 10)[min(epoch, 9)]  # the released code's schedule
    kept = int((1 - left_out) * 30)
    losses = [F.cross_entropy(net(batch.inputs), batch.labels, reduction="none") for net in nets]
    for own, other, net in ((0, 1, nets[0]), (1, 0, nets[1])):
        easy = losses[other].argsort()[:kept]
        SGD(net.parameters(), lr=0.1).zero_grad()
        losses[own][easy].mean().backward()
        with torch.no_grad():
            for parameter, found in zip(net.parameters(), method.nets[own].parameters(), strict=True):
                torch.testing.assert_close(found, parameter - 0.1 * parameter.grad, rtol=1e-5, atol=1e-6)
    assert stats.numbers["kept"] == pytest.approx(1 - left_out)
    assert not torch.equal(losses[0], losses[1])


def test_the_first_network_of_co_teaching_is_the_model(ctx):
    method = CoTeaching(noise_rate=0.4)
    method.build(ctx)
    assert ctx.model is method.nets[0].module


def test_elr_is_its_formula_sample_by_sample(ctx):
    method = Elr(beta=0.6, strength=2.0)
    method.build(ctx)
    memory = {}
    for rows in ([3, 1, 4, 15, 9, 2], [6, 5, 3, 1], [3, 8, 9]):
        batch = batch_of(ctx, rows)
        net = copy.deepcopy(method.net.module)
        losses = []
        for position, logits in zip(rows, net(batch.inputs), strict=True):
            p = logits.softmax(dim=0).clamp(1e-4, 1 - 1e-4)
            old = memory.get(position, torch.zeros(3))
            memory[position] = 0.6 * old + 0.4 * (p / p.sum()).detach()
            pull = torch.log(1 - memory[position] @ p)
            losses.append(-logits.log_softmax(dim=0)[ctx.labels[position]] + 2.0 * pull)
        expected = torch.stack(losses).mean()
        expected.backward()
        before = [parameter.detach() - 0.1 * parameter.grad for parameter in net.parameters()]
        stats = method.step(batch, ctx)
        assert stats.loss.item() == pytest.approx(expected.item(), rel=1e-5)
        if len(rows) == 6:  # later steps have momentum
            for parameter, found in zip(before, method.net.parameters(), strict=True):
                torch.testing.assert_close(found.detach(), parameter, rtol=1e-5, atol=1e-6)
    for position, mean in memory.items():
        torch.testing.assert_close(method.targets[position], mean)
    visits = {3: 3, 1: 2, 9: 2, 8: 1, 0: 0}  # rows of the memory sum to 1 - beta^n
    for position, count in visits.items():
        assert method.targets[position].sum().item() == pytest.approx(1 - 0.6**count, abs=1e-5)


@pytest.mark.parametrize("recipe", [lambda: Elr(beta=1.5), lambda: Elr(strength=-1.0), lambda: CoTeaching(ramp=0)])
def test_parameters_out_of_range_are_refused(recipe):
    with pytest.raises(ValueError, match="needs"):
        recipe()
