"""One network and one objective against loops of plain torch: gradients, three steps, saved and continued."""

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from antidote_learn import AntidoteLoss, DatasetAntidoteLoss
from antidote_learn._types import Batch
from antidote_learn.core.losses.likelihood import cross_entropy
from antidote_learn.methods.base import Context, EpochPlan, Hooks, Method, Stage
from antidote_learn.methods.one_network import OneNetwork
from antidote_learn.nn.mean import MeanLoss
from antidote_learn.training.checkpoint import optimizer_tensors, restore_optimizer

GENERATOR = torch.Generator().manual_seed(0)
CLASSES = 4


def batch_of(size: int) -> Batch:
    labels = torch.randint(CLASSES, (size,), generator=GENERATOR)
    index = torch.randperm(40, generator=GENERATOR)[:size]
    return Batch(torch.randn(size, 6, generator=GENERATOR), labels, index, size)


BATCHES = [batch_of(size) for size in (32, 32, 17, 32, 9)]
OBJECTIVES = {
    "ce": lambda: MeanLoss(cross_entropy),
    "rate": lambda: AntidoteLoss(noise_rate=0.3),
    "chi2": lambda: AntidoteLoss(0.4, divergence="chi2", kappa=0.0),
    "penalty": lambda: AntidoteLoss(penalty=1.0),
    "dataset": lambda: DatasetAntidoteLoss(40, noise_rate=0.3),
}


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES))


def sgd(net: nn.Module) -> Optimizer:
    return SGD(net.parameters(), lr=0.1, momentum=0.9)


@dataclass
class Plain:
    """The context of one process without an engine; keeps the gradient of the last step."""

    own: Any = sgd
    processes: int = 1
    classes: int = CLASSES
    samples: int = 40
    progress: float = 1.0
    device: str = "cpu"
    gradients: list[Tensor] = field(default_factory=list)

    def network(self, role: str = "net") -> nn.Module:
        return network()

    def optimizer(self, of: Any, *, lr: float | None = None) -> Optimizer:
        return self.own(of) if lr is None else AdamW(of, lr=lr)

    def keep(self, name: str, thing: Any) -> None:
        assert name == "method"

    def update(self, loss: Tensor, *optimizers: Optimizer) -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        self.gradients = [parameter.grad.clone() for parameter in optimizers[0].param_groups[0]["params"]]
        for optimizer in optimizers:
            optimizer.step()


def built(name: str, ctx: Plain) -> OneNetwork:
    method = OneNetwork(OBJECTIVES[name]())
    method.build(ctx)
    return method


def stepped(method: OneNetwork, ctx: Context, batches: list[Batch]) -> list[float]:
    return [method.step(batch, ctx).loss.item() for batch in batches]


def weights(method: OneNetwork) -> dict[str, Tensor]:
    return method.net.state_dict()


def test_it_keeps_to_the_protocol_of_methods():
    method: Method = built("ce", Plain())
    assert Hooks(method).stages(5) == (Stage("training", 5),)
    assert Hooks(method).begin_epoch(0, Plain()).streams == EpochPlan().streams
    assert len(method.optimizers) == 1


def test_the_gradient_of_cross_entropy_is_torchs():
    ctx, net = Plain(), network()
    method = built("ce", ctx)
    (loss,) = stepped(method, ctx, BATCHES[:1])
    expected = F.cross_entropy(net(BATCHES[0].inputs), BATCHES[0].labels)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    for found, parameter in zip(ctx.gradients, net.parameters(), strict=True):
        torch.testing.assert_close(found, parameter.grad, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["rate", "chi2", "penalty"])
