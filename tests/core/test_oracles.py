"""Values that were computed independently, to 1e-6."""

import math

import pytest
import torch

from antidote_learn import Status, dual_objective, relax, relax_penalized

LOSSES = torch.tensor([0.05, 0.1, 0.3, 0.7, 1.5, 2.5, 4.0, 6.0], dtype=torch.float64)
CLOSE = {"abs": 1e-6, "rel": 0}

KL = [
    # delta, kappa, t, value, status
    (0.27, 0.05, 1.76524206, 0.65733515, Status.BUDGET),
    (1.0, 0.05, 0.20605955, 0.16707553, Status.BUDGET),
    (0.27, 3.0, 3.0, 1.35797923, Status.FLOOR),
    (0.27, 0.0, 1.76524206, 0.64383515, Status.BUDGET),
    (1.7, 0.0, 0.02582580, 0.05631744, Status.BUDGET),
    (2.0795, 0.0, 0.0, 0.05, Status.LIMIT),
]
KL_WEIGHTS = {
    (0.27, 0.05): [0.229228, 0.222826, 0.198958, 0.158618, 0.100816, 0.057214, 0.024461, 0.007878],
    (1.0, 0.05): [0.470516, 0.369142, 0.139852, 0.020074, 0.000414, 3e-6, 0, 0],
    (0.27, 0.0): [0.229228, 0.222826, 0.198958, 0.158618, 0.100816, 0.057214, 0.024461, 0.007878],
    (1.7, 0.0): [0.87387, 0.126076, 5.5e-5, 0, 0, 0, 0, 0],
    (2.0795, 0.0): [1, 0, 0, 0, 0, 0, 0, 0],
}
PENALISED = [
    # kappa, C, lam, delta, r, value
    (0.05, 1.0, 0.95065737, 0.45903699, 0.36810813, 0.62830912),
    (3.0, 1.2, 0.28575971, 0.11878699, 0.11200307, 1.37729952),
    (0.05, 0.05, 0.12604298, 1.05409190, 0.65149123, 0.22036186),
]
CHI2 = [
    # delta, kappa, t, rho, value, achieved
    (0.2, 0.05, 2.52659466, -4.19467961, 0.66744709, 0.2),
    (0.5, 0.05, 0.67035438, -1.60256701, 0.28685825, 0.5),
    (0.5, 2.0, 2.0, -3.525, 1.04566406, 0.23966797),
]
CHI2_WEIGHTS = {
    0.2: [1.640421, 1.620632, 1.541474, 1.383158, 1.066526, 0.670737, 0.077052, 0],
    0.5: [2.316039, 2.241452, 1.943102, 1.346403, 0.153004, 0, 0, 0],
}


@pytest.mark.parametrize(("delta", "kappa", "t", "value", "status"), KL)
def test_kl(delta: float, kappa: float, t: float, value: float, status: Status) -> None:
    solved = relax(LOSSES, delta, kappa=kappa)
    assert solved.status is status
    assert float(solved.lam) + kappa == pytest.approx(t, **CLOSE)
    assert float(solved.value) == pytest.approx(value, **CLOSE)
    if (delta, kappa) in KL_WEIGHTS:
        assert (solved.weights / 8).tolist() == pytest.approx(KL_WEIGHTS[delta, kappa], **CLOSE)
    if status is Status.FLOOR:
        assert float(solved.achieved) == pytest.approx(0.13591060, **CLOSE)


@pytest.mark.parametrize(("kappa", "penalty", "lam", "delta", "rate", "value"), PENALISED)
def test_penalised_kl(kappa: float, penalty: float, lam: float, delta: float, rate: float, value: float) -> None:
    solved = relax_penalized(LOSSES, penalty, kappa=kappa)
    found = [float(solved.lam), float(solved.delta), float(solved.r_max), float(solved.value)]
    assert found == pytest.approx([lam, delta, rate, value], **CLOSE)
    assert float(solved.achieved) == pytest.approx(math.asinh(lam / (2 * penalty)), **CLOSE)


@pytest.mark.parametrize(("delta", "kappa", "t", "rho", "value", "achieved"), CHI2)
def test_chi2(delta: float, kappa: float, t: float, rho: float, value: float, achieved: float) -> None:
    solved = relax(LOSSES, delta, kappa=kappa, divergence="chi2")
    assert solved.rho is not None
    found = [float(solved.lam) + kappa, float(solved.rho), float(solved.value), float(solved.achieved)]
    assert found == pytest.approx([t, rho, value, achieved], **CLOSE)
    if kappa == 0.05:
        assert solved.weights.tolist() == pytest.approx(CHI2_WEIGHTS[delta], **CLOSE)
    dual = dual_objective(LOSSES, solved.lam, solved.rho, delta=delta, kappa=kappa, divergence="chi2")
    assert float(dual) == pytest.approx(value, **CLOSE)
