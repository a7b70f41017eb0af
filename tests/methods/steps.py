"""Single steps of a method in the real context of a run on iris, and the formula that a step must have followed."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from antidote_learn._types import Batch
from antidote_learn.methods.base import StepStats
from antidote_learn.training.context import TrainingContext
from antidote_learn.training.engine import Engine
from antidote_learn.training.prepare import prepare_run
from antidote_learn.training.resolve import Request, resolve_request

RATE = 0.1  # the learning rate
SGD_ONLY: dict[str, Any] = {"optimizer": "sgd", "lr": RATE, "weight_decay": 0.0, "clip": 0.0}
FARTHEST = 4.5  # standard deviations that a mean over draws may be off: about once in 100 000 numbers


def iris_context(out: Path, *, epochs: int = 20, classes: int | None = None) -> TrainingContext:
    """A context for iris with wrong labels; ``classes`` pretends that there are more of them."""
    asked = Request("iris", method="ce", model="mlp:hidden=[8]", out=out, noise="symmetric:0.3", **SGD_ONLY)
    job = prepare_run(resolve_request(asked))
    ctx = TrainingContext(
        Engine(), job.data, job.spec.settings, network=job.network, workers=0, number=3, epochs=epochs
    )
    ctx.classes = ctx.classes if classes is None else classes
    return ctx


def batch_of(ctx: TrainingContext, rows: Sequence[int]) -> Batch:
    inputs = torch.randn(len(rows), 4, generator=torch.Generator().manual_seed(0))
    return Batch(inputs, ctx.labels[rows], torch.tensor(rows), len(rows))


def built(method: Any, ctx: TrainingContext) -> Any:
    method.build(ctx)
    return method


def copy_of(net: nn.Module) -> nn.Module:
    """The network as it is now."""
    return copy.deepcopy(net.module)


def samples(net: nn.Module, batch: Batch) -> list[tuple[Tensor, Tensor, int]]:
    """The logits (K,), the probabilities (K,) and the label of each sample."""
    return [(z, z.softmax(dim=0), y) for z, y in zip(net(batch.inputs), batch.labels.tolist(), strict=True)]


def surprise(z: Tensor, y: int) -> Tensor:
    """-log p_y from logits (K,)."""
    return -z.log_softmax(dim=0)[y]


def mean(losses: list[Any]) -> Any:
    return sum(losses) / len(losses)


def check_step(stats: StepStats, net: nn.Module, before: nn.Module, loss: Tensor) -> None:
    """Asserts that a first step went down the gradient of the loss, which was computed from the network before it."""
    assert not stats.loss.requires_grad
    torch.testing.assert_close(stats.loss.double(), loss.detach().double(), rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(loss, list(before.parameters()), retain_graph=True)
    for found, old, gradient in zip(net.parameters(), before.parameters(), gradients, strict=True):
        torch.testing.assert_close(found.detach(), old.detach() - RATE * gradient, rtol=1e-4, atol=1e-6)


def losses_over_draws(method: Any, batch: Batch, ctx: TrainingContext, count: int = 400) -> Tensor:
    """The losses of a step under many seeds, each from the same weights."""
    ctx.update = lambda loss, *optimizers: None  # type: ignore[method-assign]
    found = []
    for seed in range(count):
        ctx.set_seed(seed)
        found.append(method.step(batch, ctx).loss.double())
    return torch.stack(found)


def check_mean_over_draws(losses: Tensor, expected: float) -> None:
    error = losses.std() / len(losses) ** 0.5
    assert error > 0.0
    assert abs(losses.mean() - expected) < FARTHEST * error
