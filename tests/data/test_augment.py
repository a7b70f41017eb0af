"""Augmentation: slow loops over single images, Pillow's rotation, and what may not depend on what."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from antidote_learn.data.augment import Part, crop, flip, normalise, rotate, turn
from antidote_learn.data.colours import jitter
from antidote_learn.data.crops import crop_and_resize
from antidote_learn.data.recipes import RECIPES, Augmentation


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(1, 256, shape, dtype=np.uint8))  # never black


def slow_crops(image: Tensor, padding: int) -> dict[tuple[int, int], np.ndarray]:
    """Every crop of one image (C, H, W), a pixel at a time."""
    height, width = image.shape[1:]
    crops = {}
    for top in range(-padding, padding + 1):
        for left in range(-padding, padding + 1):
            result = np.zeros(image.shape, dtype=np.uint8)
            for y in range(height):
                for x in range(width):
                    if 0 <= y + top < height and 0 <= x + left < width:
                        result[:, y, x] = image[:, y + top, x + left]
            crops[top, left] = result
    return crops


@settings(deadline=None, max_examples=30)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5)),
    padding=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_a_crop_is_one_of_those_a_slow_loop_finds(shape, padding, seed):
    images = random_images(*shape, seed=seed)
    cropped = crop(images, padding=padding, generator=seeded(seed))
    assert cropped.dtype == torch.uint8
    assert cropped.shape == images.shape
    for image, result in zip(images, cropped, strict=True):
        assert any(np.array_equal(result, one) for one in slow_crops(image, padding).values())


def test_every_shift_is_as_likely_and_the_two_directions_are_independent():
    image = random_images(1, 1, 5, 5)
    cropped = crop(image.expand(8100, -1, -1, -1), padding=1, generator=seeded())
    found = {shift: int((cropped == torch.from_numpy(one)).all(dim=(1, 2, 3)).sum())
             for shift, one in slow_crops(image[0], 1).items()}  # fmt: skip
    assert sum(found.values()) == 8100
    assert all(abs(count - 900) < 5 * 30 for count in found.values())  # binomial: five standard deviations


@settings(deadline=None, max_examples=30)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5)),
    seed=st.integers(0, 2**32),
)
def test_a_flip_mirrors_a_whole_image_or_nothing(shape, seed):
    images = random_images(*shape, seed=seed)
    for image, result in zip(images.numpy(), flip(images, generator=seeded(seed)).numpy(), strict=True):
        assert np.array_equal(result, image) or np.array_equal(result, image[:, :, ::-1])


def test_half_of_the_images_are_flipped():
    images = random_images(1, 1, 1, 8).expand(10_000, -1, -1, -1)
    same = (flip(images, generator=seeded()) == images).all(dim=(1, 2, 3)).sum()
    assert abs(int(same) - 5000) < 5 * 50  # binomial: five standard deviations


@pytest.mark.parametrize("angle", [-170.0, -33.3, -20.0, -1.0, 0.0, 7.5, 20.0, 45.0, 101.0])
@pytest.mark.parametrize("size", [(32, 32), (28, 41), (17, 8)])
def test_a_turned_image_is_pillows(angle, size):
    image = random_images(1, 3, *size)
    turned = turn(image, torch.tensor([angle]))[0].permute(1, 2, 0).numpy()
    picture = Image.fromarray(image[0].permute(1, 2, 0).numpy())
    expected = np.asarray(picture.rotate(angle, resample=Image.Resampling.NEAREST))
    assert (turned == expected).all(axis=2).mean() > 0.99  # Pillow rounds its coordinates to 2^-16


@pytest.mark.parametrize("quarters", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("size", [1, 8, 9])
def test_quarter_turns_are_exact(quarters, size):
    image = random_images(1, 2, size, size)
    turned = turn(image, torch.tensor([90.0 * quarters]))
    assert np.array_equal(turned.numpy(), np.rot90(image.numpy(), quarters, axes=(2, 3)))


def test_each_image_is_turned_by_its_own_angle():
    images, angles = random_images(4, 3, 12, 10), torch.tensor([0.0, 30.0, -75.0, 180.0])
    for i in range(4):
        assert torch.equal(turn(images, angles)[i], turn(images[i : i + 1], angles[i : i + 1])[0])


def test_random_angles_fill_the_range_evenly_and_stay_inside():
    images = random_images(1, 1, 24, 24).expand(200, -1, -1, -1)
    grid = torch.linspace(-40, 40, 161)
    candidates = turn(images[:1].expand(161, -1, -1, -1), grid)
    rotated = rotate(images, degrees=20.0, generator=seeded())
    alike = (rotated[:, None] == candidates[None]).float().mean(dim=(2, 3, 4))
    angles = grid[alike.argmax(dim=1)]
    assert alike.max(dim=1).values.min() > 0.8
    assert -20.5 <= angles.min() < -18
    assert 18 < angles.max() <= 20.5
    quarters = torch.histc(angles, 4, -20.5, 20.5)
    assert ((quarters - 50).abs() < 5 * 6.2).all()


@pytest.mark.parametrize(("mean", "std"), [((0.5, 0.4, 0.3), (0.2, 0.3, 0.25)), ((0.1307,), (0.3081,)), ([0.0], [1.0])])
def test_normalise_is_the_formula_in_channels_last_order(mean, std):
    images = random_images(5, 3, 6, 7)
    result = normalise(images, mean, std)
    expected = (images.numpy() / 255 - np.reshape(mean, (-1, 1, 1))) / np.reshape(std, (-1, 1, 1))
    assert result.dtype == torch.float32
    assert result.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=2e-6)


def test_what_a_crop_and_a_turn_add_is_black():
    """The smallest value after normalisation is that of black, although no pixel of the images was."""
    recipe = RECIPES["cifar100"]
    images = recipe.augmentation.apply(torch.full((64, 3, 32, 32), 255, dtype=torch.uint8), seeded())
    black = -np.array(recipe.mean) / np.array(recipe.std)
    np.testing.assert_allclose(normalise(images, recipe.mean, recipe.std).amin(dim=(0, 2, 3)), black, rtol=1e-6)
    assert set(images.unique().tolist()) == {0, 255}


def test_an_augmentation_is_crop_then_flip_then_rotation():
    images, one, other = random_images(20, 3, 16, 16), seeded(3), seeded(3)
    expected = rotate(flip(crop(images, padding=2, generator=one), generator=one), degrees=15.0, generator=one)
    result = Augmentation(padding=2, flip=True, degrees=15.0).apply(images, other)
    assert torch.equal(result, expected)
    assert torch.equal(one.get_state(), other.get_state())


def test_an_augmentation_of_photographs_is_box_then_flip_then_colour():
    images, one, other = random_images(6, 3, 20, 24), seeded(3), seeded(3)
    box, amounts = {"size": 16, "scale": (0.2, 0.9), "ratio": (0.5, 2.0)}, (0.4, 0.3, 0.2, 0.1)
    expected = jitter(
        flip(crop_and_resize(images, **box, generator=one), generator=one), amounts=amounts, generator=one
    )
    result = Augmentation(**box, flip=True, colour=amounts).apply(images, other)
    assert torch.equal(result, expected)
    assert torch.equal(one.get_state(), other.get_state())


def test_the_recipe_of_webvision_is_the_published_one():
    """RandomResizedCrop(224), flip, ColorJitter(0.4, 0.4, 0.4, 0.2); for evaluation Resize(256), CenterCrop(224)."""
    recipe = RECIPES["imagenet"]
    box = {"size": 224, "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)}
    assert recipe.augmentation == Augmentation(**box, flip=True, colour=(0.4, 0.4, 0.4, 0.2))
    assert recipe.side == 256


def test_no_augmentation_draws_nothing_and_gives_the_images():
    images, generator = random_images(2, 3, 8, 8), seeded()
    assert Augmentation().apply(images, generator) is images
    assert torch.equal(generator.get_state(), seeded().get_state())


@pytest.mark.parametrize("name", RECIPES)
def test_the_generator_alone_decides(name):
    """Not torch's own random state, the number of threads or the order in memory; and the images are left alone."""
    recipe, images = RECIPES[name], random_images(24 if RECIPES[name].side else 96, 3, 32, 32)
    before, threads, state = images.clone(), torch.get_num_threads(), torch.get_rng_state()
    results = []
    try:
        for count, order in ((1, torch.contiguous_format), (2, torch.contiguous_format), (1, torch.channels_last)):
            torch.set_num_threads(count)
            batch = images.contiguous(memory_format=order)
            results.append(normalise(recipe.augmentation.apply(batch, seeded(7)), recipe.mean, recipe.std))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_another_state_of_the_generator_gives_another_batch():
    images, generator = random_images(32, 3, 32, 32), seeded()
    first, second = (RECIPES["cifar10"].augmentation.apply(images, generator) for _ in range(2))
    assert not torch.equal(first, second)


