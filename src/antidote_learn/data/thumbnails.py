"""Thumbnails, images that are small enough for many to fit into one file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antidote_learn.data.image_folders import convert_to_rgb, open_image, turn_upright

# Sides and qualities to try; the last is always below 3 kB.
STEPS = ((480, 80), (320, 78), (160, 75), (128, 55), (96, 35), (64, 20))
LARGEST = STEPS[0][0]
PIXELS = 16  # the most pixels that a byte can hold; steps for which there is no room are not tried


def file_thumbnail(path: Path, most: int, *, side: int = LARGEST) -> bytes:
    """The image of a file as WebP of at most ``most`` bytes and ``side`` pixels; empty where it cannot be read."""
    try:
        with open_image(path) as image:
            return _fit_webp(convert_to_rgb(turn_upright(image, side)), most, side)
    except Exception:  # Pillow's decoders raise anything on a damaged file
        return b""


def pixels_thumbnail(pixels: NDArray[Any], most: int, *, side: int = LARGEST) -> bytes:
    """An image in memory, (C, H, W) uint8 of any number of channels, as WebP like that of `file_thumbnail`."""
    shown = pixels[:3] if len(pixels) >= 3 else pixels[:1].repeat(3, axis=0)
    return _fit_webp(Image.fromarray(np.ascontiguousarray(shown.transpose(1, 2, 0))), most, side)


def _fit_webp(image: Image.Image, most: int, side: int) -> bytes:
    """Encode a small image without loss, and a large one by the first of STEPS that fits."""
    content = b""
    if max(image.size) <= STEPS[-1][0]:
        content = _encode_webp(image, lossless=True, quality=60)
    for length, quality in _fitting_steps(most, side) if not content or len(content) > most else ():
        small = image.copy()
        small.thumbnail((length, length))
        content = _encode_webp(small, quality=quality)
        if len(content) <= most:
            break
    return content


def _fitting_steps(most: int, side: int) -> list[tuple[int, int]]:
    """The steps for which there may be room, and always the last."""
    return [step for step in STEPS[:-1] if step[0] <= side and step[0] ** 2 <= PIXELS * most] + [STEPS[-1]]


def _encode_webp(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", **options)
    return buffer.getvalue()
