"""What only reproduction needs: each variant against its own definition."""

import cvxpy as cp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from antidote_learn import AntidoteLoss, dual_objective, relax, relax_penalized
from antidote_learn.nn.variants import GradientLambda, Interpolated, LaggedLambda, LearnedBudget, MaxSide

DIVERGENCES = ["kl", "chi2", "alpha:1.5", "js", "hellinger"]
DELTA, KAPPA = 0.2, 0.05
LOSSES = torch.tensor([0.1, 0.3, 2.5, 0.2, 1.1, 0.7], dtype=torch.float64)
OTHERS = torch.tensor([1.0, 0.2, 0.1, 3.0, 0.4], dtype=torch.float64)


def gradient(function, losses=LOSSES):
    losses = losses.clone().requires_grad_()
    return torch.autograd.grad(function(losses), losses)[0]


def g_kl(losses, lam, delta=DELTA, kappa=KAPPA):
    """-lam delta - (lam + kappa) log mean exp(-L / (lam + kappa))."""
    t = lam + kappa
    return -lam * delta - t * np.log(np.mean(np.exp(-losses.detach().numpy() / t)))


# ---- the multiplier of the previous batch ----------------------------------------------------------------------------


def test_lagged_lambda_starts_at_a_tenth():
    loss = LaggedLambda(DELTA, kappa=KAPPA)
    assert loss.lam.item() == pytest.approx(0.1)
    assert loss.relax(LOSSES).item() == pytest.approx(g_kl(LOSSES, 0.1), rel=1e-12)


def test_lagged_lambda_uses_the_multiplier_of_the_batch_before():
    loss = LaggedLambda(DELTA, kappa=KAPPA)
    loss.relax(LOSSES)
    fresh = relax(LOSSES, DELTA, kappa=KAPPA).lam
    assert float(fresh) > 0
    torch.testing.assert_close(loss.lam, fresh)
    value = loss.relax(OTHERS)
    assert value.item() == pytest.approx(g_kl(OTHERS, float(fresh)), rel=1e-12)
    assert value.item() < float(relax(OTHERS, DELTA, kappa=KAPPA).value)  # a stale multiplier is not the largest G
    torch.testing.assert_close(loss.lam, relax(OTHERS, DELTA, kappa=KAPPA).lam)


def test_lagged_lambda_is_exact_where_the_batch_does_not_change():
    loss = LaggedLambda(DELTA, kappa=KAPPA)
    loss.relax(LOSSES)
    torch.testing.assert_close(loss.relax(LOSSES), relax(LOSSES, DELTA, kappa=KAPPA).value)


def test_lagged_lambda_weighs_by_the_softmax_at_its_temperature():
    loss = LaggedLambda(DELTA, kappa=KAPPA)
    torch.testing.assert_close(gradient(loss.relax), torch.softmax(-LOSSES / (0.1 + KAPPA), 0))
    assert not loss.lam.requires_grad


def test_lagged_lambda_keeps_its_multiplier_in_the_state():
    loss, other = LaggedLambda(DELTA, kappa=KAPPA), LaggedLambda(DELTA, kappa=KAPPA)
    loss.relax(LOSSES)
    assert set(loss.state_dict()) == {"lam"}
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.relax(OTHERS), loss.relax(OTHERS))
    assert not list(loss.parameters())


@pytest.mark.parametrize("kappa", [0.0, KAPPA])
def test_lagged_lambda_without_a_budget_is_the_mean(kappa):
    loss = LaggedLambda(0.0, kappa=kappa)  # the exact multiplier is infinite
    for batch in (LOSSES, OTHERS, LOSSES):
        assert loss.relax(batch).item() == pytest.approx(batch.mean().item(), rel=1e-15)
        torch.testing.assert_close(gradient(loss.relax, batch), torch.full_like(batch, 1 / len(batch)))


def test_lagged_lambda_without_a_soft_penalty():
    loss = LaggedLambda(DELTA, kappa=0.0)
    assert loss.relax(LOSSES).item() == pytest.approx(g_kl(LOSSES, 0.1, kappa=0.0), rel=1e-12)
    lam = float(relax(LOSSES, DELTA).lam)
    assert loss.relax(OTHERS).item() == pytest.approx(g_kl(OTHERS, lam, kappa=0.0), rel=1e-12)


