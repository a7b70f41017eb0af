"""How many labels are wrong, which rows are flagged, and the summaries, against slow loops."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antidote_learn.auditing.counts import Count, estimate_count, fewest_contradicted
from antidote_learn.auditing.cuts import Cut, flag_rows
from antidote_learn.auditing.issue_table import AuditRows, class_summary, issues_table, pair_summary, unequal_classes
from antidote_learn.auditing.scores import LabelScores, score
from antidote_learn.auditing.transitions import transition_of_anchors
from tests.auditing.test_scores import kept, sample


def odds(quality):
    return np.log(quality) - np.log1p(-quality)


def believed(right, *, surest=None, doubt=0.0):
    """Scores and labels of two equal classes; every row's label is right with its probability.

    ``surest`` says how sure the pool is of each row, which it predicts as labelled; where negative, as the other class.
    """
    right = np.asarray(right, dtype=float)
    labels = np.arange(len(right)) % 2
    sure = np.full(len(right), 0.99) if surest is None else np.asarray(surest, dtype=float)
    predicted = np.where(sure < 0.0, 1 - labels, labels)
    posterior, pool = (np.zeros((len(right), 2)) for _ in range(2))
    posterior[np.arange(len(right)), labels], posterior[np.arange(len(right)), 1 - labels] = right, 1.0 - right
    pool[np.arange(len(right)), predicted], pool[np.arange(len(right)), 1 - predicted] = abs(sure), 1.0 - abs(sure)
    transition = transition_of_anchors(predicted, abs(sure), labels, 2)
    return LabelScores(kept(posterior, labels), odds(right), transition, kept(pool, labels), doubt), labels


def count_of(scores, labels, contradicted: int) -> Count:
    """The count where a judge contradicts so many rows, the same number of either class."""
    return estimate_count(scores, labels, np.array([contradicted // 2, contradicted - contradicted // 2]))


def test_the_count_is_the_sum_of_the_probabilities_of_being_wrong():
    found = count_of(*believed(np.repeat([0.1, 0.9], [100, 900])), 200)
    assert (found.errors, found.noise_rate, found.rows) == (180, 0.18, 1000)
    cautious = count_of(*believed(np.repeat([0.4, 0.9999], [100, 900])), 200)  # 60, if they were to be believed
    assert cautious.errors == 100


def test_where_the_count_explains_what_is_contradicted_the_interval_is_a_quarter_wider():
    found = count_of(*believed(np.repeat([0.0001, 0.9999], [100, 900])), 120)
    assert (found.errors, found.interval, found.why) == (100, (75, 126), "")
    assert found.look == "Look at the first 126 rows: about 100 of them are expected to be wrong"
    hard = count_of(*believed(np.repeat([0.0001, 0.9999], [100, 900])), 140)
    assert hard.interval == (75, 140)


def test_where_classes_overlap_the_lower_end_is_what_the_surest_rows_show():
    """Of each class's 500 rows, 5 of the surest 50 and none of the surest 20 look wrong."""
    right = np.repeat([0.2, 0.9999], [200, 800])
    sure = np.linspace(0.99, 0.6, 1000)
    wrong = np.r_[np.arange(60, 70), np.arange(500, 690)]
    scores, labels = believed(right[np.argsort(np.argsort(~np.isin(np.arange(1000), wrong)))], surest=np.where(
        np.isin(np.arange(1000), wrong), -sure, sure))  # fmt: skip
    overlap = count_of(scores, labels, 400)
    assert overlap.errors == 200
    assert overlap.interval == (0, 400)  # among the surest 20 of a class none is wrong: perhaps none is at all
    assert "contradict 400 of 1000 labels" in overlap.why
    assert count_of(scores, labels, 220).interval == (150, 250)  # the count explains what is contradicted


def test_errors_that_follow_a_rule_are_bounded_by_the_judges_doubt():
    scores, labels = believed(np.full(500, 0.9999), doubt=80.4)
    hidden = count_of(scores, labels, 60)
    assert (hidden.errors, hidden.interval) == (0, (0, 101))
    assert "then up to 101 may be wrong" in hidden.why
    assert hidden.look == "Look at the first 101 rows: labels alone do not tell how many of them are wrong"
    np.testing.assert_array_equal(hidden.by_class, [[0, 101], [0, 101]])  # nobody knows in which class


