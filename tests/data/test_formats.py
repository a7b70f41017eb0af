"""Official binary files that the test writes byte by byte, whole, truncated and corrupted."""

import gzip
import hashlib
import struct
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antidote_learn.data.formats import content_digest, read_cifar, read_idx


def cifar_bytes(images, *labels) -> bytes:
    """CIFAR's records written one pixel after another: labels, then the red, green and blue planes, row by row."""
    out = bytearray()
    for number, image in enumerate(images):
        out += bytes(int(column[number]) for column in labels)
        for plane in range(3):
            for row in range(32):
                out += bytes(int(image[plane, row, column]) for column in range(32))
    return bytes(out)


def idx_bytes(array) -> bytes:
    """An idx file: 00 00 08, the number of dimensions, each of them big-endian in 4 bytes, the bytes."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def random_images(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 3, 32, 32)), rng.integers(0, 10, n), rng.integers(0, 100, n)


# --- CIFAR -----------------------------------------------------------------------------------------------------------


def test_cifar10_files_are_read_in_order(tmp_path):
    images, labels, _ = random_images(5)
    files = [tmp_path / "a.bin", tmp_path / "b.bin"]
    files[0].write_bytes(cifar_bytes(images[:3], labels[:3]))
    files[1].write_bytes(cifar_bytes(images[3:], labels[3:]))
    read, given = read_cifar(files, label_bytes=1, label_at=0)
    assert (read.dtype, read.shape, given.dtype) == (np.uint8, (5, 3, 32, 32), np.int64)
    np.testing.assert_array_equal(read, images)
    np.testing.assert_array_equal(given, labels)
    assert read.flags.writeable
    assert read.flags.c_contiguous


@pytest.mark.parametrize("label_at", [0, 1])
def test_cifar100_has_a_coarse_and_a_fine_label(tmp_path, label_at):
    images, coarse, fine = random_images(4)
    (tmp_path / "train.bin").write_bytes(cifar_bytes(images, coarse, fine))
    read, labels = read_cifar([tmp_path / "train.bin"], label_bytes=2, label_at=label_at)
    np.testing.assert_array_equal(read, images)
    np.testing.assert_array_equal(labels, (coarse, fine)[label_at])


def test_more_records_than_are_read_at_once(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (2500, 3073), dtype=np.uint8)
    rows.tofile(tmp_path / "a.bin")
    rows[:1024].tofile(tmp_path / "b.bin")
    images, labels = read_cifar([tmp_path / "a.bin", tmp_path / "b.bin"], label_bytes=1, label_at=0)
    whole = np.concatenate([rows, rows[:1024]])
    np.testing.assert_array_equal(images.reshape(-1, 3072), whole[:, 1:])
    np.testing.assert_array_equal(labels, whole[:, 0])


@pytest.mark.parametrize("size", [0, 1, 3072, 3 * 3073 - 1, 3 * 3073 + 1])
def test_a_cifar_file_of_another_size_is_refused(tmp_path, size):
    (tmp_path / "a.bin").write_bytes(bytes(size))
    with pytest.raises(ValueError, match=rf"a\.bin is truncated.*multiple of 3073 bytes, found {size} bytes"):
        read_cifar([tmp_path / "a.bin"], label_bytes=1, label_at=0)


def test_a_missing_cifar_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_cifar([tmp_path / "a.bin"], label_bytes=1, label_at=0)


def test_reading_cifar_takes_little_more_memory_than_its_arrays(tmp_path):
    """The highest resident memory of a process that reads 61 MB, above what it had before."""
    np.zeros((20_000, 3073), np.uint8).tofile(tmp_path / "a.bin")
    program = dedent(
        """
        import sys
        from pathlib import Path
        import numpy as np
        from antidote_learn.data.formats import read_cifar

        def kilobytes(key):
            return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1])

        np.fromfile(sys.argv[1], np.uint8, 3073)
        before = kilobytes("VmRSS")
        images, labels = read_cifar([Path(sys.argv[1])], label_bytes=1, label_at=0)
        print(1024 * (kilobytes("VmHWM") - before) / images.nbytes)
        """
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to read the memory of a process")
    command = [sys.executable, "-c", program, str(tmp_path / "a.bin")]
    ratio = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert 0.9 < ratio < 1.3


# --- idx -------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(shape=st.lists(st.integers(0, 5), min_size=1, max_size=4), packed=st.booleans())
def test_idx_files_of_any_shape_plain_and_compressed(tmp_path_factory, shape, packed):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    path = tmp_path_factory.mktemp("idx") / ("x-ubyte.gz" if packed else "x-ubyte")
    path.write_bytes(gzip.compress(idx_bytes(array)) if packed else idx_bytes(array))
    read = read_idx(path)
    assert read.dtype == np.uint8
    assert read.flags.writeable
    np.testing.assert_array_equal(read, array)


IDX = idx_bytes(np.arange(24, dtype=np.uint8).reshape(4, 3, 2))
PACKED = gzip.compress(IDX)
BAD_IDX = {
    "empty": ("x", b"", "no idx file.*found nothing"),
    "too short for a header": ("x", IDX[:3], "no idx file.*found 00 00 08;"),
    "header cut off": ("x", IDX[:9], r"truncated or damaged: expected \d+ bytes.*found 9 bytes"),
    "one byte short": ("x", IDX[:-1], r"expected 40 bytes for shape \(4, 3, 2\), found 39 bytes"),
    "one byte too many": ("x", IDX + b"\0", r"expected 40 bytes for shape \(4, 3, 2\), found 41 bytes"),
    "sizes beyond any memory": ("x", bytes([0, 0, 8, 2]) + b"\xff" * 8, r"shape \(4294967295, 4294967295\), found 12"),
    "floats": ("x", bytes([0, 0, 0x0D]) + IDX[3:], "start with 00 00 08.*found 00 00 0d 03"),
    "no dimensions": ("x", bytes([0, 0, 8, 0]), "found 00 00 08 00"),
    "plain bytes called .gz": ("x.gz", IDX, r"x\.gz is truncated or damaged .*gzip"),
    "compressed and cut off": ("x.gz", PACKED[:-12], r"x\.gz is truncated or damaged .*nd-of-stream"),
    "compressed and changed": ("x.gz", PACKED[:-8] + bytes(8), r"x\.gz is truncated or damaged .*CRC"),
    "compressed, other bits": ("x.gz", PACKED[:12] + b"\xff" + PACKED[13:], r"x\.gz is truncated or damaged"),
    "compressed bytes of another size": ("x.gz", gzip.compress(IDX[:-1]), "expected 40 bytes.*found 39 bytes"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD_IDX.values(), ids=BAD_IDX.keys())
def test_damaged_idx_files_are_refused_with_what_was_found(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert "fetch it again" in str(caught.value)


# --- digests ---------------------------------------------------------------------------------------------------------


def test_the_digest_is_that_of_the_uncompressed_content(tmp_path):
    expected = hashlib.sha256(IDX).hexdigest()
    (tmp_path / "x").write_bytes(IDX)
    (tmp_path / "y.gz").write_bytes(PACKED)
    assert content_digest(tmp_path / "x") == content_digest(tmp_path / "y.gz") == expected


def test_the_digest_of_a_damaged_archive_is_an_error(tmp_path):
    (tmp_path / "y.gz").write_bytes(PACKED[:-12])
    with pytest.raises(ValueError, match="truncated or damaged"):
        content_digest(tmp_path / "y.gz")
