"""The preparation of a data set for training: it is split, given noise, and encoded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from antidote_learn._types import Arrays, ImageFiles, Inputs, LabelColumn, NoisyLabels
from antidote_learn.core.beliefs import Beliefs
from antidote_learn.data.builtin import human_labels
from antidote_learn.data.encoding import (
    DenseRows,
    Encoding,
    FileRows,
    ImageEncoding,
    SampleRows,
    TableEncoding,
    fit_encoding,
)
from antidote_learn.data.image_folders import decode_all
from antidote_learn.data.inputs import as_frame, take_inputs
from antidote_learn.data.loaders import Preparation, preparation_of
from antidote_learn.data.maps import empirical_transition
from antidote_learn.data.noise import from_human, inject
from antidote_learn.data.noise_grammar import parse_noise
from antidote_learn.data.recipes import RECIPES, Augmentation, Recipe
from antidote_learn.data.sentences import EmbeddingColumn, texts_of

Labels = NDArray[np.int64]
HELD_OUT = 0.2  # the share of the samples that is held out where a data set has no test part
IN_MEMORY = 2**30  # bytes; decoded image files up to this size are kept, larger ones are decoded in every epoch


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that a run reads of its data.

    Attributes:
        name: The name of the data set.
        rows: The rows of the N training samples.
        labels: (N,) the labels that training sees.
        clean_labels: (N,) the truth, where it is known.
        test_rows: The rows of the M test samples.
        test_labels: (M,) their labels.
        test_is_clean: Whether the test labels are the truth.
        held_out: Whether the test samples were held out of the given ones.
        classes: The names of the classes.
        encoding: The encoding that was fitted on the training samples.
        preparation: The preparation of a batch.
        noise: The noise that was injected; None where there is none.
        index: (N,) the samples' positions in the source.
        notes: Notes for the user.
        texts: SHA-256 of the texts that were embedded; empty where none were.
        soft: The believed classes of the N samples, to train on in place of the labels; None for the labels.
        label: The column of the labels; None where the source is no table.
    """

    name: str
    rows: SampleRows
    labels: Labels
    clean_labels: Labels | None
    test_rows: SampleRows
    test_labels: Labels
    test_is_clean: bool
    held_out: bool
    classes: tuple[str, ...]
    encoding: Encoding
    preparation: Preparation
    noise: NoisyLabels | None
    index: Labels
    notes: tuple[str, ...]
    texts: str
    soft: Beliefs | None = None
    label: LabelColumn | None = None


def prepare(
    arrays: Arrays,
    *,
    noise: str,
    noise_seed: int,
    seed: int,
    subset: int | None,
    recipe: str,
    text_features: str = "tfidf",
    augment: bool = True,
    hold_out: bool | float = True,
    in_memory: bool = True,
    root: Any = None,
    workers: int = 2,
) -> Prepared:
    """Take a test part and a subset, add noise, hold a share out, and fit the encoding, in this order.

    Args:
        arrays: The data set.
        noise: The noise, as the command line takes it; "none" for none.
        noise_seed: The seed of the noise.
        seed: The seed of the subset and the hold-out.
        subset: The number of training samples, the first of a seeded permutation; None for all.
        recipe: The recipe of images: a name of `RECIPES`, or "fitted" for their own statistics, crop and flip.
        text_features: The features of text columns, "tfidf" or "embeddings".
        augment: Whether training images are augmented as the recipe says.
        hold_out: Whether there is a test part; without one every given sample is a training sample. A number is the
            share of the training samples that takes its place, with the labels that training would see.
        in_memory: Whether image files that fit are decoded once and kept, which wastes memory for a single pass.
        root: The folder of human labels.
        workers: The number of threads that decode image files.
    """
    train, held_out = (_keep_all(arrays), False) if hold_out is False else _split_off_test(arrays, seed)
    part, chosen = _subset(train.arrays, subset, seed)
    train, index = replace(train, arrays=part), train.kept[chosen]
    noisy = _add_noise(train.arrays, noise, noise_seed, index, root)
    if not isinstance(hold_out, bool):
        train, noisy, index = _hold_out_noisy(train, noisy, index, hold_out, seed)
        held_out = True
    fitted = fit_encoding(train.arrays, text_features=text_features)
    encoding = _with_recipe(fitted, recipe, on_disk=isinstance(train.arrays.inputs, ImageFiles))
    parts = [part for part in (train.arrays.inputs, train.test_inputs) if part is not None]
    encoded = (encoding.encode(part) for part in parts)
    rows, *test = (_decode_if_small(part, workers) for part in encoded) if in_memory else encoded
    return Prepared(
        name=arrays.name,
        rows=rows,
        labels=train.arrays.labels if noisy is None else noisy.labels,
        clean_labels=train.arrays.clean_labels if noisy is None else noisy.clean_labels,
        test_rows=test[0] if test else DenseRows(np.empty((0, *encoding.shape), dtype=np.float32)),
        test_labels=train.test_labels,
        test_is_clean=train.test_is_clean,
        held_out=held_out,
        classes=arrays.classes,
        encoding=encoding,
        preparation=preparation_of(encoding, _augmentation(recipe, encoding) if augment else Augmentation()),
        noise=noisy,
        index=index if arrays.positions is None else arrays.positions[index],
        notes=(*arrays.notes, *encoding.notes, *_note_similar_classes(arrays.classes)),
        texts=_hash_of_texts(encoding, parts),
        label=arrays.label,
    )


