"""The judges of tables: against cross-validation by scikit-learn, a general minimiser, and noise that is known."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import softmax
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from antidote_learn import audit, inject
from antidote_learn.auditing import weighted_judges
from antidote_learn.auditing.judges import FOLDS, JUDGES, Judge, fold_numbers, predict_by_judges
from antidote_learn.auditing.neighbours import nearest_rows
from antidote_learn.auditing.own_judges import describe_judges
from antidote_learn.auditing.scores import FLOOR
from antidote_learn.auditing.transitions import transition_of_anchors
from antidote_learn.auditing.weighted_judges import likeliest_weights, score_judges
from antidote_learn.core.beliefs import Beliefs
from tests.auditing.test_scores import kept


def silent(done: int, total: int) -> None:
    pass


def ask(features: np.ndarray, labels: np.ndarray, count: int, *, seed: int = 0) -> list[Beliefs]:
    """The predictions of the judges of tables."""
    judges = [Judge(name, make, features) for name, make in JUDGES.items()]
    return predict_by_judges(judges, labels, count, seed=seed, tell=silent)


def table_of(rows: int, *, gap: float = 1.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of unequal size that overlap, in four columns of which one says nothing."""
    rng = np.random.default_rng(seed)
    true = (rng.random(rows) < 0.35).astype(np.int64)
    features = rng.normal(size=(rows, 4)) + gap * true[:, None] * np.array([1.0, -1.0, 0.5, 0.0])
    return features.astype(np.float32), true


def test_every_row_is_judged_by_classifiers_of_other_rows():
    features, labels = table_of(200)
    folds = fold_numbers(labels, 3)
    found = ask(features, labels, 2, seed=3)
    for make, said in zip(JUDGES.values(), found, strict=True):
        expected = cross_val_predict(make(3), features, labels, cv=PredefinedSplit(folds), method="predict_proba")
        np.testing.assert_allclose(said.dense(slice(None)), expected, atol=1e-6)


def test_folds_spread_every_class():
    labels = np.repeat([0, 1, 2], [50, 20, 3])
    folds = fold_numbers(labels, 0)
    for label, size in enumerate((50, 20, 3)):
        sizes = np.bincount(folds[labels == label], minlength=FOLDS)
        assert sizes.max() - sizes.min() <= 1
        assert sizes.sum() == size


def test_a_class_of_one_row_and_rows_of_one_class_are_judged():
    features, _ = table_of(12)
    single = np.array([0] * 11 + [1])
    for said in ask(features, single, 3):
        probs = said.dense(slice(None))
        np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-6)
        assert probs[11].tolist() == [1.0, 0.0, 0.0]  # the others know one class alone


def test_the_weights_are_those_of_a_general_minimiser():
    rng = np.random.default_rng(1)
    true = rng.integers(0, 3, 400)
    given = np.where(rng.random(400) < 0.2, (true + 1) % 3, true)
    tables = [softmax(scale * np.eye(3)[true] + rng.normal(size=(400, 3)), axis=1) for scale in (3.0, 1.0, 0.0)]
    transition = transition_of_anchors(true, np.full(400, 0.9), given, 3)
    found = likeliest_weights(given, [lambda rows, table=table: table[rows] for table in tables], transition)

    def cost(weights):
        logs = sum(w * np.log(table + FLOOR) for w, table in zip(weights, tables, strict=True))
        likelihood = (softmax(logs, axis=1) * transition.towards(given)).sum(axis=1)
        return weighted_judges.RIDGE * np.square(weights - weights.mean()).sum() - np.log(likelihood).mean()

    slow = minimize(cost, np.full(3, 0.3), method="Nelder-Mead", bounds=[(0.0, 4.0)] * 3, options={"xatol": 1e-6})
    assert slow.fun - 1e-3 < cost(found) < slow.fun + 1e-6  # the slow one may stop early
    assert found[0] > found[1] > found[2]  # in the order of what they know
    inside = (found > 1e-3) & (found < 3.9)
    assert abs(approx_fprime(found, cost)[inside]).max() < 1e-3


