"""The built-in data sets by name: their official files, the checks of these, and the arrays they give.

The file is longer than others because half of it is the literal table `DATA`.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antidote_learn._types import Arrays
from antidote_learn.data.downloads import Progress, extract, fetch
from antidote_learn.data.formats import content_digest, read_cifar, read_idx
from antidote_learn.data.webvision import CLASSES, read_webvision

Pixels = NDArray[np.uint8]
Features = NDArray[np.float32]
Labels = NDArray[np.int64]
IDX_NAMES = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
)  # fmt: skip

Read = Callable[[Sequence[Path]], tuple[Pixels | Features, Labels, Pixels | Features, Labels]]
"""A function of the official files, in order, that gives (inputs, labels, test inputs, test labels)."""


@dataclass(frozen=True)
class Download:
    """A publisher's offer, a ``.tar.gz`` of several files or one file as ``.gz``, with its SHA-256."""

    url: str
    sha256: str

    @property
    def is_archive(self) -> bool:
        """Whether the offer holds several files."""
        return self.url.endswith(".tar.gz")


@dataclass(frozen=True)
class File:
    """An official file: its path below the data root, the SHA-256 of its uncompressed content, and its download."""

    path: str
    sha256: str
    download: Download


@dataclass(frozen=True)
class Human:
    """Labels given by people: a ``.npz`` below the data root, its key for each choice, and their publisher."""

    path: str
    keys: dict[str, str]
    publisher: str


@dataclass(frozen=True)
class Source:
    """A named data set.

    Attributes:
        about: One line for people.
        classes: The class names; label k is ``classes[k]``.
        read: A function that turns the files into arrays; None where there is a ``load``.
        files: The official files, in the order ``read`` takes them; none where the data comes inside a package.
        human: The human labels, if there are any.
        which: The human labels that training sees; None for the publisher's labels.
        load: A function that reads everything below the data root, where the files have no digests.
    """

    about: str
    classes: tuple[str, ...]
    read: Read | None
    files: tuple[File, ...] = ()
    human: Human | None = None
    which: str | None = None
    load: Callable[[Path], Arrays] | None = None


def data_root(root: str | Path | None = None) -> Path:
    """The folder of the official files: the argument, else ANTIDOTE_DATA, else ``~/.cache/antidote``."""
    return Path(root or os.environ.get("ANTIDOTE_DATA") or "~/.cache/antidote").expanduser()


def load_named(
    name: str, *, root: str | Path | None = None, download: bool = False, progress: Progress | None = None
) -> Arrays:
    """Load the data set of a built-in name.

    Images are (N, C, H, W) uint8 or stay on disk, features are (N, D) float32. The digest of every file is checked
    before it is used, where the publisher gives one.

    Args:
        name: A key of `DATA`.
        root: The folder of the official files, see `data_root`.
        download: Whether missing files are fetched into it.
        progress: Called with the bytes fetched, file by file.

    Raises:
        ValueError: The name is unknown, or a file is not the official one.
        FileNotFoundError: A file is missing; the message says what to put where.
    """
    source, folder = _source(name), data_root(root)
    if source.load is not None:
        return source.load(folder)
    assert source.read is not None  # a source has `load` or `read`
    given = None if source.which is None else human_labels(name, source.which, root=folder)
    if download:
        _fetch_missing(source, folder, progress)
    inputs, clean, test_inputs, test_labels = source.read([_verify_file(name, file, folder) for file in source.files])
    labels, truth = (clean, clean) if given is None else given
    if not np.array_equal(truth, clean):
        raise ValueError(
            f"{name}: clean_label in the .npz differs from the data set's labels; restore the file, its rows in the"
            " order of the training samples"
        )
    return Arrays(name, inputs, labels, source.classes, clean, test_inputs, test_labels, test_is_clean=True)


def human_labels(name: str, which: str, *, root: str | Path | None = None) -> tuple[Labels, Labels]:
    """Read human labels and the clean labels, both (N,), in the order of the data set's training samples.

    Args:
        name: A data set that people labelled again: "cifar10" or "cifar100".
        which: aggregate, random1, random2, random3 or worse of cifar10; noisy of cifar100.
        root: The folder of ``cifar10n.npz`` and ``cifar100n.npz``, see `data_root`.

    Raises:
        ValueError: The data set has no human labels, the choice is unknown, or a file is damaged.
        FileNotFoundError: A file is missing; the message says what to put where.
    """
    source = _source(name)
    if source.human is None:
        names = ", ".join(name for name, other in DATA.items() if other.human and not other.which)
        raise ValueError(f"{name} has no human labels: received {which!r}, they exist for {names}")
    if which not in source.human.keys:
        raise ValueError(f"unknown human labels {which!r}: {name} has {', '.join(source.human.keys)}")
    labels, clean = _read_human(source.human, which, data_root(root))
    if labels.shape != clean.shape or not {*labels.tolist(), *clean.tolist()} <= {*range(len(source.classes))}:
        raise ValueError(
            f"{source.human.path} does not fit {name}: expected two equally long rows of labels in 0 ..."
            f" {len(source.classes) - 1}, found shapes {labels.shape} and {clean.shape}; restore the file"
        )
    return labels, clean


