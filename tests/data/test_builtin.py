"""Named data sets on small files in the official formats, with their own digests; on the real ones where they are."""

import gzip
import hashlib
import io
import os
import struct
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets

from antidote_learn.data import builtin
from antidote_learn.data.builtin import DATA, Download, File, Human, Source, data_root, human_labels, load_named

RNG = np.random.default_rng(0)
TRAIN, TEST = RNG.integers(0, 256, (6, 3074), dtype=np.uint8), RNG.integers(0, 256, (2, 3074), dtype=np.uint8)
TRAIN[:, :2], TEST[:, :2] = [[9, k % 3] for k in range(6)], [[9, 2], [9, 0]]
CIFAR = {"tiny-bin/one.bin": TRAIN[:4], "tiny-bin/two.bin": TRAIN[4:], "tiny-bin/test.bin": TEST}
GREY, GREY_TEST = RNG.integers(0, 256, (6, 4, 5), dtype=np.uint8), RNG.integers(0, 256, (2, 4, 5), dtype=np.uint8)
IDX = {"tiny/images": GREY, "tiny/labels": TRAIN[:, 1], "tiny/test-images": GREY_TEST, "tiny/test-labels": TEST[:, 1]}
HUMAN = Human("tinyn.npz", {"worse": "worse_label"}, "the authors")
CLASSES = ("a", "b", "c")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def idx_bytes(array) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


CONTENT = {name: rows.tobytes() for name, rows in CIFAR.items()} | {name: idx_bytes(x) for name, x in IDX.items()}


def archive_of(names) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in [*names, "tiny-bin/readme.html"]:
            entry = tarfile.TarInfo(name)
            entry.size = len(CONTENT.get(name, b""))
            tar.addfile(entry, io.BytesIO(CONTENT.get(name, b"")))
    return buffer.getvalue()


ARCHIVE = archive_of(CIFAR)
PACKED = {name: gzip.compress(CONTENT[name], mtime=0) for name in IDX}


@pytest.fixture
def tiny(monkeypatch, tmp_path) -> Iterator[Path]:
    """Entries `tiny` (CIFAR-100's layout), `tinyn` (with human labels) and `tiny-idx`; gives what a server serves."""
    served = tmp_path / "served"
    served.mkdir()
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=served)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        site = f"http://127.0.0.1:{server.server_port}"
        offer = Download(f"{site}/tiny.tar.gz", sha256(ARCHIVE))
        cifar = tuple(File(name, sha256(CONTENT[name]), offer) for name in CIFAR)
        idx = tuple(
            File(name, sha256(CONTENT[name]), Download(f"{site}/{name}.gz", sha256(PACKED[name]))) for name in IDX
        )
        read = partial(builtin._read_cifar, label_bytes=2)
        monkeypatch.setitem(DATA, "tiny", Source("about", CLASSES, read, cifar, HUMAN))
        monkeypatch.setitem(DATA, "tinyn", Source("about", CLASSES, read, cifar, HUMAN, "worse"))
        monkeypatch.setitem(DATA, "tiny-idx", Source("about", CLASSES, builtin._read_idx, idx))
        yield served
        server.shutdown()
        thread.join()


