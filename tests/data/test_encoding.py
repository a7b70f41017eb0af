"""Encodings against scikit-learn and slow loops, the same in a fresh process, refused when their files were changed."""

import copy
import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import load_file, save_file
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from antidote_learn._types import Arrays, ImageFiles
from antidote_learn.data.encoding import (
    DenseRows,
    Encoding,
    ImageEncoding,
    SparseRows,
    encoding_from_state,
    fit_encoding,
)
from antidote_learn.data.tabular import from_arrays, read_features, read_table

WORDS = ["good", "bad", "fine", "awful", "great", "film", "plot", "actor", "music", "story"]


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 5000, n).astype("timedelta64[D]")
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(3),
            "income": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(8, 2, n)),
            "plan": rng.choice(["007", "07", "free", "big plan"], n),
            "member": rng.random(n) < 0.3,
            "joined": (np.datetime64("2010-01-01") + days).astype(str),
            "review": [" ".join(rng.choice(WORDS, rng.integers(5, 15))) for _ in range(n)],
        }
    )
    frame.loc[1, ["plan", "review"]] = None
    return frame


def data_set(inputs: object, **options: object) -> Arrays:
    return from_arrays(
        inputs, np.arange(len(inputs)) // 3 % 2 if len(inputs) > 3 else [0, 1, 1][: len(inputs)], **options
    )


def all_of(encoding: Encoding, inputs: object) -> np.ndarray:
    rows = encoding.encode(inputs)
    return rows.take(np.arange(len(rows))).numpy()


def reloaded(encoding: Encoding) -> Encoding:
    meta, tensors = encoding.state()
    return encoding_from_state(json.loads(json.dumps(meta, allow_nan=False)), tensors)


def column(values: object, *, text: bool = False) -> tuple[str, np.ndarray]:
    """The kind that a single column is given, and its block."""
    frame = pd.DataFrame({"c": values})
    encoding = fit_encoding(data_set(frame, text=["c"] if text else []))
    return encoding.columns[0].kind, all_of(encoding, frame)


# --- rows ------------------------------------------------------------------------------------------------------------


def test_rows_are_taken_in_the_order_asked_for():
    array = np.arange(24, dtype=np.float32).reshape(6, 4) * (np.arange(24).reshape(6, 4) % 3 == 0)
    index = np.array([5, 0, 0, 3])
    for rows in (DenseRows(array), SparseRows(sparse.csr_array(array))):
        batch = rows.take(index)
        assert len(rows) == 6
        assert batch.dtype == torch.float32
        assert batch.tolist() == [array[i].tolist() for i in index]
        assert rows.take(index[:0]).shape == (0, 4)


def test_dense_rows_share_the_array_but_a_batch_does_not():
    array = np.zeros((3, 1, 2, 2), dtype=np.uint8)
    array.setflags(write=False)
    rows = fit_encoding(data_set(array)).encode(array)
    assert np.shares_memory(rows.array, array)
    rows.take(np.array([0])).add_(1)
    assert not array.any()


