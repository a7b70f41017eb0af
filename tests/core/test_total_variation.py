"""Weights by total variation solve their linear program, for balls and penalties; laws, ties, bad input."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from antidote_learn.core.total_variation import total_variation_weights

INF = float("inf")


def program_value(losses, *, rate=None, penalty=None):
    """The least value over (q, s) with s >= |q - 1/N|, q a distribution."""
    n = len(losses)
    eye, around = np.eye(n), np.full(n, 1 / n)
    rows, limits = np.block([[eye, -eye], [-eye, -eye]]), np.concatenate([around, -around])
    if rate is not None:
        rows, limits = np.vstack([rows, [0.0] * n + [0.5] * n]), np.append(limits, rate)
    price = np.full(n, penalty or 0.0)
    total = [[1.0] * n + [0.0] * n]
    found = linprog(np.concatenate([losses, price]), A_ub=rows, b_ub=limits, A_eq=total, b_eq=[1.0])
    assert found.success
    return found.fun


def problems():
    rng = np.random.default_rng(0)
    yield from (rng.exponential(size=n) for n in (2, 3, 5, 8, 13, 20))
    yield from (rng.integers(-2, 3, size=n).astype(float) for n in (4, 9, 15))  # ties everywhere
    yield np.array([3.0])
    yield np.full(6, 1.7)


@pytest.mark.parametrize("losses", list(problems()), ids=len)
@pytest.mark.parametrize(
    "setting",
    [{"rate": r} for r in (0.0, 0.07, 0.3, 0.5, 0.93, 1.0)] + [{"penalty": p} for p in (0.0, 0.1, 0.5, 1.0, 5.0)],
    ids=str,
)
def test_weights_solve_the_linear_program(losses, setting):
    weights = total_variation_weights(torch.tensor(losses), **setting).numpy()
    q, n = weights / len(losses), len(losses)
    assert (weights >= -1e-12).all()
    assert weights.mean() == pytest.approx(1.0)
    distance = np.abs(q - 1 / n).sum()
    assert distance / 2 <= setting.get("rate", 1.0) + 1e-12
    value = q @ losses + setting.get("penalty", 0.0) * distance
    assert value == pytest.approx(program_value(losses, **setting), abs=1e-9)


def test_a_loss_that_is_not_worth_its_price_is_kept():
    losses = torch.tensor([0.0, 1.0, 1.25])
    assert total_variation_weights(losses, penalty=0.5).tolist() == [2.0, 1.0, 0.0]


@pytest.mark.parametrize("penalty", [0.0, 0.2, 0.6, 1.5])
def test_penalty_and_ball_agree_at_the_rate_that_the_penalty_forgets(penalty):
    losses = torch.tensor(np.random.default_rng(1).exponential(size=50))
    by_price = total_variation_weights(losses, penalty=penalty)
    rate = (by_price == 0).double().mean().item()
    torch.testing.assert_close(total_variation_weights(losses, rate=rate), by_price, atol=1e-10, rtol=0)


def test_a_larger_rate_leaves_less_to_large_losses_and_never_a_larger_mean():
    losses = torch.tensor([0.5, 2.0, 2.0, 1.0, 0.5, 3.0, 1.0], dtype=torch.float64)
    found = torch.stack([total_variation_weights(losses, rate=r) for r in np.linspace(0, 1, 41)])
    steps = found.diff(dim=0)
    smallest = losses == losses.min()
    assert (steps[:, ~smallest] <= 1e-12).all()
    assert (steps[:, smallest] >= -1e-12).all()
    assert ((found @ losses).diff() <= 1e-12).all()


def test_equal_losses_have_equal_weights_in_any_order():
    losses = torch.tensor([2.0, 0.5, 2.0, 1.0, 0.5, 2.0])
    found = total_variation_weights(losses, rate=0.25)  # 1.5 of 6 leave three samples and arrive at two
    torch.testing.assert_close(found, torch.tensor([0.5, 1.75, 0.5, 1.0, 1.75, 0.5]))
    torch.testing.assert_close(total_variation_weights(losses.flip(0), rate=0.25), found.flip(0))


@pytest.mark.parametrize(
    ("losses", "setting", "expected"),
    [
        ([1.0, INF, 5.0, INF], {"rate": 0.25}, [2.0, 0.5, 1.0, 0.5]),
        ([1.0, INF, 5.0, INF], {"rate": 0.5}, [3.0, 0.0, 1.0, 0.0]),
        ([1.0, INF, 5.0, INF], {"rate": 0.0}, [1.0, 1.0, 1.0, 1.0]),
        ([1.0, INF, 5.0, INF], {"penalty": 1e9}, [3.0, 0.0, 1.0, 0.0]),
        ([INF, INF], {"rate": 0.5}, [1.0, 1.0]),
        ([INF, INF], {"penalty": 0.1}, [1.0, 1.0]),
    ],
)
def test_infinite_losses_are_forgotten_first(losses, setting, expected):
    assert total_variation_weights(torch.tensor(losses), **setting).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_carry_no_gradient_and_at_least_single_precision(dtype):
    losses = torch.arange(100_000).to(dtype).clamp(max=100).requires_grad_()
    weights = total_variation_weights(losses, penalty=1.0)
    assert weights.dtype == torch.promote_types(dtype, torch.float32)
    assert not weights.requires_grad
    assert weights.mean().item() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    ("losses", "setting", "says"),
    [
        ([1.0, float("nan")], {"rate": 0.1}, "losses must be finite or .inf, got 1 NaN or -inf among 2"),
        ([1.0, -INF], {"penalty": 0.1}, "losses must be finite or .inf"),
        ([[1.0]], {"rate": 0.1}, "losses must be a floating-point tensor"),
        ([1.0], {}, "give one of rate and penalty, got rate=None and penalty=None"),
        ([1.0], {"rate": 0.1, "penalty": 0.1}, "give one of rate and penalty"),
        ([1.0], {"rate": 20}, r"rate must be in \[0, 1\], got 20.0; 20 % is 0.2"),
        ([1.0], {"rate": -0.1}, "rate must be a finite number >= 0"),
        ([1.0], {"penalty": INF}, "penalty must be a finite number >= 0"),
    ],
)
def test_bad_input_is_one_line(losses, setting, says):
    with pytest.raises(ValueError, match=says) as caught:
        total_variation_weights(torch.tensor(losses), **setting)
    assert "\n" not in str(caught.value)
