"""Every loss of the registry: published values, formulas written again, bounds, limits, gradients, precision."""

import inspect
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from antidote_learn import functional
from antidote_learn.core.losses import LOSSES
from antidote_learn.core.losses.grammar import loss_function, parse_loss

Z = torch.tensor([[2, 0.5, -1, 0], [0.1, 0.2, 0.3, -0.4], [-3, 1, 4, 0.5], [6, -2, 0, 1]], dtype=torch.float64)
Y = torch.tensor([0, 2, 1, 3])
# Computed from the formulas elsewhere, and equal to the means that the eps-softmax code gives for the same logits.
ORACLES = {
    "ce": (0.342350, 1.169429, 3.077791, 5.009507),
    "focal:gamma=0.5": (0.184329, 0.971018, 3.006072, 4.992762),
    "mae": (0.579800, 1.378912, 1.907878, 1.986652),
    "gce:q=0.7": (0.304418, 0.798502, 1.262905, 1.385718),
    "rce": (2.670078, 6.350123, 8.786104, 9.148869),
    "sce:alpha=0.1:beta=1": (2.704313, 6.467065, 9.093883, 9.649819),
    "nce": (0.043504, 0.205968, 0.222848, 0.263132),
    "nfl:gamma=0.5": (0.024963, 0.196194, 0.220554, 0.262722),
    "aul:a=6.3:q=1.5": (0.676445, 1.637798, 2.292172, 2.390824),
    "agce:a=6:q=1.5": (0.759007, 1.778446, 2.435838, 2.532528),
    "ael:a=5": (0.867604, 0.939781, 0.990830, 0.998666),
    "eps-ce:m=10": (0.026708, 0.064728, 5.475686, 7.407402),
    "eps-ce:m=1e5": (0.000003, 0.000007, 14.590726, 16.522442),
    "eps-focal:m=10:gamma=0.1": (0.018566, 0.049069, 5.473389, 7.406953),
    "logitclip:clip=0.5:mode=reference": (1.060151, 1.169429, 1.378596, 1.433574),
    "logitclip:clip=2.5:mode=reference": (0.296626, 0.730382, 1.832277, 2.200629),
    "logitclip:clip=0.5": (1.060151, 1.185919, 1.378596, 1.433574),
    "logitclip:clip=2.5": (0.342350, 1.169429, 1.832277, 2.200629),
    "ldr-kl:temperature=1:margin=0.1": (-0.786291, -0.087630, 0.748776, 1.217515),
    "ldr-kl:temperature=10:margin=0.1": (-0.976886, -0.098167, 0.293199, 0.498580),
    "nce+0.5*mae": (0.333404, 0.895424, 1.176787, 1.256457),
    "nce+rce": (2.713582, 6.556091, 9.008952, 9.412000),
    "0.5*eps-ce:m=10+mae": (0.593154, 1.411276, 4.645721, 5.690353),
    "ls:rate=-1": (-1.282650, 0.919429, 2.702791, 5.259507),
}
# Parameters other than the defaults, so that each one is seen to matter.
OTHERS = {
    "ls": "ls:rate=0.3",
    "focal": "focal:gamma=2",
    "gce": "gce:q=0.2",
    "rce": "rce:floor=0.01",
    "sce": "sce:alpha=6:beta=0.1",
    "nfl": "nfl:gamma=3",
    "aul": "aul:a=3:q=0.1",
    "ael": "ael:a=1.5",
    "agce": "agce:a=0.6:q=0.6",
    "ldr-kl": "ldr-kl:temperature=1:margin=2",
    "logitclip": "logitclip:clip=2.5:mode=reference",
    "eps-ce": "eps-ce:m=100:floor=1e-5",
    "eps-focal": "eps-focal:m=10:gamma=1",
    "nlnl": "nlnl:draws=5",
    "nnce": "nnce:floor=0.001",
    "nnfl": "nnfl:gamma=2:floor=0.001",
}
SPECS = [*LOSSES, *OTHERS.values()]
each_loss = pytest.mark.parametrize("spec", SPECS)