def test_one_sided_noise_in_overlapping_classes_is_found_and_counted():
    """Half of the rarer class is called the other one: the classifier alone contradicts few of these labels."""
    features, true = table_of(3000)
    given = inject(true, "one-sided:0.5:class=1", seed=1).labels
    wrong = given != true
    ordinary = ask(features, given, 2)
    around = nearest_rows(features)
    held_out = ordinary[0]
    scores = score_judges(given, 2, robust=[held_out], ordinary=ordinary, around=around, trained_on=held_out)
    ours = average_precision_score(wrong, -scores.log_odds)
    alone = max(average_precision_score(wrong, -said.of(given)) for said in ordinary)
    assert ours > alone + 0.2
    assert (1.0 - scores.quality).sum() == pytest.approx(wrong.sum(), rel=0.4)
    assert scores.transition.errors[0] < 0.1 < 0.35 < scores.transition.errors[1]


def test_a_judge_that_knows_nothing_changes_next_to_nothing():
    features, true = table_of(1500, gap=2.0)
    given = inject(true, "symmetric:0.2", seed=1).labels
    ordinary = ask(features, given, 2)
    around = nearest_rows(features)
    noise = kept(softmax(np.random.default_rng(0).normal(size=(1500, 2)), axis=1), given)
    few, more = (
        score_judges(given, 2, robust=[ordinary[0]], ordinary=some, around=around, trained_on=ordinary[0])
        for some in (ordinary, [*ordinary, noise])
    )
    wrong = given != true
    assert average_precision_score(wrong, -more.log_odds) > average_precision_score(wrong, -few.log_odds) - 0.01


def test_tables_have_more_judges_than_pixels():
    features, true = table_of(600)
    given = inject(true, "symmetric:0.2", seed=0).labels
    columns = pd.DataFrame(features, columns=list("abcd")).assign(colour=np.where(true, "red", "blue"))
    for inputs in (features, columns):
        found = audit(inputs, given, epochs=2)
        assert found.summary["judges"] == ["networks", "nearest rows", *JUDGES]
    few = audit(features[:400], given[:400], epochs=2)
    for found in (few, audit("digits", noise="symmetric:0.2", subset=600, epochs=2)):
        assert found.summary["judges"] == ["networks", "nearest rows"]


def test_the_report_says_who_judged_and_how_far_to_look(tmp_path):
    from tests.commands import antidote

    features, true = table_of(600)
    pd.DataFrame(features, columns=list("abcd")).assign(label=true).to_csv(tmp_path / "rows.csv", index=False)
    where = ("--out", str(tmp_path / "audit"))
    done = antidote("audit", str(tmp_path / "rows.csv"), "--noise", "symmetric:0.2", "--epochs", "2", *where)
    assert done.code == 0
    assert "Who judged: networks, nearest rows, linear model, boosted trees, small trees." in done.out
    assert "of them are expected to be wrong." in done.out
    (worst,) = re.findall("The classes whose labels are wrong most often:\n(  .*\n)+?\n", done.out)
    found = re.fullmatch(r"  1: (\d+) of (\d+) rows look wrong \((\d+) %\), between (\d+) and (\d+)\n", worst)
    errors, given, percent, low, high = map(int, found.groups())
    summary = json.loads((tmp_path / "audit" / "summary.json").read_text())["classes"][1]
    assert [errors, given, [low, high]] == [summary[name] for name in ("estimated_errors", "given", "interval")]
    assert percent == round(100 * errors / given)
    assert low < errors < high
    page = (tmp_path / "audit" / "review.html").read_text()
    assert '"judges":["networks"' in page


def rows_in_order(found) -> pd.DataFrame:
    return found.table.sort_values("index", ignore_index=True)


