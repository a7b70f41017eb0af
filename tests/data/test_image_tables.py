"""Tables that list image files: which images, with which labels, and what is said about those that cannot be read."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from antidote_learn._types import ImageFiles
from antidote_learn.data.encoding import encoding_from_state, fit_encoding
from antidote_learn.data.image_folders import read_folder
from antidote_learn.data.image_tables import image_files, read_image_table, read_images
from antidote_learn.data.load import open_data, open_inputs
from antidote_learn.data.prepared import prepare

COLOURS = {"red": (200, 10, 10), "blue": (10, 10, 200)}


def photo(path: Path, label: str, side: int = 12) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side + 3), COLOURS[label]).save(path)
    return str(path)


def table(folder: Path, rows: int = 8, *, name: str = "photos.csv", **columns) -> Path:
    """Images below ``folder/images``, one a row, alternately red and blue."""
    labels = [("red", "blue")[row % 2] for row in range(rows)]
    paths = [Path(photo(folder / "images" / f"{row}.png", label)) for row, label in enumerate(labels)]
    frame = pd.DataFrame({"file": [str(path.relative_to(folder)) for path in paths], "label": labels, **columns})
    return write(frame, folder / name)


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)
    return path


def colours_of(data_inputs: ImageFiles) -> list[str]:
    """The colour of each image as it lies on the disk, by its own label."""
    pixels = [Image.open(data_inputs.root / name).getpixel((0, 0)) for name in data_inputs.names]
    return [next(name for name, colour in COLOURS.items() if colour == pixel) for pixel in pixels]


def given(data) -> list[str]:
    return [data.classes[label] for label in data.labels]


# --- to train on -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["photos.csv", "photos.tsv", "photos.parquet"])
def test_the_images_of_a_column_with_the_labels_of_another(tmp_path, name):
    data = read_image_table(table(tmp_path, name=name), "file")
    assert data.inputs == ImageFiles(tmp_path, tuple(f"images/{row}.png" for row in range(8)), 32, "file")
    assert data.classes == ("blue", "red")
    assert given(data) == colours_of(data.inputs)
    assert (data.name, data.notes, data.positions, data.clean_labels) == (name, (), None, None)


def test_paths_may_be_absolute_or_leave_the_tables_folder(tmp_path):
    outside = photo(tmp_path / "outside.png", "red")
    photo(tmp_path / "elsewhere" / "x.png", "blue")
    (tmp_path / "tables").mkdir()
    frame = pd.DataFrame({"file": [outside, "../elsewhere/x.png"], "label": ["red", "blue"]})
    data = read_image_table(write(frame, tmp_path / "tables" / "rows.csv"), "file", strict=True)
    assert given(data) == colours_of(data.inputs) == ["red", "blue"]


def test_paths_that_look_like_numbers_stay_as_they_are_written(tmp_path):
    for name in ("007", "008"):
        (tmp_path / name).write_bytes(Path(photo(tmp_path / "a.png", "red")).read_bytes())
    path = write(pd.DataFrame({"file": ["007", "008"], "label": ["a", "b"]}), tmp_path / "rows.csv")
    assert read_image_table(path, "file").inputs.names == ("007", "008")
    assert read_images(path, "file").names == ("007", "008")


def test_sizes_are_chosen_as_for_a_folder(tmp_path):
    for side, size in ((40, 32), (80, 64), (120, 224)):
        for label in COLOURS:
            photo(tmp_path / str(side) / label / "a.png", label, side)
        paths = [f"{side}/{label}/a.png" for label in COLOURS]
        path = write(pd.DataFrame({"file": paths, "label": list(COLOURS)}), tmp_path / "rows.csv")
        assert read_image_table(path, "file").inputs.size == read_folder(tmp_path / str(side)).inputs.size == size


def test_true_labels_are_read_and_other_columns_are_named_in_a_note(tmp_path):
    path = table(tmp_path, 4, clean_label=["red", "blue", "blue", "red"], width=[1, 2, 3, 4], who=["a", "b", "c", "d"])
    data = read_image_table(path, "file", label="label")
    assert [data.classes[k] for k in data.clean_labels] == ["red", "blue", "blue", "red"]
    assert data.notes == ("not used beside the images: column 'width', 'who'",)


# --- images that cannot be read --------------------------------------------------------------------------------------


def broken(tmp_path: Path) -> Path:
    """Rows 1 (damaged), 4 (missing) and 6 (no path) cannot be read."""
    path = table(tmp_path, clean_label=["red", "blue"] * 4)
    (tmp_path / "images" / "1.png").write_bytes(b"no image")
    (tmp_path / "images" / "4.png").unlink()
    frame = pd.read_csv(path)
    frame.loc[6, "file"] = None
    return write(frame, path)


def test_images_that_cannot_be_read_are_left_out_with_their_labels(tmp_path):
    data = read_image_table(broken(tmp_path), "file")
    assert data.inputs.names == tuple(f"images/{row}.png" for row in (0, 2, 3, 5, 7))
    assert given(data) == colours_of(data.inputs)
    assert data.labels.tolist() == data.clean_labels.tolist()
    assert data.positions.tolist() == [0, 2, 3, 5, 7]
    (note,) = data.notes
    assert note.startswith("3 of 8 images cannot be read and were left out: ")
    for words in ("1.png (not an image)", "4.png (there is no such file)", "(no path is given)"):
        assert words in note


def test_strict_refuses_them(tmp_path):
    with pytest.raises(ValueError, match=r"3 of 8 images cannot be read: .*1\.png \(not an image\)"):
        read_image_table(broken(tmp_path), "file", strict=True)


def test_positions_of_samples_are_rows_of_the_table(tmp_path):
    arrays = open_data(broken(tmp_path), image="file")
    found = prepare(arrays, noise="none", noise_seed=0, seed=0, subset=None, recipe="fitted")
    assert set(found.index) < {0, 2, 3, 5, 7}
    for position, label in zip(found.index, found.labels, strict=True):
        assert found.classes[label] == ("red", "blue")[position % 2]


def test_a_class_of_which_no_image_can_be_read_is_none(tmp_path):
    path = table(tmp_path)
    frame = pd.read_csv(path)
    frame.loc[8] = ["nowhere.png", "green"]
    assert read_image_table(write(frame, path), "file").classes == ("blue", "red")


def test_where_no_image_is_found_the_first_path_is_shown(tmp_path):
    path = write(pd.DataFrame({"file": ["a.png", "b.png"], "label": ["x", "y"]}), tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=rf"rows\.csv: none of the 2 images .*{tmp_path}/a\.png .*no such file.*abso"):
        read_image_table(path, "file")


# --- a test table ----------------------------------------------------------------------------------------------------


def test_a_test_table_lies_in_its_own_folder_and_needs_two_columns(tmp_path):
    path = table(tmp_path / "train", width=range(8))
    other = table(tmp_path / "test", 5)
    (tmp_path / "test" / "images" / "0.png").unlink()
    data = read_image_table(path, "file", test=other)
    assert data.test_inputs == ImageFiles(
        tmp_path / "test", tuple(f"images/{row}.png" for row in range(1, 5)), 32, "file"
    )
    assert [data.classes[k] for k in data.test_labels] == colours_of(data.test_inputs)
    assert not data.test_is_clean
    assert len(data.labels) == 8
    assert data.notes[1].startswith("1 of 13 images cannot be read")


def test_true_labels_of_a_test_table_are_used(tmp_path):
    path = table(tmp_path / "train", clean_label=["red", "blue"] * 4)
    other = table(tmp_path / "test", 4, clean_label=["blue"] * 4)
    data = read_image_table(path, "file", test=other)
    assert [data.classes[k] for k in data.test_labels] == ["blue"] * 4
    assert data.test_is_clean


def test_test_labels_are_read_as_training_labels_are(tmp_path):
    names = [str(Path(photo(tmp_path / f"{row}.png", "red"))) for row in range(2)]
    path = write(pd.DataFrame({"file": names, "label": ["01", "x"]}), tmp_path / "a.csv")
    other = write(pd.DataFrame({"file": names, "label": ["01", "01"]}), tmp_path / "b.csv")
    data = read_image_table(path, "file", test=other)
    assert [data.classes[k] for k in data.test_labels] == ["01", "01"]


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "no such column": ({"image": "fil"}, r"photos\.csv: there is no column 'fil'; the columns are 'file', 'label'"),
    "numbers": ({"image": "n"}, r"photos\.csv: column 'n' must hold paths of image files; received .* integer"),
    "the labels": ({"image": "label"}, r"photos\.csv: column 'label' is named for the labels and for the images"),
    "text, too": ({"image": "file", "text": ["n"]}, "`image=file` and `text=n`: .* give one of them"),
    "no label": ({"image": "file", "label": "wrong"}, r"photos\.csv: there is no column 'wrong'"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_table_of_images_is_refused(tmp_path, options, message):
    path = table(tmp_path, name="photos.parquet", n=range(8))
    with pytest.raises(ValueError, match="^" + message.replace("csv", "parquet")):
        open_data(path, **options)


@pytest.mark.parametrize("data", ["digits", "images", "arrays.npz", "pair"])
def test_other_data_takes_no_column_of_images(tmp_path, data):
    table(tmp_path)
    np.savez(tmp_path / "arrays.npz", X=np.eye(4), y=[0, 1, 0, 1])
    what = {"digits": "digits", "pair": (np.eye(4), [0, 1, 0, 1])}.get(data, tmp_path / data)
    with pytest.raises(ValueError, match="takes no `image`: that is for tables in files"):
        open_data(what, image="file")


# --- to predict ------------------------------------------------------------------------------------------------------


def test_images_to_predict_need_the_column_alone(tmp_path):
    path = write(pd.DataFrame({"file": ["b.png", "sub/a.png"]}), tmp_path / "new.csv")
    inputs, names = open_inputs(path, image="file")
    assert inputs == ImageFiles(tmp_path, ("b.png", "sub/a.png"), 1, "file")
    assert names == ["b.png", "sub/a.png"]
    with pytest.raises(ValueError, match=r"new\.csv: there is no column 'path'"):
        open_inputs(path, image="path")
    frame = pd.DataFrame({"file": ["b.png", None]})
    with pytest.raises(ValueError, match=r"column 'file' lacks 1 of 2 paths, in row 1 \(counted from 0\)"):
        image_files(frame, "file", tmp_path)


def test_the_encoding_keeps_the_column_and_reads_tables_in_memory(tmp_path, monkeypatch):
    path = table(tmp_path)
    fitted = fit_encoding(read_image_table(path, "file"))
    meta, arrays = fitted.state()
    assert meta["column"] == "file"
    again = encoding_from_state(meta, arrays)
    assert again.column == "file"
    monkeypatch.chdir(tmp_path)
    index = np.arange(8)
    of_table = again.encode(pd.read_csv(path)).take(index)
    assert np.array_equal(of_table, fitted.encode(read_image_table(path, "file").inputs).take(index))


def test_an_encoding_without_a_column_is_saved_as_before(tmp_path):
    table(tmp_path)
    files = ImageFiles(tmp_path / "images", ("0.png", "1.png"), 8)
    meta, arrays = fit_encoding(read_image_table(table(tmp_path), "file")).state()
    del meta["column"]
    old = encoding_from_state(meta, arrays)
    assert old.column == ""
    assert old.state()[0] == meta
    assert len(old.encode(files)) == 2
