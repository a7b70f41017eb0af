"""scikit-learn's own checks of an estimator, all of them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from antidote_learn import AntidoteClassifier, RobustClassifier

UNEQUAL = {
    "RobustClassifier": "folds, the rate and how classes are mistaken for one another are counted in rows, and a row "
    "of weight 2 counts once there (a weight of 0 is the row absent: see test_robust_classifier)",
    "AntidoteClassifier": "batches are cut from rows: a row of weight 2 is visited once an epoch, a repeated one twice "
    "(a weight of 0 is the row absent: see test_antidote_classifier)",
}


def expected(estimator):
    checks = ["check_sample_weight_equivalence_on_dense_data"]
    checks += ["check_sample_weight_equivalence_on_sparse_data"] * isinstance(estimator, RobustClassifier)
    return dict.fromkeys(checks, UNEQUAL[type(estimator).__name__])


@pytest.mark.filterwarnings("ignore")  # the checks fit a handful of rows, and labels that are pure chance
@parametrize_with_checks([RobustClassifier(), AntidoteClassifier(max_epochs=8)], expected_failed_checks=expected)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
