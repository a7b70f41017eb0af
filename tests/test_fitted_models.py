"""Fitted models as modules: their probabilities are scikit-learn's own, and a file gives them back."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from antidote_learn.models.conversions import boosting_module, forest_module, linear_module
from antidote_learn.models.fitted import Pool, build_fitted

COLUMNS = 7
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, COLUMNS)).astype(np.float32)
NEW = RNG.normal(size=(300, COLUMNS)).astype(np.float32)
KINDS = {
    "linear": (LogisticRegression(C=0.3), lambda model, classes: linear_module(model, COLUMNS, classes)),
    "boosting": (HistGradientBoostingClassifier(max_iter=12, random_state=0), boosting_module),
    "forest": (RandomForestClassifier(12, min_samples_leaf=3, random_state=0), forest_module),
}


def labels_of(known: list[int]) -> np.ndarray:
    """Labels that depend on the first column, a third of them by chance."""
    places = np.clip((ROWS[:, 0] + 1.5) / 3 * len(known), 0, len(known) - 1).astype(int)
    chance = np.random.default_rng(1).integers(len(known), size=len(ROWS))
    return np.array(known)[np.where(np.arange(len(ROWS)) % 3 == 0, chance, places)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("classes", "known"), [(2, [0, 1]), (3, [0, 1, 2]), (4, [0, 2, 3]), (4, [1, 3])])
def test_a_module_gives_the_probabilities_of_the_classifier(kind, classes, known):
    model, convert = KINDS[kind]
    model.fit(ROWS, labels_of(known))
    expected = np.zeros((len(NEW), classes))
    expected[:, model.classes_] = model.predict_proba(NEW)
    module = convert(model, classes)
    with torch.no_grad():
        found = module(torch.from_numpy(NEW)).softmax(dim=1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_is_built_from_its_name_and_filled_with_its_tensors(kind):
    model, convert = KINDS[kind]
    module = convert(model.fit(ROWS, labels_of([0, 1, 2])), 3)
    again = build_fitted(module.name, shape=(COLUMNS,), classes=3)
    again.load_state_dict(module.state_dict())
    assert torch.equal(again(torch.from_numpy(NEW)), module(torch.from_numpy(NEW)))


def test_a_row_on_a_threshold_goes_left_as_in_the_classifier():
    model = HistGradientBoostingClassifier(max_iter=3, random_state=0).fit(ROWS, labels_of([0, 1]))
    nodes = model._predictors[0][0].nodes
    row = np.zeros((1, COLUMNS))
    row[0, nodes["feature_idx"][0]] = nodes["num_threshold"][0]
    found = boosting_module(model, 2)(torch.from_numpy(row)).softmax(dim=1).numpy()
    np.testing.assert_allclose(found, model.predict_proba(row), atol=1e-9)


def test_a_pool_is_the_weighted_geometric_mean():
    first, second = (linear_module(LogisticRegression(C=c).fit(ROWS, labels_of([0, 1, 2])), COLUMNS, 3) for c in (1, 9))
    inputs = torch.from_numpy(NEW)
    with torch.no_grad():
        found = Pool([first, second], [0.3, 1.2])(inputs).softmax(dim=1)
        parts = [(module(inputs).softmax(dim=1) + 1e-4) ** power for module, power in ((first, 0.3), (second, 1.2))]
    product = parts[0] * parts[1]
    torch.testing.assert_close(found, product / product.sum(dim=1, keepdim=True))


@pytest.mark.parametrize(
    "name",
    [
        "forest",
        "linear:deep=1",
        "trees:count=3",
        "trees:count=-1:nodes=3:depth=2:outputs=1:mean=0",
        "trees:count=99999999:nodes=99999999:depth=2:outputs=1:mean=0",
        "trees:count=3:nodes=3:depth=99999999:outputs=1:mean=0",
        "trees:count=3:nodes=3:depth=2:outputs=5:mean=1",
        "trees:count=3:nodes=3:depth=2:outputs=1:mean=1",
    ],
)
def test_a_name_that_a_forged_file_could_hold_is_refused(name):
    with pytest.raises(ValueError, match="is no"):
        build_fitted(name, shape=(COLUMNS,), classes=3)
