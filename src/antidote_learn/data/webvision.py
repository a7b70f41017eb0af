"""mini-WebVision, the images that Google found for the first 50 classes of WebVision 1.0, in its official files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from antidote_learn._types import Arrays, ImageFiles

CLASSES = 50
SIZE = 224  # the side of a decoded image, where the protocol's recipe has no side of its own
FOLDER = "webvision"
TRAIN, TEST, NAMES = "info/train_filelist_google.txt", "info/val_filelist.txt", "info/synsets.txt"
TEST_IMAGES = "val_images_256"
OFFICIAL = {TRAIN: 65_944, TEST: 2_500}  # the number of images of the first 50 classes
SITE = "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html"
IMAGENET_NUMBER = re.compile("n[0-9]{8}")  # the form of a number in WordNet, which ImageNet names classes by
ARCHIVES = ("info.tar", "google_resized_256.tar", "val_images_256.tar")

Entry = tuple[str, int]
"""The path and the label of an image."""


def read_webvision(root: Path) -> Arrays:
    """Read the data set below ``root / "webvision"``, as it is published.

    A training label is the query that found the image, and nobody knows which labels are wrong. The test part is the
    validation images, whose labels people have verified. Every image must be there. Images are not decoded as a test,
    as 70,000 of them take minutes.

    Raises:
        FileNotFoundError: A list or an image is missing; the message says what to put where.
        ValueError: A list cannot be understood.
    """
    folder = root / FOLDER
    train, test = (_read_list(folder / name) for name in (TRAIN, TEST))
    _check_images(folder, [path for path, _ in train])
    _check_images(folder / TEST_IMAGES, [path for path, _ in test])
    return Arrays(
        "mini-webvision",
        ImageFiles(folder, tuple(path for path, _ in train), SIZE),
        np.array([label for _, label in train], dtype=np.int64),
        read_class_names(folder / NAMES),
        test_inputs=ImageFiles(folder / TEST_IMAGES, tuple(path for path, _ in test), SIZE),
        test_labels=np.array([label for _, label in test], dtype=np.int64),
        test_is_clean=True,
        notes=(*_note_counts(TRAIN, train), *_note_counts(TEST, test)),
    )


def read_class_names(path: Path) -> tuple[str, ...]:
    """Read class names from the first 50 lines, after an ImageNet number; without a file the labels are the names."""
    if not path.is_file():
        return tuple(map(str, range(CLASSES)))
    names = tuple(name for _, name in _class_lines(path))
    if len(set(names) - {""}) < CLASSES:
        raise ValueError(
            f"{path} must begin with {CLASSES} lines of an ImageNet number and a name of its own; restore it, or "
            "remove it to have numbers for names"
        )
    return names


def read_class_numbers(path: Path) -> tuple[str, ...]:
    """Read the ImageNet numbers of the classes, such as n01440764, from the first 50 lines."""
    if not path.is_file():
        raise _absence_error(path, path.parents[1])
    numbers = tuple(number for number, _ in _class_lines(path))
    if len({number for number in numbers if IMAGENET_NUMBER.fullmatch(number)}) < CLASSES:
        raise ValueError(
            f"{path} must begin with {CLASSES} lines of an ImageNet number of its own, such as n01440764, and a name; "
            "restore it"
        )
    return numbers


def _class_lines(path: Path) -> list[tuple[str, str]]:
    """Read the ImageNet number and the name in each of the first 50 lines."""
    words = [line.partition(" ") for line in path.read_text(encoding="utf-8").splitlines()[:CLASSES]]
    return [(number, name.strip()) for number, _, name in words]


def _read_list(path: Path) -> list[Entry]:
    """Read the entries of the first 50 classes from a list."""
    if not path.is_file():
        raise _absence_error(path, path.parents[1])
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isdecimal():
            raise ValueError(f"{path}, line {number}: {line!r} is no path and label; restore the official file")
        if int(label) < CLASSES:
            entries.append((name, int(label)))
    if not entries:
        raise ValueError(f"{path} lists no image of the labels 0 ... {CLASSES - 1}; restore the official file")
    return entries


def missing_images(root: Path, names: list[str]) -> list[str]:
    """The images that are not there; to list each folder once is quicker than to ask for each file."""
    there = {
        parent: set(os.listdir(root / parent)) if (root / parent).is_dir() else set()
        for parent in {os.path.dirname(name) for name in names}
    }
    return [name for name in names if os.path.basename(name) not in there[os.path.dirname(name)]]


def _check_images(root: Path, names: list[str]) -> None:
    """Raise FileNotFoundError for a missing image."""
    lost = missing_images(root, names)
    if lost:
        folder = root.parent if root.name == TEST_IMAGES else root
        raise _absence_error(root / lost[0], folder, f" ({len(lost)} of {len(names)} images are)")


def _absence_error(path: Path, folder: Path, more: str = "") -> FileNotFoundError:
    return FileNotFoundError(
        f"mini-webvision: {path} is missing{more}: unpack {', '.join(ARCHIVES)} of {SITE} in {folder}, or name another "
        "folder with `data_root` or ANTIDOTE_DATA; `download=True` does not fetch them, as they have 18 GB"
    )


def _note_counts(name: str, entries: list[Entry]) -> tuple[str, ...]:
    """Write a note where a list has another length than the official one, as no digest is published."""
    if len(entries) == OFFICIAL[name]:
        return ()
    return (
        f"{name} lists {len(entries):,} images of the first {CLASSES} classes, the official one {OFFICIAL[name]:,}",
    )
