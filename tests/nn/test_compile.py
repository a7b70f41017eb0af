"""Compiled and on a device: no host read, and the numbers of the eager host path.

The path of a device runs on CPU tensors too, so that it is compared with the host's without an accelerator.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from antidote_learn import AntidoteLoss, Status, relax, relax_penalized
from antidote_learn.core.divergences import divergence_of
from antidote_learn.core.envelope import attach
from antidote_learn.core.solve_numpy import solve_on_host
from antidote_learn.core.solve_torch import solve_on_device

DIVERGENCES = ["kl", "chi2", "alpha:1.5", "js", "hellinger"]
N, C = 16, 4


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# ---- torch.compile ---------------------------------------------------------------------------------------------------


def make_batches():
    """Batches of one shape: random, with ties, with ignored elements, with a sample that fits far worse."""
    for seed, kind in enumerate(("random", "ties", "ignored", "outliers")):
        logits = 2.0 * torch.randn(N, C, generator=generator(seed))
        labels = torch.randint(0, C, (N,), generator=generator(seed + 10))
        if kind == "ties":
            logits[8:], labels[8:] = logits[:8], labels[:8]
            logits[1:4], labels[1:4] = logits[0], labels[0]
        if kind == "ignored":
            labels[::3] = -100
        if kind == "outliers":
            logits[2, labels[2]] = -40.0
        yield kind, logits, labels


def run(function, loss, logits, labels):
    """(value, gradient, weights, status) of one call."""
    logits = logits.clone().requires_grad_()
    value = function(logits, labels)
    value.backward()
    return value.detach(), logits.grad, loss.last.weights, int(loss.last.status)


def compiled(backend, **arguments):
    loss = AntidoteLoss(**arguments)
    torch.compiler.reset()
    return torch.compile(loss, fullgraph=True, backend=backend), loss


def assert_equals_eager(function, loss, **arguments):
    for kind, logits, labels in make_batches():
        eager = AntidoteLoss(**arguments)
        ours, theirs = run(function, loss, logits, labels), run(eager, eager, logits, labels)
        for name, a, b in zip(("value", "gradient", "weights"), ours[:3], theirs[:3], strict=True):
            message = lambda text, where=f"{kind}, {name}": f"{where}: {text}"  # noqa: E731
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, msg=message)
        assert math.isclose(float(ours[0]), float(theirs[0]), rel_tol=1e-6), kind
        assert ours[3] == theirs[3], kind


def assert_nan_goes_through(function, loss):
    logits, labels = torch.randn(N, C, generator=generator()), torch.zeros(N, dtype=torch.long)
    logits[3] = math.nan
    value, *_, status = run(function, loss, logits, labels)
    assert value.isnan()
    assert status == Status.NAN


def assert_nothing_to_weigh_is_zero(function, loss):
    logits = torch.randn(N, C, generator=generator())
    value, gradient, weights, status = run(function, loss, logits, torch.full((N,), -100))
    assert value == 0
    assert (gradient == 0).all()
    assert (weights == 0).all()
    assert status == Status.EMPTY


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_compiled_as_one_graph_equals_eager(divergence):
    arguments = {"delta": 0.2, "divergence": divergence}
    function, loss = compiled("aot_eager", **arguments)
    assert_equals_eager(function, loss, **arguments)
    assert_nan_goes_through(function, loss)
    assert_nothing_to_weigh_is_zero(function, loss)


def test_compiled_penalty_equals_eager():
    function, loss = compiled("aot_eager", penalty=0.5)
    assert_equals_eager(function, loss, penalty=0.5)


def test_compiled_by_inductor_equals_eager():
    function, loss = compiled("inductor", delta=0.2, kappa=0.05)
    assert_equals_eager(function, loss, delta=0.2, kappa=0.05)


# ---- the path of a device against the host's -------------------------------------------------------------------------


def random_losses(rng):
    size = int(rng.integers(1, 40))
    scale = 10.0 ** rng.uniform(-4, 3)
    losses = {
        "exponential": lambda: rng.exponential(size=size),
        "uniform": lambda: rng.random(size),
        "two levels": lambda: rng.integers(0, 2, size).astype(float),
        "heavy tail": lambda: np.exp(2.0 * rng.normal(size=size)),
    }[rng.choice(["exponential", "uniform", "two levels", "heavy tail"])]()
    return torch.from_numpy(scale * losses), scale


def random_measure(rng, size):
    measure = torch.from_numpy(rng.integers(0, 4, size).astype(float))
    measure[int(rng.integers(size))] = 1.0
    return measure


def assert_paths_agree(losses, f, kappa, *, delta=None, penalty=None, measure=None):
    """Value, gradient, weights, multipliers and status of both paths."""
    results = []
    for path in (solve_on_host, solve_on_device):
        leaf = losses.clone().requires_grad_()
        solution = attach(leaf, path(leaf.detach(), f, kappa, delta, penalty, measure))
        solution.value.backward()
        results.append((solution, leaf.grad))
    (host, host_gradient), (device, device_gradient) = results
    assert int(device.status) == int(host.status)
    finite = losses[losses.isfinite()]
    scale = float(finite.max() - finite.min()) if finite.numel() else 1.0
    torch.testing.assert_close(device.value, host.value, rtol=1e-7, atol=1e-7 * scale)
    torch.testing.assert_close(device.weights, host.weights, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(device_gradient, host_gradient, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(device.achieved, host.achieved, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(device.lam, host.lam, rtol=1e-4, atol=1e-6 * max(scale, 1e-30))
    return device


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host(name, seed):
    f = divergence_of(name)
    rng = np.random.default_rng([seed, len(name)])
    losses, scale = random_losses(rng)
    measure = random_measure(rng, losses.numel()) if seed % 2 else None
    kappa = float(rng.choice([0.0, 0.05, 1.0])) * scale
    assert_paths_agree(losses, f, kappa, delta=float(rng.choice([1e-3, 0.05, 0.2, 0.6])), measure=measure)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_on_the_penalty(name, seed):
    rng = np.random.default_rng([seed, len(name)])
    losses, scale = random_losses(rng)
    measure = random_measure(rng, losses.numel()) if seed % 2 else None
    penalty = scale * float(rng.choice([0.1, 1.0, 5.0]))
    assert_paths_agree(losses, divergence_of(name), 0.05 * scale, penalty=penalty, measure=measure)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_on_infinite_losses(name, weighted):
    f = divergence_of(name)
    losses = torch.tensor([0.1, math.inf, 0.7, 2.0, 0.4, 1.0, 3.0, 0.2], dtype=torch.float64)
    measure = torch.tensor([1.0, 1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 1.0], dtype=torch.float64) if weighted else None
    for kappa, delta in itertools.product((0.0, 0.05), (0.02, 0.25)):
        device = assert_paths_agree(losses, f, kappa, delta=delta, measure=measure)
        assert (int(device.status) == Status.INFINITE) == (delta == 0.02)
        assert bool(device.value.isinf()) == (delta == 0.02)
        assert (float(device.weights[1]) == 0.0) == (delta == 0.25)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_on_infinite_losses_under_a_penalty(name):
    losses = torch.tensor([0.1, math.inf, 0.7, 2.0, 0.4, 1.0, 3.0, 0.2], dtype=torch.float64)
    device = assert_paths_agree(losses, divergence_of(name), 0.05, penalty=1.0)
    assert device.weights[1] == 0


@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_where_all_losses_are_infinite(name):
    f, losses = divergence_of(name), torch.full((3,), math.inf, dtype=torch.float64)
    for budget in ({"delta": 0.2}, {"delta": 0.0}, {"penalty": 1.0}):
        device = assert_paths_agree(losses, f, 0.05, **budget)
        assert int(device.status) == Status.INFINITE
        assert device.value == math.inf


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("budget", [{"delta": 0.2}, {"delta": 0.0}, {"penalty": 1.0}], ids=str)
def test_nan_goes_through_the_device_path(budget, name):
    losses = torch.tensor([0.1, math.nan, 0.7, 2.0], dtype=torch.float64)
    arguments = {"delta": None, "penalty": None} | budget
    f = divergence_of(name)
    solution = attach(losses, solve_on_device(losses, f, 0.05, arguments["delta"], arguments["penalty"], None))
    assert int(solution.status) == Status.NAN
    assert solution.value.isnan()
    absent = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    assert_paths_agree(losses, f, 0.05, **budget, measure=absent)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_without_budget(name, weighted):
    losses = torch.tensor([0.1, 0.7, 2.0, 0.4], dtype=torch.float64)
    measure = torch.tensor([1.0, 0.0, 2.0, 1.0], dtype=torch.float64) if weighted else None
    for kappa in (0.0, 0.05):
        device = assert_paths_agree(losses, divergence_of(name), kappa, delta=0.0, measure=measure)
        assert int(device.status) == Status.PLAIN


@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_in_the_limit_of_a_large_budget(name):
    f = divergence_of(name)
    losses = torch.tensor([0.7, 0.1, 2.0, 0.1, 0.4, 1.0], dtype=torch.float64)
    most = 0.99 * f.max_delta if math.isfinite(f.max_delta) else 50.0
    device = assert_paths_agree(losses, f, 0.0, delta=most)
    assert int(device.status) == Status.LIMIT
    torch.testing.assert_close(device.weights, torch.tensor([0.0, 3.0, 0.0, 3.0, 0.0, 0.0], dtype=torch.float64))
    measure = torch.tensor([1.0, 2.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    assert_paths_agree(losses, f, 0.0, delta=most, measure=measure)


@pytest.mark.parametrize("kappa", [0.0, 0.05])
@pytest.mark.parametrize("losses", [[0.3], [0.3] * 5, [0.0] * 4, [1e4] * 3], ids=str)
@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_on_constants(name, losses, kappa):
    assert_paths_agree(torch.tensor(losses, dtype=torch.float64), divergence_of(name), kappa, delta=0.2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", DIVERGENCES)
def test_device_agrees_with_host_in_every_precision(name, dtype):
    losses = torch.rand(20, generator=generator()).to(dtype)
    host = solve_on_host(losses, divergence_of(name), 0.05, 0.2, None, None)
    device = solve_on_device(losses, divergence_of(name), 0.05, 0.2, None, None)
    assert device.weights.dtype == host.weights.dtype == torch.float32
    torch.testing.assert_close(device.weights, host.weights, rtol=1e-5, atol=1e-6)
    assert abs(float(device.raw["achieved"]) - 0.2) <= 0.2e-6 or int(device.status) == Status.FLOOR


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("budget", [{"delta": 0.2}, {"delta": 0.0}, {"penalty": 1.0}], ids=str)
def test_nothing_to_weigh_is_zero_on_a_device(budget, name):
    losses = torch.tensor([0.1, 0.7, 2.0], dtype=torch.float64, requires_grad=True)
    arguments = {"delta": None, "penalty": None} | budget
    nothing = torch.zeros(3, dtype=torch.float64)
    weighing = solve_on_device(losses.detach(), divergence_of(name), 0.05, *arguments.values(), nothing)
    solution = attach(losses, weighing)
    solution.value.backward()
    assert solution.value == 0
    assert (losses.grad == 0).all()
    assert int(solution.status) == Status.EMPTY


# ---- shapes without values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("kind", ["fake", "meta"])
def test_shapes_go_through_without_values(kind, name):
    device = "cpu" if kind == "fake" else "meta"
    with FakeTensorMode(allow_fallback_kernels=False) if kind == "fake" else torch.device("meta"):
        losses = torch.empty(7, device=device, requires_grad=True)
        weight = torch.empty(7, device=device)
        solutions = [relax(losses, 0.2, kappa=0.05, divergence=name, base_weight=weight)]
        if name == "kl":
            solutions += [relax(losses, 0.2), relax(losses, 0.0), relax_penalized(losses, 1.0, kappa=0.05)]
        for solution in solutions:
            assert solution.value.shape == ()
            assert solution.value.requires_grad
            assert solution.weights.shape == (7,)
            assert solution.status.shape == ()
            (gradient,) = torch.autograd.grad(solution.value, losses)
            assert gradient.shape == (7,)


@pytest.mark.parametrize("keywords", [{}, {"weight": torch.ones(C)}, {"reduction": "none"}], ids=["", "weight", "none"])
@pytest.mark.parametrize("kind", ["fake", "meta"])
def test_the_loss_propagates_shapes_without_values(kind, keywords):
    with FakeTensorMode(allow_non_fake_inputs=True) if kind == "fake" else torch.device("meta"):
        logits, labels = torch.randn(5, C, 3, requires_grad=True), torch.zeros(5, 3, dtype=torch.long)
        loss = AntidoteLoss(0.2, **keywords)
        value = (loss if kind == "fake" else loss.to("meta"))(logits, labels)
        assert value.shape == ((5, 3) if "reduction" in keywords else ())
        value.sum().backward()
        assert logits.grad.shape == logits.shape
        assert loss.last.weights.shape == (15,)
