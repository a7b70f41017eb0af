"""`RobustClassifier` over classifiers of every kind: what it gains, what it leaves alone, how it fits in."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from antidote_learn import RobustClassifier, delta_from_rate, estimate_noise_rate
from antidote_learn.estimators.reweighting import reweigh_rows
from antidote_learn.estimators.targets import score_labels
from tests.estimators.noisy import noisy

MODELS = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "forest": RandomForestClassifier(30, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=15, max_bins=16, early_stopping=False),
}
WINE = load_wine(return_X_y=True)


@pytest.mark.parametrize("name", MODELS)
def test_with_two_fifths_of_the_labels_wrong_it_is_better_than_the_classifier_alone(name):
    gains = []
    for seed in range(2):
        data = noisy("breast cancer", "symmetric:0.4", seed)
        plain = clone(MODELS[name]).fit(data.X, data.y).score(data.X_test, data.y_test)
        robust = RobustClassifier(MODELS[name], random_state=seed).fit(data.X, data.y)
        gains.append(robust.score(data.X_test, data.y_test) - plain)
        assert abs(robust.noise_rate_ - 0.4) < 0.2
        wrong = data.y != data.truth
        assert robust.sample_weights_[wrong].mean() < 0.5 * robust.sample_weights_[~wrong].mean()
        assert robust.label_quality_[wrong].mean() < 0.7 * robust.label_quality_[~wrong].mean()
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize("name", MODELS)
def test_on_clean_labels_it_is_not_worse(name):
    data = noisy("breast cancer", "none")
    plain = clone(MODELS[name]).fit(data.X, data.y).score(data.X_test, data.y_test)
    robust = RobustClassifier(MODELS[name], random_state=0).fit(data.X, data.y)
    assert robust.noise_rate_ < 0.03
    assert robust.score(data.X_test, data.y_test) > plain - 0.012  # two of 171 rows


def test_at_a_rate_of_0_it_is_the_classifier_itself():
    data = noisy("wine", "symmetric:0.2")
    for model in MODELS.values():
        robust = RobustClassifier(model, noise_rate=0).fit(data.X, data.y)
        alone = clone(model).fit(data.X, data.y)
        np.testing.assert_array_equal(robust.predict_proba(data.X_test), alone.predict_proba(data.X_test))
        np.testing.assert_array_equal(robust.sample_weights_, 1.0)


def test_the_last_fit_is_the_classifiers_own_with_the_weights():
    data = noisy("wine", "symmetric:0.4")
    robust = RobustClassifier(random_state=0).fit(data.X, data.y)
    alone = LogisticRegression(random_state=0).fit(data.X, data.y, sample_weight=robust.sample_weights_)
    np.testing.assert_allclose(robust.predict_proba(data.X_test), alone.predict_proba(data.X_test), rtol=1e-12)


def test_one_round_by_hand():
    data = noisy("wine", "symmetric:0.4")
    folds = KFold(4, shuffle=True, random_state=1)
    robust = RobustClassifier(rounds=1, cv=folds).fit(data.X, data.y)
    probs = np.empty((len(data.y), 3))
    for own, other in folds.split(data.X):
        probs[other] = LogisticRegression().fit(data.X[own], data.y[own]).predict_proba(data.X[other])
    assert robust.noise_rate_ == estimate_noise_rate(probs, data.y).rate
    scores = score_labels(probs, data.y)
    np.testing.assert_array_equal(robust.label_quality_, scores.quality)
    weights = robust.sample_weights_
    np.testing.assert_array_equal(weights, reweigh_rows(scores, data.y, np.ones(len(data.y)), robust.noise_rate_))
    assert weights.mean() == pytest.approx(1.0)
    divergence = np.mean(np.where(weights > 0, weights * np.log(np.maximum(weights, 1e-300)), 0.0))
    assert divergence <= delta_from_rate(robust.noise_rate_) * (1 + 1e-6)
    for label in range(3):  # none is forgotten for another
        assert weights[data.y == label].mean() == pytest.approx(1.0)
    order = np.argsort(-np.log(robust.label_quality_[data.y == 0]))
    assert (np.diff(weights[data.y == 0][order]) <= 1e-12).all()


def test_it_is_deterministic_under_its_random_state_whatever_the_classifiers():
    data = noisy("wine", "symmetric:0.2")
    forest = RandomForestClassifier(5)
    first, same, other = (
        RobustClassifier(forest, rounds=2, random_state=seed).fit(data.X, data.y).predict_proba(data.X_test)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    assert forest.random_state is None


def test_a_row_of_weight_0_is_absent():
    data = noisy("wine", "symmetric:0.2")
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.5], len(data.y))
    kept = weights > 0
    whole = RobustClassifier(random_state=0).fit(data.X, data.y, sample_weight=weights)
    part = RobustClassifier(random_state=0).fit(data.X[kept], data.y[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(whole.predict_proba(data.X_test), part.predict_proba(data.X_test))
    np.testing.assert_array_equal(whole.sample_weights_[kept], part.sample_weights_)
    assert not whole.sample_weights_[~kept].any()
    assert whole.sample_weights_.sum() == pytest.approx(weights.sum())
    assert np.isfinite(whole.label_quality_).all()


def test_twice_the_weight_of_all_rows_changes_no_judgement():
    data = noisy("wine", "symmetric:0.2")
    forest = RandomForestClassifier(5, random_state=0)
    once, twice = (
        RobustClassifier(forest, random_state=0).fit(data.X, data.y, sample_weight=np.full(len(data.y), weight))
        for weight in (3.0, 6.0)
    )
    np.testing.assert_allclose(2 * once.sample_weights_, twice.sample_weights_)


def test_tables_words_and_pipelines():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X.index = [f"bottle {i}" for i in range(len(X))]
    X["shop"] = np.where(np.arange(len(X)) % 2, "a", "b")
    names = y.map({0: "red", 1: "rosé", 2: "white"}).set_axis(X.index)
    names.iloc[:10] = "white"
    columns = make_column_transformer((OneHotEncoder(), ["shop"]), remainder=StandardScaler())
    inner = make_pipeline(columns, make_pipeline(LogisticRegression()))
    robust = RobustClassifier(inner, random_state=0).fit(X, names)
    assert robust.classes_.tolist() == ["red", "rosé", "white"]
    assert robust.feature_names_in_.tolist() == X.columns.tolist()
    assert (robust.predict(X.iloc[:10]) == "red").all()
    table = robust.label_issues_
    assert table.index.equals(X.index)
    assert table["is_label_issue"].iloc[:10].all()
    assert (table["predicted_label"].iloc[:10] == "red").all()
    assert table["given_label"].tolist() == names.tolist()
    np.testing.assert_array_equal(table["label_quality"], robust.label_quality_)
    with pytest.raises(ValueError, match="feature names"):
        robust.predict(X.rename(columns={"ash": "dust"}))


@pytest.mark.filterwarnings("error")
def test_lightgbm_with_tables_and_words():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = load_wine(return_X_y=True, as_frame=True)
    names = y.map({0: "red", 1: "rosé", 2: "white"})
    names.iloc[:10] = "white"
    model = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)
    robust = RobustClassifier(model, random_state=0, noise_rate=0.1).fit(X, names)
    assert "white" not in robust.predict(X.iloc[:10])
    assert robust.sample_weights_[:10].mean() < 0.5
    assert robust.label_issues_["is_label_issue"].iloc[:10].mean() > 0.7


@pytest.mark.parametrize("y", [WINE[1] + 0.0, WINE[1] > 0, WINE[1] * 7 - 3], ids=["floats", "booleans", "numbers"])
def test_labels_keep_their_type(y):
    X = StandardScaler().fit_transform(WINE[0])
    predicted = RobustClassifier(rounds=1).fit(X, y).predict(X)
    assert predicted.dtype == y.dtype
    assert (predicted == y).mean() > 0.95


def test_inside_a_pipeline_a_grid_search_and_joblib(tmp_path):
    data = noisy("wine", "symmetric:0.2")
    whole = make_pipeline(StandardScaler(), RobustClassifier(LogisticRegression(), random_state=0))
    grid = {"robustclassifier__rounds": [1, 2], "robustclassifier__estimator__C": [0.1, 1.0]}
    search = GridSearchCV(whole, grid, cv=2).fit(data.X, data.y)
    assert search.best_score_ > 0.6
    expected = search.predict_proba(data.X_test)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(search)).predict_proba(data.X_test), expected)
    joblib.dump(search, tmp_path / "model")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model").predict_proba(data.X_test), expected)


def test_folds_at_a_time_change_nothing():
    data = noisy("wine", "symmetric:0.2")
    one = RobustClassifier(random_state=0).fit(data.X, data.y)
    with joblib.parallel_config(backend="threading"):
        two = RobustClassifier(random_state=0, n_jobs=2).fit(data.X, data.y)
    np.testing.assert_array_equal(one.sample_weights_, two.sample_weights_)


def test_a_class_of_one_row_and_rows_too_few():
    X, y = StandardScaler().fit_transform(WINE[0]), WINE[1].copy()
    y[0] = 9
    robust = RobustClassifier(random_state=0, rounds=1).fit(X, y)
    assert robust.predict_proba(X).shape == (len(X), 4)
    with pytest.warns(UserWarning, match="12 rows of 3 classes are too few .* give noise_rate") as said:
        few = RobustClassifier().fit(X[::15], WINE[1][::15])
    assert [warning.filename for warning in said] == [__file__]
    assert few.noise_rate_ == 0.0
    assert not few.label_issues_["is_label_issue"].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": LinearSVC()}, r"'estimator' .* 'predict_proba'.* Got LinearSVC"),
        ({"estimator": KNeighborsClassifier()}, r"fit takes sample_weight, received KNeighborsClassifier\(\): take"),
        ({"noise_rate": 1.0}, r"'noise_rate' .* \[0.0, 1.0\).* Got 1.0"),
        ({"noise_rate": "high"}, r"'noise_rate' .*'auto'.* Got 'high'"),
        ({"rounds": 0}, r"'rounds' .* Got 0"),
        ({"cv": 1}, r"'cv' .* Got 1"),
        ({"cv": ShuffleSplit(2, random_state=0)}, r"hold every row out once, ShuffleSplit.* leaves out \d+ of 178"),
    ],
)
def test_what_cannot_be_is_said(arguments, message):
    with pytest.raises(ValueError, match=message):
        RobustClassifier(**arguments).fit(*WINE)


@pytest.mark.parametrize(
    ("y", "weights", "message"),
    [
        (np.zeros(178), None, r"at least two classes, received one class only \(.*0.0"),
        (np.linspace(0, 1, 178), None, "Unknown label type: continuous"),
        (WINE[1], np.zeros(178), "at least one non-zero"),
        (WINE[1], (WINE[1] == 2) * 1.0, "must leave at least two classes"),
        (WINE[1], np.full(178, -1.0), "Negative values"),
        (WINE[1][:9], None, "inconsistent numbers of samples"),
        (pd.Series(WINE[1]).where(WINE[1] > 0), None, "NaN"),
    ],
)
def test_labels_and_weights_that_cannot_be_are_said(y, weights, message):
    with pytest.raises(ValueError, match=message):
        RobustClassifier().fit(WINE[0], y, sample_weight=weights)