# --- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1300, 3, 4, 5), (7, 1, 2, 2)])
def test_images_are_kept_and_their_channels_measured(shape):
    images = np.random.default_rng(0).integers(0, 200, shape, dtype=np.uint8)
    encoding = fit_encoding(data_set(images))
    assert (encoding.kind, encoding.shape) == ("images", shape[1:])
    np.testing.assert_allclose(encoding.mean, (images / 255).mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(encoding.std, (images / 255).std(axis=(0, 2, 3)), rtol=1e-6)
    assert np.array_equal(all_of(reloaded(encoding), images), images)


def test_only_the_training_part_is_measured_and_a_constant_channel_has_deviation_1():
    images = np.random.default_rng(0).integers(0, 256, (20, 2, 5, 5), dtype=np.uint8)
    images[:, 1] = 51
    part = np.array([3, 4, 11])
    encoding = fit_encoding(data_set(images), index=part)
    np.testing.assert_allclose(encoding.mean, [(images[part, 0] / 255).mean(), 0.2], rtol=1e-6)
    np.testing.assert_allclose(encoding.std, [(images[part, 0] / 255).std(), 1.0], rtol=1e-6)


def test_files_are_decoded_to_the_size_of_training(tmp_path):
    colours = [(10 * i, 255 - 10 * i, 30) for i in range(6)]
    for i, colour in enumerate(colours):
        Image.new("RGB", (12, 12), colour).save(tmp_path / f"{i}.png")
    files = ImageFiles(tmp_path, tuple(f"{i}.png" for i in range(6)), 8)
    encoding = fit_encoding(Arrays("folder", files, np.arange(6) % 2, ("a", "b")), index=np.array([1, 2]))
    assert encoding.shape == (3, 8, 8)
    np.testing.assert_allclose(encoding.mean, np.mean([colours[1], colours[2]], axis=0) / 255, rtol=1e-6)
    rows = reloaded(encoding).encode(ImageFiles(tmp_path, files.names, 5))
    batch = rows.take(np.array([5, 0]))
    assert len(rows) == 6
    assert batch.dtype == torch.uint8
    assert batch.shape == (2, 3, 8, 8)
    assert batch[:, :, 4, 4].tolist() == [list(colours[5]), list(colours[0])]


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (2, 1, 4), (2, 16)])
def test_images_of_another_shape_are_refused(shape):
    encoding = fit_encoding(data_set(np.zeros((2, 1, 4, 4), dtype=np.uint8)))
    with pytest.raises(ValueError, match=r"shape \(N, 1, 4, 4\) are needed, as in training; received uint8 of shape"):
        encoding.encode(np.zeros(shape, dtype=np.uint8))
    with pytest.raises(ValueError, match="received ImageFiles of 1 rows"):
        encoding.encode(ImageFiles(Path(), ("a.png",), 4))


@pytest.mark.parametrize("stored", [[3, 4], [3, 3, 4], [1, 8, 8], [3, "8", 8]])
def test_rows_that_hold_no_image_of_the_shape_are_damaged(stored):
    meta, arrays = ImageEncoding((3, 4, 4), np.zeros(3, np.float32), np.ones(3, np.float32)).state()
    assert "stored" not in meta  # as runs were saved before networks could read a part of a row
    with pytest.raises(ValueError, match=r"damaged: rows of shape .* hold no image of shape \[3, 4, 4\]"):
        encoding_from_state({**meta, "stored": stored}, arrays)


# --- features --------------------------------------------------------------------------------------------------------


def test_features_are_standardised_by_the_training_part():
    X = np.random.default_rng(0).normal([5, -300, 0], [1, 40, 1e-3], (50, 3)).astype(np.float32)
    part = np.arange(30)
    encoding = fit_encoding(data_set(X), index=part)
    expected = StandardScaler().fit(X[part].astype(np.float64)).transform(X)
    assert encoding.shape == (3,)
    np.testing.assert_allclose(all_of(encoding, X), expected, atol=2e-5)
    assert all_of(encoding, X).dtype == np.float32
    assert np.array_equal(all_of(reloaded(encoding), X), all_of(encoding, X))


@pytest.mark.parametrize("value", [0.1, -3e30, 0.0])
def test_a_constant_column_becomes_0(value):
    X = np.full((1001, 1), value, dtype=np.float32)
    encoding = fit_encoding(data_set(X))
    assert not all_of(encoding, X).any()
    assert all_of(encoding, X[:1] + 7).tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((2, 4)), r"shape \(N, 3\) are needed, as in training; received float64 of shape \(2, 4\)"),
        (np.full((2, 3), np.nan), r"NaN or infinite ones are in 2 of 2 rows"),
        (pd.DataFrame({"a": [1]}), r"received DataFrame of 1 rows"),
    ],
)
def test_other_features_are_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        fit_encoding(data_set(np.eye(3))).encode(inputs)


# --- the columns of a table ------------------------------------------------------------------------------------------


def test_numbers_are_standardised_and_missing_ones_marked():
    values = [3.0, None, 5.0, 10.0, None]
    kind, block = column(values)
    known = [v for v in values if v is not None]
    mean = sum(known) / 3
    deviation = (sum((v - mean) ** 2 for v in known) / 3) ** 0.5
    expected = [[0.0, 1.0] if v is None else [(v - mean) / deviation, 0.0] for v in values]
    assert kind == "number"
    np.testing.assert_allclose(block, expected, rtol=1e-6)