def test_lagged_lambda_at_temperature_0_is_the_smallest_loss():
    loss = LaggedLambda(DELTA, kappa=0.0)
    loss.relax(torch.tensor([2.0, 2.0, 2.0], dtype=torch.float64))  # equal losses leave lam = 0
    assert loss.lam.item() == 0.0
    tied = torch.tensor([0.3, 1.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    value = loss.relax(tied)
    assert value.item() == pytest.approx(0.3)
    assert value.item() == pytest.approx(g_kl(tied, 1e-3, delta=0.0, kappa=0.0), abs=1e-3)
    value.backward()
    torch.testing.assert_close(tied.grad, torch.tensor([0.5, 0.0, 0.5, 0.0], dtype=torch.float64))
    assert torch.isfinite(loss.relax(LOSSES))


def test_lagged_lambda_starts_where_it_is_told():
    loss = LaggedLambda(DELTA, kappa=KAPPA, start=1.0)  # the authors' script for WebVision
    assert loss.relax(LOSSES).item() == pytest.approx(g_kl(LOSSES, 1.0), rel=1e-12)
    with pytest.raises(ValueError, match="start"):
        LaggedLambda(DELTA, start=-0.1)


# ---- multipliers that ascend -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_gradient_lambda_is_the_dual_at_its_parameters(divergence):
    loss = GradientLambda(DELTA, kappa=KAPPA, divergence=divergence)
    assert loss.lam.item() == pytest.approx(0.1)
    assert (loss.rho is None) == (divergence == "kl")
    rho = None if loss.rho is None else torch.tensor(-5.0, dtype=torch.float64)
    lam = loss.lam.detach().double()
    expected = dual_objective(LOSSES, lam, rho, delta=DELTA, kappa=KAPPA, divergence=divergence)
    torch.testing.assert_close(loss.relax(LOSSES), expected.detach(), check_dtype=False, rtol=1e-6, atol=1e-6)


def test_gradient_lambda_ascends_where_a_minimiser_steps():
    for lam in (0.05, 5.0):  # below and above the solution
        loss = GradientLambda(DELTA, kappa=KAPPA)
        with torch.no_grad():
            loss.lam.fill_(lam)
        loss.relax(LOSSES).backward()
        slope = (g_kl(LOSSES, lam + 1e-6) - g_kl(LOSSES, lam - 1e-6)) / 2e-6
        assert loss.lam.grad.item() == pytest.approx(-slope, rel=1e-4)
        solution = float(relax(LOSSES, DELTA, kappa=KAPPA).lam)
        assert (loss.lam.grad.item() < 0) == (lam < solution)  # a step against the gradient goes towards it


def test_gradient_lambda_leaves_the_gradient_of_the_losses_its_sign():
    loss = GradientLambda(DELTA, kappa=KAPPA)
    torch.testing.assert_close(
        gradient(loss.relax), torch.softmax(-LOSSES / (loss.lam.item() + KAPPA), 0), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("divergence", "rate", "start"), [("kl", 0.5, None), ("chi2", 0.3, -3.0), ("alpha:1.5", 0.3, -4.0)]
)
def test_gradient_lambda_converges_to_the_relaxed_value(divergence, rate, start):
    loss = GradientLambda(DELTA, kappa=KAPPA, divergence=divergence).double()
    if start is not None:
        with torch.no_grad():
            loss.rho.fill_(start)
            loss.lam.fill_(2.0)
    optimiser = torch.optim.SGD(loss.parameters(), lr=rate)
    for _ in range(2000):
        optimiser.zero_grad()
        value = loss.relax(LOSSES)
        value.backward()
        optimiser.step()
    expected = relax(LOSSES, DELTA, kappa=KAPPA, divergence=divergence)
    assert value.item() == pytest.approx(float(expected.value), rel=1e-4)
    assert loss.lam.item() == pytest.approx(float(expected.lam), rel=1e-2)
    if start is not None:
        assert loss.rho.item() == pytest.approx(float(expected.rho), rel=1e-2)


def test_gradient_lambda_puts_back_a_negative_multiplier():
    loss = GradientLambda(DELTA, kappa=KAPPA)
    with torch.no_grad():
        loss.lam.fill_(-0.3)
    assert loss.relax(LOSSES).item() == pytest.approx(g_kl(LOSSES, 0.01), rel=1e-5)
    assert loss.lam.item() == pytest.approx(0.01)


# ---- the budget beside the network -----------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("start", [0.1, 0.5])
def test_learned_budget_has_the_gradient_of_finite_differences(divergence, start):
    loss = LearnedBudget(0.5, kappa=KAPPA, divergence=divergence, start=start).double()
    assert torch.sigmoid(loss.logit).item() == pytest.approx(start)
    loss.relax(LOSSES).backward()
    middle, step, values = loss.logit.item(), 1e-4, []
    for logit in (middle + step, middle - step):
        with torch.no_grad():
            loss.logit.fill_(logit)
        values.append(loss.relax(LOSSES).item())
    assert loss.logit.grad.item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_learned_budget_relaxes_with_the_budget_of_its_rate(divergence):
    loss = LearnedBudget(0.5, kappa=KAPPA, divergence=divergence, start=0.3).double()
    fixed = AntidoteLoss(noise_rate=0.3, kappa=KAPPA, divergence=divergence)
    price = 0.5 * 0.3**2 / 0.7
    assert loss.relax(LOSSES).item() == pytest.approx(float(fixed.relax(LOSSES)) + price, rel=1e-6)
    torch.testing.assert_close(gradient(loss.relax), gradient(fixed.relax), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("divergence", ["kl", "chi2", "hellinger"])
def test_learned_budget_converges_to_the_penalised_solution(divergence):
    loss = LearnedBudget(0.5, kappa=KAPPA, divergence=divergence).double()
    optimiser = torch.optim.SGD(loss.parameters(), lr=1.0)
    for _ in range(400):
        optimiser.zero_grad()
        value = loss.relax(LOSSES)
        value.backward()
        optimiser.step()
    expected = relax_penalized(LOSSES, 0.5, kappa=KAPPA, divergence=divergence)
    assert value.item() == pytest.approx(float(expected.value), rel=1e-6)
    assert torch.sigmoid(loss.logit).item() == pytest.approx(float(expected.r_max), rel=1e-3)
    assert set(loss.state_dict()) == {"logit"}


# ---- the mix with the base loss --------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_interpolated_lies_between_the_mean_and_antidote(share, divergence):
    loss = Interpolated(share, DELTA, kappa=KAPPA, divergence=divergence)
    ours = relax(LOSSES, DELTA, kappa=KAPPA, divergence=divergence)
    torch.testing.assert_close(loss.relax(LOSSES), share * ours.value + (1 - share) * LOSSES.mean())
    expected = (share * ours.weights + (1 - share)) / LOSSES.numel()
    torch.testing.assert_close(gradient(loss.relax), expected)


# ---- the other sign --------------------------------------------------------------------------------------------------


GENERATORS = {
    "kl": lambda w: -cp.entr(w),
    "chi2": lambda w: (cp.square(w) - 1) / 2,
    "alpha:1.5": lambda w: (cp.power(w, 1.5) - 1) / 0.75,
    "js": lambda w: (cp.rel_entr(w, (w + 1) / 2) + cp.rel_entr(1, (w + 1) / 2)) / 2,
    "hellinger": lambda w: (w + 1) / 2 - cp.sqrt(w),
}


def solve_max_side(losses, delta, kappa, generator):
    """max over w with mean 1 and mean f(w) <= delta of mean(w L) - kappa mean f(w)."""
    size = losses.numel()
    w = cp.Variable(size, nonneg=True)
    divergence = cp.sum(generator(w)) / size
    problem = cp.Problem(
        cp.Maximize(w @ losses.numpy() / size - kappa * divergence), [cp.sum(w) == size, divergence <= delta]
    )
    problem.solve(solver=cp.CLARABEL)
    return problem.value, w.value


@pytest.mark.parametrize("losses", [LOSSES, OTHERS], ids=["six", "five"])
@pytest.mark.parametrize("kappa", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_max_side_is_the_robust_optimum(divergence, kappa, losses):
    value, weights = solve_max_side(losses, DELTA, kappa, GENERATORS[divergence])
    loss = MaxSide(DELTA, kappa=kappa, divergence=divergence)
    assert float(loss.relax(losses)) == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(gradient(loss.relax, losses) * losses.numel(), weights, atol=2e-3)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_max_side_weighs_by_loss_and_antidote_against_it(divergence):
    order = LOSSES.argsort()
    up = gradient(MaxSide(DELTA, kappa=KAPPA, divergence=divergence).relax)[order]
    down = gradient(AntidoteLoss(DELTA, kappa=KAPPA, divergence=divergence).relax)[order]
    assert (up.diff() >= 0).all()
    assert (down.diff() <= 0).all()
    assert float(up[-1]) > 2 / LOSSES.numel()
    assert float(up.sum()) == pytest.approx(1.0)


# ---- all of them -----------------------------------------------------------------------------------------------------


VARIANTS = {
    "lagged": lambda **k: LaggedLambda(DELTA, **k),
    "gradient": lambda **k: GradientLambda(DELTA, **k),
    "learned": lambda **k: LearnedBudget(0.5, **k),
    "interpolated": lambda **k: Interpolated(0.5, DELTA, **k),
    "max side": lambda **k: MaxSide(DELTA, **k),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_labels_give_the_objective_of_their_cross_entropies(name):
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(8, 3, generator=generator), torch.randint(0, 3, (8,), generator=generator)
    value = VARIANTS[name]()(logits, labels)
    assert value.shape == ()
    torch.testing.assert_close(value, VARIANTS[name]().relax(F.cross_entropy(logits, labels, reduction="none")))


@pytest.mark.parametrize("name", VARIANTS)
def test_another_base_loss_is_used(name):
    inputs, targets = LOSSES.clone(), torch.zeros_like(LOSSES)
    value = VARIANTS[name](base_loss=torch.nn.L1Loss())(inputs, targets)
    torch.testing.assert_close(value, VARIANTS[name]().relax(LOSSES))


@pytest.mark.parametrize("name", VARIANTS)
def test_eval_is_the_plain_mean_and_changes_nothing(name):
    loss = VARIANTS[name]().eval()
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    assert torch.equal(loss.relax(LOSSES), LOSSES.mean())
    torch.testing.assert_close(gradient(loss.relax), torch.full_like(LOSSES, 1 / LOSSES.numel()))
    assert all(torch.equal(loss.state_dict()[key], before[key]) for key in before)


BAD = {
    "lagged, negative delta": (lambda: LaggedLambda(-0.1), "delta must be a finite number >= 0, got -0.1"),
    "lagged, kappa": (lambda: LaggedLambda(0.1, kappa=-0.1), "kappa must be a finite number >= 0, got -0.1"),
    "gradient, NaN delta": (lambda: GradientLambda(float("nan")), "delta must be a finite number >= 0, got nan"),
    "gradient, divergence": (lambda: GradientLambda(0.1, divergence="tv"), "unknown divergence 'tv'"),
    "learned, penalty 0": (lambda: LearnedBudget(0.0), "penalty must be a finite number > 0, got 0.0"),
    "learned, start 1": (lambda: LearnedBudget(1.0, start=1.0), r"start must be in \(0, 1\), got 1.0"),
    "learned, start 0": (lambda: LearnedBudget(1.0, start=0.0), r"start must be in \(0, 1\), got 0.0"),
    "mix, share above 1": (lambda: Interpolated(1.1, 0.1), r"share must be in \[0, 1\], got 1.1"),
    "mix, infinite delta": (lambda: Interpolated(0.5, float("inf")), "delta must be a finite number >= 0, got inf"),
    "max side, delta": (lambda: MaxSide(-1.0), "delta must be a finite number >= 0, got -1.0"),
    "max side, kappa": (lambda: MaxSide(0.1, kappa=-1.0), "kappa must be a finite number >= 0, got -1.0"),
    "max side, base loss": (lambda: MaxSide(0.1, base_loss="hinge"), "base_loss: unknown loss 'hinge'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_say_what_is_accepted(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_nan_loss_is_not_silent(name):
    losses = LOSSES.clone()
    losses[2] = float("nan")
    try:
        value = VARIANTS[name]().relax(losses)
    except ValueError as error:
        assert "1 NaN" in str(error)  # noqa: PT017
    else:
        assert value.isnan()