def test_where_good_networks_contradict_a_few_labels_as_many_as_can_be_told_may_be_wrong():
    scores, labels = believed(np.full(1000, 0.9999), doubt=80.4)
    clean = count_of(scores, labels, 49)
    assert (clean.errors, clean.interval, clean.why, clean.look) == (0, (0, 5), "", "")
    assert count_of(scores, labels, 3).interval == (0, 3)
    assert count_of(scores, labels, 50).interval == (0, 101)


def test_the_interval_of_a_class_goes_further_than_its_share_as_numbers_vary_by_chance():
    right = np.full(2000, 0.9999)
    right[np.arange(0, 400, 2)] = 0.0001  # 200 of the first class, 20 of the second
    right[np.arange(1, 41, 2)] = 0.0001
    found = estimate_count(*believed(right), np.array([210, 60]))
    assert (found.errors, found.interval) == (220, (165, 276))
    spread = 2 * np.sqrt([200, 20])
    low, high = 0.75 * np.array([200, 20]) - spread, 1.25 * np.array([200, 20]) + spread
    np.testing.assert_array_equal(found.by_class, [[np.floor(low[0]), np.ceil(high[0])], [np.floor(low[1]), 60]])
    assert low[1] < high[1] < 60  # as many as are contradicted


def test_the_judge_counts_who_contradicts_the_fewest_labels():
    labels = np.array([0, 0, 1, 1, 2, 2])
    first, second = (
        kept(np.eye(3)[said], labels) for said in (np.array([1, 1, 1, 1, 0, 2]), np.array([0, 1, 1, 0, 2, 2]))
    )
    np.testing.assert_array_equal(fewest_contradicted([first, second], labels), [1, 1, 0])
    np.testing.assert_array_equal(fewest_contradicted([first], labels), [2, 0, 1])


def test_classes_are_named_where_chance_does_not_explain_that_they_are_wrong_more_often():
    names = ["label", "given", "estimated_errors", "error_rate"]
    rates = pd.DataFrame(
        [("a", 400, 180, 0.45), ("b", 400, 40, 0.1), ("c", 10, 5, 0.5), ("d", 400, 200, 0.5)], columns=names
    )
    assert unequal_classes(rates)["label"].tolist() == ["d", "a"]  # five of ten can be chance
    even = rates.assign(estimated_errors=[100, 110, 3, 90])
    assert unequal_classes(even).empty


def test_clean_labels_that_nobody_contradicts_have_no_errors():
    clean = count_of(*believed(np.full(500, 1.0 - 1e-9)), 0)
    assert (clean.errors, clean.interval, clean.why) == (0, (0, 1), "")


def test_the_interval_stays_among_the_rows():
    assert count_of(*believed(np.full(10, 0.1)), 10).interval == (7, 10)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 0.99), st.integers(0, 40))
def test_the_flagged_set_is_the_largest_that_keeps_the_rate(seed, fdr, most):
    quality = np.random.default_rng(seed).random(30)
    chosen = flag_rows(quality, odds(quality), Cut(fdr=fdr))
    order = np.sort(quality)
    sizes = [size for size in range(1, 31) if order[:size].mean() <= fdr]
    assert chosen.sum() == max(sizes, default=0)
    assert not chosen.any() or quality[chosen].max() <= quality[~chosen].min(initial=1.0)
    cut = flag_rows(quality, odds(quality), Cut(max_flagged=most, fdr=fdr))
    assert cut.sum() == min(most, chosen.sum())
    assert not (cut & ~chosen).any()


def test_without_wishes_rows_with_a_likelier_label_are_flagged():
    quality = np.array([0.2, 0.8, 0.49, 0.5])
    np.testing.assert_array_equal(flag_rows(quality, odds(quality), Cut()), [True, False, True, False])


@given(st.integers(0, 10_000), st.integers(0, 30))
def test_exactly_the_wanted_rows_are_flagged_the_worst(seed, wanted):
    quality = np.random.default_rng(seed).random(30)
    chosen = flag_rows(quality, odds(quality), Cut(flag=wanted))
    np.testing.assert_array_equal(np.flatnonzero(chosen), np.sort(np.argsort(quality)[:wanted]))