@dataclass(frozen=True, eq=False)
class _Split:
    arrays: Arrays
    kept: Labels
    test_inputs: Inputs | None
    test_labels: Labels
    test_is_clean: bool


def _take_samples(arrays: Arrays, index: Labels) -> Arrays:
    clean = None if arrays.clean_labels is None else arrays.clean_labels[index]
    return replace(arrays, inputs=take_inputs(arrays.inputs, index), labels=arrays.labels[index], clean_labels=clean)


def _note_similar_classes(classes: Sequence[str]) -> list[str]:
    """Write a note for classes whose names look alike."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        groups.setdefault(" ".join(name.casefold().split()), []).append(name)
    return [
        f"the classes {' and '.join(map(repr, names))} differ in blanks or capitals only: are they one?"
        for names in groups.values()
        if len(names) > 1
    ]


def _subset(arrays: Arrays, subset: int | None, seed: int) -> tuple[Arrays, Labels]:
    count = len(arrays.labels)
    if subset is None or subset >= count:
        return arrays, np.arange(count)
    if subset < 2 * len(arrays.classes):
        raise ValueError(
            f"a subset of {subset} is too small for {len(arrays.classes)} classes; take at least "
            f"{2 * len(arrays.classes)}"
        )
    index = np.random.default_rng([seed, 1]).permutation(count)[:subset]
    return _take_samples(arrays, index), index


def _split_off_test(arrays: Arrays, seed: int) -> tuple[_Split, bool]:
    """Split off the test part: the data set's own, or a stratified fifth, whose labels are as noisy as the rest."""
    count = len(arrays.labels)
    if arrays.test_inputs is not None and arrays.test_labels is not None:
        test = (arrays.test_inputs, arrays.test_labels, arrays.test_is_clean)
        return _Split(arrays, np.arange(count), *test), False
    counts = np.bincount(arrays.labels, minlength=len(arrays.classes))
    strata = np.where(counts[arrays.labels] >= 2, arrays.labels, counts.argmax())  # one sample cannot be in both
    enough = HELD_OUT * count >= len(np.unique(strata))
    state = int(np.random.default_rng([seed, 2]).integers(2**31))
    kept, held = train_test_split(
        np.arange(count), test_size=HELD_OUT, stratify=strata if enough else None, random_state=state
    )
    kept, held = np.sort(kept), np.sort(held)
    truth = arrays.clean_labels if arrays.clean_labels is not None else arrays.labels
    test = (take_inputs(arrays.inputs, held), truth[held], arrays.clean_labels is not None)
    return _Split(_take_samples(arrays, kept), kept, *test), True


def _keep_all(arrays: Arrays) -> _Split:
    """Keep all samples for training, without a test part."""
    return _Split(arrays, np.arange(len(arrays.labels)), None, np.empty(0, dtype=np.int64), False)


def _add_noise(arrays: Arrays, noise: str, seed: int, index: Labels, root: Any) -> NoisyLabels | None:
    spec = parse_noise(noise)
    if spec.kind == "none":
        return None
    base = re.sub(r"^(cifar100?)n.*", r"\1", arrays.name)
    clean = arrays.labels if arrays.clean_labels is None else arrays.clean_labels
    count = len(arrays.classes)
    if spec.kind == "human":
        name = spec.params["name"]
        given, truth = human_labels(base, name, root=root)
        if len(truth) <= index.max() or not np.array_equal(truth[index], clean):
            raise ValueError(f"the human labels {name!r} are not those of {arrays.name!r}: restore their file")
        return from_human(given[index], truth[index], name, num_classes=count)
    needs_features = spec.kind in ("instance", "adversarial")
    X = _numeric(arrays) if needs_features else None
    return inject(clean, noise, X=X, seed=seed, num_classes=count, data=base, names=arrays.classes)


def _hold_out_noisy(
    train: _Split, noisy: NoisyLabels | None, index: Labels, share: float, seed: int
) -> tuple[_Split, NoisyLabels | None, Labels]:
    """Hold out a share of the training samples with the labels that training sees, in place of the test part."""
    order = np.random.default_rng([seed, 5]).permutation(len(index))
    count = max(1, round(share * len(index)))
    held, kept = np.sort(order[:count]), np.sort(order[count:])
    given = train.arrays.labels if noisy is None else noisy.labels
    split = _Split(
        _take_samples(train.arrays, kept), train.kept, take_inputs(train.arrays.inputs, held), given[held], False
    )
    rest = None
    if noisy is not None:
        rest = replace(noisy, labels=noisy.labels[kept], clean_labels=noisy.clean_labels[kept])
    return split, rest, index[kept]