def _source(name: str) -> Source:
    if name not in DATA:
        raise ValueError(f"unknown data set {name!r}: built in are {', '.join(DATA)}; give a path for your own data")
    return DATA[name]


def _find_file(file: File, folder: Path) -> Path | None:
    """Find the file, plain or as the ``.gz`` that is published; None where it is missing."""
    names = [file.path] if file.download.is_archive else [file.path, f"{file.path}.gz"]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _verify_file(name: str, file: File, folder: Path) -> Path:
    """Check that a file has the official content, and give its path."""
    place, offer = _find_file(file, folder), file.download
    if place is None:
        how = f"unpack {offer.url} in {folder}" if offer.is_archive else f"put {offer.url} there, unpacked or not"
        raise FileNotFoundError(
            f"{name}: {folder / file.path} is missing: {how}, name another folder with `data_root` or ANTIDOTE_DATA,"
            " or fetch it with `download=True`"
        )
    if (found := content_digest(place)) != file.sha256:
        raise ValueError(
            f"{name}: {place} ({place.stat().st_size} bytes) is not the official file: SHA-256 of its content is"
            f" {found}, required {file.sha256}; remove it and fetch it again with `download=True`"
        )
    return place


def _fetch_missing(source: Source, folder: Path, progress: Progress | None) -> None:
    missing = [file for file in source.files if _find_file(file, folder) is None]
    for offer in dict.fromkeys(file.download for file in missing):
        paths = [file.path for file in missing if file.download == offer]
        if offer.is_archive:
            archive = folder / f"{offer.sha256}.tar.gz"  # its own name may be a copy of the user's
            fetch(offer.url, archive, sha256=offer.sha256, progress=progress)
            try:
                extract(archive, folder, members=paths)
            finally:
                archive.unlink()
        else:
            fetch(offer.url, folder / f"{paths[0]}.gz", sha256=offer.sha256, progress=progress)


