"""Random changes of colour: brightness, contrast, saturation and hue, a batch at a time.

Pixels are float32 in 0 ... 255 and stay there after each change; nothing is rounded in between.
"""

from __future__ import annotations

import torch
from torch import Tensor

from antidote_learn.data.augment import Part, draw_uniform

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in a grey, by ITU-R 601-2 as in Pillow

Amounts = tuple[float, float, float, float]
"""The amounts of brightness, contrast, saturation and hue."""


def jitter(images: Tensor, *, amounts: Amounts, generator: torch.Generator, part: Part | None = None) -> Tensor:
    """Change brightness, contrast, saturation and hue of each image at random, like torchvision's ColorJitter.

    The first three change by a factor that is uniform in 1 - amount ... 1 + amount. The hue is turned by a share of the
    circle that is uniform in -amount ... amount. Every image has numbers of its own. The order of the four changes is
    drawn once for the whole batch, so that every order is equally likely for a single image.

    Limits: amounts of 0 give the images.

    Args:
        images: (B, C, H, W) uint8; saturation and hue change only RGB.
        amounts: The largest of each of the four changes, at most 1.
        generator: Draws the order and the factors.
        part: The images' place in the whole batch; None where they are all of it.

    Returns:
        (B, C, H, W) uint8.
    """
    order = torch.randperm(len(CHANGES), generator=generator, device=generator.device).tolist()
    drawn = draw_uniform(images, generator, part, rows=len(CHANGES))
    pixels = images.float()
    for number in order:
        if amounts[number]:
            pixels = CHANGES[number](pixels, NEUTRAL[number] + amounts[number] * (2.0 * drawn[number] - 1.0))
    return pixels.round().to(torch.uint8)


def brighten(pixels: Tensor, factor: Tensor) -> Tensor:
    """Multiply each image (C, H, W) by its factor; 0 is black, 1 the image."""
    return (pixels * factor.view(-1, 1, 1, 1)).clamp(0.0, 255.0)


def contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    """Move pixels away from the mean of their image's greys by a factor; 0 is all grey, 1 the image."""
    return _blend(_grey(pixels).mean(dim=(1, 2, 3), keepdim=True), pixels, factor)


def saturate(pixels: Tensor, factor: Tensor) -> Tensor:
    """Move pixels away from their own grey by a factor; 0 is a grey picture, 1 the image."""
    return _blend(_grey(pixels), pixels, factor)


def turn_hue(pixels: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue by a share of the circle; 0 and 1 give the image, and images that are not RGB stay as they are."""
    if pixels.shape[1] != 3:
        return pixels
    red, green, blue = pixels.unbind(1)
    value, chroma = pixels.amax(dim=1), pixels.amax(dim=1) - pixels.amin(dim=1)
    over = chroma.clamp(min=1e-6)  # keeps greys finite: their chroma is 0, so that any hue will do
    sextant = torch.where(value == green, 2.0 + (blue - red) / over, 4.0 + (red - green) / over)
    sextant = torch.where(value == red, (green - blue) / over, sextant) + 6.0 * turn.view(-1, 1, 1)
    turned = [value - chroma * _dip(sextant + offset) for offset in (5.0, 3.0, 1.0)]
    return torch.stack(turned, dim=1).clamp(0.0, 255.0)


CHANGES = (brighten, contrast, saturate, turn_hue)
NEUTRAL = (1.0, 1.0, 1.0, 0.0)  # the argument with which each of CHANGES gives the image itself


def _dip(sextant: Tensor) -> Tensor:
    """A channel's distance below the largest, as a share of the chroma: 0, up, 1, 1, down, 0 around the circle."""
    place = sextant.remainder(6.0)
    return torch.minimum(place, 4.0 - place).clamp(0.0, 1.0)


def _grey(pixels: Tensor) -> Tensor:
    """The greys of a black-and-white picture, (B, 1, H, W)."""
    if pixels.shape[1] != 3:
        return pixels.mean(dim=1, keepdim=True)
    return sum(weight * pixels[:, k : k + 1] for k, weight in enumerate(LUMA))  # type: ignore[return-value]


def _blend(grey: Tensor, pixels: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(grey.expand_as(pixels), pixels, factor.view(-1, 1, 1, 1)).clamp(0.0, 255.0)
