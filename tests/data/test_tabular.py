"""Tables, .npz files and arrays as data sets: what comes out of each, and what is said about those that are none."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from antidote_learn.data.tabular import as_inputs, from_arrays, read_features, read_npz, read_table

TABLE = pd.DataFrame(
    {
        "age": [31.5, 40.0, None, 22.25],
        "city": ["Rome", "Oslo, north", None, "Rome"],
        "member": [True, False, True, True],
        "label": ["pos", "neg", "neg", "pos"],
    }
)
CSV = 'age,city,member,label\n31.5,Rome,True,pos\n40.0,"Oslo, north",False,neg\n,,True,neg\n22.25,Rome,True,pos\n'


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".csv.gz", ".tsv", ".parquet"])
def test_every_format_gives_the_same_data_set(tmp_path, suffix):
    path = tmp_path / f"people{suffix}"
    if suffix == ".parquet":
        TABLE.to_parquet(path)
    elif suffix == ".tsv":
        TABLE.to_csv(path, sep="\t", index=False)
    else:
        write(path, gzip.compress(CSV.encode()) if suffix.endswith(".gz") else CSV)
    data = read_table(path)
    assert data.name == path.name
    assert data.classes == ("neg", "pos")
    assert data.labels.tolist() == [1, 0, 0, 1]
    assert data.labels.dtype == np.int64
    pd.testing.assert_frame_equal(data.inputs, TABLE.drop(columns="label"))
    assert (data.clean_labels, data.test_inputs, data.test_labels, data.text, data.notes) == (None, None, None, (), ())


@pytest.mark.parametrize("name", ["label", "target", "class", "y", "Label"])
def test_a_usual_label_column_need_not_be_named(tmp_path, name):
    data = read_table(write(tmp_path / "a.csv", f"a,{name}\n1,x\n2,z\n"))
    assert data.classes == ("x", "z")
    assert list(data.inputs) == ["a"]


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["10", "9", "-1", "9"], ("-1", "9", "10")),
        (["10.0", "9.0", "9", "10"], ("9", "10")),
        (["True", "False", "True"], ("False", "True")),
        (["b", "a10", "a9"], ("a10", "a9", "b")),
        (["2", "10", "a"], ("10", "2", "a")),
    ],
)
def test_classes_are_sorted_integers_by_value(tmp_path, cells, classes):
    data = read_table(write(tmp_path / "a.csv", "a,label\n" + "".join(f"1,{cell}\n" for cell in cells)))
    assert data.classes == classes
    assert [data.classes[k] for k in data.labels] == [cell.removesuffix(".0") for cell in cells]


def test_the_true_labels_are_no_feature(tmp_path):
    path = write(tmp_path / "a.csv", "a,label,clean_label,truth\n1,x,x,w\n2,x,z,x\n3,z,z,z\n")
    data = read_table(path)
    assert data.clean_labels.tolist() == [0, 1, 1]
    assert list(data.inputs) == ["a", "truth"]
    data = read_table(path, clean="truth")
    assert data.classes == ("w", "x", "z")  # the truth may know a class that nobody was given
    assert data.labels.tolist() == [1, 1, 2]
    assert data.clean_labels.tolist() == [0, 1, 2]


def test_a_second_table_is_the_test_set(tmp_path):
    train = write(tmp_path / "a.csv", "a,zip,label\n1,007,x\n2,N1,z\n")
    test = write(tmp_path / "b.csv", "label,more,zip,a\nz,0,007,5\n")
    data = read_table(train, test=test)
    assert data.test_labels.tolist() == [1]
    assert not data.test_is_clean
    assert data.test_inputs.to_dict("list") == {"a": [5], "zip": ["007"]}


def test_test_labels_are_the_true_ones_where_they_are_known(tmp_path):
    train = write(tmp_path / "a.csv", "a,label,truth\n1,x,x\n2,z,x\n")
    known = write(tmp_path / "b.csv", "a,label,truth\n5,x,z\n")
    data = read_table(train, clean="truth", test=write(tmp_path / "c.csv", "a,label\n5,x\n"))
    assert (data.test_labels.tolist(), data.test_is_clean) == ([0], False)
    data = read_table(train, clean="truth", test=known)
    assert (data.test_labels.tolist(), data.test_is_clean) == ([1], True)


def test_a_column_that_counts_the_rows_is_left_out(tmp_path):
    frame = pd.DataFrame({"a": np.arange(30) * 7 % 30, "label": np.repeat([0, 1], 15)})
    frame.to_csv(tmp_path / "a.csv")  # its index becomes a column without a name
    data = read_table(tmp_path / "a.csv")
    assert list(data.inputs) == ["a"]
    assert data.notes == ("column 'Unnamed: 0' counts the rows and was left out",)


def test_other_integers_are_features():
    assert list(from_arrays(pd.DataFrame({"a": [1, 2, 3]}), [0, 1, 0]).inputs) == ["a"]
    frame = pd.DataFrame({"a": np.arange(30) // 2, "b": pd.array([*range(29), None], dtype="Int64")})
    assert list(from_arrays(frame, np.arange(30) % 2).inputs) == ["a", "b"]


def test_named_text_columns_are_passed_on(tmp_path):
    path = write(tmp_path / "a.csv", CSV)
    assert read_table(path, text="city").text == ("city",)
    assert read_table(path, text=["city", "age"]).text == ("city", "age")


@pytest.mark.parametrize("missing", ["", "NA", "?", "nan"])
def test_missing_features_are_left_to_the_encoding(tmp_path, missing):
    data = read_table(write(tmp_path / "a.csv", f"a,b,label\n1,u,x\n{missing},{missing},z\n"))
    assert data.inputs.isna().to_numpy().tolist() == [[False, False], [True, True]]
    assert data.inputs["a"].dtype == np.float64


def test_spaces_after_a_comma_do_not_count(tmp_path):
    data = read_table(write(tmp_path / "a.csv", 'a, b, label\n1, "u, v", x\n2, w, z\n'))
    assert data.classes == ("x", "z")
    assert data.inputs["b"].tolist() == ["u, v", "w"]


MANY = "a,label\n" + "".join(f"1,{i}\n" for i in range(40))
BAD_TABLES = {
    "no label column": ("a,b\n1,2\n", {}, r"bad\.csv: name the label column.*label, target.*columns are 'a', 'b'"),
    "two label columns": ("a,y,label\n1,2,3\n", {}, r"which column is meant, 'y' or 'label'\? name it"),
    "unknown label column": (CSV, {"label": "lab"}, r"no column 'lab'; the columns are 'age', 'city'"),
    "unknown clean column": (CSV, {"clean": "truth"}, r"no column 'truth'; the columns are"),
    "unknown text column": (CSV, {"text": ["city", "revew"]}, r"no column 'revew'; the columns are"),
    "the label is no text": (CSV, {"text": "label"}, r"no column 'label'"),
    "one class": ("a,label\n1,x\n2,x\n", {}, r"all labels are 'x'; at least two classes"),
    "missing labels": (
        "a,label\n1,x\n2,\n3,z\n4,NA\n",
        {"strict": True},
        r"'label' lacks 2 of 4 labels, in row 1, 3 \(counted from 0",
    ),
    "missing truth": ("a,y,clean_label\n1,x,\n2,z,z\n", {}, r"'clean_label' lacks 1 of 2 labels, in row 0"),
    "regression": ("a,label\n1,0.5\n2,2\n", {}, r"'label' looks like a regression target, as it holds 0\.5"),
    "identifiers": (MANY, {}, r"40 different values in 40 rows, like a regression target or an identifier"),
    "colons": ("a:label\n1:2\n", {}, r"the columns are 'a:label'"),
    "long row": ("a,label\n1,x\n2,z,3\n", {}, r"bad\.csv cannot be read.*Expected 2 fields in line 3, saw 3"),
    "long rows": ("a,label\n1,x,3\n2,z,3\n", {}, r"bad\.csv cannot be read.*Length of header"),
    "no rows": ("a,label\n", {}, r"bad\.csv: the table has 0 rows and 2 columns"),
    "nothing": ("", {}, r"bad\.csv cannot be read.*No columns"),
    "other encoding": ("a,label\n漢字,x\n".encode("gbk"), {}, r"bad\.csv: its text is neither UTF-8 nor cp1252"),
    "only labels": ("label\nx\nz\n", {}, r"X has 2 rows and 0 columns: give at least one of each"),
}


@pytest.mark.parametrize(("content", "options", "message"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_a_table_that_cannot_serve_is_refused_in_one_line(tmp_path, content, options, message):
    path = write(tmp_path / "bad.csv", content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("bad.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age,label\n1,pos\n", r"test\.csv: there is no column 'city'"),
        ("age,city,member\n1,u,True\n", r"test\.csv: there is no column 'label'"),
        ("age,city,member,label\n1,u,True,maybe\n", r"test\.csv: the test label 'maybe' is no class.*\(neg, pos\)"),
        ("age,city,member,label\n1,u,True,\n", r"test\.csv: column 'label' lacks 1 of 1 labels"),
    ],
)
def test_a_test_table_must_fit(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path / "a.csv", CSV), test=write(tmp_path / "test.csv", content))


@pytest.mark.parametrize(
    ("read", "name"),
    [(read_table, "gone.csv"), (read_npz, "gone.npz"), (read_features, "gone.parquet"), (read_features, "gone.npz")],
)
def test_a_missing_file_is_named(tmp_path, read, name):
    with pytest.raises(FileNotFoundError, match=rf"there is no file .*{name}.*\.csv, .*\.parquet, \.npz"):
        read(tmp_path / name)


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.xls is no table: accepted are files that end in \.csv, "):
        read_table(write(tmp_path / "a.xls", CSV))


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".npz"])
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_file_is_refused(tmp_path, suffix, kept):
    whole = tmp_path / f"whole{suffix}"
    if suffix == ".npz":
        save(whole, X=np.ones((50, 3)), y=np.arange(50) % 2)
    elif suffix == ".parquet":
        TABLE.to_parquet(whole)
    else:
        write(whole, gzip.compress(CSV.encode()))
    content = whole.read_bytes()
    cut = write(tmp_path / f"cut{suffix}", content[: int(kept * len(content))])
    with pytest.raises(ValueError, match=r"^cut\S+ cannot be read|^cut\S+: ") as caught:
        (read_npz if suffix == ".npz" else read_table)(cut)
    assert "\n" not in str(caught.value)


# --- .npz ------------------------------------------------------------------------------------------------------------


def test_npz_features_with_all_keys(tmp_path):
    X, y = np.arange(12.0).reshape(4, 3), np.array([7, 10, 7, 10])
    path = save(tmp_path / "a.npz", X=X, y=y, X_test=X[:2] + 1, y_test=[10, 10], clean_labels=[7, 7, 7, 10], more=1)
    data = read_npz(path)
    assert data.inputs.dtype == np.float32
    assert np.array_equal(data.inputs, X)
    assert data.classes == ("7", "10")
    assert data.labels.tolist() == [0, 1, 0, 1]
    assert data.clean_labels.tolist() == [0, 0, 0, 1]
    assert np.array_equal(data.test_inputs, X[:2] + 1)
    assert data.test_labels.tolist() == [1, 1]


@pytest.mark.parametrize("labels", [np.array(["cat", "dog", "cat"]), np.array([b"cat", b"dog", b"cat"])])
def test_npz_labels_may_be_strings(tmp_path, labels):
    data = read_npz(save(tmp_path / "a.npz", X=np.eye(3), y=labels))
    assert (data.classes, data.labels.tolist()) == (("cat", "dog"), [0, 1, 0])


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((2, 3, 5, 6), 1), ((2, 5, 6, 3), 3), ((2, 5, 6, 1), 3), ((2, 1, 5, 4), 1), ((2, 3, 5, 3), 1), ((2, 7, 5, 6), 1)],
)
def test_uint8_arrays_are_images_with_the_channels_first(shape, channels):
    X = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    images = from_arrays(X, [0, 1]).inputs
    assert images.dtype == np.uint8
    assert images.flags.c_contiguous
    for at in np.ndindex(images.shape):
        n, c, h, w = at
        assert images[at] == (X[n, c, h, w] if channels == 1 else X[n, h, w, c])


def test_uint8_arrays_of_three_axes_are_grey_images_and_of_two_features():
    X = np.arange(40, dtype=np.uint8).reshape(2, 4, 5)
    assert np.array_equal(as_inputs(X), X[:, None])
    assert as_inputs(X[:, 0]).dtype == np.float32


def test_a_pickle_is_never_loaded(tmp_path):
    path = save(tmp_path / "a.npz", X=np.eye(2), y=np.array(["a", {}], dtype=object))
    with pytest.raises(ValueError, match=r"a\.npz cannot be read.*Object arrays cannot be loaded"):
        read_npz(path)


def test_a_changed_byte_is_noticed(tmp_path):
    content = bytearray(save(tmp_path / "a.npz", X=np.ones((50, 3)), y=np.arange(50) % 2).read_bytes())
    content[len(content) // 3] ^= 1
    with pytest.raises(ValueError, match=r"b\.npz cannot be read.*CRC"):
        read_npz(write(tmp_path / "b.npz", bytes(content)))


def test_a_single_array_is_no_npz(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(ValueError, match=r"a\.npz cannot be read.*no archive"):
        read_npz((tmp_path / "a.npy").rename(tmp_path / "a.npz"))


# --- arrays in memory ------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    st.one_of(
        *(st.lists(e, min_size=2, max_size=15) for e in (st.text("abc xyz_", max_size=4), st.integers(), st.booleans()))
    )
)
def test_every_label_keeps_its_name(labels):
    if len(set(labels)) < 2:
        labels = [*labels, *{type(labels[0])(), type(labels[0])(1)}]
    data = from_arrays(np.zeros((len(labels), 1)), labels)
    assert [data.classes[k] for k in data.labels] == [str(label) for label in labels]
    assert data.classes == tuple(str(label) for label in sorted(set(labels)))


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 3],
        np.array([3.0, 1.0, 3.0], dtype=np.float32),
        torch.tensor([3, 1, 3], dtype=torch.uint8),
        pd.Series([3, 1, 3], index=[7, 8, 9], name="kind"),
        pd.Series([3, 1, 3], dtype="Int64"),
        pd.Series([3, 1, 3], dtype="category"),
        np.array([3, 1, 3], dtype=object),
        ("3", "1", "3"),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', '')}",
)
def test_labels_of_every_kind_mean_the_same(labels):
    data = from_arrays(np.zeros((3, 1)), labels)
    assert (data.classes, data.labels.tolist()) == (("1", "3"), [1, 0, 1])


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_tensors_become_float32(dtype):
    X = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to(dtype)
    X.requires_grad_(X.is_floating_point())
    features = from_arrays(X, ["a", "b"]).inputs
    assert features.dtype == np.float32
    assert features.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_float32_is_not_copied():
    X = np.zeros((3, 2), dtype=np.float32)
    assert np.shares_memory(as_inputs(X), X)


def test_a_frame_is_given_plain_names_and_rows():
    frame = pd.DataFrame([[1, "u"], [2, "v"]], index=[5, 5])
    inputs = from_arrays(frame, [0, 1]).inputs
    assert list(inputs) == ["0", "1"]
    assert list(inputs.index) == [0, 1]
    assert list(frame) == [0, 1]
    assert list(frame.index) == [5, 5]


X, Y = np.eye(3), [0, 1, 1]
FRAME = pd.DataFrame({"a": [1, 2, 3]})
BAD_ARRAYS = {
    "too few labels": ((X, [0, 1]), {}, r"y must have shape \(3,\), one label a row of X; received shape \(2,\)"),
    "one-hot labels": ((X, np.eye(3)), {}, r"y must have shape \(3,\).*received shape \(3, 3\)"),
    "None among labels": ((X, ["a", None, "b"]), {"strict": True}, r"y lacks 1 of 3 labels, in row 1"),
    "NaN among labels": ((X, ["a", "b", np.nan]), {"strict": True}, r"y lacks 1 of 3 labels, in row 2"),
    "no label at all": ((X, [None, None, None]), {}, r"y lacks 3 of 3 labels, in row 0, 1, 2"),
    "NaN": ((np.where(X, np.nan, 0)[:, 1:], Y), {}, r"X must hold finite.*in 2 of 3 rows, first in row 1 \(counted"),
    "infinite in float32": ((X * 1e39, Y), {}, r"NaN or infinite ones are in 3 of 3 rows, first in row 0"),
    "float images": ((np.zeros((3, 3, 8, 8)), Y), {}, r"uint8 images.*received float64 of shape \(3, 3, 8, 8\)"),
    "strings": ((["a", "b", "c"], Y), {}, r"X must be a DataFrame.*received <U1 of shape \(3,\)"),
    "nothing": ((X[:0], []), {}, r"not empty; received float64 of shape \(0, 3\)"),
    "no columns": ((FRAME[[]], Y), {}, r"X has 3 rows and 0 columns"),
    "a name twice": ((FRAME[["a", "a"]], Y), {}, r"X has the column 'a' twice"),
    "text of an array": ((X, Y), {"text": "a"}, r"text columns a were named, but X is no table"),
    "X_test alone": ((X, Y), {"X_test": X}, r"one of X_test and y_test was given alone"),
    "y_test alone": ((X, Y), {"y_test": Y}, r"one of X_test and y_test was given alone"),
    "other width": ((X, Y), {"X_test": X[:, :2], "y_test": Y}, r"rows have shape \(3,\); received \(2,\)"),
    "other kind": ((X, Y), {"X_test": FRAME, "y_test": Y}, r"rows have shape \(3,\); received DataFrame"),
    "other columns": ((FRAME, Y), {"X_test": FRAME.rename(columns=str.upper), "y_test": Y}, r"no column 'a'.*'A'"),
    "NaN in the test": ((X, Y), {"X_test": X * np.nan, "y_test": Y}, r"X_test must hold finite"),
    "clean labels": ((X, Y), {"clean_labels": [0]}, r"clean_labels must have shape \(3,\)"),
}


@pytest.mark.parametrize(("arrays", "options", "message"), BAD_ARRAYS.values(), ids=BAD_ARRAYS.keys())
def test_bad_arrays_are_refused_with_what_was_received(arrays, options, message):
    with pytest.raises(ValueError, match=message):
        from_arrays(*arrays, **options)


def test_bad_arrays_of_a_file_are_refused_with_its_name(tmp_path):
    with pytest.raises(ValueError, match=r"^bad\.npz: y must have shape \(3,\)"):
        read_npz(save(tmp_path / "bad.npz", X=X, y=Y[1:]))


# --- features to predict ---------------------------------------------------------------------------------------------


def test_features_need_no_labels(tmp_path):
    frame = read_features(write(tmp_path / "a.csv", "zip,a\n007,1\n"), strings=["zip", "gone"])
    assert frame.to_dict("list") == {"zip": ["007"], "a": [1]}
    assert np.array_equal(read_features(save(tmp_path / "a.npz", X=np.eye(2))), np.eye(2))


def test_features_that_cannot_serve_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.npz: the array 'X' is missing; the file holds x, z"):
        read_features(save(tmp_path / "a.npz", x=1, z=2))
    with pytest.raises(ValueError, match=r"b\.npz: X must hold finite"):
        read_features(save(tmp_path / "b.npz", X=[[np.nan]]))
