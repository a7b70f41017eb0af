"""What the review page shows of samples: pictures, values and neighbours, within the limits of a page."""

import base64
import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from antidote_learn._types import ImageFiles
from antidote_learn.auditing import page_samples
from antidote_learn.auditing.page_samples import (
    FEATURES,
    FIRST,
    LARGEST_PICTURE,
    NEAREST_PICTURES,
    NEIGHBOUR_BYTES,
    NEIGHBOUR_SIDE,
    PICTURE_ROOM,
    PICTURES,
    collect_neighbours,
    collect_samples,
)
from antidote_learn.data.thumbnails import file_thumbnail


def decoded(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text)))


def test_pictures_stay_within_their_bounds(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    (tmp_path / "broken.png").write_text("no image")
    names = ("noise.png", "broken.png") * 1100
    files = collect_samples(ImageFiles(tmp_path, names[:6], 32), range(6))
    assert all(len(text) <= 4 * LARGEST_PICTURE / 3 + 4 for text in files.pictures)
    assert files.pictures[0]
    assert not files.pictures[1]
    many = collect_samples(np.zeros((2500, 1, 8, 8), dtype=np.uint8), range(2500))
    assert len(many.pictures) == PICTURES
    assert len(file_thumbnail(tmp_path / "noise.png", PICTURE_ROOM // PICTURES)) <= PICTURE_ROOM // PICTURES
    assert 4 * PICTURE_ROOM / 3 < 25.1e6


def test_few_photographs_are_large_enough_to_judge(tmp_path):
    smooth = np.linspace(0, 255, 900 * 600 * 3).reshape(600, 900, 3).astype(np.uint8)
    Image.fromarray(smooth).save(tmp_path / "photo.jpg")
    [text] = collect_samples(ImageFiles(tmp_path, ("photo.jpg",), 32), [0]).pictures
    assert decoded(text).size == (480, 320)


def test_pixels_are_shown_as_they_are():
    pixels = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 8), dtype=np.uint8)
    [text] = collect_samples(pixels, [0]).pictures
    np.testing.assert_array_equal(np.asarray(decoded(text)).transpose(2, 0, 1), pixels[0])


def test_neighbours_are_pictures_each_once(monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (50, 1, 200, 200), dtype=np.uint8)
    around = np.array([[7, 8, 9, 10, 11, 12, 13], [8, 7, 1, 2, 3, 4, 5], [20, 21, 22, 23, 24, 25, 26]])
    found = collect_neighbours(pixels, around)
    assert [[found.rows[place] for place in near] for near in found.near] == around[:, :NEAREST_PICTURES].tolist()
    assert len(found.rows) == len({*found.rows}) == len(found.pictures) == 16
    for text in found.pictures:
        assert max(decoded(text).size) <= NEIGHBOUR_SIDE
        assert len(text) <= 4 * NEIGHBOUR_BYTES / 3 + 4
    monkeypatch.setattr(page_samples, "NEIGHBOURS", 12)
    assert len(collect_neighbours(pixels, around).near) == 2  # those of the worst rows
    table = collect_neighbours(pd.DataFrame({"a": range(50)}), around)
    assert (table.near, table.rows, table.pictures) == ([], [], [])


def test_tables_have_all_their_columns_and_arrays_the_first():
    frame = pd.DataFrame({f"column {k}": [k + 0.125, 1234.567] for k in range(40)})
    found = collect_samples(frame, [1, 0], frame)
    assert found.columns == list(frame.columns)
    assert found.cells[0] == ["1234.57"] * 40
    assert found.cells[1][39] == "39.125"
    assert (found.more, found.identified) == (0, False)
    features = collect_samples(np.zeros((2, 40), dtype=np.float32), [0])
    assert (len(features.columns), features.more) == (FEATURES, 40 - FEATURES)


def test_far_down_the_list_a_row_has_its_first_values(monkeypatch):
    monkeypatch.setattr(page_samples, "TEXT", 1000)
    frame = pd.DataFrame({f"c{k}": ["x" * 5] * 60 for k in range(20)})
    lengths = [len(cells) for cells in collect_samples(frame, range(60), frame).cells]
    assert lengths[:5] == [20] * 5
    assert set(lengths[6:]) == {FIRST}
    assert 10 < len(lengths) < 60
    assert 5 * sum(lengths) <= 1000


NUMBERS = np.arange(30)
WORDS = [f"user{k}" for k in NUMBERS]
IDENTIFIERS = {
    "left out as row numbers": ({"x": 1.5, "rows": NUMBERS}, ["x"], "rows"),
    "by its name": ({"x": 1.5, "PassengerId": NUMBERS * 3}, ["x", "PassengerId"], "PassengerId"),
    "words that all differ": ({"x": 1.5, "who": WORDS}, ["x", "who"], "who"),
    "numbers that only differ": ({"x": 1.5, "price": NUMBERS * 3}, ["x", "price"], None),
    "not all differ": ({"x": 1.5, "id": NUMBERS // 2}, ["x", "id"], None),
    "a word that ends so": ({"x": 1.5, "paid": NUMBERS * 3}, ["x", "paid"], None),
    "texts": ({"x": 1.5, "text": [f"{word} said so" for word in WORDS]}, ["x", "text"], None),
    "missing": ({"x": 1.5, "id": [None, *WORDS[1:]]}, ["x", "id"], None),
    "lists": ({"x": 1.5, "id": [[k] for k in NUMBERS]}, ["x"], None),
}


@pytest.mark.parametrize("case", IDENTIFIERS)
def test_the_column_that_names_the_rows_comes_first(case):
    columns, learned, expected = IDENTIFIERS[case]
    source = pd.DataFrame(columns)
    found = collect_samples(source[learned], [3], source)
    assert found.identified == (expected is not None)
    assert found.columns[0] == (expected or "x")
    if expected:
        assert found.cells[0][0] == str(source[expected][3])


def test_images_of_a_table_have_their_other_columns(tmp_path):
    source = pd.DataFrame({"path": ["a.png", "b.png"], "camera": ["left", "right"]})
    found = collect_samples(ImageFiles(tmp_path, ("a.png", "b.png"), 32, "path"), [1], source)
    assert (found.names, found.columns, found.cells) == (["b.png"], ["camera"], [["right"]])
