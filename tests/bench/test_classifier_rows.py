"""Classifiers of scikit-learn as rows of a comparison: the same rows and labels, refused names, robust ones."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from antidote_learn import RobustClassifier
from antidote_learn.bench.classifiers import build_classifier
from antidote_learn.bench.layout import Cell
from antidote_learn.bench.records import run_cell
from antidote_learn.training.prepare import prepare_run
from antidote_learn.training.resolve import Request, resolve_request
from tests.commands import antidote

OPTIONS = {"epochs": 1}


def test_a_row_has_the_accuracy_of_the_classifier_on_the_data_of_a_run(tmp_path):
    cell = Cell("breast-cancer", "sklearn:LogisticRegression:C=0.3", "symmetric:0.2", 1, OPTIONS)
    record = run_cell(cell, tmp_path)
    data = prepare_run(resolve_request(Request("breast-cancer", method="ce", noise="symmetric:0.2", seed=1))).data
    rows, test = (part.take(np.arange(len(part))).numpy() for part in (data.rows, data.test_rows))
    model = LogisticRegression(C=0.3, random_state=1).fit(rows, data.labels)
    assert record["last"] == pytest.approx(100 * model.score(test, data.test_labels))
    assert run_cell(cell, tmp_path) == record


def test_a_robust_row_and_a_class_of_another_package():
    robust = build_classifier("robust:RandomForestClassifier:n_estimators=7", seed=3)
    assert isinstance(robust, RobustClassifier)
    assert (robust.estimator.n_estimators, robust.estimator.random_state) == (7, 3)
    assert build_classifier("sklearn:sklearn.svm.SVC:kernel=linear", seed=0).kernel == "linear"


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("sklearn:LogisticRegresion", "scikit-learn has no classifier 'LogisticRegresion'"),
        ("sklearn:LogisticRegression:c=1", "refuses its parameters"),
        ("sklearn:LogisticRegression:C", "key=value"),
        ("sklearn:nopackage.Model", "there is no classifier 'nopackage.Model'"),
    ],
)
def test_bad_rows_are_refused_before_anything_runs(method, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        build_classifier(method, seed=0)


def test_the_command_compares_them_with_methods(tmp_path):
    rows = "ce,sklearn:LogisticRegression,robust:LogisticRegression"
    done = antidote("compare", "iris", "--methods", rows, "--seeds", 1, "--epochs", 1, "--out", tmp_path / "grid",
                    "--format", "csv")  # fmt: skip
    assert done.code == 0
    assert all(name in done.out for name in rows.split(","))
    refused = antidote("compare", "iris", "--methods", "sklearn:Nothing", "--out", tmp_path / "other")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert not (tmp_path / "other").exists()
