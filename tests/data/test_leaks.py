"""Columns that tell the labels: what is left out, what is named, and what is left alone."""

import json

import numpy as np
import pandas as pd
import pytest

from antidote_learn import audit
from antidote_learn.data.in_memory import from_arrays
from antidote_learn.data.leaks import find_leaks, likely_identifiers
from antidote_learn.data.load import open_data
from antidote_learn.data.tabular import read_table
from tests.commands import antidote

ROWS = 400
RNG = np.random.default_rng(4)
Y = RNG.integers(0, 2, ROWS)
X = Y + RNG.normal(size=ROWS)


def titanic(rows: int = ROWS) -> pd.DataFrame:
    """Columns as in the table of the ship's passengers: a copy of the label, and a class that is the ticket's."""
    draw = np.random.default_rng(1)
    pclass, sex = draw.integers(1, 4, rows), draw.choice(["male", "female"], rows)
    survived = (draw.random(rows) < np.where(sex == "female", 0.75, 0.2)).astype(int)
    return pd.DataFrame(
        {
            "survived": survived,
            "pclass": pclass,
            "sex": sex,
            "age": draw.normal(30, 12, rows).round(1),
            "fare": draw.gamma(2, 15, rows).round(2) + 30 * (3 - pclass),
            "class": np.array(["First", "Second", "Third"])[pclass - 1],
            "alive": np.where(survived == 1, "yes", "no"),
        }
    )


# --- the rule --------------------------------------------------------------------------------------------------------


def flipped(values: np.ndarray, count: int) -> np.ndarray:
    """The values, of which so many are wrong."""
    found = values.copy()
    found[np.linspace(0, ROWS - 1, count).astype(int)] = 1 - found[np.linspace(0, ROWS - 1, count).astype(int)]
    return found


COPIES = {
    "words": np.where(Y == 1, "yes", "no"),
    "codes": 7 - Y,
    "floats": Y * 1.0,
    "booleans": Y == 1,
    "dates": pd.to_datetime(np.where(Y == 1, "2026-01-01", "2026-02-01")),
    "categories": pd.Categorical(np.where(Y == 1, "yes", "no")),
    "with gaps": np.where(np.arange(ROWS) % 7, Y, np.nan),
    "nearly": flipped(Y, 5),
    "finer": np.char.add(Y.astype(str), RNG.integers(0, 9, ROWS).astype(str)),
    "filled for one class": np.where(Y == 1, RNG.integers(0, 99, ROWS), np.nan),
    "filled nearly for one class": np.where(flipped(Y, 6) == 1, RNG.normal(size=ROWS), np.nan),
}
SUSPECTS = {
    "fairly": flipped(Y, 14),
    "parted by size": Y * 10 + RNG.random(ROWS),
    "filled mostly for one class": np.where(flipped(Y, 15) == 1, RNG.normal(size=ROWS), np.nan),
}
INNOCENT = {
    "a number": X,
    "a binary feature": (X > 0.5).astype(int),
    "a good one": flipped(Y, 40),
    "noise": RNG.integers(0, 2, ROWS),
    "names": [f"row {k}" for k in range(ROWS)],
    "many values of few rows": np.arange(ROWS) * 2 + Y,
    "constant": np.zeros(ROWS),
    "missing": np.full(ROWS, np.nan),
    "missing at random": np.where(RNG.random(ROWS) < 0.3, np.nan, X),
    "lists": [[k] for k in range(ROWS)],
}


@pytest.mark.parametrize("values", COPIES.values(), ids=COPIES)
def test_a_copy_of_the_label_is_found(values):
    assert find_leaks(pd.DataFrame({"x": X, "leak": values}), Y)["leak"].is_copy


@pytest.mark.parametrize("values", SUSPECTS.values(), ids=SUSPECTS)
def test_what_may_be_one_is_a_suspect(values):
    assert not find_leaks(pd.DataFrame({"leak": values}), Y)["leak"].is_copy


@pytest.mark.parametrize("values", INNOCENT.values(), ids=INNOCENT)
def test_a_feature_is_no_leak(values):
    assert find_leaks(pd.DataFrame({"x": values}), Y) == {}


def test_many_classes_and_rare_ones():
    y = np.repeat(np.arange(10), 40)
    names = np.array([f"class {k}" for k in range(10)])
    assert find_leaks(pd.DataFrame({"x": names[y], "z": names[(y + (np.arange(400) % 3 == 0)) % 10]}), y).keys() == {
        "x"
    }
    rare = (np.arange(1000) % 100 == 0).astype(int)
    few = np.where(np.arange(1000) % 100 == 1, "a", "b")  # as rare as the class, and elsewhere
    assert find_leaks(pd.DataFrame({"x": few, "z": rare}), rare).keys() == {"z"}
    assert find_leaks(pd.DataFrame({"x": Y[:19]}), Y[:19]) == {}  # of so few rows it may be chance