def test_missing_numbers_are_not_marked_where_training_had_none():
    encoding = fit_encoding(data_set(pd.DataFrame({"a": [1.0, 3.0], "b": [7, 7]})))
    assert all_of(encoding, pd.DataFrame({"a": [None, 3.0], "b": [None, 9]})).tolist() == [[0.0, 0.0], [1.0, 0.0]]


def test_categories_are_one_hot():
    values = np.array(list("bacabbd"))
    kind, block = column(values)
    assert kind == "category"
    assert np.array_equal(block, OneHotEncoder(sparse_output=False).fit_transform(values[:, None]))


def test_only_the_most_frequent_categories_have_a_column():
    rng = np.random.default_rng(0)
    values = [f"c{i}" for i in rng.zipf(1.3, 3000) % 300]
    frame = pd.DataFrame({"c": values})
    encoding = fit_encoding(data_set(frame))
    counts = Counter(values)
    kept = {name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:100]}
    assert encoding.shape == (100,)
    assert all_of(encoding, frame).sum(axis=1).tolist() == [float(value in kept) for value in values]
    assert encoding.notes == (f"column 'c': the 100 most frequent of {len(counts)} categories were kept",)


def test_text_is_tf_idf():
    texts = people(40)["review"]
    kind, block = column(texts)
    reference = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(texts.fillna(""))
    assert kind == "text"
    assert np.array_equal(block, reference.toarray().astype(np.float32))
    assert not block[1].any()


def test_many_texts_stay_sparse_and_a_term_must_occur_twice():
    texts = [f"common words only{i // 2 if i else 'once'}" for i in range(1000)]
    encoding = fit_encoding(data_set(pd.DataFrame({"c": texts}), text="c"))
    assert isinstance(encoding.encode(pd.DataFrame({"c": texts})), SparseRows)
    terms = encoding.columns[0].terms
    assert "only1" in terms
    assert not any("once" in term for term in terms)


def test_dates_are_seconds():
    stamps = ["2020-01-31", "2021-06-01T12:30:00", "1969-12-31 23:00:00+02:00"]
    times = [datetime.fromisoformat(stamp) for stamp in stamps]
    seconds = np.array([(t if t.tzinfo else t.replace(tzinfo=UTC)).timestamp() for t in times])
    expected = StandardScaler().fit_transform(seconds[:, None])
    for values in (stamps, pd.to_datetime(stamps, format="ISO8601", utc=True)):
        kind, block = column(values)
        assert kind == "time"
        np.testing.assert_allclose(block, expected, rtol=1e-6)


MANY = range(40)
KINDS = {
    "integers": ([1, 2, 2, 1], "number"),
    "integers with missing ones": (pd.array([1, None, 2], dtype="Int64"), "number"),
    "booleans": ([True, False, True], "flag"),
    "booleans with missing ones": ([True, None, False], "flag"),
    "dates": ([datetime(2020, 1, 2).date(), None], "time"),
    "date strings with missing ones": (["2020-01-02", None], "time"),
    "what only begins like a date": (["2020-01-02b", "2020-01-02"], "category"),
    "no month 13": (["2020-13-02", "2020-01-02"], "category"),
    "few words": (["red", "blue", "red"], "category"),
    "pairs of words that repeat": (["dark red", "sky blue"] * 20, "category"),
    "sentences that repeat": (["I do agree with all of it, and more", "I do not agree with any of it"] * 20, "text"),
    "names": ([f"Ms. Name{i}" for i in MANY], "text"),
    "pandas categories": (pd.Categorical([f"Ms. Name{i}" for i in MANY]), "category"),
    "few different words": ([f"u{i}" for i in range(10)], "category"),
    "long words that repeat": (["a" * 40, "b" * 40] * 20, "category"),
}


@pytest.mark.parametrize(("values", "kind"), KINDS.values(), ids=KINDS.keys())
def test_a_column_is_recognised(values, kind):
    assert column(values)[0] == kind


@pytest.mark.parametrize("values", [[f"u{i}" for i in MANY], [f"https://example.org/{i:030d}" for i in MANY]])
def test_identifiers_are_left_out_unless_they_are_named_as_text(values):
    frame = pd.DataFrame({"id": values, "empty": None, "a": 1.5})
    encoding = fit_encoding(data_set(frame))
    assert [c.name for c in encoding.columns] == ["a"]
    assert encoding.notes == (
        "column 'id' was left out: 40 different strings look like identifiers",
        "column 'empty' was left out: all its values are missing",
    )
    assert reloaded(encoding).notes == encoding.notes
    assert column(values, text=True)[0] == "text"


