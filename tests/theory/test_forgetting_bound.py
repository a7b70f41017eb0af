"""What a budget can forget (app:nbhd_interp): delta = r f(0) + (1 - r) f(1 / (1 - r)), eq:delta_rmax, both ways."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from antidote_learn import CHI2, HELLINGER, JS, KL, alpha, delta_from_rate, from_conjugate, rate_from_delta, relax

BUILT_IN = [KL, CHI2, alpha(1.1), alpha(1.5), alpha(3.0), alpha(4.0), JS, HELLINGER]
BOUNDED = {JS: math.log(2.0), HELLINGER: 1.0}
NEYMAN = from_conjugate(
    lambda w: (w - 1) ** 2 / (2 * w),
    lambda w: (1 - w**-2) / 2,
    lambda y: 1 - torch.sqrt(1 - 2 * y),
    lambda y: (1 - 2 * y) ** -0.5,
    name="neyman",
)  # f(0) is infinite: every sample keeps some weight

each_divergence = pytest.mark.parametrize("divergence", BUILT_IN, ids=lambda f: f.name)
divergences = st.sampled_from(BUILT_IN)
rates = st.floats(1e-6, 0.99)


def generator(divergence, t):
    """f(t) from its formula, extended to 0: independent of the record."""
    if t == 0.0:
        return {"kl": 0.0, "js": math.log(2.0) / 2, "hellinger": 0.5}.get(divergence.name, divergence.f_zero)
    if divergence is KL:
        return t * math.log(t)
    if divergence is JS:
        return (t * math.log(t) - (t + 1) * math.log((t + 1) / 2)) / 2
    if divergence is HELLINGER:
        return (math.sqrt(t) - 1) ** 2 / 2
    a = 2.0 if divergence is CHI2 else float(divergence.name.removeprefix("alpha:"))
    return (t**a - 1) / (a * (a - 1))


def from_uniform(q, divergence):
    """D_f(Q || P_n) = (1/n) sum f(n q_i)."""
    return sum(generator(divergence, len(q) * x) for x in q) / len(q)


def forgetting(n, k):
    """k of n samples forgotten, the rest weighted equally."""
    return np.array([1 / (n - k)] * (n - k) + [0.0] * k)


# --- the cost of forgetting ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(n=st.integers(2, 60), k=st.integers(0, 59), divergence=divergences)
def test_forgetting_k_of_n_costs_the_budget_of_that_fraction(n, k, divergence):
    k %= n
    cost = from_uniform(forgetting(n, k), divergence)
    assert delta_from_rate(k / n, divergence) == pytest.approx(cost, rel=1e-9, abs=1e-14)


@settings(deadline=None, max_examples=200)
@given(data=st.data(), n=st.integers(3, 20), divergence=divergences)
def test_unequal_weights_on_the_rest_cost_more(data, n, divergence):
    k = data.draw(st.integers(0, n - 2))
    kept = np.array(data.draw(st.lists(st.integers(1, 9), min_size=n - k, max_size=n - k)), dtype=float)
    q = np.concatenate([kept / kept.sum(), np.zeros(k)])
    cost, least = from_uniform(q, divergence), delta_from_rate(k / n, divergence)
    if np.ptp(kept) == 0:
        assert cost == pytest.approx(least, rel=1e-9, abs=1e-14)
    else:
        assert cost > least + 1e-6


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), rate=rates, divergence=divergences)
def test_no_distribution_of_the_ball_forgets_more_than_the_rate(seed, n, rate, divergence):
    """Random distributions with zeros: those that forget more than the rate lie outside the ball."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(n, rng.choice([0.3, 1.0, 10.0]))) * (rng.random(n) < rng.random())
    if q.sum() == 0:
        q[0] = 1.0
    q /= q.sum()
    inside = from_uniform(q, divergence) <= delta_from_rate(rate, divergence)
    assert not inside or np.mean(q == 0) <= rate + 1e-9


@each_divergence
@pytest.mark.parametrize("kappa", [0.0, 0.1])
@pytest.mark.parametrize("rate", [0.05, 0.25, 0.5, 0.8])
def test_the_solution_never_forgets_more_than_the_rate(rate, kappa, divergence):
    """The most tempting losses: a wide gap, a light tail, a heavy one."""
    rng = np.random.default_rng(0)
    for losses in (np.repeat([0.0, 100.0], 10), rng.exponential(size=20), rng.pareto(0.3, size=20)):
        result = relax(torch.from_numpy(losses), delta_from_rate(rate, divergence), kappa=kappa, divergence=divergence)
        assert (result.weights == 0).double().mean() <= rate + 1e-12
        assert float(result.r_max) == pytest.approx(rate, rel=1e-9)


@each_divergence
@pytest.mark.parametrize("k", [1, 5, 10, 15, 19])
def test_the_bound_is_reached(k, divergence):
    """Exactly k of n infinite losses can be forgotten with the budget of k / n, and not with a smaller one."""
    losses = torch.tensor([0.0] * (20 - k) + [math.inf] * k, dtype=torch.float64)
    delta = delta_from_rate(k / 20, divergence)
    assert float(relax(losses, delta, divergence=divergence).value) == 0.0
    assert float(relax(losses, delta * (1 - 1e-6), divergence=divergence).value) == math.inf