def test_large_tables_are_judged_by_all_rows_in_the_end():
    y = np.random.default_rng(0).integers(0, 2, 60_000)
    wrong = y.copy()
    wrong[:2400] = 1 - wrong[:2400]  # rows that stand together
    leaks = find_leaks(pd.DataFrame({"x": np.where(y, "yes", "no"), "z": wrong, "w": 1.0 * np.arange(60_000)}), y)
    assert {name: leak.is_copy for name, leak in leaks.items()} == {"x": True, "z": False}


def test_easy_data_stay_whole():
    """Well-known tables, of which no column is a copy of the label."""
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine

    for load in (load_iris, load_wine, load_breast_cancer):
        frame = load(as_frame=True)
        assert find_leaks(frame.data, frame.target.to_numpy()) == {}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("customer_id", RNG.permutation(ROWS) + 10**6, True),
        ("PassengerId", RNG.permutation(ROWS), True),
        ("id", np.minimum(np.arange(ROWS), 300)[::-1], True),
        ("order", np.cumsum(RNG.integers(1, 5, ROWS)), True),
        ("id", RNG.integers(0, 9, ROWS), False),
        ("paid", RNG.permutation(ROWS), False),
        ("salary", RNG.permutation(ROWS), False),
    ],
)
def test_likely_identifiers(name, values, expected):
    assert likely_identifiers(pd.DataFrame({name: values})) == ([name] if expected else [])


# --- what data sets make of it ---------------------------------------------------------------------------------------


def test_a_copy_is_left_out_and_named():
    data = open_data((titanic().drop(columns="survived"), titanic()["survived"]))
    assert list(data.inputs) == ["pclass", "sex", "age", "fare", "class"]
    assert data.notes == (
        "column 'alive' is the label in other words, in 400 of 400 rows: it was left out; name the columns to use in "
        "`features` to keep it",
    )


def test_a_copy_of_the_truth_is_left_out():
    truth = np.where(Y == 1, "yes", "no")
    given = flipped(Y, 80)
    data = from_arrays(pd.DataFrame({"x": X, "truth": truth}), given, clean_labels=Y)
    assert list(data.inputs) == ["x"]


def test_the_user_has_the_last_word(tmp_path):
    path = tmp_path / "a.csv"
    frame = titanic().assign(ticket_id=np.random.default_rng(2).permutation(ROWS))
    frame.to_csv(path, index=False)
    data = read_table(path, label="survived")
    assert list(data.inputs) == ["pclass", "sex", "age", "fare", "class", "ticket_id"]
    assert any("'ticket_id' looks like an identifier" in note for note in data.notes)
    data = read_table(path, label="survived", features=["fare", "alive"], form=data_form())
    assert list(data.inputs) == ["fare", "alive"]  # in the order of the table
    assert data.notes == (
        "column 'alive' is the label in other words, in 400 of 400 rows: if it was made from the label, leave it out "
        "with `exclude=alive`",
    )
    data = read_table(path, label="survived", exclude=("alive", "ticket_id"))
    assert (list(data.inputs), data.notes) == (["pclass", "sex", "age", "fare", "class"], ())
    assert list(read_table(path, label="survived", exclude="alive", features="fare").inputs) == ["fare"]


def data_form():
    from antidote_learn.data.text_forms import UNKNOWN

    return UNKNOWN


def test_an_excluded_column_is_not_the_label(tmp_path):
    frame = titanic().drop(columns=["survived", "alive"]).assign(y=Y, clean_label=1 - Y)
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="which column is meant, 'class' or 'y'"):
        read_table(tmp_path / "a.csv")
    data = read_table(tmp_path / "a.csv", exclude=["class", "clean_label"])
    assert (data.label.name, data.label.is_guess, data.clean_labels) == ("y", True, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exclude": ["nope"]}, r"^a\.csv: there is no column 'nope'; the columns are 'survived'"),
        ({"features": ["age", "nope"]}, "there is no column 'nope'"),
        ({"exclude": ["survived"]}, "column 'survived' holds the labels: take it out of `exclude` and `features`"),
        ({"features": "survived"}, "column 'survived' holds the labels"),
        ({"exclude": "age", "features": "age"}, "there is no column 'age'"),
        ({"exclude": ["pclass", "sex", "age", "fare", "class", "alive"]}, "keep at least one|0 columns"),
        ({"exclude": ["pclass", "sex", "age", "fare", "class"]}, "all columns give the label away; column 'alive' is"),
        ({"text": "sex", "exclude": "sex"}, "there is no column 'sex'"),
    ],
)
def test_columns_that_cannot_be_chosen(tmp_path, options, words):
    titanic().to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=words) as caught:
        read_table(tmp_path / "a.csv", label="survived", **options)
    assert "\n" not in str(caught.value)