@pytest.mark.parametrize(
    "cut",
    [
        {"max_flagged": -1},
        {"max_flagged": 1.5},
        {"fdr": 0.0},
        {"fdr": 1.0},
        {"fdr": np.nan},
        {"fdr": "a"},
        {"max_flagged": "a"},
        {"flag": -1},
        {"flag": 1.5},
        {"flag": 5, "max_flagged": 5},
        {"flag": 5, "fdr": 0.1},
    ],
)
def test_a_cut_that_cannot_be_is_refused(cut):
    with pytest.raises(ValueError, match=next(iter(cut))):
        Cut(**cut)


def scored(rows=400, count=4):
    true, labels, _ = sample(rows, count, 0.3, seed=3)
    return labels, score(labels, count, said=[kept(0.96 * np.eye(count)[true] + 0.04 / count, labels)])


def test_the_summaries_count_what_the_table_shows():
    labels, scores = scored()
    rows = AuditRows(
        labels, ("a", "b", "c", "d"), np.arange(400) + 7, None, None, {"file": [f"{i}.png" for i in range(400)]}
    )
    wrong = scores.quality < 0.5
    table = issues_table(rows, scores, wrong)
    assert sorted(table["index"]) == list(range(7, 407))
    assert table["label_quality"].is_monotonic_increasing
    assert (table["file"] == (table["index"] - 7).map("{}.png".format)).all()
    probs, positions = scores.posterior.dense(slice(None)), np.arange(400)
    counted = estimate_count(scores, labels, np.full(4, 30))
    by_class = class_summary(rows, scores, counted).set_index("label")
    assert by_class["interval"].tolist() == counted.by_class.tolist()
    for k, name in enumerate("abcd"):
        given = labels == k
        likelier = sum(probs[i, k] < 0.5 for i in positions[given])
        assert by_class["estimated_errors"][name] == max(
            likelier, round(sum(1.0 - probs[i, k] for i in positions[given]))
        )
        assert by_class["missing"][name] == round(sum(probs[i, k] for i in positions[~given]))
        assert by_class["error_rate"][name] == pytest.approx(by_class["estimated_errors"][name] / given.sum())
    assert by_class["given"].sum() == 400
    pairs = pair_summary(rows, scores).set_index(["given_label", "predicted_label"])
    for c, given in enumerate("abcd"):
        for k, other in enumerate("abcd"):
            number = round(sum(probs[i, k] for i in positions[labels == c])) if c != k else 0
            assert ((given, other) in pairs.index) == (number > 0)
            if number:
                assert pairs["estimated_errors"][given, other] == number
                expected = scores.transition.towards(np.array([c]))[0, k]
                assert pairs["transition"][given, other] == pytest.approx(expected)
    assert pairs["estimated_errors"].is_monotonic_decreasing


def test_identical_rows_with_other_labels_are_named():
    labels, scores = scored()
    same = np.arange(400)
    same[[5, 9, 11]] = 5
    labels[[5, 9, 11]] = [0, 1, 1]
    rows = AuditRows(labels, ("a", "b", "c", "d"), np.arange(400), None, same, {})
    reasons = issues_table(rows, scores, scores.quality < 0.5).set_index("index")["reason"]
    assert "identical to row 9 (b), 11 (b) with another label" in reasons[5]
    assert "identical to row 5 (a) with another label" in reasons[9]
    assert not reasons.drop([5, 9, 11]).str.contains("identical").any()


def test_reasons_call_nothing_sure():
    labels, scores = scored()
    rows = AuditRows(labels, ("a", "b", "c", "d"), np.arange(400), None, None, {})
    table = issues_table(rows, scores, scores.quality < 0.5)
    bad = table[table["is_label_issue"]]
    assert (bad["label_quality"] < 0.001).any()
    assert not bad["reason"].str.contains(r"\((?:0|100)%\)").any()
    said = bad["reason"].str.extract(r"\(([<>]?)(\d+)%\) fits better than the given label \(([<>]?)(\d+)%\)")
    assert said.loc[bad["label_quality"] < 0.005, [2, 3]].drop_duplicates().to_numpy().tolist() == [["<", "1"]]
    assert said.loc[bad["predicted_probability"] >= 0.995, [0, 1]].drop_duplicates().to_numpy().tolist() == [
        [">", "99"]
    ]