def test_text_without_words_is_left_out():
    encoding = fit_encoding(data_set(pd.DataFrame({"t": ["!", "", "a"], "a": [1, 2, 3]}), text="t"))
    assert [c.name for c in encoding.columns] == ["a"]
    assert "column 't' was left out: empty vocabulary" in encoding.notes[0]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"a": [[1], [2]]}, r"column 'a' holds mixed values \(object\); accepted are numbers, booleans, dates and str"),
        ({"a": [1j, 2j]}, r"column 'a' holds complex values"),
        ({"a": [1.0, np.inf]}, r"'a' must hold finite numbers; 1 of 2 values are none, the first is 'inf' in row 1"),
        ({"a": [1.0, 1e200]}, r"'a' must hold finite numbers; 1 of 2 values are none, the first is '1e\+200'"),
        ({"a": [None, None]}, r"no column of the table can serve as a feature; column 'a' was left out"),
    ],
)
def test_a_table_that_cannot_be_encoded_is_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        fit_encoding(data_set(pd.DataFrame(frame)))


# --- a table at prediction -------------------------------------------------------------------------------------------


PEOPLE = people(60)
FITTED = fit_encoding(data_set(PEOPLE))
START = dict(zip([c.name for c in FITTED.columns], np.cumsum([0] + [c.width for c in FITTED.columns]), strict=False))


def test_the_columns_lie_side_by_side():
    blocks = [column(PEOPLE[name])[1] for name in PEOPLE]
    assert [c.kind for c in FITTED.columns] == ["number", "number", "category", "flag", "time", "text"]
    assert FITTED.shape == (sum(block.shape[1] for block in blocks),)
    assert np.array_equal(all_of(FITTED, PEOPLE), np.concatenate(blocks, axis=1))


def test_only_the_training_part_is_fitted():
    part = np.arange(0, 60, 2)
    encoding = fit_encoding(data_set(PEOPLE), index=part)
    alone = fit_encoding(data_set(PEOPLE.iloc[part]))
    assert json.dumps(encoding.state()[0]) == json.dumps(alone.state()[0])
    assert np.array_equal(all_of(encoding, PEOPLE), all_of(alone, PEOPLE))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 59), min_size=1, max_size=4))
def test_a_row_does_not_depend_on_the_others(rows):
    assert np.array_equal(all_of(FITTED, PEOPLE.iloc[rows]), all_of(FITTED, PEOPLE)[rows])


def changed(**cells: object) -> np.ndarray:
    return all_of(FITTED, PEOPLE.iloc[[0]].astype(object).assign(**cells))[0]


@pytest.mark.parametrize("name", list(PEOPLE))
@pytest.mark.parametrize("value", [None, np.nan, ""])
def test_any_value_may_be_missing(name, value):
    plain, row = changed(), changed(**{name: value})
    start, width = START[name], FITTED.columns[list(START).index(name)].width
    expected = [0.0, 1.0] if name == "income" else [0.0] * width
    assert row[start : start + width].tolist() == expected
    assert np.array_equal(np.delete(row, np.s_[start : start + width]), np.delete(plain, np.s_[start : start + width]))


def test_new_categories_and_words_are_zeros():
    row = changed(plan="gold", review="unheard words")
    assert not row[START["plan"] : START["member"]].any()
    assert not row[START["review"] :].any()


