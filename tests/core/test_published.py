"""How far published code is from the formulas, which it clamps: the figures of docs/losses.md."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from antidote_learn import functional

PAGE = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")


def improbable(classes: int, lowest: float = 1e-14) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of two classes that share all but a little, the label among the little, down to ``lowest`` each."""
    others = torch.logspace(-5, torch.log10(torch.tensor(lowest)).item(), 3000, dtype=torch.float64)
    p = others[:, None].repeat(1, classes)
    p[:, 0] = 1.0 - (classes - 1) * others
    return p.log().requires_grad_(), torch.ones(len(p), dtype=torch.int64)


def largest_difference(loss, published, logits, labels) -> tuple[float, float]:
    """Of the losses, and of their derivatives."""
    values, gradients = [], []
    for function in (loss, published):
        found = function(logits, labels)
        values.append(found.detach())
        gradients.append(torch.autograd.grad(found.sum(), logits)[0])
    return tuple(float((a - b).abs().max()) for a, b in (values, gradients))


def label_of(table, labels):
    return table.gather(1, labels[:, None])[:, 0]


@pytest.mark.parametrize(("q", "value", "slope"), [(0.7, 3.6e-6, 2.5e-6), (0.5, 2.0e-4, 1.0e-4)])
def test_gce_with_a_least_probability(q, value, slope):
    def published(z, y):
        return (1 - label_of(torch.softmax(z, 1).clamp(min=1e-8), y) ** q) / q

    found = largest_difference(lambda z, y: functional.gce(z, y, q=q), published, *improbable(10, 1e-30))
    assert found == (pytest.approx(value, rel=0.02), pytest.approx(slope, rel=0.02))
    for figure in (value, slope):
        assert f"{figure:.1e}".replace("e-0", "e-") in PAGE


@pytest.mark.parametrize(("classes", "figure"), [(10, 8.3e-7), (100, 9.1e-6)])
@pytest.mark.parametrize("name", ["rce", "sce"])
def test_rce_with_a_least_probability_of_every_class(name, classes, figure):
    def published(z, y):
        given = F.one_hot(y, classes).double().clamp(min=1e-4)
        reverse = -(torch.softmax(z, 1).clamp(min=1e-8) * given.log()).sum(1)
        return reverse + (0.1 * F.cross_entropy(z, y, reduction="none") if name == "sce" else 0.0)

    logits, _ = improbable(classes)
    value, slope = largest_difference(
        getattr(functional, name), published, logits, torch.zeros(len(logits), dtype=torch.int64)
    )
    assert value == pytest.approx(figure, rel=0.02)
    assert 0.9 * figure < slope < 1.02 * figure
    assert f"{figure:.1e}".replace("e-0", "e-") in PAGE


def test_sce_with_a_least_probability_inside_its_cross_entropy():
    logits, labels = improbable(10, 1e-12)
    own = label_of(torch.softmax(logits, 1), labels)
    clamped = -0.1 * own.clamp(min=1e-7).log()
    exact = functional.sce(logits, labels) - functional.rce(logits, labels)
    torch.testing.assert_close(exact - clamped, 0.1 * (1e-7 / own.clamp(max=1e-7)).log(), rtol=1e-6, atol=1e-9)
    assert float((exact - clamped).max().detach()) == pytest.approx(1.15, abs=0.01)
    (slope,) = torch.autograd.grad(clamped[-1], logits)
    assert slope.abs().max() == 0.0
    assert "1.15 at p_y = 1e-12" in PAGE


@pytest.mark.parametrize(("clip", "figure"), [(0.5, 1.53), (1.0, 0.0), (2.5, 2.15)])
def test_logitclip_with_the_test_of_the_released_code(clip, figure):
    """Over norms between the two thresholds, with the label as high and as low as the norm allows."""

    def released(z, y):
        norm = z.norm(dim=1, keepdim=True) + 1e-8
        scaled = torch.where(norm > 1 / clip, z / norm * clip, z)
        return -label_of(torch.softmax(scaled, 1).clamp(min=1e-12).log(), y)

    direction = torch.full((10,), -0.1, dtype=torch.float64)
    direction[3] = 0.9
    norms = torch.linspace(0.2, 4.0, 20_001, dtype=torch.float64)[:, None]
    z = torch.cat([norms, -norms]) * direction / direction.norm()
    y = torch.full((len(z),), 3)
    reference = functional.logitclip(z, y, clip=clip, mode="reference")
    torch.testing.assert_close(reference, released(z, y), rtol=0, atol=1e-6)
    assert float((functional.logitclip(z, y, clip=clip) - reference).abs().max()) == pytest.approx(figure, abs=0.005)
    assert f"{figure:.2f} with clip = {clip}" in PAGE or figure == 0.0
