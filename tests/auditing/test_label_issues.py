"""find_label_issues: labels of any kind with probabilities or features, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import average_precision_score

from antidote_learn import find_label_issues
from tests.auditing.test_scores import sample

COLUMNS = ["index", "is_label_issue", "label_quality", "given_label", "predicted_label"]
TRUE, GIVEN, FEATURES = sample(500, 4, 0.25, seed=5)
PROBS = 0.85 * np.eye(4)[TRUE] + 0.15 / 4
NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.mark.parametrize(
    "sources", [{"pred_probs": PROBS}, {"features": FEATURES}, {"pred_probs": PROBS, "features": FEATURES}]
)
def test_every_row_comes_back_the_worst_first(sources):
    table = find_label_issues(GIVEN, **sources)
    assert table.columns[:5].tolist() == COLUMNS
    assert "reason" in table
    assert sorted(table["index"]) == list(range(500))
    np.testing.assert_array_equal(table["given_label"], GIVEN[table["index"]])
    wrong = (GIVEN != TRUE)[table["index"]]
    assert average_precision_score(wrong, -table["label_quality"]) > 0.97
    assert abs(table["is_label_issue"].sum() - wrong.sum()) < 0.4 * wrong.sum()


@pytest.mark.parametrize(
    ("labels", "probs"),
    [
        (NAMES[GIVEN], PROBS),
        (NAMES[GIVEN].tolist(), PROBS.tolist()),
        (pd.Series(NAMES[GIVEN], index=np.arange(500)[::-1]), pd.DataFrame(PROBS, columns=NAMES)),
        (pd.Series(NAMES[GIVEN], dtype="category"), pd.DataFrame(PROBS[:, ::-1], columns=NAMES[::-1])),
        (torch.from_numpy(GIVEN), torch.from_numpy(PROBS)),
    ],
)
def test_labels_of_any_kind(labels, probs):
    plain, table = find_label_issues(GIVEN, pred_probs=PROBS), find_label_issues(labels, pred_probs=probs)
    quality = plain.set_index("index")["label_quality"]
    np.testing.assert_allclose(table.set_index("index")["label_quality"].sort_index(), quality.sort_index())
    if not isinstance(labels, torch.Tensor):
        np.testing.assert_array_equal(table["given_label"], NAMES[GIVEN[table["index"]]])


def test_cuts():
    assert find_label_issues(GIVEN, pred_probs=PROBS, max_flagged=7)["is_label_issue"].sum() == 7
    exactly = find_label_issues(GIVEN, pred_probs=PROBS, flag=len(GIVEN) - 1)["is_label_issue"]
    assert exactly.tolist() == [True] * (len(GIVEN) - 1) + [False]
    with pytest.raises(ValueError, match=f"at most {len(GIVEN)}, the number of rows"):
        find_label_issues(GIVEN, pred_probs=PROBS, flag=len(GIVEN) + 1)
    strict = find_label_issues(GIVEN, features=FEATURES, fdr=0.25)
    assert strict["is_label_issue"].any()
    assert strict.loc[strict["is_label_issue"], "label_quality"].mean() <= 0.25


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"labels": GIVEN}, "give pred_probs"),
        ({"labels": [], "features": FEATURES}, "labels must be a non-empty list"),
        ({"labels": GIVEN, "pred_probs": PROBS[:10]}, r"shape \(500, 4\)"),
        ({"labels": GIVEN, "pred_probs": np.log(PROBS)}, "row 0 is none"),
        ({"labels": GIVEN, "pred_probs": 2 * PROBS - 0.25}, "row 0 is none"),
        ({"labels": GIVEN, "pred_probs": np.where(np.arange(500)[:, None] == 3, np.nan, PROBS)}, "row 3 is none"),
        ({"labels": GIVEN, "pred_probs": PROBS[:, :3] / PROBS[:, :3].sum(1, keepdims=True)}, "0 ... 3 with K = 3"),
        ({"labels": GIVEN - 1, "pred_probs": PROBS}, "number the classes from 0"),
        ({"labels": GIVEN, "features": FEATURES[:5]}, r"features must be numbers of shape \(500, D\)"),
        ({"labels": GIVEN, "features": np.full((500, 2), np.nan)}, "finite"),
        ({"labels": ["one"] * 500, "features": FEATURES}, "1 classes"),
        ({"labels": [None, *NAMES[GIVEN[1:]]], "features": FEATURES}, "lacks 1 of 500 labels"),
        ({"labels": NAMES[GIVEN], "pred_probs": pd.DataFrame(PROBS, columns=list("abcd"))}, "is no column"),
        ({"labels": NAMES[:3][GIVEN % 3], "pred_probs": PROBS}, "3 classes"),
        ({"labels": GIVEN + 0.5, "features": FEATURES}, "regression target"),
    ],
)
def test_what_it_refuses(arguments, words):
    with pytest.raises(ValueError, match=words):
        find_label_issues(**arguments)


def test_all_rows_alike_is_no_trouble():
    table = find_label_issues(GIVEN, features=np.zeros((500, 2)))
    assert len(table) == 500
    assert table["reason"].str.contains("identical to row").all()


def test_labels_far_apart_cost_no_more_than_labels_side_by_side():
    """Though there are more rows than classes in between would be."""
    rng = np.random.default_rng(0)
    given = rng.integers(0, 3, 3000)
    features = rng.normal(size=(3000, 2)) + 5 * given[:, None]
    near, far = (find_label_issues(labels, features=features) for labels in (given, given * 1250))
    assert near["index"].tolist() == far["index"].tolist()
    np.testing.assert_array_equal(near["label_quality"], far["label_quality"])


@pytest.mark.parametrize("labels", [np.arange(5000), [f"id{i}" for i in range(5000)]])
def test_identifiers_are_no_labels(labels):
    with pytest.raises(ValueError, match=r"5000 different labels, .* identifiers"):
        find_label_issues(labels, features=np.zeros((5000, 2)))


def test_a_label_of_a_million_is_one_class_more():
    rng = np.random.default_rng(0)
    true = np.repeat([0, 7, 10**6], 200)
    features = rng.normal(size=(600, 4)) + 6 * np.repeat(np.eye(3, 4), 200, axis=0)
    given = true.copy()
    given[:10] = 10**6
    table = find_label_issues(given, features=features)
    assert set(table.loc[table["is_label_issue"], "index"]) == set(range(10))
    small = find_label_issues(np.unique(given, return_inverse=True)[1], features=features)
    assert table["index"].tolist() == small["index"].tolist()
    np.testing.assert_array_equal(table["label_quality"], small["label_quality"])
    assert set(table["predicted_label"]) == {0, 7, 10**6}
    with pytest.raises(ValueError, match="all labels are 1000000"):
        find_label_issues([10**6] * 600, features=features)
