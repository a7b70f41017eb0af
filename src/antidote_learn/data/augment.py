"""Random crops, flips and rotations of images, and their normalisation, a batch at a time.

Random numbers are drawn for the whole global batch, of which a process takes its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Part(NamedTuple):
    """The place of some images in the whole batch; random numbers are drawn for all of it, however it was split."""

    start: int
    total: int


def draw_integers(
    end: int, images: Tensor, generator: torch.Generator, part: Part | None, *, rows: int = 2
) -> tuple[Tensor, ...]:
    """Draw ``rows`` tensors (B,) of integers, uniform in 0 ... end - 1."""
    start, total = part or Part(0, len(images))
    drawn = torch.randint(end, (rows, total), generator=generator, device=generator.device)
    return drawn[:, start : start + len(images)].to(images.device).unbind()


def draw_uniform(images: Tensor, generator: torch.Generator, part: Part | None, *, rows: int) -> Tensor:
    """Draw (rows, B) numbers, uniform in [0, 1)."""
    start, total = part or Part(0, len(images))
    drawn = torch.rand((rows, total), generator=generator, device=generator.device)
    return drawn[:, start : start + len(images)].to(images.device)


def crop(images: Tensor, *, padding: int, generator: torch.Generator, part: Part | None = None) -> Tensor:
    """Cut a crop of its own size out of each image, at a random place of the image padded with zeros (black).

    Limits: ``padding`` 0 gives the images.

    Args:
        images: (B, C, H, W) of any dtype.
        padding: Pixels added on every side; the shifts are uniform in -padding ... padding, both ways.
        generator: Draws the places.
        part: The images' place in the whole batch; None where they are all of it.

    Returns:
        (B, C, H, W), contiguous.
    """
    count, channels, height, width = images.shape
    top, left = draw_integers(2 * padding + 1, images, generator, part)
    if not count:
        return images
    padded = F.pad(images, (padding, padding, padding, padding))
    rows, columns = padded.shape[2:]
    plane = torch.arange(count * channels, device=images.device).view(count, channels, 1) * rows
    line = plane + torch.arange(height, device=images.device) + top.view(-1, 1, 1)
    starts = line * columns + left.view(-1, 1, 1)  # (B, C, H): where each line of the result begins in `padded`
    windows = padded.reshape(-1).unfold(0, width, 1)  # every run of W pixels, as a view
    return windows.index_select(0, starts.view(-1)).view(count, channels, height, width)


def flip(images: Tensor, *, generator: torch.Generator, part: Part | None = None) -> Tensor:
    """Mirror each image left to right with probability 1/2.

    Args:
        images: (B, C, H, W) of any dtype.
        generator: Draws the images to mirror.
        part: The images' place in the whole batch, as for `crop`.

    Returns:
        (B, C, H, W).
    """
    count = len(images)
    (mirrored,) = draw_integers(2, images, generator, part, rows=1)
    which = torch.arange(count, device=images.device) + count * mirrored
    return torch.cat([images, images.flip(-1)]).index_select(0, which)


def rotate(images: Tensor, *, degrees: float, generator: torch.Generator, part: Part | None = None) -> Tensor:
    """Turn each image about its centre by a random angle, uniform in -degrees ... degrees (see `turn`).

    Args:
        images: (B, C, H, W) of any dtype.
        degrees: The largest angle.
        generator: Draws the angles.
        part: The images' place in the whole batch, as for `crop`.

    Returns:
        (B, C, H, W).
    """
    return turn(images, (2.0 * draw_uniform(images, generator, part, rows=1)[0] - 1.0) * degrees)


def turn(images: Tensor, angles: Tensor) -> Tensor:
    """Turn each image about its centre by its own angle; a pixel is that of the nearest place, or 0 (black) outside.

    Args:
        images: (B, C, H, W) of any dtype.
        angles: (B,) in degrees, counter-clockwise.

    Returns:
        (B, C, H, W).
    """
    height, width = images.shape[2:]
    theta = torch.deg2rad(angles).view(-1, 1, 1)
    cos, sin = theta.cos(), theta.sin()
    y = torch.arange(height, device=images.device).view(-1, 1) + (0.5 - height / 2)
    x = torch.arange(width, device=images.device) + (0.5 - width / 2)
    column = (cos * x - sin * y + width / 2).floor().long()  # (B, H, W): where the pixel comes from
    row = (sin * x + cos * y + height / 2).floor().long()
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    source = torch.where(inside, row * width + column, 0).flatten(1)[:, None].expand(-1, images.shape[1], -1)
    turned = images.flatten(2).gather(2, source).view(images.shape)
    return turned.masked_fill(~inside[:, None], 0)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Compute (images / 255 - mean) / std.

    Args:
        images: (B, C, H, W) uint8.
        mean: One number for each channel, or a single one for all.
        std: One number above 0 for each channel, or a single one for all.

    Returns:
        (B, C, H, W) float32, contiguous in channels-last order.
    """
    if images.dtype != torch.uint8 or images.dim() != 4:
        raise ValueError(
            f"images must be uint8 of shape (B, C, H, W) with values 0 ... 255; received {images.dtype} of shape "
            f"{tuple(images.shape)}: convert them before they are augmented"
        )
    channels = images.shape[1]
    result = torch.empty(images.shape, device=images.device, memory_format=torch.channels_last)
    centre, scale = _per_channel("mean", mean, channels), _per_channel("std", std, channels)
    for k in range(channels):  # a plane at a time is faster, as its intermediate results stay small
        result[:, k] = images[:, k].float().sub_(255.0 * centre[k]).div_(255.0 * scale[k])
    return result


def _per_channel(name: str, numbers: Sequence[float], channels: int) -> Sequence[float]:
    """Repeat a single number for all channels; ValueError for another count than 1 or ``channels``."""
    if len(numbers) not in (1, channels):
        raise ValueError(
            f"{name} must have one number for each of {channels} channels, or a single one for all; "
            f"received {len(numbers)}: choose the normalisation of data with as many channels"
        )
    return numbers if len(numbers) == channels else [numbers[0]] * channels
