"""A small tree with the official layout of WebVision 1.0."""

from pathlib import Path

import numpy as np
from PIL import Image

from antidote_learn.data import webvision


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
