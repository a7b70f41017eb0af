"""Files that are no files, names that are no text, archives that promise too much: said before anything is opened."""

import gzip
import io
import os
import socket
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from antidote_learn.data import safety, tabular
from antidote_learn.data.image_folders import read_folder
from antidote_learn.data.image_tables import read_image_table
from antidote_learn.data.load import check_out, open_data, open_inputs
from antidote_learn.data.prepared import prepare
from antidote_learn.data.tabular import read_npz, read_table

LATIN = os.fsdecode(b"caf\xe9")  # a name that is not UTF-8
ROWS = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(12))


def images(root: Path, *classes: str) -> Path:
    for name in classes or ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (8, 8), (90 * i, 0, 0)).save(root / name / f"{i}.png")
    return root


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


SPECIAL = {make_pipe: "a named pipe", make_socket: "a socket", link_to_device: "a device"}


def npy(descr: str, shape: str, content: bytes = b"") -> bytes:
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


# --- what is no file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet", ".npz"])
def test_what_is_no_file_is_not_opened(make, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    path = Path(f"data{suffix}")
    make(path)
    for read in (open_data, open_inputs):
        with pytest.raises(ValueError, match=rf"data{suffix} is {SPECIAL[make]}, which is not opened"):
            read(path)


@pytest.mark.parametrize("make", SPECIAL)
def test_what_is_no_image_file_is_left_out_and_named(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = images(Path("images"))
    make(root / "cat" / "z.png")
    (note,) = read_folder(root).notes
    assert note.endswith(f"left out: images/cat/z.png ({SPECIAL[make]}, not a file)")
    with pytest.raises(ValueError, match="1 of 5 images cannot be read"):
        read_folder(root, strict=True)
    table = Path("list.csv")
    table.write_text("image,label\n" + "".join(f"images/{c}/{i}.png,{c}\n" for c in ("cat", "dog") for i in "01z"))
    assert f"images/cat/z.png ({SPECIAL[make]}, not a file)" in read_image_table(table, "image").notes[-1]
    inputs, names = open_inputs(root)
    assert names[2] == "cat/z.png"
    assert inputs.names[2] == "cat/z.png"  # refused by its name when it is decoded


def test_a_link_to_itself_hides_nothing(tmp_path):
    root = images(tmp_path / "images")
    (root / "cat" / "again.png").symlink_to("again.png")
    data = read_folder(root)
    assert len(data.labels) == 4
    assert "again.png" in data.notes[0]
    assert len(open_inputs(root)[1]) == 5


def test_folders_may_lie_deeper_in_each_other_than_calls(tmp_path, monkeypatch):
    root = images(tmp_path / "images")
    monkeypatch.chdir(root / "cat")
    try:
        for _ in range(1100):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(tmp_path)
        assert len(read_folder(root).labels) == 4
        assert len(open_inputs(root)[1]) == 4
    finally:
        subprocess.run(["rm", "-rf", root], check=True)  # pytest itself would stop at such a depth


def test_no_program_is_started_for_an_image(tmp_path, monkeypatch):
    """PostScript, which Pillow hands to Ghostscript, is not an image whatever it is called."""
    root = images(tmp_path / "images")
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "EPS")
    (root / "cat" / "z.png").write_bytes(buffer.getvalue())
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_, **__: pytest.fail("started"))
    assert "z.png (not an image)" in read_folder(root).notes[0]


# --- names -----------------------------------------------------------------------------------------------------------


def test_an_image_whose_name_is_no_text_is_left_out_and_named(tmp_path):
    root = images(tmp_path / "images")
    (root / "cat" / "0.png").rename(root / "cat" / f"{LATIN}.png")
    data = read_folder(root)
    assert len(data.labels) == 3
    assert r"caf\xe9.png' (the name is not UTF-8)" in data.notes[0]
    data.notes[0].encode()
    with pytest.raises(ValueError, match=r"caf\\xe9\.png' is not UTF-8: rename it"):
        open_inputs(root)


