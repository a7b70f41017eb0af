"""Bad input is refused with what was received and what is accepted."""

import math
from collections.abc import Callable

import pytest
import torch

from antidote_learn import alpha, delta_from_rate, dual_objective, from_conjugate, rate_from_delta, relax
from antidote_learn import relax_penalized as penalized

LOSSES = torch.tensor([0.1, 0.5, 2.0])
exp, log = torch.exp, torch.log

CASES: list[tuple[Callable[[], object], str]] = [
    (lambda: relax(torch.tensor([0.1, math.nan, math.nan]), 0.3), r"got 2 NaN and 0 -inf among 3"),
    (lambda: relax(torch.tensor([0.1, -math.inf]), 0.3), r"got 0 NaN and 1 -inf"),
    (lambda: relax(LOSSES, -0.1), r"delta must be a finite number >= 0, got -0.1"),
    (lambda: relax(LOSSES, math.nan), r"delta must be .* got nan"),
    (lambda: relax(LOSSES, math.inf), r"delta must be .* got inf"),
    (lambda: relax(LOSSES, "much"), r"delta must be a number >= 0, got 'much'"),  # type: ignore[arg-type]
    (lambda: relax(LOSSES, 0.3, kappa=-1), r"kappa must be .* got -1"),
    (lambda: relax(LOSSES, 0.3, kappa=5e-324), r"kappa must be .* at least 1e-100 unless 0, got 5e-324"),
    (lambda: relax(LOSSES, 10**400), r"delta must be a number >= 0, got 1000"),
    (lambda: relax(LOSSES, True), r"delta must be a number >= 0, got True"),
    (lambda: relax(LOSSES, torch.tensor([0.3, 0.1])), r"delta must be a number >= 0, got tensor"),  # type: ignore[arg-type]
    (lambda: relax(LOSSES.double() * 1e200, 0.3), r"losses must lie within 1e\+150 of one another"),
    (lambda: dual_objective(LOSSES, "a", delta=0.3), r"lam must be a number or a tensor of one, got 'a'"),  # type: ignore[arg-type]
    (lambda: delta_from_rate("a"), r"rate must be in \[0, 1\), got 'a'"),  # type: ignore[arg-type]
    (lambda: rate_from_delta(1j), r"delta must be a number >= 0, got 1j"),  # type: ignore[arg-type]
    (lambda: relax(LOSSES.reshape(3, 1), 0.3), r"shape \(B,\).*got torch.float32 of shape \(3, 1\)"),
    (lambda: relax(torch.tensor([1, 2]), 0.3), r"floating-point.*got torch.int64"),
    (lambda: relax([0.1], 0.3), r"losses must be .* got list"),  # type: ignore[arg-type]
    (lambda: relax(LOSSES, 0.3, base_weight=torch.ones(2)), r"base_weight .*\(3,\), got shape \(2,\)"),
    (lambda: relax(LOSSES, 0.3, base_weight=torch.tensor([1.0, -1.0, 1.0])), r"got 1 of 3 negative or NaN"),
    (lambda: relax(LOSSES, 0.3, base_weight=torch.tensor([1.0, math.nan, 1.0])), r"got 1 of 3 negative or NaN"),
    (lambda: relax(LOSSES, 0.3, base_weight=torch.zeros(3)), r"at least one positive entry, got a sum of 0"),
    (lambda: relax(LOSSES, 0.3, divergence="tv"), r"unknown divergence 'tv'; accepted: 'kl', 'chi2', 'js', 'hell"),
    (lambda: relax(LOSSES, 0.3, divergence="alpha:1"), r"order after 'alpha:' must be a number above 1"),
    (lambda: relax(LOSSES, 0.3, divergence="alpha:x"), r"order after 'alpha:' must be a number above 1"),
    (lambda: alpha(1.0), r"greater than 1, got 1.0; .* use 'kl'"),
    (lambda: penalized(LOSSES, 0.0), r"penalty must be a finite number > 0, got 0.0"),
    (lambda: delta_from_rate(1.0), r"rate must be in \[0, 1\), got 1.0"),
    (lambda: delta_from_rate(-0.1), r"rate must be in \[0, 1\), got -0.1"),
    (lambda: rate_from_delta(-1.0), r"delta must be a number >= 0, got -1.0"),
    (lambda: dual_objective(LOSSES, 1.0, delta=0.3, divergence="chi2"), r"needs rho for the divergence 'chi2'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CASES, ids=[str(i) for i in range(len(CASES))])
def test_the_message_says_what_was_received_and_what_is_accepted(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


KL = {"f": lambda w: w * log(w), "f_prime": lambda w: log(w) + 1, "conjugate": lambda y: exp(y - 1)}
KL["conjugate_prime"] = KL["conjugate"]
BROKEN = [
    ({"f": lambda w: w * log(w) + 0.1}, r"f\(1\) must be 0"),
    ({"f_prime": lambda w: log(w) + 2}, r"f_prime is not the derivative of f"),
    ({"conjugate_prime": lambda y: exp(y)}, r"conjugate_prime does not invert f_prime"),
    ({"conjugate": lambda y: exp(y - 1) + 1}, r"conjugate is not f\*"),
    ({"f": lambda w: (w - 1).abs() / 2, "f_prime": lambda w: torch.sign(w - 1) / 2}, r"not strictly convex"),
    ({"f": lambda w: log(w), "f_prime": lambda w: 1 / w}, r"not strictly convex"),
    ({"domain": (0.0, 0.9)}, r"domain must be \(a, b\) with 0 <= a < 1 < b"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_a_conjugate_that_is_none_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_conjugate(**{**KL, **change})


def test_a_divergence_that_forgets_nothing_has_no_rate() -> None:
    neyman = from_conjugate(
        lambda w: (w - 1) ** 2 / (2 * w),
        lambda w: (1 - w**-2) / 2,
        lambda y: 1 - torch.sqrt(1 - 2 * y),
        lambda y: (1 - 2 * y) ** -0.5,
        name="neyman",
    )
    assert neyman.f_zero == math.inf
    for call in (lambda: delta_from_rate(0.2, neyman), lambda: rate_from_delta(0.2, neyman)):
        with pytest.raises(ValueError, match=r"'neyman' has f\(0\) = inf"):
            call()
    with pytest.raises(ValueError, match=r"'neyman' has f\(0\) = inf"):
        penalized(LOSSES, 1.0, divergence=neyman)
    solved = relax(torch.rand(20, dtype=torch.float64), 0.1, divergence=neyman)
    assert float(solved.residual) <= 1e-6
    assert (solved.weights > 0).all()