def _numeric(arrays: Arrays) -> Any:
    """The inputs as numbers, for noise that depends on them; they do not depend on the features of text."""
    if isinstance(arrays.inputs, np.ndarray):
        return arrays.inputs
    rows = fit_encoding(arrays).encode(arrays.inputs)
    return rows.take(np.arange(len(rows))).numpy()


def _with_recipe(encoding: Encoding, recipe: str, *, on_disk: bool) -> Encoding:
    """Give an encoding of images the recipe's mean and deviation, and its size where it has one."""
    if not isinstance(encoding, ImageEncoding) or recipe == "fitted":
        return encoding
    if recipe not in RECIPES:
        raise ValueError(f"unknown recipe {recipe!r}; accepted: fitted, {', '.join(RECIPES)}")
    published, channels = RECIPES[recipe], encoding.shape[0]
    mean, std = (_channel_statistics(numbers, channels, recipe) for numbers in (published.mean, published.std))
    encoding = replace(encoding, mean=mean, std=std)
    return _with_size(encoding, published, recipe, on_disk) if published.augmentation.size else encoding


def _with_size(encoding: ImageEncoding, published: Recipe, recipe: str, on_disk: bool) -> ImageEncoding:
    """Let the network read a part of a row; files are decoded to the recipe's side, images in memory stay."""
    size, channels = published.augmentation.size, encoding.shape[0]
    stored = (channels, published.side, published.side) if on_disk else encoding.shape
    if min(stored[1:]) < size:
        raise ValueError(
            f"recipe {recipe!r} cuts {size} x {size} pixels out of an image; received images of {stored[1]} x "
            f"{stored[2]}: choose another protocol, such as images"
        )
    return replace(encoding, shape=(channels, size, size), stored=stored)


def _channel_statistics(numbers: tuple[float, ...], channels: int, recipe: str) -> NDArray[np.float32]:
    if len(numbers) not in (1, channels):
        raise ValueError(f"recipe {recipe!r} is for {len(numbers)} channels, the images have {channels}")
    return np.broadcast_to(np.array(numbers, dtype=np.float32), (channels,)).copy()


def _augmentation(recipe: str, encoding: Encoding) -> Augmentation:
    """The recipe's augmentation; "fitted" crops colour images with padding of an eighth of their side, and flips."""
    if recipe != "fitted":
        return RECIPES[recipe].augmentation if isinstance(encoding, ImageEncoding) else Augmentation()
    colour = isinstance(encoding, ImageEncoding) and encoding.shape[0] > 1
    return Augmentation(padding=encoding.shape[-1] // 8, flip=True) if colour else Augmentation()


def _decode_if_small(rows: SampleRows, workers: int) -> SampleRows:
    """Decode image files that fit into `IN_MEMORY` once; other rows stay as they are."""
    if not isinstance(rows, FileRows) or len(rows) * 3 * rows.files.size**2 > IN_MEMORY:
        return rows
    return DenseRows(decode_all(rows.files, workers=workers))


def true_transition(data: Prepared) -> NDArray[np.float64] | None:
    """The matrix (K, K) of P(given = j | true = i), where it is known.

    It is the matrix of the noise, if the labels are those that the noise left; else the realised one of the clean
    labels, if they are known and every class is among them.
    """
    if data.noise is not None and np.array_equal(data.labels, data.noise.labels):
        return data.noise.transition
    count = len(data.classes)
    if data.clean_labels is None or len(np.unique(data.clean_labels)) < count:
        return None
    return empirical_transition(data.labels, data.clean_labels, count)


def fingerprint(prepared: Prepared) -> str:
    """SHA-256 of the labels and of up to 1000 evenly spaced rows, by which a run's folder knows its data.

    Texts count in place of their embeddings, which may differ in their last digits between machines.
    """
    digest = hashlib.sha256(prepared.texts.encode())
    encoding = prepared.encoding
    exact = encoding.exact if prepared.texts and isinstance(encoding, TableEncoding) else slice(None)
    for labels in (prepared.labels, prepared.test_labels):
        digest.update(labels.astype("<i8").tobytes())
    for rows in (prepared.rows, prepared.test_rows):
        spaced = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 1000)).astype(np.int64))
        digest.update(np.ascontiguousarray(rows.take(spaced).numpy()[:, exact]).tobytes())
    return digest.hexdigest()


def _hash_of_texts(encoding: Encoding, parts: Sequence[Any]) -> str:
    """SHA-256 of the embedded texts and their encoder; empty where there are none."""
    columns = encoding.columns if isinstance(encoding, TableEncoding) else ()
    found = [
        [column.name, column.sha256, *(texts_of(as_frame(part, "the table")[column.name]) for part in parts)]
        for column in columns
        if isinstance(column, EmbeddingColumn)
    ]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest() if found else ""
