"""How exactly the budget is met: every floating type, sizes from 1 to a million, losses from 1e-30 to 1e4, ties."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from antidote_learn import Status, alpha, delta_from_rate, relax, relax_penalized
from antidote_learn.core.divergences import Divergence, divergence_of

RECORDS = ["kl", "chi2", "alpha:1.1", "alpha:1.5", "alpha:3", "alpha:4", "js", "hellinger"]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = [1, 2, 7, 128, 1000, 65536, 1_000_000]


def shapes(size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Samples of losses that a training run may meet, and some that it will not."""
    noisy = np.where(rng.random(size) < 0.4, rng.gamma(4, 1, size), rng.exponential(0.05, size))
    return {
        "noisy": noisy,
        "tiny": rng.random(size) * 1e-30,
        "large": rng.random(size) * 1e4,
        "all scales": 10 ** rng.uniform(-30, 4, size),
        "ties": rng.integers(0, 3, size).astype(float),
        "one outlier": np.append(rng.random(size - 1) * 1e-6, 1e4),
        "one survivor": np.append(np.full(size - 1, 1e4) + rng.random(size - 1), 0.0),
    }


def residual(losses: torch.Tensor, delta: float, kappa: float, f: Divergence) -> float:
    solved = relax(losses, delta, kappa=kappa, divergence=f)
    assert solved.status in (Status.BUDGET, Status.FLOOR, Status.LIMIT)
    assert float(solved.weights.double().mean()) == pytest.approx(1, abs=2e-6)
    assert math.isfinite(float(solved.value))
    if solved.status is not Status.BUDGET:
        assert float(solved.achieved) <= delta * (1 + 1e-6)
        assert float(solved.lam) == 0
    return float(solved.residual)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", RECORDS)
def test_the_budget_is_met_at_every_size_and_scale(name: str, size: int) -> None:
    f, rng = divergence_of(name), np.random.default_rng(size)
    many = size > 1000
    for label, values in shapes(size, rng).items():
        for rate in (0.3,) if many else (1e-7, 0.01, 0.2, 0.7):
            for kappa in (0.0,) if many else (0.0, 0.05):
                delta = max(delta_from_rate(rate, f), 1e-8)
                assert residual(torch.tensor(values), delta, kappa, f) <= 1e-6, (label, rate, kappa)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", RECORDS)
def test_the_budget_is_met_in_every_type(name: str, dtype: torch.dtype) -> None:
    f, rng = divergence_of(name), np.random.default_rng(5)
    for size in (1, 3, 128, 4096):
        for label, values in shapes(size, rng).items():
            losses = torch.tensor(values).to(dtype)
            assume_finite = torch.where(torch.isfinite(losses), losses, 0)
            for kappa in (0.0, 0.05):
                solved = relax(assume_finite, delta_from_rate(0.3, f), kappa=kappa, divergence=f)
                assert float(solved.residual) <= 1e-6, (label, size, kappa)
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                fields = (solved.value, solved.weights, solved.lam, solved.achieved, solved.delta, solved.threshold)
                assert all(field.dtype == wide for field in fields)


