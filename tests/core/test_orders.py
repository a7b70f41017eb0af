"""Alpha of every order that is accepted: the budget is met, the optimum is right, and the status never lies."""

import math

import cvxpy as cp
import mpmath
import numpy as np
import pytest
import torch

from antidote_learn import AntidoteLoss, Status, alpha, delta_from_rate, rate_from_delta, relax, relax_penalized
from antidote_learn.core.divergences import Divergence
from antidote_learn.core.solve_torch import solve_on_device

ORDERS = [1.000001, 1.01, 2.0, 4.0, 4.5, 8.0, 15.0, 100.0, 200.0, 1000.0]
STEEP = [5.0, 8.0, 15.0, 100.0, 1000.0]


def divergence_of_weights(ratio: np.ndarray, measure: np.ndarray, order: float) -> float:
    """D_f from dQ/dP itself, in 60 digits; what its mean lacks to 1 costs nothing."""
    with mpmath.workdps(60):
        a, pairs = mpmath.mpf(order), [(mpmath.mpf(w), mpmath.mpf(p)) for w, p in zip(ratio, measure, strict=True)]
        total = sum(((w**a if w > 0 else mpmath.mpf(0)) - a * (w - 1)) * p for w, p in pairs)
        return float((total - sum(p for _, p in pairs)) / (a * (a - 1)))


def exact_weights(losses: np.ndarray, delta: float, order: float) -> list[float]:
    """The weights for kappa = 0, by bisection of the offset in as many digits as the order asks for."""
    with mpmath.workdps(60 + int(2.0 * order)):
        x, b = [mpmath.mpf(v) - mpmath.mpf(losses.min()) for v in losses], mpmath.mpf(order) - 1
        wanted, n = mpmath.log1p(b * (b + 1) * mpmath.mpf(delta)), len(losses)

        def ratios(offset: mpmath.mpf) -> list[mpmath.mpf]:
            raised = [((offset - v) ** (1 / b) if v < offset else mpmath.mpf(0)) for v in x]
            return [n * w / sum(raised) for w in raised]

        low, high = min(v for v in x if v > 0), 10**6 * max(x)
        for _ in range(int(3.4 * mpmath.mp.dps)):
            middle = (low + high) / 2
            used = mpmath.log(sum(w ** (b + 1) for w in ratios(middle)) / n)
            low, high = (middle, high) if used > wanted else (low, middle)
        return [float(w) for w in ratios(high)]


def budgets(losses: np.ndarray, order: float) -> list[float]:
    """From 1e-8 to just below what puts all weight on the smallest losses."""
    log_most = -(order - 1) * math.log(np.mean(losses == losses.min())) - math.log(order * (order - 1))
    largest = math.exp(min(log_most, 690.0)) * (1 - 1e-6)
    return [1e-8, 1e-5, 1e-3, *(d for d in (0.1, 1.0, math.sqrt(largest)) if d < largest), largest]


def solve(losses, delta, kappa, f, weight, device):
    """(status, achieved, weights) on the host or as a device would."""
    tensor = torch.from_numpy(losses)
    if device:
        solved = solve_on_device(tensor, f, kappa, delta, None, weight)
        return Status(int(solved.status)), float(solved.raw["achieved"]), solved.weights.numpy()
    relaxed = relax(tensor, delta, kappa=kappa, divergence=f, base_weight=weight)
    return relaxed.status, float(relaxed.achieved), relaxed.weights.numpy()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
