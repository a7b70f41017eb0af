"""What a user may name as data: each kind of it opened, and a clear line for what is none."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from antidote_learn._types import Arrays, ImageFiles
from antidote_learn.data.builtin import DATA
from antidote_learn.data.load import open_data, open_inputs

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": np.arange(12.0), "code": [f"{k:03}" for k in range(12)], "label": ["no", "yes"] * 6})
FEATURES = RNG.normal(size=(12, 3)).astype(np.float32)
LABELS = np.arange(12) % 2


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """One file or folder of every kind."""
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    TABLE.to_csv(tmp_path / "ROWS.TSV", sep="\t", index=False)
    TABLE.to_csv(tmp_path / "rows.csv.gz", index=False)
    TABLE.to_parquet(tmp_path / "rows.parquet", index=False)
    np.savez(tmp_path / "arrays.npz", X=FEATURES, y=LABELS)
    for number in range(6):
        folder = tmp_path / "photos" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8, 3), 40 * number, dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path


# --- data to train on ------------------------------------------------------------------------------------------------


def test_a_built_in_name():
    digits = open_data("digits")
    assert digits.name == "digits"
    assert digits.inputs.shape == (1297, 1, 8, 8)


def test_a_built_in_name_comes_before_a_folder_of_that_name(place, monkeypatch):
    (place / "photos").rename(place / "digits")
    monkeypatch.chdir(place)
    assert open_data("digits").inputs.shape == (1297, 1, 8, 8)
    assert open_data("./digits").classes == ("cat", "dog")


@pytest.mark.parametrize("name", ["rows.csv", "ROWS.TSV", "rows.csv.gz", "rows.parquet"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_table(place, name, kind):
    found = open_data(kind(place / name))
    assert found.classes == ("no", "yes")
    assert found.labels.tolist() == [0, 1] * 6
    assert list(found.inputs.columns) == ["x", "code"]


def test_options_of_a_table_are_passed_on(place):
    found = open_data(place / "rows.csv", label="label", text=["code"], test=place / "rows.parquet")
    assert found.text == ("code",)
    assert found.test_labels.tolist() == [0, 1] * 6
    with pytest.raises(ValueError, match="wrong"):
        open_data(place / "rows.csv", label="wrong")


def test_a_numpy_file(place):
    found = open_data(place / "arrays.npz")
    assert np.array_equal(found.inputs, FEATURES)
    assert np.array_equal(found.labels, LABELS)


def test_a_folder_of_images(place):
    told = []
    found = open_data(place / "photos", test=place / "photos", progress=lambda done, total: told.append((done, total)))
    assert isinstance(found.inputs, ImageFiles)
    assert found.classes == ("cat", "dog")
    assert len(found.test_labels) == 6
    assert told[-1] == (12, 12)


def test_strict_refuses_a_folder_with_an_unreadable_image(place):
    (place / "photos" / "cat" / "broken.png").write_bytes(b"no image")
    assert len(open_data(place / "photos").notes) == 1
    with pytest.raises(ValueError, match=r"broken\.png"):
        open_data(place / "photos", strict=True)


def test_a_home_directory_is_understood(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("USERPROFILE", str(place))
    assert len(open_data("~/rows.csv").labels) == 12


def test_values_of_python():
    arrays = Arrays("mine", FEATURES, LABELS, ("a", "b"))
    assert open_data(arrays) is arrays
    for pair in ((FEATURES, LABELS), [FEATURES.tolist(), LABELS.tolist()]):
        assert np.array_equal(open_data(pair).labels, LABELS)
    frame = TABLE.drop(columns="label")
    assert open_data((frame, TABLE["label"]), text=["code"]).text == ("code",)


@pytest.mark.parametrize("value", [None, 3, (FEATURES,), (FEATURES, LABELS, LABELS), {"X": FEATURES}, FEATURES])
def test_other_values_are_refused(value):
    with pytest.raises(ValueError, match=rf"or a pair \(X, y\); received {type(value).__name__}"):
        open_data(value)


def test_a_missing_file_is_a_missing_file(place):
    for name in ("other.csv", "other.parquet", "other.npz"):
        with pytest.raises(FileNotFoundError, match="other"):
            open_data(place / name)


@pytest.mark.parametrize("name", ["digit", "no/such/folder"])
def test_a_name_that_stands_for_nothing_says_what_is_accepted(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"there is no data '{name}'; accepted: a built-in name .*\.csv.*folder"):
        open_data(name)


def test_a_file_of_another_kind_is_refused(place):
    (place / "notes.doc").write_text("words")
    with pytest.raises(ValueError, match=r"notes\.doc' is no data that can be read; accepted"):
        open_data(place / "notes.doc")


@pytest.mark.parametrize(
    ("data", "options", "named"),
    [
        ("digits", {"label": "y"}, "label"),
        ("digits", {"text": ["words"]}, "text"),
        ("digits", {"test": "rows.csv"}, "test"),
        ("photos", {"label": "y"}, "label"),
        ("photos", {"text": ["words"]}, "text"),
        ("arrays.npz", {"label": "y"}, "label"),
        ("arrays.npz", {"test": "rows.csv"}, "test"),
    ],
)
def test_an_option_that_means_nothing_here_is_refused(place, data, options, named):
    with pytest.raises(ValueError, match=rf"takes no `{named}`"):
        open_data(data if data in DATA else place / data, **options)


def test_official_files_are_looked_for_in_the_root(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        open_data("cifar10", root=tmp_path)


# --- inputs to predict -----------------------------------------------------------------------------------------------


def test_a_built_in_name_means_its_test_part():
    inputs, names = open_inputs("digits")
    assert np.array_equal(inputs, open_data("digits").test_inputs)
    assert names == [str(row) for row in range(500)]


def test_all_rows_of_a_table_with_names_read_as_they_are_written(place):
    inputs, names = open_inputs(place / "rows.csv", strings=("code",))
    assert inputs["code"].tolist()[:2] == ["000", "001"]
    assert names == [str(row) for row in range(12)]


def test_all_rows_of_a_numpy_file(place):
    inputs, names = open_inputs(str(place / "arrays.npz"))
    assert np.array_equal(inputs, FEATURES)
    assert len(names) == 12


def test_all_images_below_a_folder_whatever_its_sub_folders_mean(place):
    folder = place / "photos"
    Image.new("RGB", (9, 9)).save(folder / "TOP.JPG")
    (folder / "notes.txt").write_text("words")
    (folder / "cat" / "._0.png").write_bytes(b"what some systems leave beside a file")
    (folder / "album.png").mkdir()
    (folder / "paper.pdf").write_bytes(b"%PDF")
    inputs, names = open_inputs(folder)
    expected = [
        "TOP.JPG",
        *(str(Path("cat", f"{k}.png")) for k in (0, 2, 4)),
        *(str(Path("dog", f"{k}.png")) for k in (1, 3, 5)),
    ]
    assert names == list(inputs.names) == expected
    assert inputs.root == folder


def test_a_folder_without_images_says_so(tmp_path):
    with pytest.raises(ValueError, match="holds no image"):
        open_inputs(tmp_path)


def test_arrays_of_python_are_inputs_themselves():
    inputs, names = open_inputs(FEATURES)
    assert inputs is FEATURES
    assert names == [str(row) for row in range(12)]