def written_again(name: str, z: np.ndarray, y: int, **given: float) -> float:
    """One sample's loss, straight from its formula."""
    p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    logs, k = np.log(p), len(z)
    own = p[y]
    if name in ("eps-ce", "eps-focal"):
        pushed = (own + given["m"] * (y == p.argmax())) / (given["m"] + 1)
        pushed = max(pushed, given["floor"])
        return float((1 - pushed) ** given.get("gamma", 0.0) * -np.log(pushed))
    if name == "logitclip":
        norm, clip = np.linalg.norm(z), given["clip"]
        if norm > (clip if given["mode"] == "paper" else 1 / clip):
            return written_again("ce", z * clip / norm, y)
        return written_again("ce", z, y)
    if name == "ldr-kl":
        f = np.logaddexp(0, z)
        f = f / f.mean()
        margin = given["margin"] * (np.arange(k) != y)
        return float(given["temperature"] * np.log(np.mean(np.exp((margin + f - f[y]) / given["temperature"]))))
    if name in ("nnce", "nnfl"):
        floored = [max(float(x), given["floor"]) for x in (*p, given["floor"])]
        *terms, most = (-((1 - x) ** given.get("gamma", 0.0)) * math.log(x) for x in floored)
        return 1 - (most - terms[y]) / sum(most - term for term in terms)
    focal = (1 - p) ** given.get("gamma", 0.0) * -logs
    formulas = {
        "ce": lambda: -logs[y],
        "ls": lambda: -(1 - given["rate"]) * logs[y] - given["rate"] * logs.mean(),
        "focal": lambda: focal[y],
        "mae": lambda: np.abs(np.eye(k)[y] - p).sum(),
        "mse": lambda: np.mean((p - np.eye(k)[y]) ** 2),
        "gce": lambda: (1 - own ** given["q"]) / given["q"],
        "rce": lambda: -np.sum(p * np.log(np.clip(np.eye(k)[y], given["floor"], 1))),
        "sce": lambda: -given["alpha"] * logs[y] + given["beta"] * written_again("rce", z, y, floor=given["floor"]),
        "nce": lambda: logs[y] / logs.sum(),
        "nfl": lambda: focal[y] / focal.sum(),
        "aul": lambda: ((given["a"] - own) ** given["q"] - (given["a"] - 1) ** given["q"]) / given["q"],
        "agce": lambda: ((given["a"] + 1) ** given["q"] - (given["a"] + own) ** given["q"]) / given["q"],
        "ael": lambda: np.exp(-own / given["a"]),
        "nlnl": lambda: given["draws"] * np.mean([-np.log(max(1 - p[c], 1e-5)) for c in range(k) if c != y]),
    }
    return float(formulas[name]())


def parameters(spec: str) -> dict[str, object]:
    (term,) = parse_loss(spec)
    return {**LOSSES[term.name].parameters, **term.parameters}


