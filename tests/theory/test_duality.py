"""The duality theorem (thm:duality): the smallest value of the primal problem is the largest of the concave dual.

The primal is solved by CVXPY, the dual by searches of SciPy over `dual_objective`, and `relax` must agree with both.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from antidote_learn import CHI2, HELLINGER, JS, KL, Divergence, alpha, dual_objective, from_conjugate, relax


@dataclass(frozen=True)
class Case:
    """A divergence, and its generator as a convex expression of CVXPY in the weights w (whose mean is 1)."""

    record: Divergence
    expression: Callable[[cp.Variable], cp.Expression]

    def __str__(self) -> str:
        return self.record.name


def power(a):
    return lambda w: (cp.power(w, a) - 1) / (a * (a - 1))


def fermi(a, b):
    """f(t) = (t - a) log((t - a) / (1 - a)) + (b - t) log((b - t) / (b - 1)): weights between a and b only."""
    k = (1 - a) / (b - 1)
    return Case(
        from_conjugate(
            lambda t: torch.xlogy(t - a, (t - a) / (1 - a)) + torch.xlogy(b - t, (b - t) / (b - 1)),
            lambda t: torch.log((t - a) / (1 - a)) - torch.log((b - t) / (b - 1)),
            lambda y: a * y + (b - a) * (torch.nn.functional.softplus(y + math.log(k)) - math.log1p(k)),
            lambda y: a + (b - a) * torch.sigmoid(y + math.log(k)),
            domain=(a, b),
            name=f"fermi on ({a:g}, {b:g})",
        ),
        lambda w: cp.rel_entr(w - a, 1 - a) + cp.rel_entr(b - w, b - 1),
    )


CASES = [
    Case(KL, lambda w: -cp.entr(w)),
    Case(CHI2, power(2)),
    Case(alpha(1.5), power(1.5)),
    Case(alpha(3.0), power(3)),
    Case(JS, lambda w: (cp.rel_entr(w, (w + 1) / 2) + cp.rel_entr(1, (w + 1) / 2)) / 2),
    Case(HELLINGER, lambda w: (w + 1) / 2 - cp.sqrt(w)),
    fermi(0.0, 2.0),
    fermi(0.25, 3.0),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def primal(losses, delta, kappa, case):
    """min of E_Q[L] + kappa D_f(Q || P_n) over Q with D_f(Q || P_n) <= delta, by CVXPY."""
    n = len(losses)
    w = cp.Variable(n, nonneg=True)
    divergence = cp.sum(case.expression(w)) / n
    problem = cp.Problem(cp.Minimize(losses @ w / n + kappa * divergence), [cp.sum(w) == n, divergence <= delta])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


def highest(function, low, high):
    """The maximum of a concave function of one variable, which may be -inf far from it."""
    result = minimize_scalar(
        lambda x: min(-function(x), 1e30), bounds=(low, high), method="bounded", options={"xatol": 1e-9}
    )
    return -result.fun


def dual(losses, delta, kappa, case):
    """max of G_f over lam > 0 and rho: one search inside the other."""
    values, f = torch.from_numpy(losses), case.record

    def over_rho(log_lam):
        lam = math.exp(log_lam)
        t = lam + kappa
        low = max(-losses.max() - t * f.slope_one, -losses.min() - t * f.slope_inf)  # the weights' mean is 1 between
        high = -losses.min() - t * f.slope_one
        return highest(
            lambda rho: float(dual_objective(values, lam, rho, delta=delta, kappa=kappa, divergence=f)), low, high
        )

    return highest(over_rho, -16.0, 5.0)


def problem(seed):
    """Losses of either sign, on various scales, sometimes tied, and a budget that some of them feel."""
    rng = np.random.default_rng(seed)
    losses = rng.exponential(rng.choice([0.3, 1.0, 4.0]), size=int(rng.integers(2, 10)))
    if seed % 3 == 0:
        losses = np.round(losses, 1)
    if seed % 4 == 0:
        losses -= 1.0
    return losses, float(rng.choice([0.003, 0.03, 0.12, 0.25]))


def slack(solved, losses):
    """What the residual that a solve leaves is worth (KL's last step is seen, not evaluated), and rounding."""
    residual = 2e-8 if solved.divergence.name == "kl" else 2e-9
    return residual * float(solved.lam) * float(solved.delta) + 1e-9 * (1 + float(losses.abs().max()))


# --- strong duality --------------------------------------------------------------------------------------------------


@each_case
@pytest.mark.parametrize("kappa", [0.0, 0.05, 0.7])
@pytest.mark.parametrize("seed", range(6))
def test_the_primal_optimum_is_the_maximum_of_the_dual(case, kappa, seed):
    losses, delta = problem(seed)
    scale = 1 + np.ptp(losses)
    best = primal(losses, delta, kappa, case)
    assert dual(losses, delta, kappa, case) == pytest.approx(best, abs=2e-6 * scale)
    solved = relax(torch.from_numpy(losses), delta, kappa=kappa, divergence=case.record)
    assert float(solved.value) == pytest.approx(best, abs=2e-6 * scale)


@pytest.mark.parametrize("kappa", [0.0, 0.05, 0.7])
@pytest.mark.parametrize("seed", range(20))
def test_kl_needs_no_shift(kappa, seed):
    losses, delta = problem(seed)
    values = torch.from_numpy(losses)
    most = highest(
        lambda log_lam: float(dual_objective(values, math.exp(log_lam), delta=delta, kappa=kappa)), -16.0, 5.0
    )
    assert most == pytest.approx(primal(losses, delta, kappa, CASES[0]), abs=2e-6 * (1 + np.ptp(losses)))


@each_case
@pytest.mark.parametrize("kappa", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(6))
def test_the_multipliers_of_the_solution_maximise_the_dual(case, kappa, seed):
    losses, delta = problem(seed)[0], 0.02  # small enough for a positive temperature without kappa
    values = torch.from_numpy(losses)
    solved = relax(values, delta, kappa=kappa, divergence=case.record)
    assert float(solved.lam) + kappa > 0
    at_solution = dual_objective(values, solved.lam, solved.rho, delta=delta, kappa=kappa, divergence=case.record)
    assert float(at_solution) == pytest.approx(float(solved.value), abs=slack(solved, values))


# --- properties of the dual ------------------------------------------------------------------------------------------

loss_lists = st.lists(st.floats(-2, 8, width=32), min_size=1, max_size=8).map(
    lambda x: torch.tensor(x, dtype=torch.float64)
)
multipliers = st.tuples(st.floats(0.01, 5), st.floats(-8, 4))
parameters = {
    "case": st.sampled_from(CASES),
    "losses": loss_lists,
    "delta": st.floats(1e-3, 0.5),
    "kappa": st.sampled_from([0.0, 0.05, 0.7]),
}


def objective(point, case, losses, delta, kappa):
    lam, rho = point
    return float(dual_objective(losses, lam, rho, delta=delta, kappa=kappa, divergence=case.record))


@settings(deadline=None, max_examples=300)
@given(**parameters, one=multipliers, other=multipliers, share=st.floats(0.05, 0.95))
def test_the_dual_is_concave_on_every_segment(case, losses, delta, kappa, one, other, share):
    between = tuple(share * x + (1 - share) * y for x, y in zip(one, other, strict=True))
    ends = [objective(point, case, losses, delta, kappa) for point in (one, other)]
    chord = share * ends[0] + (1 - share) * ends[1]  # -inf where an end is outside the domain of f*
    rounding = 1e-10 * (1 + abs(chord)) if math.isfinite(chord) else 0.0
    assert objective(between, case, losses, delta, kappa) >= chord - rounding


@settings(deadline=None, max_examples=200)
@given(
    losses=loss_lists, delta=parameters["delta"], kappa=parameters["kappa"], lams=st.tuples(*[st.floats(0.01, 5)] * 2)
)
def test_the_dual_of_kl_without_its_shift_is_concave(losses, delta, kappa, lams):
    values = [float(dual_objective(losses, lam, delta=delta, kappa=kappa)) for lam in (*lams, sum(lams) / 2)]
    assert values[2] >= (values[0] + values[1]) / 2 - 1e-10 * (1 + abs(values[2]))


@settings(deadline=None, max_examples=200)
@given(**parameters, point=multipliers)
def test_the_dual_is_never_above_the_primal(case, losses, delta, kappa, point):
    solved = relax(losses, delta, kappa=kappa, divergence=case.record)
    assert objective(point, case, losses, delta, kappa) <= float(solved.value) + slack(solved, losses)


@settings(deadline=None, max_examples=200)
@given(**parameters, point=multipliers)
def test_the_slopes_of_the_dual_are_the_excess_of_divergence_and_the_defect_of_mass(case, losses, delta, kappa, point):
    """dG/dlam = E[f(w)] - delta and dG/drho = E[w] - 1 with w = f*'(-(L + rho) / (lam + kappa)), at every point."""
    f = case.record
    lam, rho = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point)
    weights = f.conjugate_prime(-(losses + point[1]) / (point[0] + kappa))
    assume(bool(torch.isfinite(weights).all()) and float(weights.max()) < 1e6)
    dual_objective(losses, lam, rho, delta=delta, kappa=kappa, divergence=f).backward()
    costs = torch.where(weights > 0, f.f(torch.where(weights > 0, weights, 1.0)), f.f_zero)
    assert float(lam.grad) == pytest.approx(float(costs.mean()) - delta, rel=1e-6, abs=1e-8)
    assert float(rho.grad) == pytest.approx(float(weights.mean()) - 1, rel=1e-6, abs=1e-8)


