"""Folders of images by class: their image files, which of these can be read, and the pixels."""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from antidote_learn._types import Arrays, ImageFiles
from antidote_learn.data.safety import check_name, check_regular, is_text, readable_name

EXTENSIONS = (
    ".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")  # not EPS, which starts a program
LAYOUT = "put images into FOLDER/CLASS/, or into FOLDER/train/CLASS/ and FOLDER/test/CLASS/ (or val)"
NAMED = 5  # files that a note names at most, so that it fits into a few lines
BATCH = 16  # images that a worker decodes between two calls of `progress`
PROBE = 8  # the side to which an image is decoded as a test, small to be quick

Progress = Callable[[int, int], None]
"""A function of (images done, images in all)."""


class Candidate(NamedTuple):
    """An image file to check.

    Attributes:
        root: The folder that ``name`` is relative to.
        name: The file.
        label: Its class.
        side: The length of its shorter side, once it was read.
        error: The reason why it cannot be read; empty where it can.
    """

    root: Path
    name: str
    label: str = ""
    side: int = 0
    error: str = ""


def read_folder(
    path: str | Path,
    *,
    size: int | None = None,
    strict: bool = False,
    test: str | Path | None = None,
    progress: Progress | None = None,
) -> Arrays:
    """Read a folder with one sub-folder of images a class, or with such folders in ``train`` and ``test`` (or ``val``).

    Every image is decoded once as a test. An image is left out and named in `Arrays.notes` if it cannot be read, has
    more pixels than Pillow's ``Image.MAX_IMAGE_PIXELS``, is a pipe or a device, or has a name that is not UTF-8. Hidden
    files and files without an image's extension are ignored. A link to a folder can be a class, unless it leads back
    to where it lies; deeper links are not followed.

    Args:
        path: The folder.
        size: The side of the square that an image is decoded to; by default 32, 64 or 224 where the median of the
            shorter sides is up to 48, up to 96, or above.
        strict: Whether an image that cannot be read is an error.
        test: Another folder of images by class, to test on.
        progress: Called with the number of images read.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: There are fewer than two classes, a test class that training does not have, or, with ``strict``, an
            image that cannot be read.
    """
    if size is not None and size < 1:
        raise ValueError(f"size must be the side of an image in pixels, at least 1; received {size!r}")
    folder = _folder(path)
    root, test_root = _splits(folder, None if test is None else _folder(test))
    listed, test_listed = _list_images(root), [] if test_root is None else _list_images(test_root)
    checked = check_all(listed + test_listed, progress)
    notes = note_unreadable(checked, strict=strict)
    train, held = (
        [image for image in part if not image.error] for part in (checked[: len(listed)], checked[len(listed) :])
    )
    classes = _class_folders(root, train)
    notes += _note_empty_folders(root, classes)
    side = size or default_size(train)
    data = Arrays(folder.resolve().name, *_number_labels(root, train, classes, side), classes, notes=notes)
    if test_root is None:
        return data
    _check_test(test_root, held, classes)
    test_inputs, test_labels = _number_labels(test_root, held, classes, side)
    return replace(data, test_inputs=test_inputs, test_labels=test_labels)


def image_names(path: str | Path) -> tuple[Path, list[str]]:
    """The folder that holds the class folders of training, and all image files below it, readable or not."""
    root, _ = _splits(_folder(path), None)
    return root, [image.name for image in _list_images(root)]


def decode(files: ImageFiles, index: ArrayLike) -> NDArray[np.uint8]:
    """Decode the images of the rows ``index`` (B,) to (B, 3, size, size) in RGB.

    An image is turned upright by its EXIF orientation, and its largest centred square is resized with an antialiased
    bilinear filter. Transparent pixels become white; 16 bits are cut to their upper 8.

    Raises:
        ValueError: A file cannot be read.
    """
    rows = np.asarray(index, dtype=np.int64)
    pixels = np.empty((len(rows), 3, files.size, files.size), dtype=np.uint8)
    for at, row in enumerate(rows):
        path = files.root / files.names[row]
        try:
            with open_image(path) as image:
                pixels[at] = np.asarray(_square(image, files.size)).transpose(2, 0, 1)
        except Exception as error:
            raise ValueError(
                f"{path} cannot be read ({_reason(error)}): restore it, or leave it out of the data"
            ) from error
    return pixels


def decode_all(files: ImageFiles, *, workers: int, progress: Progress | None = None) -> NDArray[np.uint8]:
    """Decode all images to one array (N, 3, size, size), by ``workers`` threads."""
    pixels = np.empty((len(files), 3, files.size, files.size), dtype=np.uint8)

    def fill(rows: range) -> None:
        pixels[rows.start : rows.stop] = decode(files, rows)

    _run_in_threads(fill, len(files), workers, progress)
    return pixels