def test_three_steps_are_those_of_a_loop_of_plain_torch(name):
    net, objective = network(), OBJECTIVES[name]()
    optimizer, losses = sgd(net), []
    for batch in BATCHES[:3]:
        loss = objective(net(batch.inputs), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ctx = Plain()
    method = built(name, ctx)
    assert stepped(method, ctx, BATCHES[:3]) == losses
    for key, value in net.state_dict().items():
        assert torch.equal(weights(method)[key], value), key


def test_steps_over_the_data_set_know_the_samples_and_how_far_the_training_is():
    net, objective = network(), DatasetAntidoteLoss(40, noise_rate=0.3)
    optimizer, losses, ctx = sgd(net), [], Plain()
    method, found = built("dataset", ctx), []
    for progress, batch in zip((0.0, 0.05, 0.5), BATCHES, strict=False):
        objective.set_progress(progress)
        loss = objective(net(batch.inputs), batch.labels, index=batch.index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        ctx.progress = progress
        stats = method.step(batch, ctx)
        found.append(stats.loss.item())
        whole = objective.last.scope
        assert float(stats.numbers["temperature"]) == pytest.approx(float(whole.lam) + 0.05)
        ratio = whole.weights[objective.visits > 0] * (objective.visits > 0).double().mean()  # 1 on average over these
        assert float(stats.numbers["forgotten"]) == pytest.approx((ratio < 0.05).double().mean().item(), abs=1e-6)
    assert found == losses
    for key, value in net.state_dict().items():
        assert torch.equal(weights(method)[key], value), key


def test_kl_steps_are_those_of_a_softmax_over_losses():
    """Algorithm 1 without this package: weights softmax(-L/t), t from KL(w || uniform) = delta by bisection."""

    def temperature(losses: Tensor, delta: float) -> float:
        low, high = 1e-4, 1e4
        for _ in range(200):
            t = (low * high) ** 0.5
            q = torch.softmax(-losses.double() / t, 0)
            low, high = (t, high) if (q * (q * len(q)).log()).nansum() > delta else (low, t)
        return max(low, 0.05)

    net, ctx = network(), Plain()
    optimizer, method = sgd(net), built("rate", ctx)
    for batch in BATCHES[:3]:
        losses = F.cross_entropy(net(batch.inputs), batch.labels, reduction="none")
        t = temperature(losses.detach(), -torch.log1p(torch.tensor(-0.3, dtype=torch.float64)).item())
        optimizer.zero_grad()
        (torch.softmax(-losses.detach() / t, 0) * losses).sum().backward()
        optimizer.step()
        stats = method.step(batch, ctx)
        assert float(stats.numbers["temperature"]) == pytest.approx(t, rel=1e-5)
    for key, value in net.state_dict().items():
        torch.testing.assert_close(weights(method)[key], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["rate", "chi2", "penalty"])
def test_figures_are_those_of_the_solution(name):
    ctx = Plain()
    method = built(name, ctx)
    stats = method.step(BATCHES[0], ctx)
    assert not stats.loss.requires_grad
    solved = method.objective.last
    assert float(stats.numbers["temperature"]) == pytest.approx(float(solved.lam) + method.objective.kappa, rel=1e-6)
    gone = (solved.weights <= 0.0) if name == "chi2" else (solved.weights < 0.05)
    assert float(stats.numbers["forgotten"]) == pytest.approx(gone.double().mean().item())
    assert built("ce", Plain()).step(BATCHES[0], Plain()).numbers == {}


@pytest.mark.parametrize("cut", [16, 5, 32])
def test_the_parts_of_a_batch_average_to_its_gradient_however_it_is_split(cut):
    """Two processes with a plain loss; in evaluation mode, as each part has batch statistics of its own."""

    def gradients(part: slice, processes: int) -> list[Tensor]:
        ctx = Plain(processes=processes)
        method = built("ce", ctx)
        method.net.eval()
        whole = BATCHES[0]
        method.step(Batch(whole.inputs[part], whole.labels[part], whole.index[part], 32), ctx)
        return ctx.gradients

    parts = gradients(slice(0, cut), 2), gradients(slice(cut, 32), 2)
    for one, two, expected in zip(*parts, gradients(slice(0, 32), 1), strict=True):
        torch.testing.assert_close((one + two) / 2, expected, rtol=1e-5, atol=1e-7)


OPTIMIZERS = {
    "sgd": sgd,
    "adamw": lambda net: AdamW(net.parameters(), lr=0.01, weight_decay=0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_saved_after_two_steps_and_continued_is_uninterrupted(name, optimizer):
    ctx = Plain(OPTIMIZERS[optimizer])
    whole, stopped, resumed = (built(name, ctx) for _ in range(3))
    expected = stepped(whole, ctx, BATCHES)
    first = stepped(stopped, ctx, BATCHES[:2])
    state = copy.deepcopy(
        (weights(stopped), *optimizer_tensors(stopped.optimizers[0], ""), stopped.objective.state_dict())
    )
    stepped(stopped, ctx, BATCHES)  # goes its own way, and must not matter

    resumed.net.load_state_dict(state[0])
    restore_optimizer(resumed.optimizers[0], state[1], state[2], "")
    resumed.objective.load_state_dict(state[3])
    assert first + stepped(resumed, ctx, BATCHES[2:]) == expected
    for key, value in weights(whole).items():
        assert torch.equal(weights(resumed)[key], value), key


@pytest.mark.parametrize("name", ["ce", "rate", "dataset"])
def test_weights_of_the_samples_are_the_measure(name):
    weight = torch.rand(40, generator=torch.Generator().manual_seed(1)) + 0.5
    batch, objective = BATCHES[0], OBJECTIVES[name]()
    logits, own = network()(batch.inputs), weight[batch.index]
    expected = {
        "ce": lambda: (F.cross_entropy(logits, batch.labels, reduction="none") * own).mean(),
        "rate": lambda: objective(logits, batch.labels, sample_weight=own),
        "dataset": lambda: objective(logits, batch.labels, sample_weight=own, index=batch.index),
    }[name]()
    ctx = Plain()
    method = OneNetwork(OBJECTIVES[name](), weight)
    method.build(ctx)
    assert stepped(method, ctx, [batch]) == [pytest.approx(expected.item(), rel=1e-6)]
    assert stepped(built(name, Plain()), ctx, [batch]) != [pytest.approx(expected.item(), rel=1e-6)]
