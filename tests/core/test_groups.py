"""`relax` with groups that keep their mass: against CVXPY and SciPy, and the laws that hold for every problem."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings

from antidote_learn import KL, Status, relax
from antidote_learn.core.envelope import attach
from antidote_learn.core.solve import weigh
from antidote_learn.core.solve_torch import solve_on_device
from tests.references import central_difference, divergence_value, grouped_kl, grouped_temperature, primal

fast = settings(max_examples=80, deadline=None)
values = st.floats(0, 20, allow_subnormal=False, width=32)
rows = st.lists(st.tuples(values, st.integers(-2, 3)), min_size=2, max_size=24)
deltas = st.floats(0.01, 2.3)
kappas = st.one_of(st.just(0.0), st.floats(0.01, 3.0))
generator = torch.Generator().manual_seed(0)


def tensor(numbers: object) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def solve(rows: list[tuple[float, int]], delta: float, kappa: float):
    losses, groups = zip(*rows, strict=True)
    return relax(tensor(losses), delta, kappa=kappa, groups=torch.tensor(groups))


def by_group(values, groups):
    return {g: [v for v, h in zip(values, groups, strict=True) if g == h] for g in set(groups)}


# ---- other people's answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_value_and_distribution_are_those_of_the_primal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 13))
    losses = rng.exponential(size=size) * 10 ** rng.uniform(-1, 0.7)
    if rng.random() < 0.2:
        losses = np.round(losses, 1)
    groups = rng.integers(0, 4, size)
    delta, kappa = float(10 ** rng.uniform(-2, 0.3)), 0.0 if rng.random() < 0.5 else float(10 ** rng.uniform(-2, 0.5))
    mass = None if rng.random() < 0.5 else rng.integers(1, 5, size).astype(float)
    weight = None if mass is None else torch.tensor(mass)
    solved = relax(torch.tensor(losses), delta, kappa=kappa, base_weight=weight, groups=torch.tensor(groups))
    optimum, q = primal(losses, delta, kappa, "kl", mass, groups)
    p = np.full(size, 1 / size) if mass is None else mass / mass.sum()
    mine = solved.weights.numpy() / size
    assert float(solved.value) == pytest.approx(optimum, rel=2e-5, abs=2e-6)
    assert divergence_value("kl", mine, p) == pytest.approx(float(solved.achieved), rel=1e-6, abs=1e-12)
    assert float(solved.achieved) <= delta * (1 + 1e-6)
    assert float(solved.value) == pytest.approx(mine @ losses + kappa * float(solved.achieved), abs=1e-9)
    if kappa > 0:  # the optimum is unique
        assert mine == pytest.approx(q, abs=2e-3)


@given(rows, deltas, kappas)
@fast
def test_weights_are_softmaxes_of_one_temperature(rows: list[tuple[float, int]], delta: float, kappa: float) -> None:
    losses, groups = (np.array(column) for column in zip(*rows, strict=True))
    ones = np.ones(len(rows))
    assume(all(np.diff(np.unique(losses[groups == g])).min(initial=1.0) > 1e-3 for g in groups))
    assume(grouped_kl(losses, ones, groups, 1e-4)[1] > delta * 1.01)  # t is above 1e-4
    t = max(kappa, grouped_temperature(losses, ones, groups, delta))
    solved = solve(rows, delta, kappa)
    assert float(solved.lam) + kappa == pytest.approx(t, rel=1e-6)
    assert solved.weights.numpy() == pytest.approx(grouped_kl(losses, ones, groups, t)[0], rel=1e-5, abs=1e-6)
    assert solved.status is (Status.BUDGET if t > kappa else Status.FLOOR)


# ---- laws ------------------------------------------------------------------------------------------------------------


@given(rows, deltas, kappas)
@fast
def test_every_group_keeps_its_mass_inside_the_ball(rows: list[tuple[float, int]], delta: float, kappa: float) -> None:
    losses, groups = zip(*rows, strict=True)
    solved = solve(rows, delta, kappa)
    assert (solved.weights >= 0).all()
    for weights in by_group(solved.weights.tolist(), groups).values():
        assert np.mean(weights) == pytest.approx(1, abs=1e-9)
    assert float(solved.achieved) <= delta * (1 + 1e-6)
    assert float(solved.residual) <= 1e-6
    assert float(solved.lam * (solved.achieved - delta)) == pytest.approx(0, abs=2e-5 * delta)
    whole = (solved.weights * tensor(losses)).mean() + kappa * solved.achieved
    assert float(solved.value) == pytest.approx(float(whole), rel=1e-12, abs=1e-12)
    smallest = sum(len(own) * min(own) for own in by_group(losses, groups).values()) / len(rows)
    assert smallest - 1e-9 <= float(solved.value) <= np.mean(losses) + 1e-9
    assert solved.rho is None
    assert float(solved.ess) == pytest.approx(len(rows) ** 2 / float((solved.weights**2).sum()))


@given(rows, deltas, kappas)
@fast
def test_a_smaller_loss_never_weighs_less_within_its_group(
    rows: list[tuple[float, int]], delta: float, kappa: float
) -> None:
    weights = solve(rows, delta, kappa).weights.tolist()
    pairs = list(zip((x for x, _ in rows), weights, strict=True))
    for own in by_group(pairs, [g for _, g in rows]).values():
        assert all(a >= b - 1e-9 for (x, a) in own for (y, b) in own if x <= y)


@given(rows, deltas, kappas, st.lists(st.integers(-64, 64), min_size=6, max_size=6))
@fast
def test_a_constant_for_each_group_shifts_the_value_and_nothing_else(
    rows: list[tuple[float, int]], delta: float, kappa: float, shifts: list[int]
) -> None:
    rows = [(round(x * 1024) / 1024, g) for x, g in rows]  # so that L + c is exact
    plain, moved = solve(rows, delta, kappa), solve([(x + shifts[g + 2], g) for x, g in rows], delta, kappa)
    shift = np.mean([shifts[g + 2] for _, g in rows])
    assert float(moved.value) == pytest.approx(float(plain.value) + shift, abs=1e-8)
    assert torch.allclose(plain.weights, moved.weights, atol=1e-7)
    assert float(moved.achieved) == pytest.approx(float(plain.achieved), abs=1e-9)


@given(rows, deltas, kappas, st.randoms(use_true_random=False))
@fast
def test_permutations_names_of_groups_and_duplicated_batches(
    rows: list[tuple[float, int]], delta: float, kappa: float, rng
) -> None:
    order, names = list(range(len(rows))), [-(10**12), 10**15, 7, 0, 5, -1]
    rng.shuffle(order)
    rng.shuffle(names)
    plain, shuffled = (
        solve(rows, delta, kappa),
        solve([(rows[i][0], names[rows[i][1] + 2]) for i in order], delta, kappa),
    )
    assert torch.allclose(plain.weights[order], shuffled.weights, atol=1e-6)
    twice = solve(rows * 2, delta, kappa)
    assert float(twice.value) == pytest.approx(float(plain.value), abs=1e-8)
    assert torch.allclose(torch.cat([plain.weights, plain.weights]), twice.weights, atol=1e-6)


@given(rows, deltas, deltas, kappas, kappas)
@fast
def test_the_value_falls_with_delta_rises_with_kappa_and_with_every_group(
    rows: list[tuple[float, int]], d1: float, d2: float, k1: float, k2: float
) -> None:
    small, large = sorted((d1, d2))
    assert float(solve(rows, large, k1).value) <= float(solve(rows, small, k1).value) + 1e-9
    weak, strong = sorted((k1, k2))
    assert float(solve(rows, d1, weak).value) <= float(solve(rows, d1, strong).value) + 1e-9
    free = relax(tensor([x for x, _ in rows]), d1, kappa=k1)
    assert float(free.value) <= float(solve(rows, d1, k1).value) + 1e-9


@given(st.lists(st.tuples(values, st.integers(0, 2)), min_size=3, max_size=8, unique=True), deltas, st.floats(0.05, 2))
@settings(max_examples=30, deadline=None)
def test_the_gradient_is_the_weights_over_the_size(rows: list[tuple[float, int]], delta: float, kappa: float) -> None:
    losses, groups = zip(*rows, strict=True)
    leaf, labels = tensor(losses).requires_grad_(), torch.tensor(groups)
    solved = relax(leaf, delta, kappa=kappa, groups=labels)
    solved.value.backward()
    assert leaf.grad is not None
    assert torch.allclose(leaf.grad, solved.weights / len(losses), atol=1e-12)
    numeric = central_difference(
        lambda x: float(relax(tensor(x), delta, kappa=kappa, groups=labels).value), np.array(losses, dtype=float)
    )
    assert leaf.grad.numpy() == pytest.approx(numeric, abs=1e-5)


@given(st.lists(st.tuples(values, st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=12), deltas, kappas)
@fast
def test_an_integer_weight_is_repetition_and_zero_is_removal(
    rows: list[tuple[float, int, int]], delta: float, kappa: float
) -> None:
    losses, groups, counts = zip(*rows, strict=True)
    assume(sum(counts) > 0)
    weighted = relax(tensor(losses), delta, kappa=kappa, base_weight=tensor(counts), groups=torch.tensor(groups))
    repeated = solve([(x, g) for x, g, n in rows for _ in range(n)], delta, kappa)
    for field in ("value", "lam", "achieved", "ess", "forgotten", "threshold"):
        assert float(getattr(weighted, field)) == pytest.approx(float(getattr(repeated, field)), rel=1e-5, abs=1e-7)
    rows_of = [i for i, n in enumerate(counts) for _ in range(n)]
    share = weighted.weights / len(losses)
    each = torch.stack([share[i] / counts[i] for i in rows_of])
    assert torch.allclose(each, repeated.weights / len(rows_of), atol=1e-6)
    assert all(float(share[i]) == 0 for i, n in enumerate(counts) if n == 0)


@example([0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 12.0], 2.25, 0.0, 0)  # a search may end 1e-8 off
@given(st.lists(values, min_size=1, max_size=24), deltas, kappas, st.integers(-5, 5))
@fast
def test_one_group_is_the_plain_form_to_the_last_digit(
    losses: list[float], delta: float, kappa: float, name: int
) -> None:
    plain, grouped = relax(tensor(losses), delta, kappa=kappa), solve([(x, name) for x in losses], delta, kappa)
    assert torch.equal(plain.value, grouped.value)
    assert torch.equal(plain.weights, grouped.weights)
    assert plain.raw["lam"] == grouped.raw["lam"]
    assert plain.status is grouped.status
    beside = relax(  # a group that is absent
        tensor([*losses, 3.0]),
        delta,
        kappa=kappa,
        base_weight=tensor([1.0] * len(losses) + [0.0]),
        groups=torch.tensor([name] * len(losses) + [name + 1]),
    )
    assert float(beside.value) == pytest.approx(float(plain.value), rel=1e-9, abs=1e-9)
    assert float(beside.weights[-1]) == 0


@given(rows, deltas, kappas)
@fast
def test_float32_is_close_to_float64(rows: list[tuple[float, int]], delta: float, kappa: float) -> None:
    losses, groups = zip(*rows, strict=True)
    single = relax(torch.tensor(losses), delta, kappa=kappa, groups=torch.tensor(groups, dtype=torch.int32))
    double = solve(rows, delta, kappa)
    assert single.value.dtype == single.weights.dtype == single.lam.dtype == torch.float32
    assert float(single.value) == pytest.approx(float(double.value), rel=1e-5, abs=1e-6)
    assert torch.allclose(single.weights.double(), double.weights, rtol=1e-6, atol=1e-7)


# ---- limits ----------------------------------------------------------------------------------------------------------

LOSSES = [0.5, 0.5, 1.0, 2.0, 7.0, 6.0, 6.0, 6.0, 9.0, 3.0]
GROUPS = [0, 0, 0, 0, 1, 1, 1, 1, 1, 2]


def test_kappa_zero_beyond_the_maximum_is_uniform_over_the_ties_of_each_group() -> None:
    most = 0.4 * math.log(2) + 0.5 * math.log(5 / 3)
    for delta in (most, 1.1 * most, 5.0):
        leaf = tensor(LOSSES).requires_grad_()
        solved = relax(leaf, delta, groups=torch.tensor(GROUPS))
        solved.value.backward()
        assert solved.status is Status.LIMIT
        assert solved.weights.tolist() == pytest.approx([2, 2, 0, 0, 0, 5 / 3, 5 / 3, 5 / 3, 0, 1])
        assert float(solved.value.detach()) == pytest.approx(0.4 * 0.5 + 0.5 * 6 + 0.1 * 3)
        assert float(solved.achieved) == pytest.approx(most)
        assert float(solved.threshold) == 6
        assert float(solved.lam) == 0
        assert leaf.grad is not None
        assert torch.allclose(leaf.grad, solved.weights / 10)
    below = relax(tensor(LOSSES), 0.99 * most, groups=torch.tensor(GROUPS))
    assert below.status is Status.BUDGET
    assert float(below.residual) <= 1e-6
    assert float(below.threshold) == math.inf


def test_no_budget_is_the_plain_mean() -> None:
    plain = relax(tensor(LOSSES), 0.0, kappa=0.3, groups=torch.tensor(GROUPS))
    assert plain.status is Status.PLAIN
    assert float(plain.value) == pytest.approx(np.mean(LOSSES))
    assert plain.weights.tolist() == [1] * 10
    assert float(plain.lam) == math.inf


@pytest.mark.parametrize("kappa", [0.0, 0.05])
def test_groups_of_one_and_groups_of_equal_losses_cannot_be_weighed(kappa: float) -> None:
    for losses, groups in (([3.0, 1.0, 2.0], [0, 1, 2]), ([3.0, 3.0, 1.0, 1.0], [5, 5, -4, -4])):
        solved = relax(tensor(losses), 0.5, kappa=kappa, groups=torch.tensor(groups))
        assert solved.weights.tolist() == pytest.approx([1.0] * len(losses))
        assert float(solved.value) == pytest.approx(np.mean(losses))
        assert float(solved.achieved) == 0
        assert float(solved.lam) == 0


def test_infinite_losses_are_forgotten_within_their_group_if_the_budget_allows() -> None:
    losses = tensor([0.1, math.inf, 0.4, 2.0, 1.0, 0.3, math.inf, 0.2, 0.5, 0.9])
    groups = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    finite, cost = torch.isfinite(losses), 0.4 * math.log(4 / 3) + 0.3 * math.log(3 / 2)
    for kappa in (0.0, 0.05):
        for delta in (1.001 * cost, 2 * cost):
            leaf = losses.clone().requires_grad_()
            solved = relax(leaf, delta, kappa=kappa, groups=groups)
            solved.value.backward()
            assert solved.status is Status.BUDGET
            assert float(solved.residual) <= 1e-6
            assert (solved.weights[~finite] == 0).all()
            for g in range(3):
                assert float(solved.weights[groups == g].mean()) == pytest.approx(1)
            assert leaf.grad is not None
            assert torch.allclose(leaf.grad, solved.weights / 10)
            huge = relax(losses.clamp(max=1e7), delta, kappa=kappa, groups=groups)
            assert torch.allclose(huge.weights, solved.weights, atol=1e-5)
            assert float(huge.value) == pytest.approx(float(solved.value.detach()), abs=1e-5)
    assert relax(losses, cost, groups=groups).status is not Status.INFINITE
    beyond = relax(losses, 0.999 * cost, groups=groups)
    assert beyond.status is Status.INFINITE
    assert float(beyond.value) == math.inf
    lost = relax(losses, 5.0, groups=torch.tensor([0, 1, 0, 0, 0, 0, 0, 0, 0, 0]))  # nobody can take its place
    assert lost.status is Status.INFINITE


def test_a_row_without_weight_may_hold_anything() -> None:
    losses, weight = tensor([*LOSSES, math.nan, math.inf]), tensor([1.0] * 10 + [0.0, 0.0])
    with_rows = relax(losses, 0.2, base_weight=weight, groups=torch.tensor([*GROUPS, 0, 9]))
    without = relax(tensor(LOSSES), 0.2, groups=torch.tensor(GROUPS))
    assert float(with_rows.value) == pytest.approx(float(without.value))
    assert with_rows.weights[:10] == pytest.approx(without.weights * 1.2)


def test_nothing_to_weigh() -> None:
    solved = relax(torch.empty(0), 0.3, groups=torch.empty(0, dtype=torch.long))
    assert solved.status is Status.EMPTY
    assert float(solved.value) == 0


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.3, 1.0])
def test_the_budget_is_met_at_every_scale(scale: float, delta: float) -> None:
    rng = np.random.default_rng(0)
    for size, groups in ((30, 3), (400, 7), (9000, 100), (9000, 3000)):
        losses = torch.tensor(rng.exponential(size=size) * scale)
        solved = relax(losses, delta, groups=torch.tensor(rng.integers(0, groups, size)))
        assert solved.status is Status.BUDGET or delta > 0.5
        assert float(solved.residual) <= 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": torch.zeros(2, dtype=torch.long)}, r"groups must be .* shape \(3,\), got shape \(2,\)"),
        ({"groups": [0, 1, 1]}, r"groups must be a tensor .* got list"),
        ({"groups": torch.zeros(3)}, r"whole numbers.*got torch.float32: use groups.long\(\)"),
        ({"groups": torch.zeros(3, dtype=torch.bool)}, r"whole numbers.*got torch.bool"),
        ({"groups": torch.zeros(3, dtype=torch.long), "divergence": "chi2"}, r"'kl' only, got 'chi2'"),
    ],
)
def test_bad_groups_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        relax(tensor([0.1, 0.2, 0.3]), 0.2, **arguments)


def test_nan_is_an_error_that_counts() -> None:
    with pytest.raises(ValueError, match="got 1 NaN and 1 -inf among 3"):
        relax(tensor([0.1, math.nan, -math.inf]), 0.2, groups=torch.tensor([0, 1, 1]))


# ---- large samples, warm starts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("size", "groups"), [(20_000, 10), (150_001, 1000), (1_000_000, 100), (100_000, 100_000)])
def test_weights_of_a_large_sample_are_softmaxes_with_the_divergence_that_is_reported(
    size: int, groups: int, weighted: bool
) -> None:
    rng = np.random.default_rng(size)
    labels, losses = rng.integers(0, groups, size), rng.exponential(size=size) + rng.integers(0, 2, size)
    losses += labels % 7
    mass = rng.integers(0, 4, size).astype(float) if weighted else np.ones(size)
    weight = torch.tensor(mass) if weighted else None
    solved = relax(torch.tensor(losses), 0.2, kappa=0.01, base_weight=weight, groups=torch.tensor(labels))
    assert solved.status is Status.BUDGET
    t = float(solved.lam) + 0.01
    p = mass / mass.sum()
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    low = np.minimum.reduceat(np.where(mass > 0, losses, np.inf)[order], starts)
    of = np.cumsum(np.isin(np.arange(size), starts))[np.argsort(order)] - 1
    tilted = np.exp(-np.where(mass > 0, losses - low[of], 0.0) / t) * p
    share, z = np.add.reduceat(p[order], starts), np.add.reduceat(tilted[order], starts)
    q = tilted * (share / np.where(z > 0, z, 1.0))[of]
    assert float(np.sum(q * np.log(np.where(q > 0, q / np.where(p > 0, p, 1), 1)))) == pytest.approx(0.2, rel=1e-7)
    np.testing.assert_allclose(solved.weights.numpy(), q * size, rtol=1e-6, atol=1e-9)
    assert float(solved.value) == pytest.approx(q @ losses + 0.01 * 0.2, rel=1e-9)


@pytest.mark.parametrize("factor", [1e-3, 0.5, 0.999, 1.0, 1.001, 2.0, 1e3])
@pytest.mark.parametrize("kappa", [0.0, 0.05, 50.0])
def test_wherever_it_starts_the_solution_is_the_same(factor: float, kappa: float) -> None:
    losses = torch.rand(9000, generator=generator, dtype=torch.float64) * 3
    groups = torch.randint(4, (9000,), generator=generator)
    for labels in (groups, None):
        cold = weigh(losses, KL, kappa, delta=0.3, groups=labels)
        warm = weigh(losses, KL, kappa, delta=0.3, groups=labels, warm=(cold.raw["lam"] + kappa) * factor)
        assert warm.status is cold.status
        assert warm.raw["lam"] == pytest.approx(cold.raw["lam"], rel=1e-6)
        assert torch.allclose(warm.weights, cold.weights, rtol=1e-6, atol=1e-9)


# ---- the path of a device --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_device_agrees_with_host(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, scale = int(rng.integers(1, 60)), 10.0 ** rng.uniform(-4, 3)
    losses = torch.tensor(scale * rng.choice([rng.exponential(size=size), rng.integers(0, 3, size).astype(float)]))
    if seed % 4 == 3:
        losses[int(rng.integers(size))] = math.inf
    groups = torch.tensor(rng.integers(-2, int(rng.integers(0, 6)), size))
    measure = torch.tensor(rng.integers(0, 4, size).astype(float) + (rng.integers(size) == np.arange(size)))
    measure = measure if seed % 2 else None
    kappa, delta = float(rng.choice([0.0, 0.05])) * scale, float(rng.choice([0.0, 1e-3, 0.2, 0.6, 5.0]))
    host = relax(losses, delta, kappa=kappa, base_weight=measure, groups=groups)
    device = attach(losses, solve_on_device(losses, KL, kappa, delta, None, measure, groups))
    assert int(device.status) == int(host.status)
    torch.testing.assert_close(device.value, host.value, rtol=1e-7, atol=1e-7 * scale)
    torch.testing.assert_close(device.weights, host.weights, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(device.achieved, host.achieved, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(device.lam, host.lam, rtol=1e-4, atol=1e-6 * scale)
    torch.testing.assert_close(device.threshold, host.threshold)


def test_compiled_equals_eager() -> None:
    def value(losses: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        return relax(losses, 0.3, kappa=0.05, groups=groups).value

    torch.compiler.reset()
    compiled = torch.compile(value, fullgraph=True, backend="eager")
    for _ in range(3):
        losses = torch.rand(20, generator=generator, requires_grad=True)
        groups = torch.randint(3, (20,), generator=generator)
        ours, theirs = compiled(losses, groups), value(losses, groups)
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
        gradients = [torch.autograd.grad(found, losses)[0] for found in (ours, theirs)]
        torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)


def test_shapes_go_through_without_values() -> None:
    with torch.device("meta"):
        losses = torch.empty(7, requires_grad=True)
        solved = relax(losses, 0.2, kappa=0.05, groups=torch.empty(7, dtype=torch.long))
    assert solved.value.shape == ()
    assert solved.weights.shape == (7,)


@pytest.mark.parametrize("warm", [1e-6, 0.01, 1.0, 1e3, 1e8])
def test_a_start_that_is_far_off_leads_to_the_same_temperature(warm):
    losses, groups = torch.tensor([0.1, 0.2, 5.0, 5.0, 0.3, 4.0]).double(), torch.tensor([0, 1, 1, 1, 0, 0])
    plain = weigh(losses, KL, 0.05, delta=0.28, groups=groups)
    started = weigh(losses, KL, 0.05, delta=0.28, groups=groups, warm=warm)
    assert started.raw["lam"] == pytest.approx(plain.raw["lam"], rel=1e-7)
