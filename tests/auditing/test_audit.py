"""audit: from data to the table, on real data with noise that is known."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import average_precision_score

from antidote_learn import Audit, audit, inject, train
from antidote_learn.auditing.features import neighbour_features, with_audit_features
from antidote_learn.data.prepared import prepare
from antidote_learn.data.tabular import from_arrays
from antidote_learn.training.progress import Silent


def precision(found: Audit) -> float:
    table = found.table
    return average_precision_score(table["given_label"] != table["clean_label"], -table["label_quality"])


@pytest.mark.parametrize(("noise", "least"), [("symmetric:0.2", 0.985), ("symmetric:0.4", 0.985), ("pair:0.4", 0.985)])
def test_wrong_digits_are_found_and_counted(noise, least):
    found = audit("digits", noise=noise)
    wrong = int((found.table["given_label"] != found.table["clean_label"]).sum())
    assert precision(found) > least
    assert abs(found.estimated_errors - wrong) < 0.2 * wrong
    assert found.interval[0] <= wrong <= found.interval[1]
    assert found.noise_rate == found.estimated_errors / 1297
    likelier = int((found.table["label_quality"] < 0.5).sum())
    assert found.table["is_label_issue"].sum() == likelier == found.summary["flagged"]
    assert likelier <= found.estimated_errors <= 1.02 * likelier  # single rows that nobody is sure of add up
    assert found.by_class["estimated_errors"].sum() == found.estimated_errors
    assert found.posterior.beliefs.classes.shape == (1297, 10)


def test_noise_that_depends_on_the_image():
    assert precision(audit("digits", noise="instance:0.2")) > 0.98


def test_clean_digits_are_left_alone():
    found = audit("digits")
    assert found.estimated_errors <= 3
    assert found.interval[0] == 0
    assert found.interval[1] <= 10


@pytest.mark.parametrize("noise", ["symmetric:0.1", "pair:0.2"])
def test_errors_among_few_rows_are_counted(noise):
    """150 rows of three classes that are easily told apart: the surest ones hold next to none of the errors."""
    rng = np.random.default_rng(1)
    truth, centres = np.arange(150) % 3, rng.normal(size=(3, 50))
    X = 9.0 * (centres / np.linalg.norm(centres, axis=1, keepdims=True))[truth] + rng.normal(size=(150, 50))
    given = inject(truth, noise, X=X, seed=1).labels
    found, wrong = audit(X.astype(np.float32), given, seed=1), int((given != truth).sum())
    assert found.estimated_errors == pytest.approx(wrong, rel=0.2)
    assert (given != truth)[found.table["index"][found.table["is_label_issue"]]].mean() > 0.95


def test_pairs_show_which_class_is_mistaken_for_which():
    found = audit("digits", noise="pair:0.4")
    top = found.by_pair.head(6)
    assert ((top["given_label"].astype(int) - top["predicted_label"].astype(int)) % 10 == 1).all()
    assert top["transition"].between(0.25, 0.55).all()


def test_arrays_with_labels_of_the_users_own_type():
    images, labels = load_digits(return_X_y=True)
    noisy = inject(labels, "symmetric:0.2", seed=0)
    found = audit(images, noisy.labels)
    wrong = noisy.mask[found.table["index"]]
    assert average_precision_score(wrong, -found.table["label_quality"]) > 0.98
    np.testing.assert_array_equal(found.table["given_label"], noisy.labels[found.table["index"]])
    assert found.summary["out"] is None


def test_a_table_of_text_and_numbers():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 400)
    words = [["red round apple", "long yellow banana", "small purple grape"][k] for k in true]
    frame = pd.DataFrame(
        {
            "text": [f"{word} number {rng.integers(1000)} of the market stall" for word in words],
            "weight": true * 2.0 + rng.normal(size=400),
            "label": np.array(["a", "b", "c"])[np.where(rng.random(400) < 0.2, (true + 1) % 3, true)],
        }
    )
    found = audit(frame.drop(columns="label"), frame["label"], text=["text"])
    wrong = frame["label"].to_numpy()[found.table["index"]] != np.array(["a", "b", "c"])[true[found.table["index"]]]
    assert average_precision_score(wrong, -found.table["label_quality"]) > 0.98
    assert "text" in found.summary["features"]


@pytest.mark.parametrize("encoder", ["none", "auto"])
def test_identical_are_rows_that_were_given_alike_not_those_that_are_encoded_alike(encoder):
    known = [f"{'apple' if i % 2 else 'banana'} {i // 2}" for i in range(40)]
    frame = pd.DataFrame({"text": [*known, "?", "!!", "the same", "the same"], "size": [1.0] * 43 + [np.nan]})
    labels = ["a" if i % 2 else "b" for i in range(44)]
    twins = frame.assign(size=frame["size"].fillna(1.0))
    for table, expected in ((frame, set()), (twins, {42, 43})):
        found = audit(table, labels, text=["text"], encoder=encoder, epochs=1).table
        assert set(found.loc[found["reason"].str.contains("identical"), "index"]) == expected


def test_notes_on_the_data_are_kept_with_the_results(tmp_path):
    """Where nobody listened, as with --quiet, they can be read afterwards."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.assign(kind=y).to_csv(tmp_path / "iris.csv")
    expected = ["column 'Unnamed: 0' counts the rows and was left out"]
    assert audit(tmp_path / "iris.csv", label="kind", epochs=1).summary["notes"] == expected
    assert train(tmp_path / "iris.csv", label="kind", epochs=1, out=tmp_path / "run").summary["notes"] == expected


