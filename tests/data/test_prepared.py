"""A data set made ready: subset, hold-out, noise and encoding against direct answers; what memory it takes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from antidote_learn._types import Arrays, ImageFiles
from antidote_learn.data import prepared as module
from antidote_learn.data.encoding import DenseRows, FileRows, encoding_from_state
from antidote_learn.data.image_folders import decode
from antidote_learn.data.loaders import preparation_of
from antidote_learn.data.noise import inject
from antidote_learn.data.prepared import Prepared, fingerprint, prepare, take_inputs, true_transition
from antidote_learn.data.recipes import RECIPES, Augmentation

RNG = np.random.default_rng(0)
SHARES = (0.5, 0.3, 0.15, 0.05)
LABELS = RNG.permutation(np.repeat(np.arange(4), [int(400 * share) for share in SHARES]))
FEATURES = RNG.normal(size=(400, 3)).astype(np.float32)
FEATURES[:, 0] = np.arange(400)  # says which row it is
CLASSES = ("a", "b", "c", "d")
PLAIN = Arrays("mine", FEATURES, LABELS, CLASSES)
WITH_TEST = replace(PLAIN, test_inputs=FEATURES[:40], test_labels=LABELS[:40])
IMAGES = RNG.integers(0, 256, (60, 3, 16, 16), dtype=np.uint8)
PHOTOS = Arrays("photos", IMAGES, np.arange(60) % 4, CLASSES, test_inputs=IMAGES[:8], test_labels=np.arange(8) % 4)
LARGE_IMAGES = RNG.integers(0, 256, (8, 3, 230, 240), dtype=np.uint8)
LARGE = Arrays("large", LARGE_IMAGES, np.arange(8) % 4, CLASSES, test_inputs=LARGE_IMAGES[:2], test_labels=np.arange(2))


def ready(arrays: Arrays, **changed) -> Prepared:
    settings = {"noise": "none", "noise_seed": 0, "seed": 0, "subset": None, "recipe": "fitted"}
    return prepare(arrays, **(settings | changed))


def rows_of(found: Prepared) -> np.ndarray:
    """Which row of `FEATURES` each training row is."""
    first = found.rows.take(np.arange(len(found.rows))).numpy()[:, 0]
    return np.rint(first * found.encoding.std[0] + found.encoding.mean[0]).astype(int)


# --- subset and hold-out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrays", [PLAIN, WITH_TEST])
def test_without_a_hold_out_every_given_sample_is_a_training_sample(arrays):
    found = ready(arrays, hold_out=False)
    np.testing.assert_array_equal(rows_of(found), np.arange(400))
    np.testing.assert_array_equal(found.labels, LABELS)
    assert len(found.test_rows) == len(found.test_labels) == 0
    assert not found.held_out
    assert fingerprint(found) == fingerprint(ready(arrays, hold_out=False))


def test_without_options_the_data_is_what_was_given():
    found = ready(WITH_TEST)
    assert found.labels is LABELS
    assert np.array_equal(found.index, np.arange(400))
    assert np.array_equal(found.test_labels, LABELS[:40])
    assert not found.held_out
    assert found.noise is None
    assert found.name == "mine"
    assert found.classes == CLASSES


def test_a_subset_is_the_start_of_a_seeded_permutation():
    small, large, other = (
        ready(WITH_TEST, subset=50),
        ready(WITH_TEST, subset=120),
        ready(WITH_TEST, subset=120, seed=1),
    )
    assert np.array_equal(large.index[:50], small.index)
    assert len(np.unique(large.index)) == 120
    assert not np.array_equal(large.index, other.index)
    assert np.array_equal(large.labels, LABELS[large.index])
    assert np.array_equal(rows_of(large), large.index)
    assert len(large.test_rows) == 40
    assert np.array_equal(ready(WITH_TEST, subset=4000).index, np.arange(400))


def test_classes_that_look_like_one_are_named():
    assert ready(PLAIN).notes == ()
    (note,) = ready(replace(PLAIN, classes=("a cat", "dog", "A  cat ", "bird"))).notes
    assert note.startswith("the classes 'a cat' and 'A  cat ' differ in blanks or capitals only")


@pytest.mark.parametrize("subset", [0, -3, 7])
def test_a_subset_too_small_for_its_classes_is_refused(subset):
    with pytest.raises(ValueError, match=rf"subset of {subset} is too small for 4 classes; take at least 8"):
        ready(WITH_TEST, subset=subset)


@pytest.mark.parametrize("seed", range(5))
def test_the_hold_out_is_a_fifth_that_keeps_the_shares_of_the_classes(seed):
    found = ready(PLAIN, seed=seed)
    assert found.held_out
    assert len(found.test_rows) == len(found.test_labels) == 80
    np.testing.assert_allclose(np.bincount(found.test_labels) / 80, SHARES, atol=1 / 80)
    np.testing.assert_allclose(np.bincount(found.labels) / 320, SHARES, atol=1 / 320)
    assert np.array_equal(rows_of(found), found.index)
    assert np.array_equal(found.labels, LABELS[found.index])
    assert np.array_equal(np.sort(found.test_labels), np.sort(np.delete(LABELS, found.index)))


def test_the_hold_out_is_a_function_of_the_seed():
    assert np.array_equal(ready(PLAIN, seed=3).index, ready(PLAIN, seed=3).index)
    assert not np.array_equal(ready(PLAIN, seed=3).index, ready(PLAIN, seed=4).index)


@pytest.mark.parametrize("lonely", [1, 2])
def test_a_class_of_one_sample_leaves_the_others_their_shares(lonely):
    labels = LABELS.copy()
    labels[:lonely] = 4 + np.arange(lonely)
    found = ready(replace(PLAIN, labels=labels, classes=(*CLASSES, "e", "f")))
    shares = np.bincount(labels, minlength=6)[1:4] / 400
    np.testing.assert_allclose(np.bincount(found.test_labels, minlength=6)[1:4] / 80, shares, atol=1 / 80)


def test_few_samples_of_many_classes_are_held_out_all_the_same():
    found = ready(Arrays("few", FEATURES[:20], np.arange(20) % 10, tuple("abcdefghij")))
    assert (len(found.labels), len(found.test_labels)) == (16, 4)


def test_a_subset_is_of_what_was_not_held_out_and_keeps_its_positions():
    found, whole = ready(PLAIN, subset=100), ready(PLAIN)
    assert (len(found.labels), len(found.test_labels)) == (100, 80)
    assert np.array_equal(found.test_labels, whole.test_labels)
    assert set(found.index) < set(whole.index)
    assert np.array_equal(rows_of(found), found.index)


# --- truth and noise -------------------------------------------------------------------------------------------------


def test_a_hold_out_is_clean_only_where_the_truth_is_known():
    given = (LABELS + (np.arange(400) % 5 == 0)) % 4
    unknown, known = (
        ready(replace(PLAIN, labels=given)),
        ready(replace(PLAIN, labels=given, clean_labels=LABELS)),
    )
    assert not unknown.test_is_clean
    assert unknown.clean_labels is None
    assert known.test_is_clean
    held = np.setdiff1d(np.arange(400), known.index)
    assert np.array_equal(known.test_labels, LABELS[held])
    assert np.array_equal(known.clean_labels, LABELS[known.index])
    assert np.array_equal(known.labels, given[known.index])
    assert np.array_equal(unknown.test_labels, given[held])


@pytest.mark.parametrize("clean", [True, False])
def test_a_given_test_set_is_as_clean_as_its_source_says(clean):
    assert ready(replace(WITH_TEST, test_is_clean=clean)).test_is_clean is clean


@pytest.mark.parametrize("arrays", [PLAIN, WITH_TEST], ids=["held out", "given"])
@pytest.mark.parametrize("noise", ["symmetric:0.4", "pair:0.3", "instance:0.3", "adversarial:0.2"])
def test_noise_reaches_the_training_labels_alone(arrays, noise):
    clean, noisy = ready(arrays), ready(arrays, noise=noise, noise_seed=7)
    expected = inject(LABELS[clean.index], noise, X=FEATURES[clean.index], seed=7, num_classes=4)
    assert np.array_equal(noisy.labels, expected.labels)
    assert np.array_equal(noisy.clean_labels, LABELS[clean.index])
    assert noisy.noise.hash == expected.hash
    assert np.array_equal(noisy.test_labels, clean.test_labels)
    assert np.array_equal(noisy.index, clean.index)


def test_noise_is_added_to_the_truth_where_it_is_known():
    given = (LABELS + 1) % 4
    found = ready(replace(WITH_TEST, labels=given, clean_labels=LABELS), noise="symmetric:0.1")
    assert found.noise.rate == pytest.approx(0.1)
    assert np.array_equal(found.clean_labels, LABELS)


def test_the_seed_of_the_noise_is_its_own():
    one, two, three = (
        ready(PLAIN, noise="symmetric:0.4", noise_seed=noise_seed, seed=seed)
        for noise_seed, seed in ((1, 0), (2, 0), (1, 5))
    )
    assert np.array_equal(one.index, two.index)
    assert not np.array_equal(one.labels, two.labels)
    assert not np.array_equal(one.index, three.index)


def test_noise_of_a_table_depends_on_its_encoded_columns():
    table = pd.DataFrame({"x": FEATURES[:, 1], "kind": np.array(["p", "q"])[np.arange(400) % 2]})
    found = ready(replace(WITH_TEST, inputs=table, test_inputs=table[:40]), noise="adversarial:0.1")
    assert found.noise.rate == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["cifar10", "cifar10n-worse"])
def test_human_labels_come_from_their_file_for_the_samples_at_hand(tmp_path, name):
    truth = np.arange(40) % 10
    worse = np.where(np.arange(40) % 3 == 0, (truth + 1) % 10, truth)
    np.savez(tmp_path / "cifar10n.npz", clean_label=truth, worse_label=worse)
    images = RNG.integers(0, 256, (40, 3, 32, 32), dtype=np.uint8)
    classes = tuple("abcdefghij")
    arrays = Arrays(name, images, truth, classes, truth, images[:10], truth[:10], test_is_clean=True)
    found = ready(arrays, noise="human:worse", subset=30, root=tmp_path)
    assert np.array_equal(found.labels, worse[found.index])
    assert np.array_equal(found.clean_labels, truth[found.index])
    assert found.noise.spec == "human:worse"
    assert found.noise.seed is None
    assert found.noise.rate == np.mean(worse[found.index] != truth[found.index])


def test_human_labels_that_are_missing_say_what_to_put_where(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cifar10n\.npz is missing"):
        ready(replace(PHOTOS, name="cifar10"), noise="human:worse", root=tmp_path)


# --- encoding and recipes --------------------------------------------------------------------------------------------


def test_the_encoding_is_fitted_on_the_training_part_alone():
    found = ready(PLAIN, noise="symmetric:0.4")
    np.testing.assert_allclose(found.encoding.mean, FEATURES[found.index].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.encoding.std, FEATURES[found.index].std(axis=0), rtol=1e-5)


def test_a_fitted_recipe_has_the_statistics_of_the_images():
    found = ready(PHOTOS)
    np.testing.assert_allclose(found.preparation.mean, IMAGES.mean(axis=(0, 2, 3)) / 255, rtol=1e-5)
    np.testing.assert_allclose(found.preparation.std, IMAGES.std(axis=(0, 2, 3)) / 255, rtol=1e-5)
    assert found.preparation.augmentation == Augmentation(padding=2, flip=True)
    grey = replace(PHOTOS, inputs=IMAGES[:, :1], test_inputs=IMAGES[:8, :1])
    assert ready(grey).preparation.augmentation == Augmentation()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_published_recipe_has_its_own_statistics_in_training_and_in_the_saved_model(recipe):
    found = ready(LARGE if RECIPES[recipe].side else PHOTOS, recipe=recipe)
    expected = np.broadcast_to(RECIPES[recipe].mean, 3), np.broadcast_to(RECIPES[recipe].std, 3)
    np.testing.assert_allclose([found.preparation.mean, found.preparation.std], expected, rtol=1e-6)
    np.testing.assert_allclose(found.encoding.state()[1]["mean"], expected[0], rtol=1e-6)
    assert found.preparation.augmentation == RECIPES[recipe].augmentation


def test_a_recipe_with_a_size_cuts_it_out_of_images_in_memory():
    found = ready(LARGE, recipe="imagenet")
    rows = found.test_rows.take(np.arange(2))
    assert (found.encoding.shape, found.encoding.stored) == ((3, 224, 224), (3, 230, 240))
    assert rows.shape == (2, 3, 230, 240)
    seen, plain = found.preparation(rows), replace(found.preparation, size=())
    assert torch.equal(seen, plain(rows)[:, :, 3:227, 8:232])
    assert found.preparation(rows, torch.Generator().manual_seed(0)).shape == (2, 3, 224, 224)
    without = ready(LARGE, recipe="imagenet", augment=False).preparation
    assert torch.equal(without(rows, torch.Generator().manual_seed(0)), seen)
    with pytest.raises(ValueError, match=r"cuts 224 x 224 pixels out of an image; received images of 16 x 16: choose"):
        ready(PHOTOS, recipe="imagenet")


def test_a_recipe_with_a_size_decodes_files_to_its_side(tmp_path):
    for number in range(8):
        pixels = RNG.integers(0, 256, (300, 280, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    files = ImageFiles(tmp_path, tuple(f"{number}.png" for number in range(8)), 32)
    arrays = replace(LARGE, inputs=files, labels=np.arange(8) % 4, test_inputs=take_inputs(files, np.arange(2)))
    found = ready(arrays, recipe="imagenet")
    rows = found.test_rows.take(np.arange(2))
    assert rows.shape == (2, 3, 256, 256)
    assert np.array_equal(rows, decode(replace(files, size=256), [0, 1]))
    again = encoding_from_state(*found.encoding.state())
    assert (again.shape, again.stored) == ((3, 224, 224), (3, 256, 256))
    seen = preparation_of(again, Augmentation())(again.encode(files).take(np.arange(2)))
    assert torch.equal(seen, found.preparation(rows))
    expected = (rows[:, :, 16:240, 16:240] / 255 - torch.tensor([[[0.485]], [[0.456]], [[0.406]]])) / torch.tensor(
        [[[0.229]], [[0.224]], [[0.225]]]
    )
    torch.testing.assert_close(seen, expected)


def test_recipes_are_for_images_of_their_kind():
    with pytest.raises(ValueError, match="unknown recipe 'wrong'; accepted: fitted, cifar10"):
        ready(PHOTOS, recipe="wrong")
    with pytest.raises(ValueError, match="recipe 'cifar10' is for 3 channels, the images have 1"):
        ready(replace(PHOTOS, inputs=IMAGES[:, :1], test_inputs=IMAGES[:8, :1]), recipe="cifar10")
    assert ready(WITH_TEST, recipe="cifar10").preparation.mean == ()


def test_image_files_are_decoded_once_where_they_fit(tmp_path, monkeypatch):
    for number, pixels in enumerate(IMAGES):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / f"{number:02}.png")
    files = ImageFiles(tmp_path, tuple(f"{number:02}.png" for number in range(60)), 16)
    arrays = replace(PHOTOS, inputs=files, test_inputs=take_inputs(files, np.arange(8)))
    found = ready(arrays, subset=20)
    assert isinstance(found.rows, DenseRows)
    assert np.array_equal(found.rows.take(np.arange(20)).numpy(), IMAGES[found.index])
    monkeypatch.setattr(module, "IN_MEMORY", 1000)
    on_disk = ready(arrays, subset=20)
    assert isinstance(on_disk.rows, FileRows)
    assert fingerprint(on_disk) == fingerprint(found)


def test_notes_of_the_source_and_of_the_encoding_reach_the_user():
    table = pd.DataFrame({"x": FEATURES[:, 1], "id": [f"row{number}" for number in range(400)]})
    found = ready(replace(PLAIN, inputs=table, notes=("two files were left out",)))
    assert found.notes[0] == "two files were left out"
    assert any("id" in note for note in found.notes[1:])


def test_rows_of_every_kind_of_input_are_taken_by_position():
    table = pd.DataFrame({"x": np.arange(400)}, index=np.arange(400)[::-1])
    assert take_inputs(table, np.array([3, 1]))["x"].tolist() == [3, 1]
    assert list(take_inputs(table, np.array([3, 1])).index) == [0, 1]
    assert take_inputs(ImageFiles(Path("f"), ("a", "b", "c"), 8), np.array([2, 0])).names == ("c", "a")


# --- fingerprint -----------------------------------------------------------------------------------------------------


def test_the_fingerprint_changes_with_any_label_and_any_pixel():
    found = ready(PHOTOS)
    marks = {fingerprint(found)}
    for position in range(60):
        labels = found.labels.copy()
        labels[position] = (labels[position] + 1) % 4
        marks.add(fingerprint(replace(found, labels=labels)))
    for position in range(8):
        labels = found.test_labels.copy()
        labels[position] = (labels[position] + 1) % 4
        marks.add(fingerprint(replace(found, test_labels=labels)))
    for position in range(60):
        images = IMAGES.copy()
        images[position, 0, 0, 0] ^= 1
        marks.add(fingerprint(replace(found, rows=DenseRows(images))))
    assert len(marks) == 1 + 60 + 8 + 60
    assert fingerprint(ready(PHOTOS)) in marks


def test_the_fingerprint_of_many_rows_reads_the_first_and_the_last():
    rows = np.zeros((5000, 2), np.float32)
    many = replace(ready(WITH_TEST), rows=DenseRows(rows))
    changed = rows.copy()
    changed[-1] = 1.0
    assert fingerprint(many) != fingerprint(replace(many, rows=DenseRows(changed)))


# --- memory ----------------------------------------------------------------------------------------------------------

PIPELINE = """
import sys
import numpy as np
import torch
from pathlib import Path
from antidote_learn._types import Arrays
from antidote_learn.data.formats import read_cifar
from antidote_learn.data.batching import cut_batches, epoch_order
from antidote_learn.data.loaders import read_ahead
from antidote_learn.data.prepared import fingerprint, prepare

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