@pytest.mark.filterwarnings("error")
def test_the_status_says_what_the_weights_show(order: float, device: bool) -> None:
    f, rng = alpha(order), np.random.default_rng(int(order))
    cases = [("exponential", 2), ("ties", 16)] if device else [("exponential", 2), ("ties", 16), ("large", 120)]
    for kind, size in cases:
        shapes = {"exponential": rng.exponential(size=size), "ties": rng.integers(0, 3, size).astype(float)}
        losses = shapes.get(kind, rng.random(size) * 1e4)
        for delta in budgets(losses, order):
            for kappa in (0.0, 0.05, 1.0):
                weight = torch.from_numpy(rng.random(size)) if rng.random() < 0.5 else None
                status, achieved, weights = solve(losses, delta, kappa, f, weight, device)
                measure = np.full(size, 1 / size) if weight is None else (weight / weight.sum()).numpy()
                shown = divergence_of_weights(weights / size / measure, measure, order)
                case = (kind, delta, kappa, status, shown)
                if device and order <= 4 and status == Status.INACCURATE:
                    continue  # a loop of fixed length may fall short, and says so
                assert status in (Status.BUDGET, Status.LIMIT) if kappa == 0 else status != Status.LIMIT, case
                assert status != Status.INACCURATE, case
                assert shown <= delta * (1 + 1e-6), case
                assert achieved == pytest.approx(shown, rel=1e-6), case
                if status == Status.BUDGET:
                    assert shown == pytest.approx(delta, rel=1e-6), case


@pytest.mark.parametrize("order", [5.0, 15.0, 60.0])
def test_weights_and_value_are_those_of_a_solution_in_many_digits(order: float) -> None:
    rng = np.random.default_rng(3)
    for delta in (1e-6, 0.02, 3.0):
        losses = rng.exponential(size=4)
        solved = relax(torch.from_numpy(losses), delta, divergence=alpha(order))
        exact = exact_weights(losses, delta, order)
        assert solved.weights.tolist() == pytest.approx(exact, rel=1e-6, abs=1e-9)
        assert float(solved.value) == pytest.approx(np.mean(np.multiply(exact, losses)), rel=1e-9)


@pytest.mark.parametrize("order", STEEP)
@pytest.mark.parametrize("kappa", [0.0, 1e-3])
def test_weights_are_optimal(order: float, kappa: float) -> None:
    """f'(w) falls with the loss by 1 / t, the same for all pairs, until it is 0: with D = delta that is the optimum."""
    rng = np.random.default_rng(4)
    for delta in (1e-4, 0.02, 3.0, 1e6):
        losses = np.sort(rng.exponential(size=7))
        solved = relax(torch.from_numpy(losses), delta, kappa=kappa, divergence=alpha(order))
        with mpmath.workdps(60):
            slopes = [mpmath.mpf(w) ** (mpmath.mpf(order) - 1) for w in solved.weights.tolist()]
            alive = [i for i, w in enumerate(solved.weights.tolist()) if w > 0]
            if len(alive) == 1:
                assert solved.status is Status.LIMIT
                continue
            per_loss = (slopes[0] - slopes[alive[-1]]) / (mpmath.mpf(losses[alive[-1]]) - mpmath.mpf(losses[0]))
            for i, w in enumerate(slopes[1:], 1):
                expected = max(slopes[0] - per_loss * (mpmath.mpf(losses[i]) - mpmath.mpf(losses[0])), 0)
                assert abs(w - expected) <= 1e-9 * slopes[0], (delta, i)
            if float(solved.lam) > 1e-250:
                assert float((order - 1) / per_loss) == pytest.approx(float(solved.lam) + kappa, rel=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 0.05])
def test_the_value_is_that_of_a_convex_program(kappa: float) -> None:
    """CVXPY knows powers of a moderate order."""
    rng = np.random.default_rng(5)
    for order, delta in ((5.0, 0.05), (6.0, 0.4), (8.0, 0.1)):
        losses, w = rng.exponential(size=6), cp.Variable(6)
        d = cp.sum(cp.power(w, order) - 1) / (6 * order * (order - 1))
        problem = cp.Problem(cp.Minimize(losses @ w / 6 + kappa * d), [w >= 0, cp.sum(w) == 6, d <= delta])
        problem.solve(solver=cp.CLARABEL)
        solved = relax(torch.from_numpy(losses), delta, kappa=kappa, divergence=alpha(order))
        assert float(solved.value) == pytest.approx(problem.value, rel=1e-6)


def value_at(losses: torch.Tensor, rate: float, penalty: float, kappa: float, f: Divergence) -> float:
    """The penalised objective where the rate is given."""
    solved = relax(losses, delta_from_rate(rate, f), kappa=kappa, divergence=f)
    return float(solved.value) + penalty * rate * rate / (1 - rate)