def test_columns_are_for_tables(tmp_path):
    for name in ("digits", str(tmp_path)):
        with pytest.raises(ValueError, match="takes no `exclude`"):
            open_data(name, exclude=["x"])
    with pytest.raises(ValueError, match="X is no table: give a DataFrame"):
        open_data((np.eye(30), Y[:30]), features=["x"])
    (tmp_path / "a.csv").write_text("image,label\na,b\n")
    with pytest.raises(ValueError, match="`image=image` and `exclude=x`: a run reads either images or columns"):
        open_data(tmp_path / "a.csv", image="image", exclude=["x"])


# --- an audit, a run, and what they say ------------------------------------------------------------------------------


def test_an_audit_is_not_fooled_by_a_copy(tmp_path):
    """Of 400 rows 60 are wrong, in the label and in its copy alike."""
    path = tmp_path / "a.csv"
    truth = titanic()["survived"].to_numpy()
    wrong = np.random.default_rng(3).choice(ROWS, 60, replace=False)
    given = truth.copy()
    given[wrong] = 1 - given[wrong]
    frame = pd.DataFrame({"x": truth * 4 + RNG.normal(size=ROWS), "z": RNG.normal(size=ROWS)})
    frame = frame.assign(survived=given, alive=np.where(given, "yes", "no"))
    frame.to_csv(path, index=False)
    done = antidote("audit", path, "--label", "survived", "--out", tmp_path / "audit", "--json")
    found = json.loads(done.out)
    assert found["interval"][1] >= 45
    assert found["estimated_errors"] >= 40
    assert "note: column 'alive' is the label in other words, in 400 of 400 rows: it was left out" in done.err
    assert "name the columns to use in --features to keep it" in done.err
    assert (found["label"], found["label_is_guess"]) == ("survived", False)
    kept = antidote(
        "audit", path, "--label", "survived", "--features", "x,alive", "--out", tmp_path / "other", "--epochs", 2
    )
    assert "leave it out with --exclude alive" in kept.err
    spec = json.loads((tmp_path / "other" / "spec.json").read_text())["audit"]
    assert (spec["label"], spec["features"], spec["exclude"]) == ("survived", "x, alive", "")
    again = ("--label", "survived", "--out", tmp_path / "other", "--epochs", 2, "--resume")
    other = antidote("audit", path, *again, "--features", "x")
    assert (other.code, "features is 'x, alive' there, 'x' now" in other.complaint) == (2, True)


def test_a_guess_is_told_in_the_first_line(tmp_path):
    path = tmp_path / "titanic.csv"
    titanic().to_csv(path, index=False)
    quick = ("--epochs", 2)
    guessed = "The label is column 'class', a guess by its name: --label names another."
    for command, folder in (("train", "run"), ("audit", "audit")):
        done = antidote(command, path, *quick, "--out", tmp_path / folder)
        assert done.out.splitlines()[0] == guessed, done.err
        assert "column 'pclass' is the label in other words" in done.err
        summary = json.loads((tmp_path / folder / "summary.json").read_text())
        assert (summary["label"], summary["label_is_guess"]) == ("class", True)
        spec = json.loads((tmp_path / folder / "spec.json").read_text())
        assert next(iter(spec.values() if "label" in spec else [spec.get("run") or spec["audit"]]))["label"] == "class"
        named = antidote(command, path, *quick, "--label", "class", "--out", tmp_path / f"{folder}2")
        assert named.out.splitlines()[0] == "The label is column 'class'."
    page = (tmp_path / "audit" / "review.html").read_text()
    assert '"label":"class","label_is_guess":true' in page


def test_folders_of_before_go_on(tmp_path):
    """A spec and a summary without the new entries, as earlier versions wrote them."""
    path = tmp_path / "a.csv"
    pd.DataFrame({"x": X, "label": Y}).to_csv(path, index=False)
    out = tmp_path / "audit"
    first = audit(path, epochs=2, out=out)
    for name in ("spec.json", "summary.json"):
        content = json.loads((out / name).read_text())
        record = content["audit"] if name == "spec.json" else content
        for key in ("label", "exclude", "features") if name == "spec.json" else ("label", "label_is_guess"):
            del record[key]
        (out / name).write_text(json.dumps(content))
    again = audit(path, epochs=2, out=out, resume=True)
    pd.testing.assert_frame_equal(again.table, first.table)
    (out / "done").unlink()
    (out / "checkpoint").mkdir(exist_ok=True)
    assert len(audit(path, epochs=2, out=out, resume=True).table) == ROWS