def pipeline(train, test, most):
    images, labels = read_cifar([train], label_bytes=1, label_at=0)
    test_images, test_labels = read_cifar([test], label_bytes=1, label_at=0)
    classes = tuple("abcdefghij")
    arrays = Arrays("cifar10", images, labels, classes, labels, test_images, test_labels, test_is_clean=True)
    found = prepare(arrays, noise="symmetric:0.4", noise_seed=0, seed=0, subset=None, recipe="cifar10")
    fingerprint(found)
    generator = torch.Generator()
    batches = cut_batches(epoch_order(len(labels), seed=0, epoch=0), batch_size=128)[:most]
    for raw in read_ahead(found.rows, batches, workers=2):
        found.preparation(raw, generator.manual_seed(0))
    return images.nbytes + test_images.nbytes

small, train, test = map(Path, sys.argv[1:])
pipeline(small, small, 1)  # what libraries set up when they are first used is not the data's
before = peak()
print(pipeline(train, test, 40), peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from /proc")
def test_the_pipeline_of_cifar_takes_little_more_memory_than_its_bytes(tmp_path):
    paths = []
    for name, count in (("small", 256), ("train", 50_000), ("test", 10_000)):
        paths.append(tmp_path / name)
        record = RNG.integers(0, 256, 3073, dtype=np.uint8)
        record[0] = 3
        np.tile(record, (count, 1)).tofile(paths[-1])
    done = subprocess.run([sys.executable, "-c", PIPELINE, *map(str, paths)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    size, used = map(int, done.stdout.split())
    assert size == 60_000 * 3072
    assert 0.9 * size < used <= 1.3 * size


# --- the true transition matrix --------------------------------------------------------------------------------------


def realised(labels: np.ndarray, truth: np.ndarray) -> list[list[float]]:
    """The shares of given labels within each true class, by a slow loop."""
    return [[float(np.mean(labels[truth == i] == j)) for j in range(4)] for i in range(4)]


def test_the_true_transition_is_that_of_added_noise_and_not_the_realised_one():
    found = ready(WITH_TEST, noise="pair:0.3:count=iid")
    expected = 0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1)
    np.testing.assert_allclose(true_transition(found), expected, atol=1e-12)
    assert not np.allclose(realised(found.labels, found.clean_labels), expected, atol=1e-3)


def test_the_true_transition_of_labels_that_came_noisy_is_the_realised_one():
    given = np.random.default_rng(1).permutation(LABELS)
    found = ready(replace(WITH_TEST, labels=given, clean_labels=LABELS))
    np.testing.assert_allclose(true_transition(found), realised(given, LABELS), atol=1e-12)


def test_labels_that_were_replaced_after_the_noise_have_their_own_transition():
    found = ready(WITH_TEST, noise="pair:0.3")
    corrected = np.where(np.arange(400) % 2, found.labels, found.clean_labels)
    shares = realised(corrected, found.clean_labels)
    np.testing.assert_allclose(true_transition(replace(found, labels=corrected)), shares, atol=1e-12)


def test_without_clean_labels_of_every_class_nobody_knows_the_true_transition():
    assert true_transition(ready(WITH_TEST)) is None
    few = replace(WITH_TEST, clean_labels=np.where(LABELS == 3, 0, LABELS))
    assert true_transition(ready(few)) is None