def random_logits(rows: int, classes: int, *, scale: float = 3.0, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn((rows, classes), generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, classes, (rows,), generator=generator)


def test_every_entry_is_tested_and_public():
    assert OTHERS.keys() == {name for name, entry in LOSSES.items() if entry.parameters}
    for name, entry in LOSSES.items():
        public = "cross_entropy" if name == "ce" else name.replace("-", "_")
        assert getattr(functional, public) is entry.function
        defaults = entry.function.__kwdefaults__ or {}
        if name not in ("ce", "nlnl"):
            assert entry.parameters == defaults
        assert entry.about
        assert entry.formula
        assert entry.reference
        assert inspect.getdoc(entry.function)


@pytest.mark.parametrize("spec", ORACLES)
def test_oracles(spec):
    torch.testing.assert_close(
        loss_function(spec)(Z, Y), torch.tensor(ORACLES[spec], dtype=torch.float64), rtol=0, atol=1e-6
    )


@each_loss
@settings(max_examples=30, deadline=None)
@given(classes=st.integers(2, 12), scale=st.floats(0.01, 6.0), seed=st.integers(0, 2**31))
def test_equals_its_formula(spec, classes, scale, seed):
    z, y = random_logits(5, classes, scale=scale, seed=seed)
    (term,) = parse_loss(spec)
    expected = [written_again(term.name, row.numpy(), int(label), **parameters(spec)) for row, label in zip(z, y)]  # noqa: B905
    torch.testing.assert_close(
        loss_function(spec)(z, y), torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12
    )


@each_loss
@pytest.mark.parametrize("scale", [0.1, 3.0, 1e4])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_bounds_hold_and_are_approached(spec, scale, classes):
    (term,) = parse_loss(spec)
    entry, given = LOSSES[term.name], parameters(spec)
    z, y = random_logits(400, classes, scale=scale)
    z[0], z[1] = (
        scale * F.one_hot(y[0], classes),
        -scale * F.one_hot(y[1], classes),
    )  # as right, and as wrong, as can be
    losses = loss_function(spec)(z, y)
    assert losses.isfinite().all()
    low = entry.low(given, classes)
    assert losses.min() >= low - 1e-9 * max(1.0, abs(low))
    if scale == 1e4 and low > -math.inf and term.name not in ("ls", "ldr-kl", "logitclip"):
        assert losses.min() <= low + 1e-3
    if entry.high is not None:
        high = entry.high(given, classes)
        assert losses.max() <= high * (1 + 1e-9)
        if scale == 1e4 and term.name not in ("logitclip", "ldr-kl", "nlnl"):
            assert losses.max() >= high * 0.998


@pytest.mark.parametrize("clip", [0.5, 2.5])
@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_clipped_logits_reach_their_minimum(clip, mode):
    given = {"clip": clip, "mode": mode}
    longest = clip if mode == "paper" else max(clip, 1 / clip)
    z = torch.full((1, 5), -0.25, dtype=torch.float64)
    z[0, 2] = 1.0
    z *= longest / z.norm()
    low = LOSSES["logitclip"].low(given, 5)
    assert float(functional.logitclip(z, torch.tensor([2]), **given)) == pytest.approx(low, rel=1e-9)


@each_loss
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_losses_of_all_classes_sum_to_what_is_claimed(spec, classes):
    (term,) = parse_loss(spec)
    total = LOSSES[term.name].total
    z, _ = random_logits(50, classes)
    sums = sum(loss_function(spec)(z, torch.full((50,), k)) for k in range(classes))
    if total is None:
        assert sums.std() > 1e-6
    else:
        torch.testing.assert_close(sums, torch.full_like(sums, total(parameters(spec), classes)))


@each_loss
def test_probabilities_mean_the_sum_over_classes(spec):
    z, y = random_logits(20, 5)
    loss = loss_function(spec)
    target = torch.softmax(random_logits(20, 5, seed=1)[0], 1)
    expected = sum(target[:, k] * loss(z, torch.full((20,), k)) for k in range(5))
    torch.testing.assert_close(loss(z, target), expected)
    torch.testing.assert_close(loss(z, F.one_hot(y, 5).double()), loss(z, y))


@each_loss
def test_more_axes_are_more_samples(spec):
    z, y = random_logits(24, 4)
    deep, labels = z.reshape(2, 3, 4, 4).movedim(-1, 1), y.reshape(2, 3, 4)
    loss = loss_function(spec)
    torch.testing.assert_close(loss(deep, labels), loss(z, y).reshape(2, 3, 4))
    soft = torch.softmax(random_logits(24, 4, seed=2)[0], 1)
    torch.testing.assert_close(loss(deep, soft.reshape(2, 3, 4, 4).movedim(-1, 1)), loss(z, soft).reshape(2, 3, 4))


@each_loss
def test_the_gradient_is_that_of_the_formula(spec):
    z, y = random_logits(6, 4)
    assert torch.autograd.gradcheck(lambda x: loss_function(spec)(x, y), z.requires_grad_(), eps=1e-7, atol=1e-6)
    target = torch.softmax(random_logits(6, 4, seed=1)[0], 1)
    assert torch.autograd.gradcheck(lambda x: loss_function(spec)(x, target), z, eps=1e-7, atol=1e-6)


@each_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_extreme_logits_have_finite_losses_and_gradients(spec, dtype):
    rows = [
        [1e4, -1e4, 0.0],
        [-1e4, 1e4, 0.0],
        [1e4, 1e4, 1e4],
        [-1e4, -1e4, -1e4],
        [0.0, 0.0, 0.0],
        [88.0, -88.0, 1.0],
    ]
    for label in range(3):
        z = torch.tensor(rows, dtype=dtype, requires_grad=True)
        losses = loss_function(spec)(z, torch.full((len(rows),), label))
        losses.sum().backward()
        assert losses.isfinite().all()
        assert z.grad.isfinite().all()


@each_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(spec, dtype):
    z, y = random_logits(30, 6)
    z = z.to(dtype)
    losses = loss_function(spec)(z, y)
    if spec != "ce":  # torch's own, which the modules call with float32
        assert losses.dtype == torch.float32
        torch.testing.assert_close(losses, loss_function(spec)(z.float(), y))


@each_loss
def test_a_worse_prediction_of_the_label_never_costs_less(spec):
    """As the label's logit rises from the rest's, the loss falls (up to label smoothing's turn)."""
    if spec.startswith("ls"):
        return
    z = torch.zeros(200, 4, dtype=torch.float64)
    z[:, 2] = torch.linspace(-12, 12, 200)
    losses = loss_function(spec)(z, torch.full((200,), 2))
    assert (losses.diff() <= 1e-12).all() or spec.startswith("logitclip:clip=2.5:mode=reference")


LIMITS = [
    ("gce:q=1e-7", "ce", 1e-5),
    ("gce:q=1", "0.5*mae", 1e-12),
    ("focal:gamma=0", "ce", 1e-12),
    ("nfl:gamma=0", "nce", 1e-12),
    ("nnfl:gamma=0", "nnce", 1e-12),
    ("ls:rate=0", "ce", 1e-12),
    ("aul:a=3:q=1", "0.5*mae", 1e-12),
    ("agce:a=3:q=1", "0.5*mae", 1e-12),
    ("agce:a=1e-12:q=0.7", "gce:q=0.7", 1e-8),
    ("eps-ce:m=0:floor=1e-300", "ce", 1e-12),
    ("eps-focal:gamma=0", "eps-ce", 1e-12),
    ("eps-focal:m=0:gamma=0.5:floor=1e-300", "focal", 1e-12),
    ("logitclip:clip=1e9", "ce", 1e-12),
    ("logitclip:clip=1:mode=paper", "logitclip:clip=1:mode=reference", 1e-12),
    ("sce:alpha=1:beta=0", "ce", 1e-12),
    ("sce:alpha=0.1:beta=1", "0.1*ce+rce", 1e-12),
    ("rce:floor=0.1353352832366127", "mae", 1e-12),
]


@pytest.mark.parametrize(("spec", "other", "tolerance"), LIMITS)
def test_limits(spec, other, tolerance):
    z, y = random_logits(100, 7)
    torch.testing.assert_close(loss_function(spec)(z, y), loss_function(other)(z, y), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("classes", [2, 5])
def test_with_two_classes_negative_learning_is_cross_entropy(classes):
    z, y = random_logits(50, classes, scale=1.0)
    same = torch.allclose(loss_function("nlnl")(z, y), loss_function("ce")(z, y))
    assert same == (classes == 2)


def test_drawn_complementary_labels_are_never_the_given_one_and_average_to_all():
    z, y = random_logits(40, 5)
    generator = torch.Generator().manual_seed(0)
    state = torch.get_rng_state()
    draws = torch.stack([functional.nlnl(z, y, generator=generator) for _ in range(4000)])
    assert torch.equal(torch.get_rng_state(), state)  # its own random numbers
    table = -torch.log1p(-torch.softmax(z, 1)).clamp(max=math.log(1e5))
    for row in range(40):
        allowed = {round(float(table[row, k]), 9) for k in range(5) if k != y[row]}
        assert {round(float(x), 9) for x in draws[:, row].unique()} == allowed
    spread = draws.std(0) / 4000**0.5
    assert ((draws.mean(0) - functional.nlnl(z, y)).abs() < 5 * spread + 1e-12).all()
    many = functional.nlnl(z, y, draws=20_000, generator=generator)
    torch.testing.assert_close(many / 20_000, functional.nlnl(z, y), rtol=0.1, atol=0.01)
    with pytest.raises(ValueError, match="class indices"):
        functional.nlnl(z, torch.softmax(z, 1), generator=generator)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_a_detached_factor_only_scales_the_gradient_of_cross_entropy(gamma):
    z, y = random_logits(30, 6)
    z.requires_grad_()
    loss = functional.focal(z, y, gamma=gamma, detach=True)
    torch.testing.assert_close(loss, functional.focal(z, y, gamma=gamma))
    (held,) = torch.autograd.grad(loss.sum(), z)
    factor = (1 - torch.softmax(z, 1).gather(1, y[:, None])) ** gamma
    (plain,) = torch.autograd.grad(F.cross_entropy(z, y, reduction="sum"), z)
    torch.testing.assert_close(held, plain * factor.detach())


@pytest.mark.parametrize("spec", ["nfl", "nnfl", "eps-focal:m=10"])
def test_detached_factors_change_the_gradient_and_not_the_value(spec):
    z, y = random_logits(30, 6)
    z.requires_grad_()
    free, held = loss_function(spec)(z, y), loss_function(f"{spec}:detach=true")(z, y)
    torch.testing.assert_close(free, held)
    gradients = [torch.autograd.grad(loss.sum(), z)[0] for loss in (free, held)]
    assert not torch.allclose(*gradients, rtol=1e-3)


SPELLINGS = [
    ("gce", "gce"),
    (" nce + 0.5 * mae ", "nce+0.5*mae"),
    ("0.01*eps-ce:m=1e5+5*mae", "0.01*eps-ce:m=100000+5*mae"),
    ("focal:gamma=2:detach=true", "focal:gamma=2:detach=true"),
    ("nlnl:draws=110", "nlnl:draws=110"),
    ("1*ce", "ce"),
]


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_a_loss_reads_back_as_it_is_written(text, canonical):
    once = "+".join(map(str, parse_loss(text)))
    assert once == canonical
    assert "+".join(map(str, parse_loss(once))) == canonical


REFUSED = [
    ("cee", "unknown loss 'cee'.*accepted: ce, ls, focal"),
    ("", "unknown loss ''"),
    ("gce:p=1", "unknown parameter 'p=1'; 'gce' accepts q=0.7"),
    ("mae:q=1", "'mae' accepts no parameters"),
    ("gce:q=x", "q must be a number, got 'x'"),
    ("gce:q", "unknown parameter 'q'"),
    ("gce:q=1:q=2", "gives q twice"),
    ("-1*gce", "weight in .* must be a positive number, got '-1'"),
    ("a*gce", "got 'a'"),
    ("focal:detach=yes", "detach must be true or false, got 'yes'"),
    ("nlnl:draws=1.5", "draws must be a whole number, got '1.5'"),
    ("nce+", "unknown loss ''"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_no_loss_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        loss_function(text)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode must be one of paper, reference; got 'other'"):
        functional.logitclip(Z, Y, mode="other")
