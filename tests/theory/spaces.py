"""Small finite sample spaces, every classifier on them, and the relaxed problem of one classifier."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import linprog

from antidote_learn import Divergence, delta_from_rate, relax
from antidote_learn.core.divergences import divergence_of

Array = npt.NDArray[np.float64]
Loss = Callable[[Array], Array]

DIVERGENCES = ["kl", "chi2", "alpha:1.5", "alpha:3", "js", "hellinger"]


@dataclass(frozen=True)
class Space:
    """Samples x with probability ``marginal[x]``, true label ``truth[x]`` and noisy labels drawn from ``noise[x]``.

    ``noise[x, y]`` is T^x_{h*(x), y} of eq:P_T_def, ``joint`` is P_T over all pairs (x, y).
    """

    name: str
    marginal: tuple[float, ...]
    truth: tuple[int, ...]
    noise: tuple[tuple[float, ...], ...]

    @property
    def joint(self) -> Array:
        return np.array(self.marginal)[:, None] * np.array(self.noise)

    @property
    def exact(self) -> Array:
        """h*, as one-hot vectors."""
        return np.eye(len(self.noise[0]))[list(self.truth)]

    @property
    def kept(self) -> Array:
        """T^x_{h*(x), h*(x)}, the probability of the true label."""
        return (np.array(self.noise) * self.exact).sum(axis=1)

    def same(self, classifier: Array) -> bool:
        """Whether a classifier equals h* almost surely."""
        support = np.array(self.marginal) > 0
        return bool((classifier == self.exact)[support].all())

    def __str__(self) -> str:
        return self.name


def hard_classifiers(space: Space) -> Iterator[Array]:
    """All |Y|^|X| maps from samples to labels, as one-hot vectors."""
    labels = np.eye(len(space.noise[0]))
    return (labels[list(choice)] for choice in itertools.product(range(len(labels)), repeat=len(space.marginal)))


def soft_classifiers(space: Space, steps: int) -> Iterator[Array]:
    """All maps from samples to probability vectors whose entries are multiples of 1 / steps; the hard ones included."""
    k = len(space.noise[0])
    grid = [np.array(p) / steps for p in itertools.product(range(steps + 1), repeat=k) if sum(p) == steps]
    return (np.stack(choice) for choice in itertools.product(grid, repeat=len(space.marginal)))


def cross_entropy(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.abs(np.log(p))  # +inf at 0, and no -0 at 1


def absolute_error(p: Array) -> Array:
    return 1 - p


def brier(p: Array) -> Array:
    return ((p[..., None, :] - np.eye(p.shape[-1])) ** 2).sum(axis=-1)


def generalised_cross_entropy(p: Array) -> Array:
    return (1 - p**0.7) / 0.7


LOSSES: list[Loss] = [cross_entropy, absolute_error, brier, generalised_cross_entropy]
"""L(p, y) for every label y at once, (X, Y) -> (X, Y): each is 0 if and only if p is the one-hot vector of y."""


def budget(space: Space, divergence: str | Divergence) -> float:
    """D_f(P* || P_T) = E[(1 - T) f(0) + T f(1 / T)], T the probability of the true label."""
    f = divergence_of(divergence)
    terms = [(1 - t) * f.f_zero + t * float(f.f(1 / t)) for t in space.kept]
    return float(np.dot(space.marginal, terms))


def relaxed_value(space: Space, classifier: Array, loss: Loss, divergence: str | Divergence, delta: float) -> float:
    """inf of E_Q[L] over Q with D_f(Q || P_T) <= delta."""
    losses, measure = torch.from_numpy(loss(classifier).ravel()), torch.from_numpy(space.joint.ravel())
    return float(relax(losses, delta, kappa=0.0, divergence=divergence, base_weight=measure).value)


def fitted_mass(space: Space, classifier: Array) -> float:
    """P_T of the pairs that a classifier predicts with complete confidence: where a loss with one zero is 0."""
    return float(space.joint[classifier == 1.0].sum())


def can_be_zero(space: Space, classifier: Array, divergence: str | Divergence, delta: float) -> bool:
    """Whether some Q of the ball lives where the loss is 0, without solving anything.

    The cheapest such Q is P_T conditioned on those pairs, which costs delta(1 - their mass) (eq:delta_rmax).
    """
    mass = min(1.0, fitted_mass(space, classifier))
    return mass > 0 and delta_from_rate(1 - mass, divergence) <= delta + 1e-12


def linear_program(space: Space, classifier: Array, loss: Loss, delta: float, *, free: float | None = None) -> float:
    """The same infimum for two f that are not strictly convex, which make it a linear program.

    Args:
        space: The sample space.
        classifier: One probability vector for each sample.
        loss: The loss.
        delta: The budget.
        free: None is total variation, f(t) = |t - 1| / 2; a number c > 1 is f(t) = max(t - c, 0), flat up to c.
    """
    losses, p = loss(classifier).ravel(), space.joint.ravel()
    finite = np.isfinite(losses) & (p > 0)
    n = len(p)
    cost = np.concatenate([np.where(finite, losses, 0.0), np.zeros(n)])  # q, then s >= p f(q / p)
    eye, half = np.eye(n), 0.5 if free is None else 1.0
    above = np.hstack([half * eye, -eye]), half * (p if free is None else free * p)
    below = np.hstack([-half * eye, -eye]), -half * p if free is None else np.zeros(n)
    total = np.concatenate([np.zeros(n), np.ones(n)])[None]
    result = linprog(
        cost,
        A_ub=np.vstack([above[0], below[0], total]),
        b_ub=np.concatenate([above[1], below[1], [delta + 1e-12]]),
        A_eq=np.concatenate([np.ones(n), np.zeros(n)])[None],
        b_eq=[1.0],
        bounds=[(0, None if keep else 0) for keep in finite] + [(0, None)] * n,
    )
    return float(result.fun) if result.success else np.inf
