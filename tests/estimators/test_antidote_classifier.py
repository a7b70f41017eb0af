"""`AntidoteClassifier`: what it gains over a plain perceptron, and how it fits into scikit-learn."""

import pickle

import joblib
import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from antidote_learn import KL, AntidoteClassifier
from tests.estimators.noisy import noisy

WINE = load_wine(return_X_y=True)
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")


def quick(**given):
    return AntidoteClassifier(**{"max_epochs": 6, "random_state": 0, "noise_rate": 0.2, **given})


@pytest.mark.parametrize(("name", "gain"), [("digits", 0.2), ("breast cancer", 0.08), ("wine", 0.08)])
def test_with_two_fifths_of_the_labels_wrong_it_is_far_better_than_a_plain_perceptron(name, gain):
    data = noisy(name, "symmetric:0.4")
    plain = MLPClassifier((256, 256), max_iter=60, random_state=0).fit(data.X, data.y)
    robust = AntidoteClassifier(random_state=0).fit(data.X, data.y)
    assert robust.score(data.X_test, data.y_test) > plain.score(data.X_test, data.y_test) + gain
    assert abs(robust.noise_rate_ - 0.4) < 0.15
    wrong = data.y != data.truth
    assert robust.sample_weights_[wrong].mean() < 0.5 * robust.sample_weights_[~wrong].mean()
    assert robust.sample_weights_.mean() == pytest.approx(1.0)
    flags = robust.label_issues_["is_label_issue"].to_numpy()
    assert flags[wrong].mean() > flags[~wrong].mean() + 0.4


@pytest.mark.parametrize("name", ["breast cancer", "wine"])
def test_on_clean_labels_it_learns_them(name):
    data = noisy(name, "none")
    robust = AntidoteClassifier(random_state=0).fit(data.X, data.y)
    assert robust.noise_rate_ < 0.03
    assert robust.score(data.X_test, data.y_test) > 0.94


@pytest.mark.parametrize("divergence", ["kl", KL, "chi2", "alpha:1.5"])
def test_divergences(divergence):
    data = noisy("wine", "symmetric:0.2")
    robust = quick(divergence=divergence, max_epochs=15).fit(data.X, data.y)
    assert robust.score(data.X_test, data.y_test) > 0.85
    assert robust.noise_rate_ == 0.2


def test_any_module_a_copy_of_which_is_trained():
    data = noisy("wine", "none")
    own = nn.Sequential(nn.Linear(13, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 3))
    before = {name: value.clone() for name, value in own.state_dict().items()}
    robust = quick(module=own, max_epochs=20).fit(data.X, data.y)
    assert robust.score(data.X_test, data.y_test) > 0.9
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())
    assert not robust.module_._forward_hooks
    for module in ("mlp:hidden=[16]", lambda shape, classes: nn.Linear(*shape, classes)):
        assert quick(module=module, max_epochs=20).fit(data.X, data.y).score(data.X_test, data.y_test) > 0.9


