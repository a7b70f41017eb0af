"""Pools of classifiers: noise is found and undone where labels show it, and labels are kept where they do not."""

import numpy as np
import pytest
import torch

from antidote_learn import inject
from antidote_learn.auditing.pool_fitting import FittedPool, fit_pool, label_beliefs, pool_probs
from antidote_learn.auditing.transitions import transition_of_anchors
from antidote_learn.models.fitted import Pool

NAMES = ("linear model", "small trees")


def classes_of(rows: np.ndarray) -> np.ndarray:
    return (rows[:, 0] + 0.5 * rows[:, 1] > 0.6).astype(np.int64)


def rows_of(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


def fitted(labels: np.ndarray, rows: np.ndarray) -> FittedPool:
    def tell(done: int, total: int) -> None:
        assert 1 <= done <= total

    return fit_pool(rows, labels, 2, names=NAMES, network=None, seed=0, tell=tell)


def accuracy(found: FittedPool, rows: np.ndarray) -> float:
    with torch.no_grad():
        said = Pool(found.modules, found.weights)(torch.from_numpy(rows)).argmax(dim=1).numpy()
    return float((said == classes_of(rows)).mean())


@pytest.mark.parametrize("noise", ["one-sided:0.4:class=1", "symmetric:0.3"])
def test_noise_is_undone(noise):
    rows, new = rows_of(1500, 0), rows_of(3000, 1)
    labels = inject(classes_of(rows), noise, seed=3, names=("0", "1")).labels
    found = fitted(labels, rows)
    assert accuracy(found, new) > 0.95
    assert (found.beliefs.argmax(axis=1) == classes_of(rows)).mean() > (labels == classes_of(rows)).mean() + 0.05


def test_one_sided_noise_is_read_on_its_side():
    rows = rows_of(1500, 0)
    labels = inject(classes_of(rows), "one-sided:0.4:class=1", seed=3, names=("0", "1")).labels
    errors = fitted(labels, rows).errors
    assert errors[0] < 0.05
    assert 0.3 < errors[1] < 0.5


def test_labels_without_noise_are_nearly_all_kept_where_classes_overlap():
    rows = rows_of(1500, 0)
    chance = np.random.default_rng(2).random(len(rows))
    labels = (chance < 1.0 / (1.0 + np.exp(-2.0 * rows[:, 0]))).astype(np.int64)
    found = fitted(labels, rows)
    assert (found.beliefs.argmax(axis=1) == labels).mean() > 0.97


def test_beliefs_are_the_rule_of_bayes_row_by_row():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=50)
    labels = rng.integers(3, size=50)
    transition = transition_of_anchors(probs.argmax(axis=1), probs.max(axis=1), labels, 3)
    found = label_beliefs(probs, labels, transition)
    for row, label in enumerate(labels):
        joint = probs[row] * transition.towards(np.array([label]))[0]
        np.testing.assert_allclose(found[row], joint / joint.sum())


def test_a_pool_of_one_judge_with_weight_one_is_the_judge():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    np.testing.assert_allclose(pool_probs([probs], np.ones(1)), (probs + 1e-4) / (1 + 4e-4))