@pytest.mark.parametrize("order", STEEP)
@pytest.mark.parametrize("kappa", [0.0, 0.05, 3.0])
def test_the_penalised_optimum_of_high_order_is_the_lowest_on_a_grid_of_rates(order: float, kappa: float) -> None:
    rng, f = np.random.default_rng(1), alpha(order)
    largest = rate_from_delta(1e300, f)
    grid = np.concatenate([np.logspace(-6, -2, 40), np.linspace(0.0101, min(0.999, 0.999 * largest), 160)])
    for size, penalty in ((3, 0.05), (8, 0.3), (40, 1.0), (40, 20.0)):
        losses = torch.tensor(rng.exponential(size=size) * 2)
        solved = relax_penalized(losses, penalty, kappa=kappa, divergence=f)
        values = [value_at(losses, rate, penalty, kappa, f) for rate in grid.tolist()]
        best = int(np.argmin(values))
        assert float(solved.value) <= values[best] + 1e-9, (size, penalty)
        if math.isinf(float(solved.delta)):  # more is forgotten than any budget in doubles allows
            assert float(solved.r_max) > largest
            continue
        assert float(solved.value) == pytest.approx(values[best], rel=3e-3, abs=1e-5)
        again = relax(losses, float(solved.delta), kappa=kappa, divergence=f)
        assert torch.allclose(again.weights, solved.weights, atol=1e-4)


@pytest.mark.parametrize("order", STEEP)
def test_infinite_losses_and_a_large_sample_of_high_order(order: float) -> None:
    f, rng = alpha(order), np.random.default_rng(2)
    losses = rng.exponential(size=40_000)
    losses[:400] = math.inf
    delta = delta_from_rate(0.2, f)
    solved = relax(torch.from_numpy(losses), delta, divergence=f)
    assert solved.status is Status.BUDGET
    assert (solved.weights[:400] == 0).all()
    shown = np.exp(order * np.log(solved.weights[400:].double().numpy().clip(1e-300))).sum() / losses.size
    assert (shown - 1) / (order * (order - 1)) == pytest.approx(delta, rel=1e-6)
    assert relax(torch.from_numpy(losses), delta_from_rate(0.005, f), divergence=f).status is Status.INFINITE


@pytest.mark.parametrize("order", [1.5, 4.0, *STEEP])
def test_rate_and_budget_are_inverse_to_one_another(order: float) -> None:
    for rate in (1e-9, 0.01, 0.2, 0.49):
        delta = delta_from_rate(rate, alpha(order))
        with mpmath.workdps(60):
            a = mpmath.mpf(order)
            exact = ((1 - mpmath.mpf(rate)) ** (1 - a) - 1) / (a * (a - 1))
        assert delta == pytest.approx(float(exact), rel=1e-9)
        assert rate_from_delta(delta, alpha(order)) == pytest.approx(rate, rel=1e-9)


def test_a_budget_beyond_the_largest_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"budget of rate 0.9 under 'alpha:1000' exceeds the largest number"):
        delta_from_rate(0.9, "alpha:1000")


@pytest.mark.parametrize("order", [1000.1, 1e4, 10**400, 1 + 1e-7, 1.0, 0.5, -2.0, math.nan, math.inf, True])
def test_orders_beyond_what_is_tested_are_refused(order: float) -> None:
    with pytest.raises(ValueError, match=r"from 1.000001 to 1000, so greater than 1, got "):
        alpha(order)
    if order == 1e4:
        with pytest.raises(ValueError, match=r"'alpha:1e4': the order .* at most 1000"):
            AntidoteLoss(delta=0.1, divergence="alpha:1e4")


def test_a_loss_of_high_order_in_a_step() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(64, 5, requires_grad=True), torch.randint(0, 5, (64,))
    loss = AntidoteLoss(noise_rate=0.2, divergence="alpha:100", kappa=0.0)
    loss(logits, labels).backward()
    assert loss.last is not None
    assert loss.last.status is Status.BUDGET
    assert float(loss.last.residual) <= 1e-6
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