def _run_in_threads(work: Callable[[range], None], count: int, workers: int, progress: Progress | None) -> None:
    """Run ``work`` on batches of the rows 0 ... count - 1 in threads; Pillow decodes and resizes outside the GIL."""
    batches = [range(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]
    with ThreadPoolExecutor(workers) as pool:
        for rows, _ in zip(batches, pool.map(work, batches), strict=True):
            if progress is not None:
                progress(rows.stop, count)


def _folder(path: str | Path) -> Path:
    folder = Path(os.path.expanduser(path))
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise FileNotFoundError(f"{folder} {kind}: expected a folder of images by class; {LAYOUT}")
    return folder


def _subfolders(folder: Path) -> list[Path]:
    """The folders in a folder by name, without hidden ones and links that lead back to where they lie."""
    own = folder.resolve()
    found = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(path for path in found if not own.is_relative_to(path.resolve()))


def _splits(folder: Path, test: Path | None) -> tuple[Path, Path | None]:
    """The folders that hold the class folders of training and of the test part, if there is one."""
    inside = {path.name: path for path in _subfolders(folder) if _subfolders(path)}
    if "train" not in inside:
        return folder, test
    return inside["train"], test or inside.get("test") or inside.get("val")


def _list_images(root: Path) -> list[Candidate]:
    """List the image files under each class folder, sorted."""
    images = []
    for folder in _subfolders(root):
        check_name(folder)
        images += [Candidate(root, name, folder.name) for name in names_below(folder, root)]
    return sorted(images)


def names_below(folder: Path, root: Path) -> Iterator[str]:
    """Yield the files below a folder that are named like images, relative to ``root``.

    Hidden files and folders, and links to folders, are left out.
    """
    waiting = [folder]
    while waiting:  # a list, as folders may lie deeper in each other than Python's calls may
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif path.suffix.lower() in EXTENSIONS and not os.path.isdir(path):
                    yield path.relative_to(root).as_posix()


def check_all(images: list[Candidate], progress: Progress | None) -> list[Candidate]:
    """Decode each image as a test, and note its side or its error."""
    checked = list(images)

    def check(rows: range) -> None:
        checked[rows.start : rows.stop] = [_check(images[row]) for row in rows]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # `open_image` raises an error
        _run_in_threads(check, len(images), os.cpu_count() or 1, progress)
    return checked


def _check(image: Candidate) -> Candidate:
    if image.error:
        return image
    if not is_text(image.name):
        return image._replace(error="the name is not UTF-8")
    try:
        with open_image(image.root / image.name) as pixels:
            side = min(pixels.size)
            _square(pixels, PROBE)
    except Exception as error:  # Pillow's decoders raise anything on a damaged file
        return image._replace(error=_reason(error))
    return image._replace(side=side)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return "not an image" if isinstance(error, UnidentifiedImageError) else str(error) or type(error).__name__


@functools.cache
def _known_formats() -> list[str]:
    """The formats that the installed Pillow knows; AVIF is among them since 11.3."""
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


@contextlib.contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image of at most Pillow's number of pixels; Pillow itself only warns up to twice as many."""
    check_regular(path)
    with Image.open(path, formats=_known_formats()) as image:
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and image.width * image.height > limit:
            raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels, at most {limit} are accepted")
        yield image


def _square(image: Image.Image, size: int) -> Image.Image:
    """Cut the centre out of an image, in RGB, and resize it to (size, size)."""
    return ImageOps.fit(convert_to_rgb(turn_upright(image, size)), (size, size), Image.Resampling.BILINEAR)


def turn_upright(image: Image.Image, size: int) -> Image.Image:
    """Turn an image by its EXIF orientation; a JPEG file is decoded no larger than a filter to ``size`` needs."""
    image.draft(None, (2 * size, 2 * size))
    ImageOps.exif_transpose(image, in_place=True)
    return image


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image to RGB; transparent pixels become white, and 16 bits are cut to their upper 8."""
    if image.mode.startswith("I"):  # Pillow would keep the lower 8 of 16 bits
        image = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def note_unreadable(images: list[Candidate], *, strict: bool) -> tuple[str, ...]:
    """Write a note on the images that were left out; with ``strict`` they are an error."""
    bad = [image for image in images if image.error]
    if not bad:
        return ()
    named = ", ".join(f"{readable_name(image.root / image.name)} ({image.error})" for image in bad[:NAMED])
    more = f", and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    if strict:
        raise ValueError(f"{len(bad)} of {len(images)} images cannot be read: {named}{more}; repair or remove them")
    return (f"{len(bad)} of {len(images)} images cannot be read and were left out: {named}{more}",)


def _class_folders(root: Path, images: list[Candidate]) -> tuple[str, ...]:
    classes = tuple(sorted({image.label for image in images}))
    if len(classes) < 2:
        found = f"one, {classes[0]!r}" if classes else "none"
        raise ValueError(f"{root} must hold readable images of at least two classes, found {found}; {LAYOUT}")
    return classes


def _note_empty_folders(root: Path, classes: tuple[str, ...]) -> tuple[str, ...]:
    empty = [path.name for path in _subfolders(root) if path.name not in classes]
    return (f"no class was made of folders without readable images: {', '.join(empty)}",) if empty else ()


def _check_test(root: Path, images: list[Candidate], classes: tuple[str, ...]) -> None:
    if not images:
        raise ValueError(f"{root} holds no readable images by class to test on; {LAYOUT}")
    if unknown := sorted({image.label for image in images} - {*classes}):
        raise ValueError(
            f"{root} has classes that training does not have, {', '.join(unknown)}: rename or remove these folders"
        )


def default_size(images: list[Candidate]) -> int:
    """The side to which images are decoded, by the median of their shorter sides."""
    median = statistics.median(image.side for image in images)
    return 32 if median <= 48 else 64 if median <= 96 else 224


def _number_labels(
    root: Path, images: list[Candidate], classes: tuple[str, ...], size: int
) -> tuple[ImageFiles, NDArray[np.int64]]:
    number = {name: at for at, name in enumerate(classes)}
    labels = np.array([number[image.label] for image in images], dtype=np.int64)
    return ImageFiles(root, tuple(image.name for image in images), size), labels
