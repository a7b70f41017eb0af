"""The learning rate against torch's own schedulers."""

import math

import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LinearLR, MultiStepLR

from antidote_learn.training.schedules import learning_rate, parse_schedule

LR, EPOCHS = 0.4, 30


def ours(text: str, *, epochs: int = EPOCHS, written_for: int | None = None) -> list[float]:
    """The rate of every epoch."""
    factor = parse_schedule(text, epochs=written_for or epochs)
    return [learning_rate(LR, factor, epoch=e, within=0.0, epochs=epochs, warmup=0.0) for e in range(epochs)]


def theirs(make, steps: int = EPOCHS) -> list[float]:
    """The rates of a scheduler that is stepped once an epoch."""
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    scheduler, found = make(optimizer), []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize(
    ("text", "make"),
    [
        ("constant", lambda optimizer: MultiStepLR(optimizer, [])),
        ("cosine", lambda optimizer: CosineAnnealingLR(optimizer, T_max=EPOCHS)),
        ("step:25", lambda optimizer: MultiStepLR(optimizer, [25])),
        ("step:7,20,29", lambda optimizer: MultiStepLR(optimizer, [7, 20, 29])),
        ("step:20,7", lambda optimizer: MultiStepLR(optimizer, [7, 20])),
        ("step:30", lambda optimizer: MultiStepLR(optimizer, [30])),
        ("exponential:0.97", lambda optimizer: ExponentialLR(optimizer, 0.97)),
    ],
)
def test_a_schedule_is_the_one_of_torch(text, make):
    assert ours(text) == pytest.approx(theirs(make), rel=1e-9)


@pytest.mark.parametrize("epochs", [2, 3, 7, 30, 49, 120])
def test_every_milestone_is_met_exactly(epochs):
    for milestone in range(1, epochs):
        assert ours(f"step:{milestone}", epochs=epochs) == [LR * 0.1 ** (e >= milestone) for e in range(epochs)]


@pytest.mark.parametrize(("text", "same"), [("step:100", "step:10"), ("exponential:0.97", f"exponential:{0.97**10}")])
def test_a_schedule_keeps_its_shape_in_a_run_of_another_length(text, same):
    assert ours(text, epochs=12, written_for=120) == pytest.approx(ours(same, epochs=12), rel=1e-9)


@pytest.mark.parametrize("warmup", [1, 3])
@pytest.mark.parametrize("steps", [1, 8])
def test_the_warm_up_is_linear_from_zero(warmup, steps):
    def make(optimizer):
        return LinearLR(optimizer, start_factor=1e-12, total_iters=warmup * steps)

    constant = parse_schedule("constant", epochs=5)
    found = [
        learning_rate(LR, constant, epoch=epoch, within=step / steps, epochs=5, warmup=float(warmup))
        for epoch in range(5)
        for step in range(steps)
    ]
    assert found == pytest.approx(theirs(make, 5 * steps), abs=1e-9)


def test_the_warm_up_scales_the_schedule_which_moves_once_an_epoch():
    cosine = parse_schedule("cosine", epochs=10)
    for epoch in range(10):
        whole = LR * (1 + math.cos(math.pi * epoch / 10)) / 2
        for within in (0.0, 0.25, 0.999):
            rate = learning_rate(LR, cosine, epoch=epoch, within=within, epochs=10, warmup=2.5)
            assert rate == pytest.approx(whole * min(1.0, (epoch + within) / 2.5))


@pytest.mark.parametrize(
    "text",
    [
        "", "linear", "step", "step:", "step:a", "step:1,,2", "cosine:3", "constant:", "Cosine",
        "exponential", "exponential:", "exponential:x", "exponential:0", "exponential:-0.5", "exponential:inf",
        "exponential:nan",
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_what_is(text):
    with pytest.raises(ValueError, match=rf"unknown schedule '{text}'; accepted: 'constant', 'cosine', 'step:E1,E2"):
        parse_schedule(text, epochs=10)
