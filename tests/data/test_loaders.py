"""The order of an epoch, its batches, their parts, and image files read ahead."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from antidote_learn._types import ImageFiles
from antidote_learn.data import loaders
from antidote_learn.data.augment import Part
from antidote_learn.data.batching import cut_batches, epoch_order, rank_slice
from antidote_learn.data.encoding import DenseRows, FeatureEncoding, FileRows, ImageEncoding
from antidote_learn.data.loaders import Preparation, preparation_of, read_ahead
from antidote_learn.data.recipes import Augmentation

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
SIZES = st.integers(1, 300)


@pytest.fixture
def files(tmp_path: Path) -> FileRows:
    """`PIXELS` on disk, lossless."""
    names = tuple(f"{number:02}.png" for number in range(len(PIXELS)))
    for name, pixels in zip(names, PIXELS, strict=True):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / name)
    return FileRows(ImageFiles(tmp_path, names, 8))


# --- order and batches -----------------------------------------------------------------------------------------------


def test_an_order_visits_all_once_and_depends_on_seed_and_epoch_alone():
    orders = [epoch_order(1000, seed=seed, epoch=epoch) for seed in range(3) for epoch in range(3)]
    assert all(np.array_equal(np.sort(order), np.arange(1000)) for order in orders)
    assert len({order.tobytes() for order in orders}) == 9
    torch.manual_seed(5)
    assert np.array_equal(orders[5], epoch_order(1000, seed=1, epoch=2))


@given(count=SIZES, batch_size=SIZES, processes=st.integers(1, 5))
def test_batches_are_the_order_cut_with_none_dropped(count, batch_size, processes):
    order = epoch_order(count, seed=0, epoch=0)
    batches = cut_batches(order, batch_size=batch_size, processes=processes)
    assert np.array_equal(np.concatenate(batches), order)
    assert all(len(batch) == batch_size for batch in batches[:-1])
    if batch_size >= 2 * processes:
        assert min(count, 2 * processes) <= len(batches[-1]) < batch_size + 2 * processes


@pytest.mark.parametrize(
    ("count", "processes", "sizes"),
    [
        (20, 1, [10, 10]),
        (21, 1, [10, 11]),
        (22, 1, [10, 10, 2]),
        (23, 2, [10, 13]),
        (24, 2, [10, 10, 4]),
        (1, 2, [1]),
        (10, 1, [10]),
        (11, 1, [11]),
    ],
)
def test_a_last_batch_too_small_for_batch_norm_is_joined_to_the_one_before(count, processes, sizes):
    batches = cut_batches(np.arange(count), batch_size=10, processes=processes)
    assert [len(batch) for batch in batches] == sizes


@given(size=st.integers(0, 100), processes=st.integers(1, 8))
def test_the_processes_share_a_batch_evenly_in_order(size, processes):
    batch = epoch_order(size, seed=0, epoch=0)
    parts = [batch[rank_slice(batch, rank, processes)] for rank in range(processes)]
    assert np.array_equal(np.concatenate(parts), batch)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_every_process_gets_at_least_two_samples_of_every_batch():
    for count in range(8, 60):
        for batch in cut_batches(np.arange(count), batch_size=8, processes=3):
            parts = [rank_slice(batch, rank, 3) for rank in range(3)]
            assert min(part.stop - part.start for part in parts) >= 2


# --- preparation -----------------------------------------------------------------------------------------------------


def test_features_are_ready_as_they_are():
    rows = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    encoding = FeatureEncoding(np.zeros(5, np.float32), np.ones(5, np.float32))
    prepared = preparation_of(encoding, Augmentation(padding=1, flip=True))
    assert torch.equal(prepared(rows, torch.Generator()), rows)


def test_images_are_normalised_and_augmented_in_training_only():
    mean, std = np.array([0.1, 0.2, 0.3], np.float32), np.array([0.5, 1.0, 2.0], np.float32)
    prepared = preparation_of(ImageEncoding((3, 8, 8), mean, std), Augmentation(padding=2, flip=True))
    expected = (PIXELS / 255 - mean[:, None, None]) / std[:, None, None]
    images = torch.from_numpy(PIXELS)
    np.testing.assert_allclose(prepared(images).numpy(), expected, atol=1e-6)
    trained = prepared(images, torch.Generator().manual_seed(0))
    assert trained.dtype == torch.float32
    assert not torch.equal(trained, prepared(images))
    assert torch.equal(trained, prepared(images, torch.Generator().manual_seed(0)))


def test_augmentation_does_not_depend_on_how_a_batch_is_split():
    prepared = Preparation((0.0,) * 3, (1.0,) * 3, Augmentation(padding=2, flip=True, degrees=10.0))
    images = torch.from_numpy(PIXELS)
    parts = [rank_slice(np.arange(30), rank, 4) for rank in range(4)]
    split = [prepared(images[p], torch.Generator().manual_seed(3), Part(p.start, 30)) for p in parts]
    assert torch.equal(torch.cat(split), prepared(images, torch.Generator().manual_seed(3), Part(0, 30)))


# --- reading ahead ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 4, 30])
def test_files_read_ahead_are_the_files_in_order(files, workers, batch_size):
    parts = cut_batches(epoch_order(30, seed=1, epoch=0), batch_size=batch_size)
    found = list(read_ahead(files, parts, workers=workers))
    assert len(found) == len(parts)
    for rows, part in zip(found, parts, strict=True):
        assert np.array_equal(rows.numpy(), PIXELS[part])


def test_arrays_are_taken_directly():
    parts = [np.array([3, 1]), np.array([2])]
    found = list(read_ahead(DenseRows(PIXELS), parts, workers=4))
    assert [rows.numpy().tolist() for rows in found] == [PIXELS[part].tolist() for part in parts]


def test_an_empty_part_is_an_empty_batch(files):
    found = list(read_ahead(files, [np.arange(0), np.arange(2)], workers=3))
    assert [rows.shape for rows in found] == [(0, 3, 8, 8), (2, 3, 8, 8)]
    assert list(read_ahead(files, [], workers=3)) == []


def test_order_is_kept_where_later_pieces_are_faster(files, monkeypatch):
    def slow_first(self, index):
        time.sleep(0.05 if 0 in index else 0.0)
        return torch.from_numpy(PIXELS[index])

    monkeypatch.setattr(FileRows, "take", slow_first)
    found = list(read_ahead(files, np.array_split(np.arange(30), 6), workers=4))
    assert np.array_equal(torch.cat(found).numpy(), PIXELS)


def test_it_reads_ahead_by_a_few_batches_and_no_more(files, monkeypatch):
    taken = []

    def note(self, index):
        taken.append(tuple(index))
        return torch.from_numpy(PIXELS[index])

    monkeypatch.setattr(FileRows, "take", note)
    stream = read_ahead(files, np.array_split(np.arange(30), 15), workers=1)
    next(stream)
    deadline = time.monotonic() + 5.0
    while len(taken) < loaders.PREFETCH + 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert len(taken) == loaders.PREFETCH + 1
    stream.close()


@pytest.mark.parametrize("workers", [0, 3])
def test_an_exception_in_a_worker_surfaces_at_its_batch(files, workers):
    (files.files.root / "13.png").write_bytes(b"no image")
    stream = read_ahead(files, np.array_split(np.arange(30), 6), workers=workers)
    before = [next(stream) for _ in range(2)]
    assert np.array_equal(torch.cat(before).numpy(), PIXELS[:10])
    with pytest.raises(ValueError, match=r"13\.png cannot be read"):
        next(stream)


def test_a_stream_that_is_left_ends_its_threads(files):
    running = threading.active_count()
    stream = read_ahead(files, np.array_split(np.arange(30), 6), workers=4)
    next(stream)
    stream.close()
    assert threading.active_count() == running
