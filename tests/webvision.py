"""Small trees with the official layouts of WebVision 1.0 and of ImageNet's validation images."""

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from antidote_learn.data import imagenet, webvision

IN_CLASS = 2  # the images of a class in the small tree of ImageNet


def tree(root: Path, *, synsets: bool = True, side: int = 8) -> Path:
    """100 training and 50 test images of the 50 classes; further ones of other classes are listed, but not there."""
    draw, folder = np.random.default_rng(0), root / "webvision"
    train = [(f"google/q{k % 50 + 1:04}/{k}.jpg", k % 50) for k in draw.permutation(100)]
    test = [(f"val{k:06}.jpg", k) for k in draw.permutation(50)]
    for path, label in [*train, *(("val_images_256/" + path, label) for path, label in test)]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side, side + 2), (5 * label, 250 - 5 * label, 9)).save(folder / path)
    (folder / "info").mkdir()
    write(folder / webvision.TRAIN, [*train[:9], ("google/q0900/a.jpg", 50), *train[9:], ("google/q1631/b.jpg", 999)])
    write(folder / webvision.TEST, [("val000099.jpg", 633), *test])
    if synsets:
        lines = [f"n{k:08} word {k}, another" for k in range(1000)]
        (folder / webvision.NAMES).write_text("\n".join(lines) + "\n")
    return folder


def write(path: Path, entries) -> None:
    path.write_text("".join(f"{name} {label}\n" for name, label in entries))


def imagenet_tree(root: Path, layout: str, *, side: int = 8) -> dict[str, int]:
    """Images of the 50 classes, `IN_CLASS` of each; gives the label of each by its path below the folder ``imagenet``.

    The layout is the folder of all images, as published, or "by class". The other 950 classes have no images.
    """
    draw, folder = np.random.default_rng(1), root / "imagenet"
    numbers = [f"n{k:08}" for k in draw.permutation(1000)]  # by place in the competition, which is another order
    truth = draw.permutation(np.repeat(np.arange(1000), IN_CLASS))
    labels = {}
    for at, place in enumerate(truth, start=1):
        label, name = int(numbers[place][1:]), f"ILSVRC2012_val_{at:08}.JPEG"
        if label < 50:
            labels[f"val/{numbers[place]}/{name}" if layout == "by class" else f"{layout}/{name}"] = label
    for path, label in labels.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side + 4, side), (5 * label, 250 - 5 * label, int(draw.integers(250)))).save(folder / path)
    if layout != "by class":
        (folder / imagenet.DEVKIT).mkdir(parents=True)
        (folder / imagenet.GROUND_TRUTH).write_text("".join(f"{place + 1}\n" for place in truth))
        savemat(folder / imagenet.SYNSETS, {"synsets": synsets(numbers)})
    return labels


def synsets(numbers: list[str]) -> np.ndarray:
    """The table of the development kit's meta.mat: the classes, and above them words for several classes."""
    rows = [(k + 1, number, f"word {number}", 0.0) for k, number in enumerate(numbers)]
    rows += [(k, f"n{99_000_000 + k}", "a word above", 2.0) for k in range(len(numbers) + 1, len(numbers) + 9)]
    fields = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "num_children")]
    return np.array(rows, dtype=fields)[:, None]
