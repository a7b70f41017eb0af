"""Augmentations of training images, and the published recipes for the images of a data set."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antidote_learn.data.augment import Part, crop, flip, rotate
from antidote_learn.data.colours import Amounts, jitter
from antidote_learn.data.crops import Range, crop_and_resize


@dataclass(frozen=True)
class Augmentation:
    """The changes that training images go through, in this order; by default there are none.

    Attributes:
        padding: Pixels added on every side for the random crop; 0 for none.
        size: The side to which a random box is resampled (`crop_and_resize`); 0 for none.
        scale: The range of the box's area, as a share of the image's.
        ratio: The range of the box's width over its height.
        flip: Whether images are mirrored left to right at random.
        degrees: The largest angle of the random rotation, at most 180; 0 for none.
        colour: The amounts of brightness, contrast, saturation (each at most 1) and hue (at most 0.5) (`jitter`).
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
        """Augment the images.

        Args:
            images: (B, C, H, W) of any dtype, uint8 where they are resampled or their colours change; not changed.
            generator: Draws everything that is random: the same state gives the same result.
            part: The images' place in the whole batch, as for `crop`.

        Returns:
            (B, C, H, W) or (B, C, size, size); the images themselves where there is nothing to do.
        """
        if self.padding:
            images = crop(images, padding=self.padding, generator=generator, part=part)
        if self.size:
            box: dict[str, Range] = {"scale": self.scale, "ratio": self.ratio}
            images = crop_and_resize(images, size=self.size, **box, generator=generator, part=part)
        if self.flip:
            images = flip(images, generator=generator, part=part)
        if self.degrees:
            images = rotate(images, degrees=self.degrees, generator=generator, part=part)
        if any(self.colour):
            images = jitter(images, amounts=self.colour, generator=generator, part=part)
        return images


@dataclass(frozen=True)
class Recipe:
    """The preparation of a data set's images: their normalisation, and the augmentation of training images.

    Where the augmentation has a ``size``, test images are cut to it in their centre. Image files are first decoded to
    squares of ``side``.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: Augmentation
    side: int = 0


# cifar10, cifar100, mnist follow the data loaders of github.com/cswjl/eps-softmax, on which the paper's code builds.
# cifar10n, cifar100n follow github.com/UCSC-REAL/cifar-10-100n; the deviation of cifar10n is a mean over images.
# imagenet follows eps-softmax for mini-WebVision. There a box is drawn of the whole image, here of the square in its
# centre, at a side of 256.
# none scales pixels to 0 ... 1 and does nothing else.
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