def test_judges_of_ones_own_are_asked_and_named():
    """Thirty columns hide the class from networks and neighbours; a judge that looks at one of them knows it."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 300)
    features = rng.normal(size=(300, 30)).astype(np.float32)
    features[:, 0] = np.where(true == 1, rng.normal(size=300), rng.choice([-3.0, 3.0], 300) + rng.normal(size=300) / 3)
    given = inject(true, "symmetric:0.2", seed=0).labels
    one = make_pipeline(ColumnTransformer([("one", "passthrough", [0])]), KNeighborsClassifier(15))
    without, knowing = (audit(features, given, epochs=2, judges=judges) for judges in ((), [one, LogisticRegression()]))
    assert without.summary["judges"] == ["networks", "nearest rows"]
    assert knowing.summary["judges"][2].startswith("Pipeline(steps=[(")
    assert len(knowing.summary["judges"][2]) == 60
    assert knowing.summary["judges"][3] == "LogisticRegression()"
    few, more = (
        average_precision_score(given != true, -rows_in_order(found)["label_quality"]) for found in (without, knowing)
    )
    assert more > few + 0.1


def test_a_judge_of_a_table_joins_the_others():
    features, true = table_of(600)
    given = inject(true, "symmetric:0.2", seed=0).labels
    trees = RandomForestClassifier(20)  # its random state comes from the audit's seed
    first, again, other = (audit(features, given, epochs=2, judges=judges) for judges in ([trees], [trees], ()))
    assert first.summary["judges"] == ["networks", "nearest rows", *JUDGES, "RandomForestClassifier(n_estimators=20)"]
    pd.testing.assert_frame_equal(first.table, again.table)
    assert not rows_in_order(first)["label_quality"].equals(rows_in_order(other)["label_quality"])


def test_an_audit_is_not_continued_with_other_judges(tmp_path):
    features, true = table_of(60)
    audit(features, true, epochs=1, judges=[KNeighborsClassifier(3)], out=tmp_path / "a")
    audit(features, true, epochs=1, judges=[KNeighborsClassifier(3)], out=tmp_path / "a", resume=True)
    for judges in ([KNeighborsClassifier(4)], [KNeighborsClassifier(3), LogisticRegression()], ()):
        with pytest.raises(
            ValueError, match=r"holds another audit: judges is 'KNeighborsClassifier\(n_neighbors=3\)' there"
        ):
            audit(features, true, epochs=1, judges=judges, out=tmp_path / "a", resume=True)


def test_judges_are_described_alike_in_every_process():
    """Functions and objects without a text of their own show an address, which is another one in each process."""
    first = describe_judges([make_pipeline(FunctionTransformer(np.log1p), LogisticRegression(C=2.0))])
    function = describe_judges([make_pipeline(FunctionTransformer(silent), LogisticRegression(C=2.0))])
    assert "LogisticRegression(C=2.0)" in first
    assert " at 0x" not in function
    assert first != function
    assert describe_judges([]) == ""


class Shy(LogisticRegression):
    def predict_proba(self, X):
        return np.full((len(X), 2), np.nan)


@pytest.mark.parametrize(
    ("judges", "words"),
    [
        (LogisticRegression(), "judges must be a list of scikit-learn classifiers; received LogisticRegression"),
        ("LogisticRegression", "judges must be a list"),
        ([LogisticRegression], r"judges\[0\] is a class: give an object, LogisticRegression\(\)"),
        (
            [LogisticRegression(), RidgeClassifier()],
            r"judges\[1\] must be .* RidgeClassifier\(\) without predict_proba",
        ),
        ([MultinomialNB()], r"judge MultinomialNB\(\) fails on what the audit reads, 4 numbers a row: Negative values"),
        ([Shy()], r"judge Shy\(\) gives no probabilities"),
    ],
)
def test_judges_that_cannot_be_are_told_before_anything_is_trained(judges, words, tmp_path):
    features, true = table_of(60)
    with pytest.raises(ValueError, match=words):
        audit(features, true, judges=judges, out=tmp_path / "audit")
    assert not (tmp_path / "audit").exists()