def test_the_same_seed_gives_the_same_table_and_another_one_another():
    first, again, other = (audit("iris", noise="symmetric:0.2", noise_seed=0, seed=seed).table for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, again)
    assert not first["label_quality"].equals(other["label_quality"])


def test_a_subset_keeps_positions():
    found = audit("digits", subset=300)
    assert len(found.table) == 300
    whole = audit("digits", epochs=1).table.set_index("index")["given_label"]
    assert (whole[found.table["index"]].to_numpy() == found.table["given_label"]).all()


def test_stages_are_told():
    class Listener(Silent):
        def __init__(self):
            self.stages = []

        def stage(self, name, *, epochs, done):
            self.stages.append(name)

    listener = Listener()
    audit("iris", epochs=2, reporter=listener)
    assert [name.split(",")[0] for name in listener.stages] == [
        *["noise rate"] * 2, *["held-out predictions"] * 2, "all rows", "nearest rows", "scores",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[1.0, 2.0]] * 30, ["a"] * 30), "all labels are 'a'"),
        (([[1.0, 2.0]] * 30, list(range(30))), "30 different values"),
        (([[1.0, 2.0]] * 10, ["a", "b"] * 5), "at least 20 rows"),
        (([[1.0, 2.0]] * 30, ["a", "b"] * 10), r"shape \(30,\)"),
        (("nothing",), "there is no data"),
        ((pd.DataFrame({"a": []}), []), "0 rows"),
    ],
)
def test_what_it_refuses(arguments, words):
    with pytest.raises(ValueError, match=words):
        audit(*arguments)


@pytest.mark.parametrize("cut", [{"max_flagged": -1}, {"fdr": 2.0}, {"epochs": 0}])
def test_settings_that_cannot_be(cut):
    with pytest.raises(ValueError, match=next(iter(cut))):
        audit("iris", **cut)


def prepared_features(X):
    data = from_arrays(X, np.arange(len(X)) % 2)
    data = prepare(data, noise="none", noise_seed=0, seed=0, subset=None, recipe="fitted", hold_out=False)
    return neighbour_features(with_audit_features(data, 0))


def test_pixels_keep_one_scale_and_columns_of_a_table_have_their_own():
    pixels = load_digits().data
    scaled = prepared_features(pixels)
    centred = pixels - pixels.mean(axis=0)
    factor = centred.std() / scaled.std()
    np.testing.assert_allclose(scaled * factor, centred, atol=1e-3)
    table = load_iris().data * [1.0, 100.0, 1e4, 1e-3]
    np.testing.assert_allclose(prepared_features(table).std(axis=0), 1.0, atol=1e-3)