def test_other_names_that_are_no_text_are_refused(tmp_path):
    root = images(tmp_path / "images", "cat", LATIN)
    table = tmp_path / f"{LATIN}.csv"
    table.write_text(f"x,label\n{ROWS}")
    for read, path in ((open_data, root), (open_data, table), (open_inputs, table)):
        with pytest.raises(ValueError, match=r"the name b'.*caf\\xe9.*' is not UTF-8: rename it"):
            read(path)
    with pytest.raises(ValueError, match="is not UTF-8"):
        check_out(tmp_path / LATIN, data=table)


def test_results_do_not_lie_among_the_images(tmp_path, monkeypatch):
    root = images(tmp_path / "images")
    (tmp_path / "link").symlink_to(root)
    for out in (root, root / "run", root / "cat" / ".hidden" / "run", tmp_path / "link" / "run"):
        with pytest.raises(
            ValueError, match=r"lies in the data, in .*, and would become a class: choose another `out`"
        ):
            check_out(out, data=str(root))
        with pytest.raises(ValueError, match="lies in the data"):
            check_out(out, data="iris", test=root)
    check_out(tmp_path / "images2", data=root)
    check_out(tmp_path / "run", data=tmp_path / "table.csv", test=tmp_path / "none")
    monkeypatch.chdir(root)
    with pytest.raises(ValueError, match="lies in the data"):
        check_out("runs", data=".")


# --- archives that promise too much ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    {
        "absurd": (npy("<f8", "(1000000000000000000, 4)"), "has another size than its shape"),
        "beyond integers": (npy("<f8", f"({10**30},)"), "has another size than its shape"),
        "negative": (npy("<f8", "(-1, -8)", bytes(64)), "has another size than its shape"),
        "no width": (npy("<U0", "(1000000000000000000,)"), "has another size than its shape"),
        "void": (npy("|V8", "(2, 2)", bytes(32)), "holds records of type"),
        "structured": (saved(np.zeros(12, dtype=[("a", "<f4")])), "holds records of type"),
        "objects": (saved(np.array([{}] * 12)), "Object arrays cannot be loaded"),
        "not closed": (b"\x93NUMPY\x01\x00\x06\x00{'a': (", "cannot be read"),
        "a scalar": (saved(np.array(3.0)), "must be a DataFrame, numbers of shape"),
        "times": (saved(np.zeros((12, 2), dtype="<M8[s]")), "must be a DataFrame, numbers of shape"),
    }.values(),
)
def test_an_array_is_checked_before_it_is_unpacked(content, message, tmp_path):
    y = np.array(["a", "b"] * 6)
    path = archive(tmp_path / "a.npz", X=content, y=saved(y))
    for read in (read_npz, open_inputs):
        with pytest.raises(ValueError, match=f"^a.npz.*{message}"):
            read(path)


@pytest.mark.parametrize("dtype", ["|V8", "<f16", "<c16", "<M8[s]", "|S0", "<f2"])
def test_labels_of_any_type_are_read_or_refused(dtype, tmp_path):
    y = (np.arange(12) % 2).astype(dtype) if dtype not in ("|V8", "|S0") else np.zeros(12, dtype)
    path = archive(tmp_path / "a.npz", X=saved(np.eye(12)), y=saved(y))
    try:
        assert len(read_npz(path).classes) == 2
    except ValueError as error:
        assert str(error).startswith("a.npz")  # noqa: PT017 - both are right


