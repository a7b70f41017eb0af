"""ImageNet's validation images (ILSVRC 2012) of mini-WebVision's classes, as they are published or sorted by class."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from antidote_learn._types import ImageFiles
from antidote_learn.data import webvision
from antidote_learn.data.image_folders import names_below

PLACE = "imagenet"  # the folder below the data root
AS_PUBLISHED = ("ILSVRC2012_img_val", "val")  # the folders that may hold the images as they are published
BY_CLASS = "val"  # the folder that may hold the images in a folder for each class
IMAGE = "ILSVRC2012_val_{:08}.JPEG"  # the name of a published image by its number, from 1
DEVKIT = "ILSVRC2012_devkit_t12/data"
GROUND_TRUTH, SYNSETS = f"{DEVKIT}/ILSVRC2012_validation_ground_truth.txt", f"{DEVKIT}/meta.mat"
IN_CLASS = 50  # the number of validation images of every class
PUBLISHER = "https://image-net.org/challenges/LSVRC/2012/"


def read_imagenet_validation(root: Path) -> tuple[ImageFiles, NDArray[np.int64]]:
    """Read the images of mini-WebVision's classes below ``root / "imagenet"``, and their labels (N,), by image name.

    The label of a class is its place in the first 50 lines of WebVision's ``info/synsets.txt``. The images lie in a
    folder for each class, or all in one, where the development kit tells their classes; nothing of it is executed.
    Every image must be there. Images are not decoded as a test.

    Raises:
        FileNotFoundError: An image or a list is missing; the message says what to put where.
        ValueError: A list cannot be understood, or a class has another number of images than the official one.
    """
    folder = root / PLACE
    numbers = webvision.read_class_numbers(root / webvision.FOLDER / webvision.NAMES)
    by_class = any((folder / BY_CLASS / number).is_dir() for number in numbers)
    entries = _class_entries(folder, numbers) if by_class else _published_entries(folder, numbers)
    _check_counts(folder, numbers, entries, by_class=by_class)
    names, labels = zip(*sorted(entries, key=lambda entry: os.path.basename(entry[0])), strict=True)
    return ImageFiles(folder, names, webvision.SIZE), np.array(labels, dtype=np.int64)


def _class_entries(folder: Path, numbers: tuple[str, ...]) -> list[webvision.Entry]:
    """List the images that lie in a folder for each class."""
    return [
        (name, label)
        for label, number in enumerate(numbers)
        for name in names_below(folder / BY_CLASS / number, folder)
    ]


def _published_entries(folder: Path, numbers: tuple[str, ...]) -> list[webvision.Entry]:
    """List the images that all lie in one folder, by the development kit."""
    place = next((name for name in AS_PUBLISHED if (folder / name).is_dir()), None)
    if place is None:
        raise _imagenet_error(folder / AS_PUBLISHED[0], folder)
    for name in (GROUND_TRUTH, SYNSETS):
        if not (folder / name).is_file():
            raise _imagenet_error(folder / name, folder)
    known, labels = _read_synsets(folder / SYNSETS), {number: label for label, number in enumerate(numbers)}
    classes = [known[number] for number in _read_ground_truth(folder / GROUND_TRUTH, set(known))]
    entries = [
        (f"{place}/{IMAGE.format(at)}", labels[number])
        for at, number in enumerate(classes, start=1)
        if number in labels
    ]
    lost = webvision.missing_images(folder, [name for name, _ in entries])
    if lost:
        raise _imagenet_error(folder / lost[0], folder, f" ({len(lost)} of {len(entries)} images are)")
    return entries


def _read_synsets(path: Path) -> dict[int, str]:
    """Read ImageNet's number of each class, such as n01440764, by the class's place in the competition, from 1."""
    try:
        synsets = loadmat(path, appendmat=False, squeeze_me=True, variable_names=["synsets"])["synsets"]
        pairs = zip(synsets["ILSVRC2012_ID"], synsets["WNID"], strict=True)
        return {int(place): str(number) for place, number in pairs}
    except Exception as error:  # a damaged file raises anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{path} cannot be understood ({reason:.200}); restore the official file") from error


def _read_ground_truth(path: Path, known: set[int]) -> list[int]:
    """Read the class of each image, by the class's place in the competition."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip().isdecimal() or int(line) not in known:
            raise ValueError(f"{path}, line {number}: {line!r:.60} is no number of a class; restore the official file")
    return [int(line) for line in lines]


def _check_counts(folder: Path, numbers: tuple[str, ...], entries: list[webvision.Entry], *, by_class: bool) -> None:
    """Raise an error where a class has another number of images than the official one, as no digest is published."""
    counts = Counter(label for _, label in entries)
    for label, number in enumerate(numbers):
        found = counts[label]
        if found == IN_CLASS:
            continue
        if not by_class:
            raise ValueError(
                f"{folder / GROUND_TRUTH} has {found} images of the class {number}, the official one {IN_CLASS}; "
                "restore the official file"
            )
        if found < IN_CLASS:
            raise _imagenet_error(
                folder / BY_CLASS / number / "*.JPEG", folder, f" ({IN_CLASS - found} of {IN_CLASS} images are)"
            )
        raise ValueError(
            f"{folder / BY_CLASS / number} holds {found} images, the official set {IN_CLASS} of a class; remove those "
            "that are not of the validation set"
        )


def _imagenet_error(path: Path, folder: Path, more: str = "") -> FileNotFoundError:
    return FileNotFoundError(
        f"imagenet-val: {path} is missing{more}: unpack ILSVRC2012_img_val.tar of {PUBLISHER} in "
        f"{folder / AS_PUBLISHED[0]} and ILSVRC2012_devkit_t12.tar.gz in {folder}, or put the images by class into "
        f"{folder / BY_CLASS}/n01440764 and so on, or name another folder with `data_root` or ANTIDOTE_DATA; "
        "`download=True` does not fetch them, as the publisher asks for a registration"
    )
