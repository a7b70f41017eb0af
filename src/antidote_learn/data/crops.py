"""Parts of images brought to one size: random boxes resampled, or the centre."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from antidote_learn.data.augment import Part, draw_uniform

ATTEMPTS = 10  # boxes drawn for each image, as in torchvision; if none fits, the largest box in its centre is taken

Range = tuple[float, float]
"""The lowest and the highest value."""


def crop_and_resize(
    images: Tensor, *, size: int, scale: Range, ratio: Range, generator: torch.Generator, part: Part | None = None
) -> Tensor:
    """Cut a random box out of each image (see `draw_boxes`) and resample it to (size, size) (see `resample`).

    Limits: ``scale`` and ``ratio`` (1, 1) give square images of this size as they are.

    Args:
        images: (B, C, H, W) uint8.
        size: The side of the results.
        scale: The range of the box's area, as a share of the image's.
        ratio: The range of the box's width over its height.
        generator: Draws the boxes.
        part: The images' place in the whole batch; None where they are all of it.

    Returns:
        (B, C, size, size) uint8, contiguous.
    """
    return resample(images, draw_boxes(images, scale=scale, ratio=ratio, generator=generator, part=part), size=size)


def draw_boxes(
    images: Tensor, *, scale: Range, ratio: Range, generator: torch.Generator, part: Part | None = None
) -> Tensor:
    """Draw random boxes of whole pixels like torchvision's RandomResizedCrop.

    The area, the logarithm of width over height, and the place are uniform. The first of ten boxes that fits into the
    image is taken.

    Returns:
        (B, 4) int64: top, left, height, width.
    """
    height, width = images.shape[2:]
    drawn = draw_uniform(images, generator, part, rows=2 * ATTEMPTS + 2).double()
    area = height * width * (scale[0] + (scale[1] - scale[0]) * drawn[:ATTEMPTS])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = (low + (high - low) * drawn[ATTEMPTS : 2 * ATTEMPTS]).exp()
    wide, tall = (area * aspect).sqrt().round(), (area / aspect).sqrt().round()
    fits = (wide >= 1) & (wide <= width) & (tall >= 1) & (tall <= height)
    number = torch.arange(ATTEMPTS, device=images.device)[:, None]
    first = torch.where(fits, number, ATTEMPTS).amin(dim=0)
    shape = min(max(width / height, ratio[0]), ratio[1])  # width over height of the box in the centre
    largest = (round(min(height, width / shape)), round(min(width, height * shape)))
    rows, columns = (_first_fit(sides, first, last) for sides, last in zip((tall, wide), largest, strict=True))
    slack = torch.stack([height - rows, width - columns])
    place = torch.where(first == ATTEMPTS, slack // 2, (drawn[2 * ATTEMPTS :] * (slack + 1)).floor())
    return torch.stack([*place, rows, columns], dim=1).long()


def resample(images: Tensor, boxes: Tensor, *, size: int) -> Tensor:
    """Resample a box of each image to (size, size) with Pillow's bilinear filter, antialiased where it shrinks.

    Pixels outside of the box have no part in it, as if it had been cut out first. Results may differ from Pillow's by
    one level, as Pillow rounds between its two passes.

    Args:
        images: (B, C, H, W) uint8.
        boxes: (B, 4) int64: top, left, height, width, inside the images.
        size: The side of the results.

    Returns:
        (B, C, size, size) uint8, contiguous.
    """
    top, left, height, width = boxes.unbind(1)
    rows = _resample_rows(images, top, height, size)
    pixels = _resample_rows(rows.transpose(2, 3), left, width, size).transpose(2, 3)
    return pixels.round().clamp(0, 255).to(torch.uint8).contiguous()


def crop_centre(images: Tensor, size: tuple[int, ...]) -> Tensor:
    """Cut the centre (h, w) out of images (B, C, H, W) that are at least as large."""
    top, left = (round((whole - part) / 2) for whole, part in zip(images.shape[2:], size, strict=True))
    return images[:, :, top : top + size[0], left : left + size[1]]


def _first_fit(sides: Tensor, first: Tensor, last: int) -> Tensor:
    """The side of the first box that fits, (B,), or ``last`` where none does."""
    return torch.cat([sides, sides.new_full((1, sides.shape[1]), last)]).gather(0, first[None])[0]


def _resample_rows(images: Tensor, start: Tensor, length: Tensor, size: int) -> Tensor:
    """Resample lines start ... start + length - 1 of images (B, C, H, W) to (B, C, size, W) float32."""
    count, channels, height, width = images.shape
    plane = torch.arange(count * channels, device=images.device).view(count, channels, 1) * height
    lines = images.reshape(-1, width)
    result = torch.zeros((count, channels, size, width), device=images.device)
    for line, weight in zip(*_taps(start, length, size, height), strict=True):
        picked = lines.index_select(0, (plane + line[:, None]).view(-1)).view(result.shape)
        result.addcmul_(picked.float(), weight[:, None, :, None])
    return result


def _taps(start: Tensor, length: Tensor, size: int, height: int) -> tuple[Tensor, Tensor]:
    """The lines that make up each line of the result, (K, B, size), and their weights, which form a triangle."""
    scale = (length.double() / size)[:, None]
    reach = scale.clamp(min=1.0)
    middle = scale * (torch.arange(size, device=start.device) + 0.5)  # (B, size), in lines of the box
    most = math.ceil(2 * max(1.0, height / size))
    line = (middle - reach + 0.5).floor() + torch.arange(most, device=start.device).view(-1, 1, 1)
    weight = (1.0 - (line + 0.5 - middle).abs() / reach).clamp(min=0.0)
    weight = torch.where((line >= 0) & (line < length[:, None]), weight, 0.0)
    inside = line.clamp(min=0.0).minimum(length[:, None] - 1.0)
    return (start[:, None] + inside).long(), (weight / weight.sum(dim=0)).float()
