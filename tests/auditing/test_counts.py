"""How many labels are wrong, which rows are flagged, and the summaries, against slow loops."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antidote_learn.auditing.counts import check_cut, estimate_count, flag_rows
from antidote_learn.auditing.issue_table import AuditRows, class_summary, issues_table, pair_summary
from antidote_learn.auditing.scores import score
from tests.auditing.test_scores import kept, sample


def odds(quality):
    return np.log(quality) - np.log1p(-quality)


def test_the_interval_takes_in_the_count_the_rate_of_anchors_and_what_is_contradicted():
    quality = np.repeat([0.1, 0.9], [100, 900])
    alike = estimate_count(quality, 0.11, 120)
    assert (alike.errors, alike.interval, alike.noise_rate, alike.why) == (100, (75, 138), 0.1, "")
    anchors = estimate_count(quality, 0.2, 180)
    assert anchors.interval == (75, 250)
    assert "about 200 (20.0 %) should be wrong" in anchors.why
    fewer = estimate_count(quality, 0.05, 90)
    assert fewer.interval == (37, 125)
    hard = estimate_count(quality, 0.11, 160)
    assert hard.interval == (75, 160)
    assert "contradict 160 labels" in hard.why


def test_clean_labels_have_no_errors_and_a_narrow_interval():
    clean = estimate_count(np.full(500, 0.99), 1e-16, 0)
    assert (clean.errors, clean.interval, clean.why) == (0, (0, 1), "")
    hard = estimate_count(np.full(500, 0.99), 0.004, 60)  # what networks get wrong by themselves
    assert hard.interval == (0, 3)
    assert "contradict 60 labels" in hard.why
    assert estimate_count(np.full(500, 0.99), 0.006, 60).interval == (0, 60)


def test_the_interval_stays_among_the_rows():
    assert estimate_count(np.full(10, 0.1), 0.8, 10).interval == (6, 10)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 0.99), st.integers(0, 40))
def test_the_flagged_set_is_the_largest_that_keeps_the_rate(seed, fdr, most):
    quality = np.random.default_rng(seed).random(30)
    chosen = flag_rows(quality, odds(quality), max_flagged=None, fdr=fdr)
    order = np.sort(quality)
    sizes = [size for size in range(1, 31) if order[:size].mean() <= fdr]
    assert chosen.sum() == max(sizes, default=0)
    assert not chosen.any() or quality[chosen].max() <= quality[~chosen].min(initial=1.0)
    cut = flag_rows(quality, odds(quality), max_flagged=most, fdr=fdr)
    assert cut.sum() == min(most, chosen.sum())
    assert not (cut & ~chosen).any()


def test_without_wishes_rows_with_a_likelier_label_are_flagged():
    quality = np.array([0.2, 0.8, 0.49, 0.5])
    np.testing.assert_array_equal(
        flag_rows(quality, odds(quality), max_flagged=None, fdr=None), [True, False, True, False]
    )


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
    ],
)
def test_a_cut_that_cannot_be_is_refused(cut):
    with pytest.raises(ValueError, match=next(iter(cut))):
        check_cut(**{"max_flagged": None, "fdr": None, **cut})


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
    bad = table[table["is_label_issue"]]
    by_class = class_summary(rows, scores).set_index("label")
    assert by_class["estimated_errors"].to_dict() == bad["given_label"].value_counts().sort_index().to_dict()
    assert by_class["missing"].to_dict() == bad["predicted_label"].value_counts().sort_index().to_dict()
    assert by_class["given"].sum() == 400
    pairs = pair_summary(rows, scores)
    counted = pd.Series(list(zip(bad["given_label"], bad["predicted_label"], strict=True))).value_counts()
    for pair in pairs.itertuples():
        assert counted[(pair.given_label, pair.predicted_label)] == pair.estimated_errors
        k, c = "abcd".index(pair.predicted_label), "abcd".index(pair.given_label)
        assert pair.transition == pytest.approx(scores.transition.towards(np.array([c]))[0, k])
    assert pairs["estimated_errors"].sum() == len(bad)


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