# --- delta as a function of the rate ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(rate=rates, step=st.floats(1e-6, 0.5), divergence=divergences)
def test_the_budget_strictly_increases_with_the_rate(rate, step, divergence):
    higher = rate + step * (1 - rate)
    assert delta_from_rate(higher, divergence) > delta_from_rate(rate, divergence) > 0


@each_divergence
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_the_slope_of_the_budget_is_that_of_the_appendix(rate, divergence):
    z, h = 1 / (1 - rate), 1e-6
    slope = divergence.f_zero - generator(divergence, z) + z * float(divergence.f_prime(z))
    numeric = (delta_from_rate(rate + h, divergence) - delta_from_rate(rate - h, divergence)) / (2 * h)
    assert slope > 0
    assert numeric == pytest.approx(slope, rel=1e-6)


@each_divergence
def test_the_record_agrees_with_the_formula_of_its_generator(divergence):
    for t in (0.01, 0.5, 1.0, 1.7, 30.0):
        assert float(divergence.f(t)) == pytest.approx(generator(divergence, t), rel=1e-12, abs=1e-15)
    assert divergence.f_zero == pytest.approx(generator(divergence, 1e-300), abs=1e-12)
    assert float(divergence.f(0.0)) == pytest.approx(divergence.f_zero, abs=1e-15)


CLOSED_FORMS = {
    KL: lambda r: math.log(1 / (1 - r)),
    CHI2: lambda r: r / (1 - r) / 2,
    HELLINGER: lambda r: 1 - math.sqrt(1 - r),
    JS: lambda r: (r * math.log(2) - math.log(1 - r) - (2 - r) * math.log((2 - r) / (2 - 2 * r))) / 2,
    alpha(3.0): lambda r: ((1 - r) ** -2 - 1) / 6,
}


@pytest.mark.parametrize(("divergence", "formula"), CLOSED_FORMS.items(), ids=lambda x: getattr(x, "name", ""))
@pytest.mark.parametrize("rate", [0.001, 0.2, 0.5, 0.9])
def test_the_budget_has_a_closed_form(divergence, formula, rate):
    assert delta_from_rate(rate, divergence) == pytest.approx(formula(rate), rel=1e-10)


# --- both directions, and their ends ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(rate=st.one_of(rates, st.floats(1e-12, 1e-6), st.floats(0.99, 0.9999)), divergence=divergences)
def test_the_rate_of_the_budget_of_a_rate_is_that_rate(rate, divergence):
    assert rate_from_delta(delta_from_rate(rate, divergence), divergence) == pytest.approx(rate, rel=1e-7)


@settings(deadline=None, max_examples=300)
@given(share=st.floats(1e-9, 0.999), divergence=divergences)
def test_the_budget_of_the_rate_of_a_budget_is_that_budget(share, divergence):
    delta = share * BOUNDED.get(divergence, 3.0)
    assert delta_from_rate(rate_from_delta(delta, divergence), divergence) == pytest.approx(delta, rel=1e-7)


@each_divergence
def test_a_rate_of_zero_is_a_budget_of_zero(divergence):
    assert delta_from_rate(0.0, divergence) == 0.0
    assert rate_from_delta(0.0, divergence) == 0.0


@pytest.mark.parametrize(("divergence", "most"), BOUNDED.items(), ids=lambda x: getattr(x, "name", ""))
def test_a_bounded_divergence_reaches_a_rate_of_one_at_its_maximum(divergence, most):
    assert divergence.max_delta == pytest.approx(most, rel=1e-15)
    assert all(rate_from_delta(delta, divergence) == 1.0 for delta in (most, most + 1e-9, 100.0, math.inf))
    assert 0.99 < rate_from_delta(most * (1 - 1e-6), divergence) < 1.0
    assert delta_from_rate(1 - 1e-9, divergence) < most


@each_divergence
def test_an_infinite_budget_forgets_everything(divergence):
    assert rate_from_delta(math.inf, divergence) == 1.0


@pytest.mark.parametrize(("divergence", "name"), [(KL, "kl"), (CHI2, "chi2"), (JS, "js"), (alpha(1.5), "alpha:1.5")])
def test_a_name_serves_as_well_as_a_record(divergence, name):
    assert delta_from_rate(0.3, name) == delta_from_rate(0.3, divergence)
    assert rate_from_delta(0.3, name) == rate_from_delta(0.3, divergence)


def test_a_divergence_that_cannot_forget_has_no_rate():
    assert NEYMAN.f_zero == math.inf
    with pytest.raises(ValueError, match=r"neyman.*f\(0\)"):
        delta_from_rate(0.2, NEYMAN)
    with pytest.raises(ValueError, match=r"neyman.*f\(0\)"):
        rate_from_delta(0.2, NEYMAN)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, math.nan])
def test_a_rate_outside_0_1_is_refused(rate):
    with pytest.raises(ValueError, match=rf"rate.*\[0, 1\).*{rate}"):
        delta_from_rate(rate)


@pytest.mark.parametrize("delta", [-0.1, math.nan])
def test_a_negative_budget_is_refused(delta):
    with pytest.raises(ValueError, match=rf"delta.*{delta}"):
        rate_from_delta(delta)
