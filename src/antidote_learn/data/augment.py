"""Images on their way into a network: random crops, flips and rotations, then normalisation, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from antidote_learn.data.colours import Amounts, jitter
from antidote_learn.data.crops import Range, resized_crop
from antidote_learn.data.draws import Part as Part
from antidote_learn.data.draws import draw_integers, draw_uniform


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
    top, left = draw_integers(2 * padding + 1, images, generator, part)
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
    (mirrored,) = draw_integers(2, images, generator, part, rows=1)
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
    return turn(images, (2.0 * draw_uniform(images, generator, part, rows=1)[0] - 1.0) * degrees)


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


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images, in this order; the default is nothing.

    Attributes:
        padding: Of the random crop; 0 for none.
        size: Side to which a random box is resampled (`resized_crop`); 0 for none.
        scale: Range of the box's area, as a share of the image's.
        ratio: Range of its width over its height.
        flip: Whether images are mirrored left to right at random.
        degrees: The largest angle of the random rotation, at most 180; 0 for none.
        colour: How much brightness, contrast, saturation (each at most 1) and hue (at most 0.5) change (`jitter`).
    """

    padding: int = 0
    size: int = 0
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)
    flip: bool = False
    degrees: float = 0.0
    colour: Amounts = (0.0, 0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if not (isinstance(self.padding, int) and self.padding >= 0):
            raise ValueError(f"padding must be a whole number of pixels, 0 for none; received {self.padding!r}")
        if not 0.0 <= self.degrees <= 180.0:
            raise ValueError(f"degrees must lie in 0 ... 180, the largest angle either way; received {self.degrees!r}")
        if not (isinstance(self.size, int) and self.size >= 0):
            raise ValueError(f"size must be a side in pixels, 0 for none; received {self.size!r}")
        if not 0.0 < self.scale[0] <= self.scale[1] <= 1.0:
            raise ValueError(f"scale must be a range of shares in (0, 1]; received {self.scale!r}")
        if not 0.0 < self.ratio[0] <= self.ratio[1] < float("inf"):
            raise ValueError(f"ratio must be a range of width over height above 0; received {self.ratio!r}")
        if not all(0.0 <= amount <= most for amount, most in zip(self.colour, (1.0, 1.0, 1.0, 0.5), strict=True)):
            raise ValueError(
                "colour must be the amounts of brightness, contrast and saturation in 0 ... 1 and of hue in 0 ... 0.5; "
                f"received {self.colour!r}"
            )

    def apply(self, images: Tensor, generator: torch.Generator, part: Part | None = None) -> Tensor:
        """The images augmented.

        Args:
            images: (B, C, H, W) of any dtype, uint8 where they are resampled or their colours change; not changed.
            generator: Draws everything that is random: the same state gives the same result.
            part: As for `crop`.

        Returns:
            (B, C, H, W) or (B, C, size, size); the images themselves where there is nothing to do.
        """
        if self.padding:
            images = crop(images, padding=self.padding, generator=generator, part=part)
        if self.size:
            box: dict[str, Range] = {"scale": self.scale, "ratio": self.ratio}
            images = resized_crop(images, size=self.size, **box, generator=generator, part=part)
        if self.flip:
            images = flip(images, generator=generator, part=part)
        if self.degrees:
            images = rotate(images, degrees=self.degrees, generator=generator, part=part)
        if any(self.colour):
            images = jitter(images, amounts=self.colour, generator=generator, part=part)
        return images


@dataclass(frozen=True)
class Recipe:
    """How the images of a data set are prepared: see `normalise` and `Augmentation`.

    Where the augmentation has a ``size``, other images are cut to it in their centre, and files are decoded to squares
    of ``side`` before either.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: Augmentation
    side: int = 0


# cifar10, cifar100, mnist: the data loaders of github.com/cswjl/eps-softmax, which the paper's own code builds on.
# cifar10n, cifar100n: those of github.com/UCSC-REAL/cifar-10-100n; the first one's deviation is a mean over images.
# imagenet: that of the same code for mini-WebVision. There a box is drawn of the whole image, here of the square in its
# centre, at a side of 256.
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
    "imagenet": Recipe(
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        augmentation=Augmentation(size=224, flip=True, colour=(0.4, 0.4, 0.4, 0.2)),
        side=256,
    ),
    "none": Recipe(mean=(0.0,), std=(1.0,), augmentation=Augmentation()),
}