@pytest.mark.parametrize(
    ("cells", "same"),
    [
        ({"age": "33.5"}, {"age": 33.5}),
        ({"age": " 33 "}, {"age": 33}),
        ({"age": True}, {"age": 1}),
        ({"member": 1}, {"member": True}),
        ({"member": 0.0}, {"member": False}),
        ({"member": "TRUE"}, {"member": True}),
        ({"joined": pd.Timestamp("2012-03-04")}, {"joined": "2012-03-04"}),
        ({"joined": 20120304}, {"joined": "2012-03-04"}),
        ({"joined": datetime(2012, 3, 4, 5)}, {"joined": "2012-03-04T05:00:00Z"}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_same_value_in_another_type_is_the_same(cells, same):
    assert np.array_equal(changed(**cells), changed(**same))
    assert not np.array_equal(changed(**cells), changed(**dict.fromkeys(cells)))


def test_a_constant_number_becomes_0():
    frame = pd.DataFrame({"a": [0.1] * 1001})  # whose mean in float64 is not 0.1
    assert not all_of(fit_encoding(data_set(frame)), frame).any()


def test_whole_floats_are_the_categories_of_integers():
    encoding = fit_encoding(data_set(pd.DataFrame({"c": pd.Categorical([3, 10, 3])})))
    for values in ([10.0, None, 4.5], ["10", None, "x"], pd.Categorical([10, None, 5])):
        assert all_of(encoding, pd.DataFrame({"c": values})).tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_missing_column_is_named_and_others_are_ignored():
    assert np.array_equal(all_of(FITTED, PEOPLE.iloc[:, ::-1].assign(more=1)), all_of(FITTED, PEOPLE))
    with pytest.raises(ValueError, match="the table lacks column 'age', 'plan', which training had: add it"):
        FITTED.encode(PEOPLE.drop(columns=["plan", "age"]))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"age": "old"}, r"'age' must hold finite numbers; 1 of 1 values are none, the first is 'old' in row 0"),
        ({"age": -np.inf}, r"'age' must hold finite numbers"),
        ({"joined": "soon"}, r"'joined' must hold dates \(2026-01-31\); 1 of 1 values are none, the first is 'soon'"),
        ({"joined": 7}, r"'joined' must hold dates"),
    ],
)
def test_a_value_of_another_kind_is_named(cells, message):
    with pytest.raises(ValueError, match=message):
        changed(**cells)


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match=r"a table \(DataFrame\) is needed.*received float64 of shape \(2, 2\)"):
        FITTED.encode(np.eye(2))
    with pytest.raises(ValueError, match="the table has 0 rows"):
        FITTED.encode(PEOPLE[:0])


# --- saved and loaded ------------------------------------------------------------------------------------------------


PROGRAM = """
import json, sys
import numpy as np
from pathlib import Path
from safetensors.numpy import load_file, save_file
from antidote_learn.data.encoding import encoding_from_state
from antidote_learn.data.tabular import read_features
folder = Path(sys.argv[1])
encoding = encoding_from_state(json.loads((folder / "e.json").read_text()), load_file(folder / "e.safetensors"))
rows = encoding.encode(read_features(folder / "new.csv", strings=encoding.strings))
save_file({"rows": rows.take(np.arange(len(rows))).numpy()}, folder / "rows.safetensors")
"""


def test_a_fresh_process_encodes_to_the_same_bits(tmp_path):
    people(300).assign(label=["old", "young"] * 150).to_csv(tmp_path / "train.csv", index=False)
    people(40, seed=1).assign(plan="007").to_csv(tmp_path / "new.csv", index=False)
    encoding = fit_encoding(read_table(tmp_path / "train.csv"))
    meta, tensors = encoding.state()
    (tmp_path / "e.json").write_text(json.dumps(meta))
    save_file(tensors, tmp_path / "e.safetensors")
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True)
    here = all_of(encoding, read_features(tmp_path / "new.csv", strings=encoding.strings))
    assert encoding.strings == ("plan", "review")
    assert here[:, encoding.columns[0].width + encoding.columns[1].width].all()  # the category 007 was not read as 7
    assert load_file(tmp_path / "rows.safetensors")["rows"].tobytes() == here.tobytes()


@settings(deadline=None, max_examples=40)
@given(
    numbers=st.lists(st.floats(-1e30, 1e30, width=64) | st.none(), min_size=3, max_size=8),
    words=st.lists(st.text(max_size=5) | st.none(), min_size=3, max_size=8),
)
def test_the_state_loses_nothing(numbers, words):
    n = min(len(numbers), len(words))
    frame = pd.DataFrame({"a": numbers[:n], "w": words[:n], "t": words[:n], "always": np.arange(n) ** 2})
    encoding = fit_encoding(data_set(frame, text="t"))
    assert all_of(reloaded(encoding), frame).tobytes() == all_of(encoding, frame).tobytes()
    assert np.isfinite(all_of(encoding, frame)).all()


ENCODINGS = {
    "images": fit_encoding(data_set(np.zeros((2, 1, 4, 4), dtype=np.uint8))),
    "features": fit_encoding(data_set(np.eye(3))),
    "table": FITTED,
}


