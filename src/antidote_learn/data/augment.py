"""Images on their way into a network: random crops, flips and rotations, then normalisation, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Part(NamedTuple):
    """Which of a larger batch the images are: what is random is drawn for all of it, however it was split."""

    start: int
    total: int


def crop(images: Tensor, *, padding: int, generator: torch.Generator, part: Part | None = None) -> Tensor:
    """Crops of the images' own size, each at a random place of its image padded with zeros (black).

    Limits: ``padding`` 0 gives the images.

    Args:
        images: (B, C, H, W) of any dtype.
        padding: Pixels added on every side; the shifts are uniform in -padding ... padding, both ways.
        generator: Draws the places.
        part: Of which batch the images are a part; None where they are all of it.

    Returns:
        (B, C, H, W), contiguous.
    """
    count, channels, height, width = images.shape
    top, left = _draw_integers(2 * padding + 1, images, generator, part)
    if not count:
        return images
    padded = F.pad(images, (padding, padding, padding, padding))
    rows, columns = padded.shape[2:]
    plane = torch.arange(count * channels, device=images.device).view(count, channels, 1) * rows
    line = plane + torch.arange(height, device=images.device) + top.view(-1, 1, 1)
    starts = line * columns + left.view(-1, 1, 1)  # (B, C, H): where each line of the result begins in `padded`
    windows = padded.reshape(-1).unfold(0, width, 1)  # a view: every run of W pixels
    return windows.index_select(0, starts.view(-1)).view(count, channels, height, width)


def flip(images: Tensor, *, generator: torch.Generator, part: Part | None = None) -> Tensor:
    """Each image as it is or mirrored left to right, with probability 1/2.

    Args:
        images: (B, C, H, W) of any dtype.
        generator: Draws which.
        part: As for `crop`.

    Returns:
        (B, C, H, W).
    """
    count = len(images)
    (mirrored,) = _draw_integers(2, images, generator, part, rows=1)
    which = torch.arange(count, device=images.device) + count * mirrored
    return torch.cat([images, images.flip(-1)]).index_select(0, which)


def rotate(images: Tensor, *, degrees: float, generator: torch.Generator, part: Part | None = None) -> Tensor:
    """Each image turned about its centre by a random angle, uniform in -degrees ... degrees (see `turn`).

    Args:
        images: (B, C, H, W) of any dtype.
        degrees: The largest angle.
        generator: Draws the angles.
        part: As for `crop`.

    Returns:
        (B, C, H, W).
    """
    start, total = part or Part(0, len(images))
    uniform = torch.rand(total, generator=generator, device=generator.device)[start : start + len(images)]
    return turn(images, ((2.0 * uniform - 1.0) * degrees).to(images.device))


def turn(images: Tensor, angles: Tensor) -> Tensor:
    """Each image turned about its centre by its own angle; every pixel is that of the nearest place, or 0 (black).

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
    """(images / 255 - mean) / std.

    Args:
        images: (B, C, H, W) uint8.
        mean: One number for each channel, or a single one for all.
        std: Likewise, above 0.

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
    for k in range(channels):  # a plane at a time: faster than over all at once, as what is in between stays small
        result[:, k] = images[:, k].float().sub_(255.0 * centre[k]).div_(255.0 * scale[k])
    return result


def _per_channel(name: str, numbers: Sequence[float], channels: int) -> Sequence[float]:
    """One number for each channel."""
    if len(numbers) not in (1, channels):
        raise ValueError(
            f"{name} must have one number for each of {channels} channels, or a single one for all; "
            f"received {len(numbers)}: choose the normalisation of data with as many channels"
        )
    return numbers if len(numbers) == channels else [numbers[0]] * channels


def _draw_integers(
    end: int, images: Tensor, generator: torch.Generator, part: Part | None, *, rows: int = 2
) -> tuple[Tensor, ...]:
    """``rows`` tensors (B,) of integers, uniform in 0 ... end - 1."""
    start, total = part or Part(0, len(images))
    drawn = torch.randint(end, (rows, total), generator=generator, device=generator.device)
    return drawn[:, start : start + len(images)].to(images.device).unbind()


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images, in this order; the default is nothing.

    Attributes:
        padding: Of the random crop; 0 for none.
        flip: Whether images are mirrored left to right at random.
        degrees: The largest angle of the random rotation, at most 180; 0 for none.
    """

    padding: int = 0
    flip: bool = False
    degrees: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if not (isinstance(self.padding, int) and self.padding >= 0):
            raise ValueError(f"padding must be a whole number of pixels, 0 for none; received {self.padding!r}")
        if not 0.0 <= self.degrees <= 180.0:
            raise ValueError(f"degrees must lie in 0 ... 180, the largest angle either way; received {self.degrees!r}")

    def apply(self, images: Tensor, generator: torch.Generator, part: Part | None = None) -> Tensor:
        """The images augmented.

        Args:
            images: (B, C, H, W) of any dtype; not changed.
            generator: Draws everything that is random: the same state gives the same result.
            part: As for `crop`.

        Returns:
            (B, C, H, W); the images themselves where there is nothing to do.
        """
        if self.padding:
            images = crop(images, padding=self.padding, generator=generator, part=part)
        if self.flip:
            images = flip(images, generator=generator, part=part)
        if self.degrees:
            images = rotate(images, degrees=self.degrees, generator=generator, part=part)
        return images


@dataclass(frozen=True)
class Recipe:
    """How the images of a data set are prepared: see `normalise` and `Augmentation`."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: Augmentation


# cifar10, cifar100, mnist: the data loaders of github.com/cswjl/eps-softmax, which the paper's own code builds on.
# cifar10n, cifar100n: those of github.com/UCSC-REAL/cifar-10-100n; the first one's deviation is a mean over images.
# imagenet: the numbers of torchvision's models; the published random resized crop and colour jitter are not done here.
# none: pixels scaled to 0 ... 1 and nothing else.
RECIPES: dict[str, Recipe] = {
    "cifar10": Recipe(
        mean=(0.49139968, 0.48215827, 0.44653124),
        std=(0.24703233, 0.24348505, 0.26158768),
        augmentation=Augmentation(padding=4, flip=True),
    ),
    "cifar100": Recipe(
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        augmentation=Augmentation(padding=4, flip=True, degrees=20.0),
    ),
    "cifar10n": Recipe(
        mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010), augmentation=Augmentation(padding=4, flip=True)
    ),
    "cifar100n": Recipe(
        mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761), augmentation=Augmentation(padding=4, flip=True)
    ),
    "mnist": Recipe(mean=(0.1307,), std=(0.3081,), augmentation=Augmentation()),
    "imagenet": Recipe(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), augmentation=Augmentation(flip=True)),
    "none": Recipe(mean=(0.0,), std=(1.0,), augmentation=Augmentation()),
}
