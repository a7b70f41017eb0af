"""A training step on the CPU: few files stand between the logits and their gradient."""

import sys
from pathlib import Path

import pytest
import torch

import antidote_learn
from antidote_learn import AntidoteLoss, relax
from antidote_learn._types import Visit
from antidote_learn.core import kl
from antidote_learn.core.losses.grammar import loss_function
from antidote_learn.nn.mean import MeanLoss
from antidote_learn.registry import build_method, parse_method

SOURCE = str(Path(antidote_learn.__file__).parent)
MOST_FILES = 8


def files_of(step):
    """The files of the package whose code runs in a step."""
    entered = set()

    def see(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            entered.add(frame.f_code.co_filename.removeprefix(SOURCE))

    sys.setprofile(see)
    try:
        step()
    finally:
        sys.setprofile(None)
    return entered


def batch():
    generator = torch.Generator().manual_seed(0)
    logits = (2.0 * torch.randn(128, 10, generator=generator)).requires_grad_()
    return logits, torch.randint(0, 10, (128,), generator=generator)


def test_a_step_of_the_loss_passes_at_most_eight_files():
    loss, (logits, labels) = AntidoteLoss(noise_rate=0.4), batch()
    entered = files_of(lambda: loss(logits, labels).backward())
    assert len(entered) <= MOST_FILES, sorted(entered)


@pytest.mark.parametrize(
    "solve",
    [
        lambda losses: relax(losses, 0.5, kappa=0.05),
        lambda losses: relax(losses, 0.5),
        lambda losses: relax(losses.repeat(200), 0.5, kappa=0.05),
        lambda losses: relax(losses, 0.5, base_weight=torch.arange(128.0)),
        lambda losses: relax(losses, 0.5, groups=torch.arange(128) % 3),
        lambda losses: relax(torch.where(losses > 5.0, torch.inf, losses), 1.5, kappa=0.05),
    ],
    ids=["plain", "kappa 0", "large", "measure", "groups", "infinite"],
)
def test_every_budget_of_kl_is_solved_by_one_function_on_the_host(solve, monkeypatch):
    calls, search = [], kl._find_temperature
    monkeypatch.setattr(kl, "_find_temperature", lambda *given: calls.append(1) or search(*given))
    logits, labels = batch()
    solve(torch.nn.functional.cross_entropy(logits, labels, reduction="none").detach())
    assert calls


def visit(weight=None):
    return Visit(torch.arange(128), weight, 0.0, 1.0 / 128)


@pytest.mark.parametrize("name", ["gce", "nce+rce", "0.1*nfl:gamma=2+mae", "ldr-kl"])
def test_a_named_loss_trains_by_its_closed_form_and_gives_the_numbers_of_its_graph(name):
    logits, labels = batch()
    closed = MeanLoss(name).batch_loss(logits, labels, visit())
    graph = MeanLoss(loss_function(name)).batch_loss(logits, labels, visit())
    assert type(closed.grad_fn).__name__ == "_GivenGradientBackward"
    assert type(graph.grad_fn).__name__ != "_GivenGradientBackward"
    torch.testing.assert_close(closed, graph, rtol=1e-6, atol=1e-7)
    ours, theirs = (torch.autograd.grad(value, logits)[0] for value in (closed, graph))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(("name", "weight"), [("ce", None), ("gce", torch.ones(128))])
def test_cross_entropy_and_weights_of_samples_go_by_the_graph(name, weight):
    logits, labels = batch()
    value = MeanLoss(name).batch_loss(logits, labels, visit(weight))
    assert torch.equal(value, MeanLoss(loss_function(name)).batch_loss(logits, labels, visit(weight)))


@pytest.mark.parametrize("name", ["gce", "nce+rce"])
def test_training_by_name_takes_the_closed_form(name):
    assert build_method(parse_method(name)).objective.closed_form is not None