def _read_human(human: Human, which: str, folder: Path) -> tuple[Labels, Labels]:
    place, key = folder / human.path, human.keys[which]
    if not place.is_file():
        raise FileNotFoundError(
            f"{place} is missing: save the arrays of {human.publisher} there with numpy.savez under their own names"
            f" (clean_label, {', '.join(human.keys.values())}); `download=True` cannot, they are published as a pickle"
        )
    try:
        with np.load(place, allow_pickle=False) as stored:
            return stored[key].astype(np.int64), stored["clean_label"].astype(np.int64)
    except (KeyError, ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{place} is damaged or lacks {key} or clean_label ({error}): restore the file") from error


def _read_cifar(paths: Sequence[Path], *, label_bytes: int) -> tuple[Pixels, Labels, Pixels, Labels]:
    """Read CIFAR's training files and, last, its test file; the finest label of a record is its last one."""
    train, test = (
        read_cifar(part, label_bytes=label_bytes, label_at=label_bytes - 1) for part in (paths[:-1], paths[-1:])
    )
    return *train, *test


def _read_idx(paths: Sequence[Path]) -> tuple[Pixels, Labels, Pixels, Labels]:
    """Read the four files of MNIST: images, labels, test images, test labels."""
    images, labels, test_images, test_labels = (read_idx(path) for path in paths)
    return images[:, None], labels.astype(np.int64), test_images[:, None], test_labels.astype(np.int64)


def _read_embedded(
    _: Sequence[Path], *, load: str, test_size: int | float
) -> tuple[Features, Labels, Features, Labels]:
    """Load a data set inside scikit-learn by the name of its function, and split it by class with a fixed seed."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    features, labels = getattr(datasets, load)(return_X_y=True)
    features, labels = features.astype(np.float32), labels.astype(np.int64)
    train, test, given, held = train_test_split(features, labels, test_size=test_size, stratify=labels, random_state=0)
    return train, given, test, held


def _read_digits(_: Sequence[Path]) -> tuple[Pixels, Labels, Pixels, Labels]:
    """Load the digits inside scikit-learn, whose 64 values from 0 to 16 become grey pixels."""
    train, labels, test, test_labels = _read_embedded((), load="load_digits", test_size=500)
    images, test_images = (np.round(x * 255 / 16).astype(np.uint8).reshape(-1, 1, 8, 8) for x in (train, test))
    return images, labels, test_images, test_labels


def _cifar_files(archive: Download, folder: str, digests: dict[str, str]) -> tuple[File, ...]:
    return tuple(File(f"{folder}/{name}", sha256, archive) for name, sha256 in digests.items())


def _idx_files(folder: str, site: str, *, content: tuple[str, ...], packed: tuple[str, ...]) -> tuple[File, ...]:
    """The four official idx files, with the digests of their content and of the ``.gz`` files on the site."""
    return tuple(
        File(f"{folder}/{name}", raw, Download(f"{site}/{name}.gz", gz))
        for name, raw, gz in zip(IDX_NAMES, content, packed, strict=True)
    )


_TEN_DIGITS = tuple("0123456789")
_CIFAR10 = Source(
    "CIFAR-10: 50,000 + 10,000 colour photographs of 10 kinds of things, 32 x 32",
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    partial(_read_cifar, label_bytes=1),
    _cifar_files(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
        "cifar-10-batches-bin",
        {
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        },
    ),
    Human(
        "cifar10n.npz",
        {
            "aggregate": "aggre_label",
            "random1": "random_label1",
            "random2": "random_label2",
            "random3": "random_label3",
            "worse": "worse_label",
        },
        "CIFAR-10_human.pt of github.com/UCSC-REAL/cifar-10-100n",
    ),
)
_CIFAR100_CLASSES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish",
    "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion",
    "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange",
    "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine",
    "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk",
    "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank",
    "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale",
    "willow_tree", "wolf", "woman", "worm",
)  # fmt: skip
_CIFAR100 = Source(
    "CIFAR-100: 50,000 + 10,000 colour photographs of 100 kinds of things, 32 x 32",
    _CIFAR100_CLASSES,
    partial(_read_cifar, label_bytes=2),
    _cifar_files(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
        "cifar-100-binary",
        {
            "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
            "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
        },
    ),
    Human("cifar100n.npz", {"noisy": "noisy_label"}, "CIFAR-100_human.pt of github.com/UCSC-REAL/cifar-10-100n"),
)


def _cifar10n(which: str, about: str) -> Source:
    return replace(_CIFAR10, about=f"CIFAR-10N: CIFAR-10 with {about}", which=which)


DATA: dict[str, Source] = {
    "digits": Source(
        "Handwritten digits, 1297 + 500 grey images of 8 x 8; embedded, needs no files",
        _TEN_DIGITS,
        _read_digits,
    ),
    "breast-cancer": Source(
        "Malignant or benign tumours, 398 + 171 rows of 30 measurements; embedded, needs no files",
        ("malignant", "benign"),
        partial(_read_embedded, load="load_breast_cancer", test_size=0.3),
    ),
    "iris": Source(
        "Three species of iris, 105 + 45 rows of 4 measurements; embedded, needs no files",
        ("setosa", "versicolor", "virginica"),
        partial(_read_embedded, load="load_iris", test_size=0.3),
    ),
    "wine": Source(
        "Three growers of wine, 124 + 54 rows of 13 measurements; embedded, needs no files",
        ("class_0", "class_1", "class_2"),
        partial(_read_embedded, load="load_wine", test_size=0.3),
    ),
    "cifar10": _CIFAR10,
    "cifar10n-aggregate": _cifar10n("aggregate", "the majority of three people's labels, 9.01 % wrong"),
    "cifar10n-random1": _cifar10n("random1", "one person's label, 17.23 % wrong"),
    "cifar10n-random2": _cifar10n("random2", "one person's label, 18.12 % wrong"),
    "cifar10n-random3": _cifar10n("random3", "one person's label, 17.64 % wrong"),
    "cifar10n-worse": _cifar10n("worse", "a wrong label where any of three people gave one, 40.21 % wrong"),
    "cifar100": _CIFAR100,
    "cifar100n": replace(
        _CIFAR100, about="CIFAR-100N: CIFAR-100 with one person's label, 40.20 % wrong", which="noisy"
    ),
    "mnist": Source(
        "MNIST: 60,000 + 10,000 handwritten digits, 28 x 28 grey",
        _TEN_DIGITS,
        _read_idx,
        _idx_files(
            "mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
            content=(
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
            packed=(
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    "fashion-mnist": Source(
        "Fashion-MNIST: 60,000 + 10,000 pieces of clothing, 28 x 28 grey",
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        _read_idx,
        _idx_files(
            "fashion-mnist",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
            content=(
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
            packed=(
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
    ),
    "mini-webvision": Source(
        "mini-WebVision: 65,944 + 2,500 photographs of 50 kinds of things, found by Google; training labels are noisy",
        tuple(map(str, range(CLASSES))),  # the names are in its files
        None,
        load=read_webvision,
    ),
}
"""Every built-in data set by name."""