@pytest.mark.parametrize("name", RECORDS)
def test_kappa_zero_beyond_the_maximum_is_uniform_over_the_ties(name: str) -> None:
    losses = torch.tensor([0.5, 0.5, 0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    f = divergence_of(name)
    for rate in (0.4, 0.41, 0.9):
        solved = relax(losses, delta_from_rate(rate, f), divergence=f)
        assert solved.status is Status.LIMIT
        assert solved.weights.tolist() == pytest.approx([5 / 3] * 3 + [0, 0])
        assert float(solved.value.detach()) == pytest.approx(0.5)
        assert float(solved.threshold) == 0.5
        assert float(solved.lam) == 0
        assert float(solved.achieved) == pytest.approx(delta_from_rate(0.4, f))
    just_below = relax(losses, delta_from_rate(0.399, f), divergence=f)
    assert just_below.status is Status.BUDGET
    assert 0 < float(just_below.weights[3]) < 0.2


@pytest.mark.parametrize("name", RECORDS)
def test_infinite_losses_are_forgotten_if_the_budget_allows(name: str) -> None:
    f = divergence_of(name)
    losses = torch.tensor([0.1, 0.4, math.inf, 2.0, math.inf, 0.3, 1.0, 0.2, 0.5, 0.9], dtype=torch.float64)
    finite = torch.isfinite(losses)
    for kappa in (0.0, 0.05):
        leaf = losses.clone().requires_grad_()
        solved = relax(leaf, delta_from_rate(0.35, f), kappa=kappa, divergence=f)
        solved.value.backward()
        assert solved.status is Status.BUDGET
        assert float(solved.residual) <= 1e-6
        assert (solved.weights[~finite] == 0).all()
        assert float(solved.weights.mean()) == pytest.approx(1)
        assert leaf.grad is not None
        assert torch.allclose(leaf.grad, solved.weights / 10)
        assert float(solved.value.detach()) == pytest.approx(
            float((solved.weights * losses.nan_to_num(posinf=0)).mean() + kappa * solved.achieved)
        )
        huge = relax(losses.clamp(max=1e7), delta_from_rate(0.35, f), kappa=kappa, divergence=f)
        assert torch.allclose(huge.weights, solved.weights, atol=2e-2 if name in ("js", "hellinger") else 1e-6)
    exact = relax(losses, delta_from_rate(0.2, f), divergence=f)
    assert exact.status is not Status.INFINITE
    assert math.isfinite(float(exact.value))
    beyond = relax(losses, delta_from_rate(0.19, f), divergence=f)
    assert beyond.status is Status.INFINITE
    assert float(beyond.value) == math.inf


def test_all_losses_infinite_and_delta_zero() -> None:
    everything = relax(torch.full((3,), math.inf), 0.5)
    assert everything.status is Status.INFINITE
    assert float(everything.value) == math.inf
    assert float(relax(torch.tensor([1.0, math.inf]), 0.0).value) == math.inf
    plain = relax(torch.tensor([1.0, 2.0, 6.0]), 0.0, kappa=0.3)
    assert plain.status is Status.PLAIN
    assert float(plain.value) == 3
    assert float(plain.lam) == math.inf
    assert plain.weights.tolist() == [1, 1, 1]
    assert float(plain.r_max) == 0


def test_an_empty_batch_is_worth_nothing() -> None:
    losses = torch.empty(0, requires_grad=True)
    solved = relax(losses, 0.3)
    solved.value.backward()
    assert solved.status is Status.EMPTY
    assert float(solved.value.detach()) == 0


def test_the_threshold_separates_the_forgotten() -> None:
    losses = torch.rand(200, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 5
    for name in ("chi2", "alpha:1.5", "alpha:3"):
        solved = relax(losses, delta_from_rate(0.3, name), divergence=name)
        assert torch.equal(losses < solved.threshold, solved.weights > 0)
        assert float(solved.forgotten) == pytest.approx(float((solved.weights == 0).double().mean()))
    for name in ("kl", "js", "hellinger"):
        solved = relax(losses, delta_from_rate(0.3, name), divergence=name)
        assert float(solved.threshold) == math.inf
        assert float(solved.forgotten) == pytest.approx(float((solved.weights < 0.05).double().mean()))


@pytest.mark.parametrize("name", ["kl", "chi2", "alpha:1.5", "alpha:3", "alpha:4", "js", "hellinger"])
@pytest.mark.parametrize("kappa", [0.0, 0.05, 3.0])
def test_the_penalised_optimum_is_the_lowest_on_a_grid_of_rates(name: str, kappa: float) -> None:
    rng = np.random.default_rng(1)
    grid = np.concatenate([np.linspace(1e-4, 0.999, 700), 1 - np.logspace(-3.1, -6, 40)])
    for size, penalty in ((3, 0.05), (8, 0.3), (40, 1.0), (40, 20.0)):
        losses = torch.tensor(rng.exponential(size=size) * 2)
        solved = relax_penalized(losses, penalty, kappa=kappa, divergence=name)
        values = [
            float(relax(losses, delta_from_rate(float(r), name), kappa=kappa, divergence=name).value)
            + penalty * r * r / (1 - r)
            for r in grid
        ]
        best = int(np.argmin(values))
        assert float(solved.value) <= values[best] + 1e-9, (size, penalty)
        assert float(solved.value) == pytest.approx(values[best], rel=1e-3, abs=1e-5)
        at_rate = relax(losses, float(solved.delta), kappa=kappa, divergence=name)
        assert torch.allclose(at_rate.weights, solved.weights, atol=1e-4)
        if int((solved.weights > 0).sum()) > 1:  # a single survivor is optimal for a range of multipliers
            assert float(at_rate.lam) == pytest.approx(float(solved.lam), rel=1e-4, abs=1e-9)


def test_alpha_two_is_chi2() -> None:
    losses = torch.rand(50, generator=torch.Generator().manual_seed(1)) * 3
    one, two = relax(losses, 0.2, divergence=alpha(2.0)), relax(losses, 0.2, divergence="chi2")
    assert torch.allclose(one.weights, two.weights)


@pytest.mark.parametrize("order", [1.5, 2.0, 2.5, 3.0, 4.0])
@pytest.mark.parametrize("short", [1e-2, 1e-4, 1e-6, 1e-8])
def test_the_residual_holds_up_to_the_largest_budget(order, short):
    """Where kappa is 0 and nearly all weight is on the smallest loss, the threshold is next to a loss."""
    divergence = alpha(order)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        losses = torch.from_numpy(rng.exponential(10.0 ** rng.uniform(-2, 2), int(rng.integers(2, 200))))
        delta = delta_from_rate(1.0 - 1.0 / len(losses), divergence) * (1.0 - short)
        solved = relax(losses, delta, divergence=divergence)
        assert solved.status == Status.BUDGET
        assert float(solved.residual) <= 1e-6
        assert float(solved.weights.mean()) == pytest.approx(1.0, abs=1e-7)
        assert float(solved.value) == pytest.approx(float((solved.weights * losses).mean()), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_a_large_sample_have_the_divergence_that_is_reported(delta: float, weighted: bool) -> None:
    """Solved by SciPy, and D taken from the weights themselves: some of their steps are mended, not evaluated."""
    for seed, size in enumerate((9000, 20_000, 65_536, 150_001)):
        rng = np.random.default_rng(seed)
        losses = shapes(size, rng)["noisy"] - 3.0
        mass = rng.integers(0, 4, size).astype(float) if weighted else np.ones(size)
        solved = relax(torch.tensor(losses), delta, kappa=0.01, base_weight=torch.tensor(mass) if weighted else None)
        p = mass / mass.sum()

        def tilted(t: float, losses: np.ndarray = losses, p: np.ndarray = p) -> np.ndarray:
            q = p * np.exp(-(losses - losses.min()) / t)
            return q / q.sum()

        def divergence(q: np.ndarray, p: np.ndarray = p) -> float:
            return float(np.sum(np.where(q > 0, q * np.log(np.where(q > 0, q, 1.0) / np.where(p > 0, p, 1.0)), 0.0)))

        t = brentq(lambda t: divergence(tilted(t)) - delta, 0.01, 1e5, xtol=1e-15, rtol=1e-14)
        q = solved.weights.numpy() / size
        assert divergence(q) == pytest.approx(delta, rel=1e-7, abs=1e-14)
        assert float(solved.lam) == pytest.approx(t - 0.01, rel=2e-7 if delta > 1e-3 else 1e-3)
        assert float(np.abs(q * size - tilted(t) * size).max()) < 1e-5
        assert q.sum() == pytest.approx(1.0, abs=1e-13)
        assert float(solved.value) == pytest.approx(q @ losses + 0.01 * delta, rel=1e-7)