@settings(deadline=None)
@given(losses=loss_lists, delta=parameters["delta"], kappa=parameters["kappa"], lam=st.floats(0.01, 5))
def test_the_best_shift_of_kl_gives_the_form_without_it(losses, delta, kappa, lam):
    t = lam + kappa
    shift = t * (torch.logsumexp(-losses / t, 0) - math.log(len(losses)) - 1)
    with_shift = dual_objective(losses, lam, shift, delta=delta, kappa=kappa, divergence=KL)
    without = dual_objective(losses, lam, delta=delta, kappa=kappa, divergence=KL)
    assert float(with_shift) == pytest.approx(float(without), rel=1e-9, abs=1e-9)


@each_case
def test_only_kl_may_leave_the_shift_out(case):
    if case.record is KL:
        dual_objective(torch.ones(3), 1.0, delta=0.1)
    else:
        with pytest.raises(ValueError, match="rho"):
            dual_objective(torch.ones(3), 1.0, delta=0.1, divergence=case.record)


# --- a generator on a bounded interval -------------------------------------------------------------------------------

each_bounded = pytest.mark.parametrize("case", [c for c in CASES if math.isfinite(c.record.domain[1])], ids=str)


@each_bounded
@pytest.mark.parametrize("delta", [0.1, 0.6, 1.0, 1.2])
def test_weights_stay_inside_the_domain_of_the_generator(case, delta):
    low, high = case.record.domain
    weights = relax(torch.linspace(0, 50, 9, dtype=torch.float64), delta, divergence=case.record).weights
    assert low - 1e-9 <= weights.min() <= weights.max() <= high + 1e-9
    assert delta < 1.2 or weights.max() > high - 0.03  # the bounds are felt


@each_bounded
@pytest.mark.parametrize("kappa", [0.0, 1e-6])
@pytest.mark.parametrize("seed", range(6))
def test_a_budget_without_effect_fills_the_domain_from_the_smallest_loss(case, kappa, seed):
    """Every weight is at one end of the domain but one, which takes what is left."""
    losses = np.sort(problem(seed)[0])
    low, high = case.record.domain
    expected = np.full(len(losses), low)
    for i in range(len(losses)):
        expected[i] += min(high - low, max(0.0, len(losses) - expected.sum()))
    solved = relax(torch.from_numpy(losses), 50.0, kappa=kappa, divergence=case.record)
    assert float(solved.value) == pytest.approx(float(np.mean(expected * losses)), abs=1e-5 * (1 + np.ptp(losses)))
    assert low - 1e-9 <= float(solved.weights.min()) <= float(solved.weights.max()) <= high + 1e-9
