"""The relaxed problem: the smallest expected loss over all reweightings inside an f-divergence ball.

min over Q with D_f(Q || P) <= delta of E_Q[L] + kappa D_f(Q || P), P the batch (eq:reformulation_final).
"""

from __future__ import annotations

import math
import reprlib

import torch
from torch import Tensor

from antidote_learn._checks import check_number, check_penalty, real_number
from antidote_learn._types import Relaxed
from antidote_learn.core.budgets import require_forgetting
from antidote_learn.core.divergences import KL, Divergence, divergence_of
from antidote_learn.core.envelope import attach
from antidote_learn.core.solve import weigh
from antidote_learn.core.tensors import check_losses


def relax(
    losses: Tensor,
    delta: float,
    *,
    kappa: float = 0.0,
    divergence: Divergence | str = KL,
    base_weight: Tensor | None = None,
    groups: Tensor | None = None,
) -> Relaxed:
    """Minimises the expected loss over all reweightings of the batch within divergence ``delta`` of it.

    value = mean(weights * losses) + kappa * achieved, and d value / d losses = weights / B (envelope theorem; where the
    optimum is not unique, a supergradient). The solve is exact, in float64, and carries no gradient: second
    derivatives are not supported, and asking for them is an error.

    Limits: delta = 0 is the plain mean; kappa = 0 and delta beyond its maximum is the minimum, uniform over ties.
        Bounds:
    min(losses) <= value <= mean(losses).

    Args:
        losses: (B,) losses, one for each sample; +inf is allowed and is forgotten if the budget allows it.
        delta: The budget, >= 0; `delta_from_rate` gives it for a fraction of wrong labels.
        kappa: The soft penalty on the divergence, >= 0: a floor on the temperature.
        divergence: A record or a name: "kl", "chi2", "alpha:1.5", "js", "hellinger".
        base_weight: (B,) the reference measure P, >= 0; weight 2 is the sample twice, 0 the sample absent.
        groups: (B,) whole numbers, with KL only: every group keeps its mass, Q(g) = P(g), so that none is forgotten for
            another. The weights are exp(-L_i/t) over its mean in the group of i, with one t for all groups.

    Returns:
        The solution: value, weights, multipliers and how it ended.

    Example:
        >>> import torch
        >>> losses = torch.tensor([0.1, 0.2, 0.3, 5.0])
        >>> relax(losses, 0.28, divergence="chi2").weights[-1]
        tensor(0.)
        >>> fair = relax(losses, 0.28, groups=torch.tensor([0, 0, 1, 1])).weights
        >>> fair[:2].mean(), fair[2:].mean()
        (tensor(1.), tensor(1.))
    """
    f = divergence_of(divergence)
    if groups is not None and f is not KL:
        raise ValueError(
            f"groups keep their mass under the divergence 'kl' only, got {f.name!r}: leave one of them out"
        )
    delta, kappa = check_number("delta", delta, 0.0), check_number("kappa", kappa, 0.0)
    return attach(losses, weigh(losses, f, kappa, delta=delta, measure=base_weight, groups=groups))


def relax_penalized(
    losses: Tensor,
    penalty: float,
    *,
    kappa: float = 0.0,
    divergence: Divergence | str = KL,
    base_weight: Tensor | None = None,
) -> Relaxed:
    """`relax` with the budget chosen too, at the price V(r) = penalty * r^2 / (1 - r) of the fraction r it can forget.

    Solved exactly for each batch (app:delta_penalized_opt); ``value`` includes V(r_max), ``delta`` is the chosen
    budget.

    Args:
        losses: (B,) losses, one for each sample.
        penalty: C > 0: the larger, the less is forgotten.
        kappa: As for `relax`.
        divergence: As for `relax`; one with f(0) infinite forgets nothing and is refused.
        base_weight: As for `relax`.

    Example:
        >>> import torch
        >>> relax_penalized(torch.tensor([0.1, 0.2, 0.3, 5.0]), 1.0).r_max > 0.2
        tensor(True)
    """
    f = divergence_of(divergence)
    require_forgetting(f)
    penalty, kappa = check_penalty(penalty), check_number("kappa", kappa, 0.0)
    return attach(losses, weigh(losses, f, kappa, penalty=penalty, measure=base_weight))


def dual_objective(
    losses: Tensor,
    lam: Tensor | float,
    rho: Tensor | float | None = None,
    *,
    delta: float,
    kappa: float = 0.0,
    divergence: Divergence | str = KL,
) -> Tensor:
    """The concave dual G_f(lam, rho), whose maximum is the value of `relax` (eq:reformulation_final).

    With KL and no ``rho`` the shift is eliminated: G_KL(lam) (eq:reformulation_final_KL). Differentiable in everything.

    Args:
        losses: (B,) losses.
        lam: The multiplier of the budget, >= 0, with lam + kappa > 0.
        rho: The shift; required unless the divergence is KL.
        delta: The budget.
        kappa: The soft penalty.
        divergence: A record or a name.

    Example:
        >>> losses = torch.tensor([0.1, 0.2, 0.3, 5.0])
        >>> solved = relax(losses, 0.28)
        >>> torch.isclose(dual_objective(losses, solved.lam, delta=0.28), solved.value)
        tensor(True)
    """
    f = divergence_of(divergence)
    if rho is None and f is not KL:
        raise ValueError(f"dual_objective needs rho for the divergence {f.name!r}; only 'kl' eliminates it")
    check_losses(losses)
    lam, budget, soft = (_multiplier(*each, losses) for each in (("lam", lam), ("delta", delta), ("kappa", kappa)))
    t = lam + soft
    if rho is None:
        return -lam * budget - t * (torch.logsumexp(-losses / t, 0) - math.log(losses.numel()))  # eq:G_KL
    rho = _multiplier("rho", rho, losses)
    star: Tensor = f.conjugate(-(losses + rho) / t)
    return -lam * budget - rho - t * star.mean()  # eq:G_f


def _multiplier(name: str, value: Tensor | float, losses: Tensor) -> Tensor:
    """A number or a real tensor of one element, in the type of the losses."""
    if isinstance(value, Tensor) and value.is_floating_point() and value.numel() == 1:
        return value.reshape(()).to(losses)
    number = real_number(value)
    if number is None:
        raise ValueError(f"{name} must be a number or a tensor of one, got {reprlib.repr(value)}")
    return torch.as_tensor(number, dtype=losses.dtype, device=losses.device)