def write(root: Path, names, *, packed=()) -> None:
    for name in names:
        place = root / (f"{name}.gz" if name in packed else name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(PACKED[name] if name in packed else CONTENT[name])


def assert_cifar(data) -> None:
    np.testing.assert_array_equal(data.inputs, TRAIN[:, 2:].reshape(6, 3, 32, 32))
    np.testing.assert_array_equal(data.test_inputs, TEST[:, 2:].reshape(2, 3, 32, 32))
    np.testing.assert_array_equal(data.clean_labels, [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(data.test_labels, [2, 0])
    assert data.classes == CLASSES
    assert data.test_is_clean


def assert_idx(data) -> None:
    np.testing.assert_array_equal(data.inputs, GREY.reshape(6, 1, 4, 5))
    np.testing.assert_array_equal(data.test_inputs, GREY_TEST.reshape(2, 1, 4, 5))
    np.testing.assert_array_equal(data.labels, [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(data.test_labels, [2, 0])
    assert data.labels.dtype == data.test_labels.dtype == np.int64


# --- official files --------------------------------------------------------------------------------------------------


def test_cifar_files_are_checked_and_read(tiny, tmp_path):
    write(tmp_path, CIFAR)
    data = load_named("tiny", root=tmp_path)
    assert data.name == "tiny"
    assert_cifar(data)
    np.testing.assert_array_equal(data.labels, data.clean_labels)


@pytest.mark.parametrize("packed", [(), tuple(IDX), ("tiny/labels",)], ids=["plain", "compressed", "mixed"])
def test_idx_files_are_read_plain_or_compressed(tiny, tmp_path, packed):
    write(tmp_path, IDX, packed=packed)
    assert_idx(load_named("tiny-idx", root=tmp_path))


def test_a_missing_file_says_what_to_put_where(tiny, tmp_path):
    write(tmp_path, ["tiny-bin/one.bin"])
    with pytest.raises(FileNotFoundError) as caught:
        load_named("tiny", root=tmp_path)
    message = str(caught.value)
    assert f"tiny: {tmp_path / 'tiny-bin/two.bin'} is missing: unpack http" in message
    assert f"tiny.tar.gz in {tmp_path}, " in message
    for hint in ("`data_root`", "ANTIDOTE_DATA", "`download=True`"):
        assert hint in message
    assert "\n" not in message


def test_a_missing_idx_file_names_the_compressed_one(tiny, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tiny/images is missing: put http.*/tiny/images\.gz there, unp"):
        load_named("tiny-idx", root=tmp_path)


@pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: c[:50] + b"\1" + c[51:], lambda c: b""])
def test_a_file_that_is_not_the_official_one_is_refused(tiny, tmp_path, damage):
    write(tmp_path, CIFAR)
    bad = damage(CONTENT["tiny-bin/two.bin"])
    (tmp_path / "tiny-bin/two.bin").write_bytes(bad)
    expected = sha256(CONTENT["tiny-bin/two.bin"])
    with pytest.raises(ValueError, match=rf"two\.bin \({len(bad)} bytes\) is not the official file.*{sha256(bad)}, "):
        load_named("tiny", root=tmp_path)
    with pytest.raises(ValueError, match=f"required {expected}"):
        load_named("tiny", root=tmp_path, download=True)
    assert (tmp_path / "tiny-bin/two.bin").read_bytes() == bad


# --- downloads -------------------------------------------------------------------------------------------------------


def test_download_fetches_an_archive_and_keeps_only_the_files(tiny, tmp_path):
    (tiny / "tiny.tar.gz").write_bytes(ARCHIVE)
    root, calls = tmp_path / "root", []
    assert_cifar(load_named("tiny", root=root, download=True, progress=lambda *call: calls.append(call)))
    assert calls[-1] == (len(ARCHIVE), len(ARCHIVE))
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*.*")) == sorted(CIFAR)
    (tiny / "tiny.tar.gz").unlink()
    assert_cifar(load_named("tiny", root=root, download=True))  # nothing is missing, nothing is fetched


def test_download_leaves_files_that_are_there_alone(tiny, tmp_path):
    (tiny / "tiny.tar.gz").write_bytes(ARCHIVE)
    write(tmp_path, ["tiny-bin/one.bin"])
    before = os.stat(tmp_path / "tiny-bin/one.bin").st_ino
    assert_cifar(load_named("tiny", root=tmp_path, download=True))
    assert os.stat(tmp_path / "tiny-bin/one.bin").st_ino == before


def test_download_leaves_the_users_own_archive_alone(tiny, tmp_path):
    (tiny / "tiny.tar.gz").write_bytes(ARCHIVE)
    (tmp_path / "tiny.tar.gz").write_bytes(b"mine")
    assert_cifar(load_named("tiny", root=tmp_path, download=True))
    assert (tmp_path / "tiny.tar.gz").read_bytes() == b"mine"


def test_a_compressed_file_of_an_archive_is_not_the_file(tiny, tmp_path):
    write(tmp_path, CIFAR)
    plain = tmp_path / "tiny-bin/two.bin"
    plain.with_name("two.bin.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    with pytest.raises(FileNotFoundError, match=r"two\.bin is missing"):
        load_named("tiny", root=tmp_path)


def test_download_fetches_the_idx_files_that_are_missing(tiny, tmp_path):
    write(tiny, IDX, packed=IDX)
    (tiny / "tiny/labels.gz").unlink()
    write(tmp_path, ["tiny/labels"])
    assert_idx(load_named("tiny-idx", root=tmp_path, download=True))
    assert (tmp_path / "tiny/images.gz").read_bytes() == PACKED["tiny/images"]


def test_a_wrong_archive_keeps_nothing(tiny, tmp_path):
    (tiny / "tiny.tar.gz").write_bytes(ARCHIVE[:-9])
    with pytest.raises(ValueError, match="another content than expected"):
        load_named("tiny", root=tmp_path / "root", download=True)
    assert not list((tmp_path / "root").rglob("*.*"))


def test_an_archive_without_the_files_keeps_nothing(tiny, tmp_path, monkeypatch):
    (tiny / "tiny.tar.gz").write_bytes(ARCHIVE)
    offer = DATA["tiny"].files[0].download
    lost = File("tiny-bin/lost.bin", "0" * 64, offer)
    monkeypatch.setitem(DATA, "lost", Source("about", CLASSES, DATA["tiny"].read, (lost,)))
    with pytest.raises(ValueError, match=r"does not hold \['tiny-bin/lost.bin'\]"):
        load_named("lost", root=tmp_path / "root", download=True)
    assert not list((tmp_path / "root").rglob("*.*"))


def test_nothing_is_fetched_without_being_asked(tiny, tmp_path):
    (tiny / "tiny.tar.gz").write_bytes(ARCHIVE)
    with pytest.raises(FileNotFoundError):
        load_named("tiny", root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


# --- human labels ----------------------------------------------------------------------------------------------------

CLEAN, WORSE = np.array([0, 1, 2, 0, 1, 2], np.uint8), np.array([0, 2, 2, 1, 1, 2], np.uint8)


def test_human_labels_stand_beside_the_truth(tiny, tmp_path):
    write(tmp_path, CIFAR)
    np.savez(tmp_path / "tinyn.npz", clean_label=CLEAN, worse_label=WORSE)
    data = load_named("tinyn", root=tmp_path)
    assert_cifar(data)
    np.testing.assert_array_equal(data.labels, WORSE)
    labels, clean = human_labels("tiny", "worse", root=tmp_path)
    assert labels.dtype == clean.dtype == np.int64
    np.testing.assert_array_equal(labels, WORSE)
    np.testing.assert_array_equal(clean, CLEAN)


def test_human_labels_in_another_order_are_refused(tiny, tmp_path):
    write(tmp_path, CIFAR)
    np.savez(tmp_path / "tinyn.npz", clean_label=CLEAN[::-1], worse_label=WORSE[::-1])
    with pytest.raises(ValueError, match=r"clean_label in the \.npz differs from the data set's labels"):
        load_named("tinyn", root=tmp_path)


def test_missing_human_labels_are_noticed_before_anything_is_fetched(tiny, tmp_path):
    (tiny / "tiny.tar.gz").write_bytes(ARCHIVE)
    with pytest.raises(FileNotFoundError, match=r"tinyn\.npz is missing: save.*clean_label, worse_label.*pickle"):
        load_named("tinyn", root=tmp_path / "root", download=True)
    assert not (tmp_path / "root").exists()


def save_pickled(path) -> None:
    np.savez(path, clean_label=CLEAN, worse_label=np.array([object()], dtype=object))


BAD_HUMAN = {
    "not a zip": (lambda path: path.write_bytes(b"hello"), "damaged or lacks worse_label"),
    "empty": (lambda path: path.write_bytes(b""), "damaged or lacks worse_label"),
    "an npy": (lambda path: path.open("wb").write(npy_bytes()), "damaged or lacks worse_label"),
    "pickled": (save_pickled, "damaged or lacks .*allow_pickle=False"),
    "no such key": (lambda path: np.savez(path, clean_label=CLEAN), "damaged or lacks worse_label.*not a file"),
    "no truth": (lambda path: np.savez(path, worse_label=WORSE), "damaged or lacks worse_label or clean_label"),
    "another length": (
        lambda path: np.savez(path, clean_label=CLEAN, worse_label=WORSE[:5]),
        r"does not fit tiny: expected.*0 \.\.\. 2, found shapes \(5,\) and \(6,\)",
    ),
    "a class too many": (lambda path: np.savez(path, clean_label=CLEAN, worse_label=WORSE + 1), "does not fit tiny"),
    "negative": (lambda path: np.savez(path, clean_label=CLEAN - 1.0, worse_label=WORSE), "does not fit tiny"),
}


def npy_bytes() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, CLEAN)
    return buffer.getvalue()


@pytest.mark.parametrize(("make", "message"), BAD_HUMAN.values(), ids=BAD_HUMAN.keys())
def test_damaged_human_labels_are_refused(tiny, tmp_path, make, message):
    make(tmp_path / "tinyn.npz")
    with pytest.raises(ValueError, match=message) as caught:
        human_labels("tiny", "worse", root=tmp_path)
    assert "restore the file" in str(caught.value)


def test_human_labels_exist_for_some_data_and_some_names():
    with pytest.raises(ValueError, match="digits has no human labels: received 'worse', they exist for cifar10, cifar"):
        human_labels("digits", "worse")
    with pytest.raises(ValueError, match=r"unknown human labels 'worst': cifar10 has aggregate, random1, .*, worse"):
        human_labels("cifar10", "worst")


# --- embedded data ---------------------------------------------------------------------------------------------------

EMBEDDED = {
    "digits": (datasets.load_digits, 1297, 500, (1, 8, 8), np.uint8),
    "breast-cancer": (datasets.load_breast_cancer, 398, 171, (30,), np.float32),
    "iris": (datasets.load_iris, 105, 45, (4,), np.float32),
    "wine": (datasets.load_wine, 124, 54, (13,), np.float32),
}
GREYS = np.array([0, 16, 32, 48, 64, 80, 96, 112, 128, 143, 159, 175, 191, 207, 223, 239, 255])  # of 0 ... 16


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_data_is_all_there_once_and_split_by_class(name):
    loader, n, m, shape, dtype = EMBEDDED[name]
    whole, data = loader(), load_named(name)
    assert (data.inputs.shape, data.test_inputs.shape) == ((n, *shape), (m, *shape))
    assert data.inputs.dtype == data.test_inputs.dtype == dtype
    assert data.labels.dtype == data.test_labels.dtype == np.int64
    assert data.classes == tuple(str(name) for name in whole.target_names)
    assert data.test_is_clean
    np.testing.assert_array_equal(data.labels, data.clean_labels)

    inputs = np.concatenate([data.inputs, data.test_inputs]).reshape(n + m, -1)
    rows = np.column_stack([inputs, np.append(data.labels, data.test_labels)])
    values = GREYS[whole.data.astype(int)] if name == "digits" else whole.data.astype(np.float32)
    expected = np.column_stack([values, whole.target])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])
    share = np.bincount(whole.target) * m / (n + m)
    assert np.abs(np.bincount(data.test_labels) - share).max() < 1


def test_the_split_never_changes():
    np.random.seed(1)  # noqa: NPY002 - the shared random state must not matter
    first = load_named("digits")
    np.random.seed(2)  # noqa: NPY002
    second = load_named("digits")
    np.testing.assert_array_equal(first.inputs, second.inputs)
    assert sha256(first.test_labels.astype("<i8").tobytes()).startswith("bd2e9b7c2aa9b6b5")


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_table_is_complete_and_consistent():
    assert set(DATA) >= {"digits", "cifar10", "cifar100", "mnist", "fashion-mnist", "breast-cancer", "iris", "wine"}
    assert {f"cifar10n-{which}" for which in DATA["cifar10"].human.keys} <= set(DATA)
    for name, source in DATA.items():
        assert source.about
        assert "\n" not in source.about
        assert len(set(source.classes)) == len(source.classes) >= 2
        assert source.which is None or source.which in source.human.keys, name
        for file in source.files:
            digests = (file.sha256, file.download.sha256)
            assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown data set 'cifra10': built in are digits, .*cifar10, .*give a path"):
        load_named("cifra10")


def test_the_root_is_the_argument_or_the_environment_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ANTIDOTE_DATA", raising=False)
    assert data_root() == tmp_path / ".cache" / "antidote"
    monkeypatch.setenv("ANTIDOTE_DATA", "~/data")
    assert data_root() == tmp_path / "data"
    assert data_root("~/other") == tmp_path / "other"
    assert data_root(tmp_path) == tmp_path


# --- the real files --------------------------------------------------------------------------------------------------

REAL = {
    "cifar10": ((50_000, 3, 32, 32), 0.0, [6, 9, 9, 4, 1]),
    "cifar10n-aggregate": ((50_000, 3, 32, 32), 0.0901, None),
    "cifar10n-random1": ((50_000, 3, 32, 32), 0.1723, None),
    "cifar10n-random2": ((50_000, 3, 32, 32), 0.1812, None),
    "cifar10n-random3": ((50_000, 3, 32, 32), 0.1764, None),
    "cifar10n-worse": ((50_000, 3, 32, 32), 0.4021, None),
    "cifar100": ((50_000, 3, 32, 32), 0.0, [19, 29, 0, 11, 1]),
    "cifar100n": ((50_000, 3, 32, 32), 0.4020, None),
    "mnist": ((60_000, 1, 28, 28), 0.0, [5, 0, 4, 1, 9]),
    "fashion-mnist": ((60_000, 1, 28, 28), 0.0, [9, 0, 0, 3, 0]),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_files_where_they_are(name):
    if not os.environ.get("ANTIDOTE_DATA"):
        pytest.skip("set ANTIDOTE_DATA to the folder of the official files to read them")
    try:
        data = load_named(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    shape, rate, first = REAL[name]
    assert data.inputs.shape == shape
    assert data.test_inputs.shape == (10_000, *shape[1:])
    assert np.mean(data.labels != data.clean_labels) == pytest.approx(rate, abs=6e-5)
    assert first is None or data.labels[:5].tolist() == first
    assert set(data.test_labels.tolist()) == set(range(len(data.classes)))