def places(meta: object) -> list[tuple[object, ...]]:
    """The way to every value of an object of objects (of a list only the objects in it)."""
    found: list[tuple[object, ...]] = []
    items = meta.items() if isinstance(meta, dict) else enumerate(meta) if isinstance(meta, list) else ()
    for key, value in items:
        if isinstance(meta, dict) or isinstance(value, dict):
            found += [(key,), *((key, *rest) for rest in places(value))]
    return found


def damaged(meta: dict, way: tuple, value: object) -> dict:
    meta = copy.deepcopy(meta)
    inner = meta
    for key in way[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[way[-1]]
    else:
        inner[way[-1]] = value
    return meta


@pytest.mark.parametrize("kind", ENCODINGS)
@pytest.mark.parametrize("value", [..., None, 3, "x", [None], {}, float("nan")], ids=str)
def test_a_state_with_a_changed_or_missing_value_is_refused(kind, value):
    meta, tensors = ENCODINGS[kind].state()
    assert encoding_from_state(copy.deepcopy(meta), tensors).shape == ENCODINGS[kind].shape
    ways = places(meta)
    assert len(ways) >= (30 if kind == "table" else 3)
    for way in ways:
        if (way[-1] == "name" and value == "x") or (isinstance(way[-1], int) and value is ...):
            continue  # another name is a name, and one column less is a table: the network's weights do not fit then
        with pytest.raises(ValueError, match="the saved preprocessing") as caught:
            encoding_from_state(damaged(meta, way, value), tensors)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ENCODINGS)
def test_a_state_with_other_arrays_is_refused(kind):
    meta, tensors = ENCODINGS[kind].state()
    for name, array in tensors.items():
        others = {key: value for key, value in tensors.items() if key != name}
        with pytest.raises(ValueError, match=rf"is damaged: the array '{name}' is missing"):
            encoding_from_state(meta, others)
        for other in (array[:-1], array[None], array.astype(np.float16)):
            with pytest.raises(ValueError, match=rf"the array '{name}' must be float\d\d of shape \({len(array)},\)"):
                encoding_from_state(meta, {**others, name: other})
        for number in (np.nan, np.inf):
            with pytest.raises(ValueError, match=rf"the array '{name}' holds numbers that are infinite, NaN"):
                encoding_from_state(meta, {**others, name: np.full_like(array, number)})


@pytest.mark.parametrize(("position", "name"), [(2, "categories"), (5, "terms")])
@pytest.mark.parametrize("values", [[], ["x", "x"]])
def test_a_state_whose_names_are_not_distinct_is_refused(position, name, values):
    meta, tensors = FITTED.state()
    with pytest.raises(ValueError, match=f"damaged: '{name}' must be a list of different strings"):
        encoding_from_state(damaged(meta, ("columns", position, name), values), tensors)


def test_a_channel_without_deviation_is_refused():
    meta, tensors = ENCODINGS["images"].state()
    with pytest.raises(ValueError, match="damaged: the deviation of a channel is 0"):
        encoding_from_state(meta, {**tensors, "std": np.zeros_like(tensors["std"])})


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ([], r"damaged: an object with 'kind' is needed, found list; restore the run's files or train it again"),
        ({"kind": "table", "version": 2}, r"has version 2, known is 1: use the package that made it"),
        ({"kind": "sound", "version": 1}, r"its kind is 'sound', known are images, features and table"),
        ({"kind": "table", "version": 1, "columns": [], "notes": []}, r"damaged: it has no columns"),
        ({"kind": "features", "version": 1, "shape": [2, 2]}, r"shape \[2, 2\] is none of features"),
        ({"kind": "images", "version": 1, "shape": [1, 0, 4]}, r"shape \[1, 0, 4\] is none of images"),
    ],
)
def test_a_state_of_another_kind_is_refused(meta, message):
    with pytest.raises(ValueError, match=message):
        encoding_from_state(meta, {})


def test_a_whole_number_of_four_hundred_digits_is_named():
    frame = pd.DataFrame({"a": [1, 2, 10**400, 4]}, dtype=object)
    with pytest.raises(ValueError, match="column 'a' must hold finite numbers; 1 of 4 values are none"):
        fit_encoding(Arrays("table", frame, np.array([0, 1, 0, 1]), ("x", "y")))