def test_an_empty_batch_stays_empty():
    images = torch.empty((0, 3, 8, 8), dtype=torch.uint8)
    recipe = RECIPES["cifar100"]
    assert normalise(recipe.augmentation.apply(images, seeded()), recipe.mean, recipe.std).shape == (0, 3, 8, 8)


@pytest.mark.parametrize(
    ("images", "mean", "message"),
    [
        (torch.zeros(2, 3, 4, 4), (0.5,), r"images must be uint8 of shape \(B, C, H, W\).*received torch\.float32"),
        (torch.zeros(3, 4, 4, dtype=torch.uint8), (0.5,), r"received torch\.uint8 of shape \(3, 4, 4\)"),
        (
            torch.zeros(2, 1, 4, 4, dtype=torch.uint8),
            (0.5,) * 3,
            r"mean must have one number for each of 1 channels.*3",
        ),
    ],
)
def test_images_that_cannot_be_normalised_are_refused(images, mean, message):
    with pytest.raises(ValueError, match=message):
        normalise(images, mean, (1.0,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"padding": -1}, "padding must be a whole number of pixels, 0 for none; received -1"),
        ({"padding": 1.5}, r"padding must be.*received 1\.5"),
        ({"degrees": -1.0}, r"degrees must lie in 0 \.\.\. 180.*received -1\.0"),
        ({"degrees": 181.0}, r"received 181\.0"),
        ({"degrees": float("nan")}, "received nan"),
        ({"size": -1}, "size must be a side in pixels, 0 for none; received -1"),
        ({"scale": (0.0, 1.0)}, r"scale must be a range of shares in \(0, 1\]; received \(0\.0, 1\.0\)"),
        ({"scale": (0.5, 1.5)}, r"scale must be.*received \(0\.5, 1\.5\)"),
        ({"ratio": (2.0, 1.0)}, r"ratio must be a range of width over height above 0; received \(2\.0, 1\.0\)"),
        ({"colour": (0.1, 0.1, 0.1, 0.6)}, r"hue in 0 \.\.\. 0\.5; received \(0\.1, 0\.1, 0\.1, 0\.6\)"),
        ({"colour": (-0.1, 0.1, 0.1, 0.1)}, r"colour must be the amounts.*received \(-0\.1"),
    ],
)
def test_an_augmentation_that_means_nothing_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Augmentation(**arguments)


@pytest.mark.parametrize("sizes", [(5, 4), (9, 0), (3, 3, 3)])
def test_a_split_batch_is_augmented_as_the_whole(sizes):
    images = torch.randint(0, 256, (9, 3, 10, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    augmentation = Augmentation(padding=3, size=9, flip=True, degrees=40.0, colour=(0.4, 0.4, 0.4, 0.2))
    whole = augmentation.apply(images, torch.Generator().manual_seed(7))
    parts, start = [], 0
    for size in sizes:
        generator = torch.Generator().manual_seed(7)
        parts.append(augmentation.apply(images[start : start + size], generator, Part(start, 9)))
        start += size
    assert torch.equal(torch.cat(parts), whole)
