"""Changes of colour: Pillow's own, Python's colorsys, and what must stay as it is."""

import colorsys
import itertools

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from antidote_learn.data import colours
from antidote_learn.data.augment import Part
from antidote_learn.data.colours import brighten, contrast, jitter, saturate, turn_hue

PIXELS = np.array([*itertools.product((0, 60, 128, 255), repeat=3)], dtype=np.uint8).reshape(
    8, 8, 3
)  # greys, primaries, black and white among them
PICTURE = Image.fromarray(PIXELS)
AMOUNTS = (0.4, 0.4, 0.4, 0.2)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(count: int = 1) -> Tensor:
    return torch.from_numpy(PIXELS.transpose(2, 0, 1).copy())[None].expand(count, -1, -1, -1)


def applied(change, number: float) -> np.ndarray:
    return change(batch().float(), torch.tensor([number]))[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize("factor", [0.0, 0.6, 0.93, 1.0, 1.17, 1.4])
@pytest.mark.parametrize(
    ("change", "enhancer"),
    [(brighten, ImageEnhance.Brightness), (contrast, ImageEnhance.Contrast), (saturate, ImageEnhance.Color)],
)
def test_brightness_contrast_and_saturation_are_pillows(change, enhancer, factor):
    """Pillow rounds the grey, blends, and drops what is below a level."""
    expected = np.asarray(enhancer(PICTURE).enhance(factor)).astype(float)
    assert np.abs(applied(change, factor) - expected).max() < 1.5


@pytest.mark.parametrize("turn", [-0.2, -0.07, 0.0, 0.1, 0.2, 0.5, 1.0])
def test_hue_is_turned_as_by_colorsys(turn):
    expected = np.zeros(PIXELS.shape)
    for at in itertools.product(range(8), repeat=2):
        hue, saturation, value = colorsys.rgb_to_hsv(*PIXELS[at] / 255)
        expected[at] = 255 * np.array(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value))
    np.testing.assert_allclose(applied(turn_hue, turn), expected, rtol=0, atol=1e-2)


def test_hue_is_turned_as_by_pillow():
    """Pillow keeps 256 hues, of which one is up to 6 levels of a channel."""
    hsv = np.asarray(PICTURE.convert("HSV")).copy()
    hsv[..., 0] += np.uint8(round(0.2 * 256))
    expected = np.asarray(Image.fromarray(hsv, "HSV").convert("RGB")).astype(float)
    difference = np.abs(applied(turn_hue, 0.2) - expected)
    assert difference.max() < 12
    assert difference.mean() < 2


def test_greys_have_no_hue_and_no_saturation():
    grey = torch.arange(256.0).view(1, 1, 16, 16).expand(1, 3, -1, -1)
    assert torch.equal(turn_hue(grey, torch.tensor([0.3])), grey)
    torch.testing.assert_close(saturate(grey, torch.tensor([1.4])), grey, rtol=0, atol=1e-3)


@pytest.mark.parametrize("channels", [1, 4])
def test_what_is_not_rgb_keeps_its_hue(channels):
    pixels = torch.rand((2, channels, 4, 4), generator=seeded()) * 255
    assert turn_hue(pixels, torch.tensor([0.1, 0.2])) is pixels
    for change in (brighten, contrast, saturate):
        assert change(pixels, torch.tensor([1.2, 0.8])).shape == pixels.shape


def test_no_amounts_give_the_images():
    assert torch.equal(jitter(batch(3), amounts=(0.0, 0.0, 0.0, 0.0), generator=seeded()), batch(3))


def test_every_image_has_its_own_factors_inside_the_range():
    flat = torch.full((4000, 3, 1, 1), 100, dtype=torch.uint8)
    bright = jitter(flat, amounts=(0.4, 0.0, 0.0, 0.0), generator=seeded())[:, 0, 0, 0].double()
    assert (int(bright.min()), int(bright.max())) == (60, 140)
    assert abs(float(bright.mean()) - 100) < 5 * 23.1 / 4000**0.5
    quarters = torch.histc(bright, 4, 60, 140)
    assert ((quarters - 1000).abs() < 5 * 27.4 + 60).all()  # five deviations, and a level at the ends
    red = torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1).expand(4000, -1, -1, -1)
    turned = jitter(red, amounts=(0.0, 0.0, 0.0, 0.2), generator=seeded())[:, :, 0, 0].numpy()
    hues = np.array([colorsys.rgb_to_hsv(*pixel / 255)[0] for pixel in turned])
    hues[hues > 0.5] -= 1
    assert -0.201 <= hues.min() < -0.195
    assert 0.195 < hues.max() <= 0.201
    assert abs(hues.mean()) < 5 * 0.1155 / 4000**0.5


def test_the_four_changes_come_in_any_order(monkeypatch):
    """One order for a batch, each of the 24 about as often; brightness before contrast is not contrast before it."""
    seen: list[int] = []

    def noting(number: int):
        return lambda pixels, _: seen.append(number) or pixels

    monkeypatch.setattr(colours, "CHANGES", tuple(noting(number) for number in range(4)))
    generator = seeded()
    for _ in range(2400):
        jitter(batch(2), amounts=AMOUNTS, generator=generator)
    orders = [tuple(seen[k : k + 4]) for k in range(0, len(seen), 4)]
    counts = [orders.count(order) for order in itertools.permutations(range(4))]
    assert sum(counts) == 2400
    assert all(abs(count - 100) < 5 * 9.8 for count in counts)


@pytest.mark.parametrize("sizes", [(5, 4), (9, 0), (3, 3, 3)])
def test_a_split_batch_has_the_colours_of_the_whole(sizes):
    whole, parts, start = jitter(batch(9), amounts=AMOUNTS, generator=seeded(7)), [], 0
    for size in sizes:
        parts.append(jitter(batch(size), amounts=AMOUNTS, generator=seeded(7), part=Part(start, 9)))
        start += size
    assert torch.equal(torch.cat(parts), whole)
    assert len({image.numpy().tobytes() for image in whole}) == 9
