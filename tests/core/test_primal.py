"""`relax` against the primal problem, solved by CVXPY: every divergence, uniform and other reference measures."""

import numpy as np
import pytest
import torch

from antidote_learn import delta_from_rate, relax
from tests.references import divergence_value, primal

DIVERGENCES = ["kl", "chi2", "alpha:1.5", "alpha:3", "js", "hellinger"]
PROBLEMS = 40  # for each divergence


def draw(seed: int, name: str) -> tuple[np.ndarray, float, float, np.ndarray | None]:
    """Losses, budget, kappa and mass of a random problem of 2 to 12 samples."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 13))
    losses = rng.exponential(size=size) * 10 ** rng.uniform(-1, 0.7)
    if rng.random() < 0.2:
        losses = np.round(losses, 1)  # ties
    delta = delta_from_rate(float(rng.uniform(0.02, 0.85)), name)
    kappa = 0.0 if rng.random() < 0.5 else float(10 ** rng.uniform(-2, 0.5))
    mass = None if rng.random() < 0.6 else rng.integers(1, 5, size).astype(float)
    return losses, delta, kappa, mass


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("block", range(4))
def test_value_and_distribution_are_those_of_the_primal(name: str, block: int) -> None:
    for seed in range(block * PROBLEMS // 4, (block + 1) * PROBLEMS // 4):
        losses, delta, kappa, mass = draw(seed, name)
        weight = None if mass is None else torch.tensor(mass)
        solved = relax(torch.tensor(losses), delta, kappa=kappa, divergence=name, base_weight=weight)
        optimum, q = primal(losses, delta, kappa, name, mass)
        assert float(solved.value) == pytest.approx(optimum, rel=2e-5, abs=2e-6), (name, seed)
        mine = solved.weights.numpy() / losses.size
        p = np.full(losses.size, 1 / losses.size) if mass is None else mass / mass.sum()
        assert divergence_value(name, mine, p) <= delta * (1 + 1e-6) + 1e-12
        assert float(solved.value) == pytest.approx(mine @ losses + kappa * divergence_value(name, mine, p), abs=1e-9)
        if kappa > 0:  # the optimum is unique
            assert mine == pytest.approx(q, abs=2e-3), (name, seed)
