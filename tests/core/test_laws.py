"""The laws of `relax`, each a property over random problems and every divergence."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from antidote_learn import (
    KL,
    Divergence,
    Status,
    alpha,
    delta_from_rate,
    dual_objective,
    from_conjugate,
    rate_from_delta,
    relax,
)
from antidote_learn.core.chi2 import solve_chi2
from antidote_learn.core.divergences import divergence_of
from tests.references import central_difference, divergence_value, kl_temperature

NAMES = ["kl", "chi2", "alpha:1.5", "alpha:3", "js", "hellinger"]
every = pytest.mark.parametrize("name", NAMES)
fast = settings(max_examples=60, deadline=None)

loss_lists = st.lists(st.floats(0, 20, allow_subnormal=False, width=32), min_size=2, max_size=24)
rates = st.floats(0.01, 0.9)
kappas = st.one_of(st.just(0.0), st.floats(0.01, 3.0))


def tensor(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def solve(losses: list[float], rate: float, kappa: float, name: str):
    return relax(tensor(losses), delta_from_rate(rate, name), kappa=kappa, divergence=name)


@every
@given(loss_lists, rates, kappas)
@fast
def test_weights_are_a_distribution_inside_the_ball(name: str, losses: list[float], rate: float, kappa: float) -> None:
    solved = solve(losses, rate, kappa, name)
    assert float(solved.weights.mean()) == pytest.approx(1, abs=1e-9)
    assert (solved.weights >= 0).all()
    assert float(solved.achieved) <= float(solved.delta) * (1 + 1e-6)
    again = divergence_value(name, (solved.weights / len(losses)).numpy(), np.full(len(losses), 1 / len(losses)))
    assert again == pytest.approx(float(solved.achieved), rel=1e-6, abs=1e-9)


@every
@given(loss_lists, rates, kappas)
@fast
def test_slackness(name: str, losses: list[float], rate: float, kappa: float) -> None:
    solved = solve(losses, rate, kappa, name)
    assert float(solved.lam) >= 0
    assert float(solved.lam * (solved.achieved - solved.delta)) == pytest.approx(0, abs=1e-6 * float(solved.delta) * 20)
    assert float(solved.residual) <= 1e-6


@every
@given(loss_lists, rates, kappas)
@fast
def test_the_value_is_the_weighted_mean_plus_kappa_times_the_divergence(
    name: str, losses: list[float], rate: float, kappa: float
) -> None:
    solved = solve(losses, rate, kappa, name)
    whole = (solved.weights * tensor(losses)).mean() + kappa * solved.achieved
    assert float(solved.value) == pytest.approx(float(whole), rel=1e-12, abs=1e-12)
    assert min(losses) - 1e-9 <= float(solved.value) <= float(np.mean(losses)) + 1e-9


@every
@given(loss_lists, rates, kappas)
@fast
def test_the_dual_at_the_multipliers_is_the_value(name: str, losses: list[float], rate: float, kappa: float) -> None:
    solved = solve(losses, rate, kappa, name)
    assume(float(solved.lam) + kappa > 1e-6)
    dual = dual_objective(
        tensor(losses), solved.lam, solved.rho, delta=float(solved.delta), kappa=kappa, divergence=name
    )
    assert float(dual) == pytest.approx(float(solved.value), rel=1e-6, abs=1e-6)


@every
@given(loss_lists, rates, rates, kappas, kappas)
@fast
def test_the_value_falls_with_delta_and_rises_with_kappa(
    name: str, losses: list[float], r1: float, r2: float, k1: float, k2: float
) -> None:
    small, large = sorted((r1, r2))
    assert float(solve(losses, large, k1, name).value) <= float(solve(losses, small, k1, name).value) + 1e-9
    weak, strong = sorted((k1, k2))
    assert float(solve(losses, r1, weak, name).value) <= float(solve(losses, r1, strong, name).value) + 1e-9


@every
@given(loss_lists, rates, kappas, st.integers(-64, 64))
@fast
def test_a_constant_shifts_the_value_and_nothing_else(
    name: str, losses: list[float], rate: float, kappa: float, shift: int
) -> None:
    losses = [round(loss * 1024) / 1024 for loss in losses]  # so that L + c is exact
    plain, moved = solve(losses, rate, kappa, name), solve([x + shift for x in losses], rate, kappa, name)
    assert float(moved.value) == pytest.approx(float(plain.value) + shift, abs=1e-8)
    assert torch.allclose(plain.weights, moved.weights, atol=1e-7)


@every
@given(loss_lists, rates, kappas, st.floats(1e-3, 1e3))
@fast
def test_scaling_losses_and_kappa_scales_value_and_lam(
    name: str, losses: list[float], rate: float, kappa: float, scale: float
) -> None:
    plain, scaled = solve(losses, rate, kappa, name), solve([x * scale for x in losses], rate, kappa * scale, name)
    assert float(scaled.value) == pytest.approx(scale * float(plain.value), rel=1e-6, abs=1e-8 * scale)
    assert float(scaled.lam) == pytest.approx(scale * float(plain.lam), rel=1e-5, abs=1e-6 * scale)
    assert torch.allclose(plain.weights, scaled.weights, atol=1e-5)


@every
@given(loss_lists, rates, kappas, st.randoms(use_true_random=False))
@fast
def test_permutations_and_duplicated_batches(name: str, losses: list[float], rate: float, kappa: float, rng) -> None:
    order = list(range(len(losses)))
    rng.shuffle(order)
    plain, shuffled = solve(losses, rate, kappa, name), solve([losses[i] for i in order], rate, kappa, name)
    assert torch.allclose(plain.weights[order], shuffled.weights, atol=1e-6)
    twice = solve(losses * 2, rate, kappa, name)
    assert float(twice.value) == pytest.approx(float(plain.value), abs=1e-8)
    assert torch.allclose(torch.cat([plain.weights, plain.weights]), twice.weights, atol=1e-6)


@every
@given(loss_lists, rates, kappas)
@fast
def test_a_smaller_loss_never_weighs_less(name: str, losses: list[float], rate: float, kappa: float) -> None:
    weights = solve(losses, rate, kappa, name).weights[np.argsort(losses, kind="stable")]
    assert (weights.diff() <= 1e-9).all()


@every
@given(st.lists(st.floats(0, 10, width=32), min_size=3, max_size=8, unique=True), rates, st.floats(0.05, 2))
@settings(max_examples=25, deadline=None)
def test_the_gradient_is_the_weights_over_the_size(name: str, losses: list[float], rate: float, kappa: float) -> None:
    leaf = tensor(losses).requires_grad_()
    delta = delta_from_rate(rate, name)
    solved = relax(leaf, delta, kappa=kappa, divergence=name)
    solved.value.backward()
    assert leaf.grad is not None
    assert torch.allclose(leaf.grad, solved.weights / len(losses), atol=1e-12)
    numeric = central_difference(
        lambda x: float(relax(tensor(x), delta, kappa=kappa, divergence=name).value), np.array(losses, dtype=float)
    )
    assert leaf.grad.numpy() == pytest.approx(numeric, abs=1e-5)


@every
@given(st.floats(0, 1e4), st.integers(1, 40), rates, kappas)
@fast
def test_constant_losses_give_the_constant(name: str, level: float, size: int, rate: float, kappa: float) -> None:
    solved = solve([level] * size, rate, kappa, name)
    assert float(solved.value) == pytest.approx(level, rel=1e-12)
    assert solved.weights.tolist() == pytest.approx([1.0] * size)
    assert float(solved.achieved) == 0
    assert float(solved.lam) == 0


@every
@given(loss_lists, rates, kappas)
@fast
def test_no_more_than_r_max_is_forgotten(name: str, losses: list[float], rate: float, kappa: float) -> None:
    solved = solve(losses, rate, kappa, name)
    assert float(solved.r_max) == pytest.approx(rate, rel=1e-6)
    assert float((solved.weights == 0).double().mean()) <= rate + 1e-9


@every
@given(st.floats(1e-6, 0.98), st.floats(1e-6, 0.98))
@fast
def test_delta_increases_with_the_rate_and_inverts(name: str, r1: float, r2: float) -> None:
    assert rate_from_delta(delta_from_rate(r1, name), name) == pytest.approx(r1, rel=1e-9)
    small, large = sorted((r1, r2))
    assert delta_from_rate(small, name) <= delta_from_rate(large, name)


@every
@given(loss_lists)
@fast
def test_a_small_budget_is_nearly_the_mean(name: str, losses: list[float]) -> None:
    delta = 1e-8
    solved = relax(tensor(losses), delta, divergence=name)
    spread = math.sqrt(2 * delta * float(np.var(losses)) * divergence_of(name).curvature_one)
    gap = float(np.mean(losses)) - float(solved.value)
    assert gap == pytest.approx(spread, rel=2e-2, abs=1e-9)


@given(loss_lists, st.floats(0.05, 0.7), kappas)
@fast
def test_alpha_near_one_is_kl(losses: list[float], rate: float, kappa: float) -> None:
    delta = delta_from_rate(rate)
    kl, near = (relax(tensor(losses), delta, kappa=kappa, divergence=f) for f in (KL, alpha(1 + 1e-6)))
    assume(kl.status is not Status.LIMIT)
    assert float(near.value) == pytest.approx(float(kl.value), abs=2e-3)
    assert float(near.achieved) == pytest.approx(float(kl.achieved), abs=2e-3)
    assert torch.allclose(near.weights, kl.weights, atol=5e-2)


@given(loss_lists, rates, st.one_of(st.just(0.0), st.floats(0.01, 3.0)))
@fast
def test_solve_chi2_equals_the_iteration(losses: list[float], rate: float, kappa: float) -> None:
    x = np.array(losses) - min(losses)
    assume(x.max() > 0)
    delta = delta_from_rate(rate, "chi2")
    t, nu = solve_chi2(x, np.full(x.size, 1 / x.size), delta, kappa)
    assume(t > 0)
    weights = torch.tensor(np.clip(-x / t - nu, 0, None))
    generic = relax(tensor(losses), delta, kappa=kappa, divergence=_without_power())
    assume(generic.status is not Status.LIMIT)
    assert torch.allclose(weights, generic.weights, atol=1e-6)


def _without_power() -> Divergence:
    """Chi-square through the nested route."""
    return from_conjugate(
        lambda w: (w * w - 1) / 2,
        lambda w: w,
        lambda y: torch.clamp(y, min=0) ** 2 / 2 + 0.5,
        lambda y: torch.clamp(y, min=0),
        name="chi2 by hand",
    )


@given(loss_lists, rates, kappas)
@fast
def test_a_general_f_fed_the_conjugate_of_kl_is_kl(losses: list[float], rate: float, kappa: float) -> None:
    own = from_conjugate(
        lambda w: w * torch.log(w),
        lambda w: torch.log(w) + 1,
        lambda y: torch.exp(y - 1),
        lambda y: torch.exp(y - 1),
        name="kl by hand",
    )
    delta = delta_from_rate(rate)
    general, kl = relax(tensor(losses), delta, kappa=kappa, divergence=own), relax(tensor(losses), delta, kappa=kappa)
    assert float(general.value) == pytest.approx(float(kl.value), rel=1e-7, abs=1e-8)
    assert torch.allclose(general.weights, kl.weights, atol=1e-6)


@every
@given(loss_lists, rates, kappas)
@fast
def test_float32_is_close_to_float64(name: str, losses: list[float], rate: float, kappa: float) -> None:
    delta = delta_from_rate(rate, name)
    single = relax(torch.tensor(losses, dtype=torch.float32), delta, kappa=kappa, divergence=name)
    double = relax(torch.tensor(losses, dtype=torch.float32).double(), delta, kappa=kappa, divergence=name)
    assert single.value.dtype == single.weights.dtype == single.lam.dtype == torch.float32
    assert float(single.value) == pytest.approx(float(double.value), rel=1e-5, abs=1e-6)
    assert torch.allclose(single.weights.double(), double.weights, rtol=1e-6, atol=1e-7)


@given(st.lists(st.floats(0, 20, width=32), min_size=3, max_size=24, unique=True), st.floats(0.01, 0.6))
@fast
def test_the_temperature_is_that_of_brent(losses: list[float], rate: float) -> None:
    delta = delta_from_rate(rate)
    assume(delta < 0.99 * math.log(len(losses)))
    gaps = np.diff(np.sort(np.array(losses)))
    assume(gaps.min() > 1e-3)
    assert float(relax(tensor(losses), delta).lam) == pytest.approx(kl_temperature(np.array(losses), delta), rel=1e-6)


@every
@given(st.lists(st.tuples(st.floats(0, 20, width=32), st.integers(0, 3)), min_size=2, max_size=12), rates, kappas)
@fast
def test_an_integer_weight_is_repetition_and_zero_is_removal(
    name: str, rows: list[tuple[float, int]], rate: float, kappa: float
) -> None:
    losses, counts = zip(*rows, strict=True)
    assume(sum(counts) > 0)
    above = [sum(n for y, n in rows if y > x) / sum(counts) for x in losses]
    assume(all(abs(rate - share) > 1e-9 for share in above))  # a whole group just vanishes: lam is not unique
    delta = delta_from_rate(rate, name)
    weighted = relax(tensor(losses), delta, kappa=kappa, divergence=name, base_weight=tensor(counts))
    repeated = relax(tensor([x for x, n in rows for _ in range(n)]), delta, kappa=kappa, divergence=name)
    for field in ("value", "lam", "achieved", "ess", "forgotten"):
        assert float(getattr(weighted, field)) == pytest.approx(float(getattr(repeated, field)), rel=1e-5, abs=1e-7)
    rows_of = [i for i, n in enumerate(counts) for _ in range(n)]
    share = weighted.weights / len(losses)
    each = torch.stack([share[i] / counts[i] for i in rows_of])
    assert torch.allclose(each, repeated.weights / len(rows_of), atol=1e-6)
    assert all(float(share[i]) == 0 for i, n in enumerate(counts) if n == 0)