def test_it_is_deterministic_and_leaves_the_random_state_alone():
    data = noisy("wine", "symmetric:0.2")
    module = nn.Sequential(nn.Linear(13, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    state = torch.get_rng_state()
    first, same, other = (
        quick(module=module, noise_rate="auto", random_state=seed).fit(data.X, data.y).predict_proba(data.X_test)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    assert torch.equal(state, torch.get_rng_state())


def test_a_row_of_weight_0_is_absent():
    data = noisy("wine", "symmetric:0.2")
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.5], len(data.y))
    kept = weights > 0
    whole = quick(noise_rate="auto").fit(data.X, data.y, sample_weight=weights)
    part = quick(noise_rate="auto").fit(data.X[kept], data.y[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(whole.predict_proba(data.X_test), part.predict_proba(data.X_test))
    np.testing.assert_array_equal(whole.sample_weights_[kept], part.sample_weights_)
    assert not whole.sample_weights_[~kept].any()
    assert whole.sample_weights_.sum() == pytest.approx(weights.sum())
    assert np.isfinite(whole.label_quality_).all()


def test_weights_count():
    """A class whose rows weigh next to nothing is not predicted."""
    data = noisy("wine", "none")
    for divergence in ("kl", "chi2"):
        weights = np.where(data.y == 1, 1e-4, 1.0)
        robust = quick(divergence=divergence, max_epochs=10, noise_rate=0.0).fit(data.X, data.y, sample_weight=weights)
        assert (robust.predict(data.X_test) == 1).mean() < 0.1


def test_tables_and_words():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X.index = [f"bottle {i}" for i in range(len(X))]
    names = y.map({0: "red", 1: "rosé", 2: "white"}).set_axis(X.index)
    names.iloc[:10] = "white"
    robust = AntidoteClassifier(noise_rate=0.1, random_state=0).fit(X, names)
    assert robust.classes_.tolist() == ["red", "rosé", "white"]
    assert robust.feature_names_in_.tolist() == X.columns.tolist()
    assert (robust.predict(X.iloc[:10]) == "red").all()
    table = robust.label_issues_
    assert table.index.equals(X.index)
    assert table["is_label_issue"].iloc[:10].all()
    assert (table["predicted_label"].iloc[:10] == "red").all()
    np.testing.assert_array_equal(table["label_quality"], robust.label_quality_)
    with pytest.raises(ValueError, match="feature names"):
        robust.predict(X.rename(columns={"ash": "dust"}))


def test_inside_a_pipeline_a_grid_search_and_joblib(tmp_path):
    data = noisy("wine", "symmetric:0.2")
    whole = make_pipeline(StandardScaler(), quick())
    search = GridSearchCV(whole, {"antidoteclassifier__lr": [0.001, 0.1]}, cv=2).fit(data.X, data.y)
    assert search.best_params_ == {"antidoteclassifier__lr": 0.1}
    expected = search.predict_proba(data.X_test)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(search)).predict_proba(data.X_test), expected)
    joblib.dump(search, tmp_path / "model")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model").predict_proba(data.X_test), expected)


@pytest.mark.filterwarnings("ignore")  # of cleanlab's own
def test_inside_cleanlab():
    learning = pytest.importorskip("cleanlab.classification")
    data = noisy("wine", "symmetric:0.2")
    clean = learning.CleanLearning(quick(max_epochs=10), cv_n_folds=2).fit(data.X, data.y)
    assert (clean.predict(data.X_test) == data.y_test).mean() > 0.85


def test_a_factory_inside_a_grid_search_over_processes():
    """A lambda goes there and back; nothing of the user's process is needed."""
    data = noisy("wine", "symmetric:0.2")
    model = quick(module=lambda shape, classes: nn.Linear(*shape, classes), max_epochs=3)
    found = [GridSearchCV(model, {"lr": [0.001, 0.1]}, cv=2, n_jobs=jobs).fit(data.X, data.y) for jobs in (1, 2)]
    assert found[0].best_params_ == {"lr": 0.1}
    np.testing.assert_allclose(*(search.cv_results_["mean_test_score"] for search in found))


def test_fits_in_threads_are_what_they_are_alone():
    """The random state of torch, from which dropout draws, is one for all threads."""
    data = noisy("wine", "symmetric:0.2")
    module = nn.Sequential(nn.Linear(13, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    state = torch.get_rng_state()

    def probabilities(seed):
        return quick(module=module, random_state=seed).fit(data.X, data.y).predict_proba(data.X_test)

    alone = [probabilities(seed) for seed in range(4)]
    together = joblib.Parallel(4, backend="threading")(joblib.delayed(probabilities)(seed) for seed in range(4))
    np.testing.assert_array_equal(alone, together)
    assert torch.equal(state, torch.get_rng_state())


def test_rows_too_few_to_estimate_a_rate():
    with pytest.warns(UserWarning, match="12 rows of 3 classes are too few .* give noise_rate") as said:
        few = quick(noise_rate="auto").fit(WINE[0][::15], WINE[1][::15])
    assert [warning.filename for warning in said] == [__file__]
    assert few.noise_rate_ == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"module": 3}, r"'module' .* Got 3"),
        ({"module": "perceptron"}, r"unknown model 'perceptron'; accepted: .*mlp"),
        ({"module": "cnn8"}, r"needs images .* use 'mlp'"),
        ({"module": nn.Linear(5, 3)}, r"must take samples \(B, 13\); it fails: RuntimeError"),
        ({"module": nn.Linear(13, 2)}, r"must give logits \(B, 3\) .* 3 classes; received shape \(2, 2\)"),
        ({"module": lambda shape: nn.LSTM(*shape, 3)}, r"must give logits \(B, 3\) .* received tuple"),
        ({"noise_rate": -0.1}, r"'noise_rate' .* \[0.0, 1.0\).* Got -0.1"),
        ({"kappa": -1}, r"'kappa' .* Got -1"),
        ({"divergence": "tv"}, "unknown divergence"),
        ({"max_epochs": 0}, r"'max_epochs' .* Got 0"),
        ({"lr": 0.0}, r"'lr' .* Got 0.0"),
        ({"batch_size": 1}, r"'batch_size' .* Got 1"),
        ({"device": "tpu"}, r"'device' .* Got 'tpu'"),
        pytest.param({"device": "cuda"}, "'cuda' cannot be used here .* take 'auto'", marks=NO_GPU),
    ],
)
def test_what_cannot_be_is_said(arguments, message):
    with pytest.raises(ValueError, match=message):
        quick(**arguments).fit(*WINE)