def test_what_does_not_fit_into_memory_is_refused_before(tmp_path, monkeypatch):
    monkeypatch.setattr(safety, "_memory", lambda: 10**6)
    npz = archive(tmp_path / "a.npz", X=saved(np.zeros((10**6, 1), np.float32)), y=saved(np.zeros(10**6, np.int8)))
    table = pa.table({"x": np.zeros(10**5), "label": np.zeros(10**5)})
    parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,label\n" + b"0" * 10**6))
    for path in (npz, tmp_path / "a.parquet", tmp_path / "a.csv.gz"):
        assert path.stat().st_size < 100_000
        with pytest.raises(ValueError, match=rf"^{path.name} needs more memory than there is: .* GiB.*; give a part"):
            open_data(path)


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [None, "label"])
@pytest.mark.parametrize(
    ("header", "message"),
    {
        "x,label,label": "the table has the column 'label' twice: rename one",
        "label,x,label": "the table has the column 'label' twice: rename one",
        "x,x,label": "the table has the column 'x' twice: rename one",
        "x,label,label ": "the columns 'label' and 'label ', which look the same",
        "x,label,\u200blabel": "which look the same",
        "\ufeffx,label, label": "the table has the column 'label' twice",
        "x,label,label.1": "column 'label.1' is a copy of 'label' and gives the labels away: leave it out",
    }.items(),
)
def test_labels_that_stand_twice_are_refused(header, message, named, tmp_path):
    lines = [f"{i},{'ab'[i % 2]},{'ab'[i % 2]}" for i in range(12)]
    if header.startswith("label"):
        lines = [f"{'ab'[i % 2]},{i},{'ab'[i % 2]}" for i in range(12)]
    text = "\n".join([header, *lines])
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    for name in ("a.csv", "a.tsv.gz"):
        with pytest.raises(ValueError, match=rf"^{name}: .*{message}"):
            open_data(tmp_path / name, label=named)
    (tmp_path / "b.csv").write_text(f"x,z,label\n{text.partition(chr(10))[2]}")
    with pytest.raises(ValueError, match=r"a\.csv"):
        open_data(tmp_path / "b.csv", test=tmp_path / "a.csv")


def test_a_name_like_the_labels_is_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y,Y,y.1\n" + "".join(f"{i},{'ab'[i % 2]},{i * i % 7},{i % 5}\n" for i in range(12)))
    data = read_table(path, label="y")
    assert list(data.inputs) == ["x", "Y", "y.1"]
    assert [note.split(":")[0] for note in data.notes] == [
        f"column {name!r} is a feature, though it is named like 'y'" for name in ("Y", "y.1")
    ]


def test_a_truth_with_a_blank_in_its_name_is_no_feature(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,label,clean_label \n" + "".join(f"{i},{'ab'[i % 2]},a\n" for i in range(12)))
    data = read_table(path)
    assert list(data.inputs) == ["x"]
    assert data.clean_labels is not None


def test_a_parquet_file_with_a_name_twice_is_refused(tmp_path):
    labels = pa.array(["a", "b"] * 6)
    parquet.write_table(pa.table([labels, labels], names=["label", "label"]), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"^a.parquet: the table has the column 'label' twice: rename one"):
        open_data(tmp_path / "a.parquet")


@pytest.mark.parametrize("words", [b"", b"{", b"[]", b"null", b'{"columns": 5, "index_columns": []}', b"\xff"])
def test_broken_words_for_pandas_are_no_traceback(words, tmp_path):
    table = pa.table({"x": np.arange(12.0), "label": ["a", "b"] * 6}).replace_schema_metadata({b"pandas": words})
    parquet.write_table(table, tmp_path / "a.parquet")
    try:
        assert list(open_data(tmp_path / "a.parquet").inputs) == ["x"]
    except ValueError as error:
        assert str(error).startswith("a.parquet cannot be read")  # noqa: PT017 - both are right


def test_floats_of_16_bits_are_numbers(tmp_path):
    table = pa.table({"x": np.arange(12, dtype=np.float16), "label": ["a", "b"] * 6})
    parquet.write_table(table, tmp_path / "a.parquet")
    data = open_data(tmp_path / "a.parquet")
    prepared = prepare(data, noise="none", noise_seed=0, seed=0, subset=None, recipe="fitted")
    assert [column.kind for column in prepared.encoding.columns] == ["number"]
    assert isinstance(data.inputs, pd.DataFrame)
    assert data.inputs["x"].tolist() == list(range(12))


@pytest.mark.parametrize("nested", [[[1, 2]] * 12, [{"a": 1}] * 12, [[{"a": [1]}]] * 12])
def test_nested_columns_are_refused_by_name(nested, tmp_path):
    parquet.write_table(pa.table({"x": nested, "label": ["a", "b"] * 6}), tmp_path / "a.parquet")
    data = open_data(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"column 'x' holds .* values"):
        prepare(data, noise="none", noise_seed=0, seed=0, subset=None, recipe="fitted")


def test_a_table_of_very_many_columns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tabular, "MOST_COLUMNS", 100)
    path = tmp_path / "a.csv"
    path.write_text(",".join(map(str, range(101))) + "\n")
    with pytest.raises(ValueError, match=r"^a.csv: the table has 101 columns, at most 100 are read"):
        open_data(path)
