"""Random boxes and their resampling: Pillow, slow loops, and the distribution that published code draws from."""

import math
import random

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp
from torch import Tensor

from antidote_learn.data.augment import Part
from antidote_learn.data.crops import crop_and_resize, crop_centre, draw_boxes, resample

WIDE = {"scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


# --- resampling ------------------------------------------------------------------------------------------------------

BOXES = [(0, 0, 40, 50), (3, 7, 30, 20), (39, 49, 1, 1), (10, 0, 5, 50), (0, 20, 40, 3), (1, 1, 37, 43)]


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("size", [1, 7, 32, 64])
def test_a_box_is_resampled_as_by_pillow(box, size):
    """Pillow's own cut and resize, which rounds to whole levels after either of its two passes."""
    image = random_images(1, 3, 40, 50)
    found = resample(image, torch.tensor([box]), size=size)[0].permute(1, 2, 0).numpy()
    top, left, height, width = box
    picture = Image.fromarray(image[0].permute(1, 2, 0).numpy()).crop((left, top, left + width, top + height))
    expected = np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).max() <= 1


def slow_bilinear(image: np.ndarray, box: tuple[int, ...], size: int) -> np.ndarray:
    """(H, W) to (size, size), a pixel at a time: the mean under a triangle, as wide as a pixel of the result or 1."""
    top, left, height, width = box

    def weights(length: int, at: int) -> list[float]:
        scale = length / size
        found = [max(0.0, 1 - abs(k + 0.5 - (at + 0.5) * scale) / max(1.0, scale)) for k in range(length)]
        return [weight / sum(found) for weight in found]

    result = np.zeros((size, size))
    for y in range(size):
        for x in range(size):
            for i, a in enumerate(weights(height, y)):
                for j, b in enumerate(weights(width, x)):
                    result[y, x] += a * b * image[top + i, left + j]
    return result


def test_boxes_of_a_batch_are_resampled_each_for_itself():
    boxes = [(0, 0, 9, 11), (2, 3, 4, 5), (8, 10, 1, 1), (0, 5, 9, 2)]
    images = random_images(4, 2, 9, 11)
    for size in (3, 6):
        found = resample(images, torch.tensor(boxes), size=size).double().numpy()
        for k, box in enumerate(boxes):
            for channel in range(2):
                expected = slow_bilinear(images[k, channel].numpy(), box, size)
                assert np.abs(found[k, channel] - expected).max() < 0.5 + 1e-4  # rounded once, at the end


@pytest.mark.parametrize("size", [1, 5, 224])
def test_the_whole_box_at_its_own_size_is_the_image(size):
    images = random_images(2, 3, size, size)
    whole = torch.tensor([[0, 0, size, size]] * 2)
    assert torch.equal(resample(images, whole, size=size), images)
    limits = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0)}
    assert torch.equal(crop_and_resize(images, size=size, **limits, generator=seeded()), images)


def test_results_are_uint8_and_an_empty_batch_stays_empty():
    for count in (0, 3):
        found = crop_and_resize(random_images(count, 3, 10, 12), size=8, **WIDE, generator=seeded())
        assert (found.shape, found.dtype, found.is_contiguous()) == ((count, 3, 8, 8), torch.uint8, True)


# --- boxes -----------------------------------------------------------------------------------------------------------


def slow_box(draw: random.Random, height: int, width: int, scale, ratio) -> tuple[int, int, int, int]:
    """One box as torchvision's RandomResizedCrop describes it."""
    for _ in range(10):
        area = height * width * draw.uniform(*scale)
        aspect = math.exp(draw.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return draw.randint(0, height - h), draw.randint(0, width - w), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


CASES = {
    "the recipe's": (256, 256, (0.08, 1.0), (3 / 4, 4 / 3)),
    "a wide image": (40, 90, (0.3, 1.0), (3 / 4, 4 / 3)),
    "a tall image, mostly the last resort": (90, 30, (0.9, 1.0), (3 / 4, 4 / 3)),
    "a very wide one, always the last resort": (20, 100, (0.9, 1.0), (1.0, 2.0)),
}


@pytest.mark.parametrize(("height", "width", "scale", "ratio"), CASES.values(), ids=CASES)
def test_boxes_are_distributed_as_published_code_draws_them(height, width, scale, ratio):
    count, draw = 4000, random.Random(0)
    images = torch.empty((1, 1, height, width), dtype=torch.uint8).expand(count, -1, -1, -1)
    found = draw_boxes(images, scale=scale, ratio=ratio, generator=seeded()).numpy()
    expected = np.array([slow_box(draw, height, width, scale, ratio) for _ in range(count)])
    top, left, rows, columns = found.T
    assert min(top.min(), left.min(), rows.min() - 1, columns.min() - 1) >= 0
    assert (top + rows).max() <= height
    assert (left + columns).max() <= width
    figures = {"area": lambda b: b[:, 2] * b[:, 3], "ratio": lambda b: b[:, 3] / b[:, 2], "top": lambda b: b[:, 0],
               "left": lambda b: b[:, 1], "middle": lambda b: 2 * b[:, 1] + b[:, 3]}  # fmt: skip
    for name, figure in figures.items():
        assert ks_2samp(figure(found), figure(expected)).pvalue > 1e-3, name


def test_areas_and_ratios_fill_their_ranges():
    images = torch.empty((1, 1, 256, 256), dtype=torch.uint8).expand(4000, -1, -1, -1)
    boxes = draw_boxes(images, **WIDE, generator=seeded()).double()
    area, ratio = boxes[:, 2] * boxes[:, 3] / 256**2, boxes[:, 3] / boxes[:, 2]
    assert 0.079 < area.min() < 0.085
    assert 0.95 < area.max() <= 1.0
    assert 0.74 < ratio.min() < 0.76
    assert 1.32 < ratio.max() < 1.35
    assert abs(float(ratio.log().mean())) < 0.02


@pytest.mark.parametrize("sizes", [(5, 4), (9, 0), (3, 3, 3)])
def test_a_split_batch_has_the_boxes_of_the_whole(sizes):
    images, parts, start = random_images(9, 3, 20, 24), [], 0
    whole = crop_and_resize(images, size=16, **WIDE, generator=seeded(7))
    for size in sizes:
        part = images[start : start + size]
        parts.append(crop_and_resize(part, size=16, **WIDE, generator=seeded(7), part=Part(start, 9)))
        start += size
    assert torch.equal(torch.cat(parts), whole)


# --- the centre ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "size"), [(256, 256, 224), (9, 12, 8), (7, 7, 7), (8, 9, 5)])
def test_the_centre_leaves_as_much_on_either_side(height, width, size):
    images = random_images(2, 3, height, width)
    found = crop_centre(images, (size, size)).numpy()
    assert found.shape == (2, 3, size, size)
    top, left = ((side - size) / 2 for side in (height, width))
    near = [images.numpy()[:, :, y : y + size, x : x + size]
            for y in {math.floor(top), math.ceil(top)} for x in {math.floor(left), math.ceil(left)}]  # fmt: skip
    assert any(np.array_equal(found, one) for one in near)
