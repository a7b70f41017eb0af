"""The score of an audit against slow loops, in full and with classes that a row does not keep."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.special import softmax
from sklearn.metrics import average_precision_score

from antidote_learn import estimate_transition
from antidote_learn.auditing import scores
from antidote_learn.auditing.neighbours import duplicate_groups, nearest_rows, second_votes, votes
from antidote_learn.auditing.scores import likeliest_power, score
from antidote_learn.auditing.transitions import Transition, transition_of_anchors
from antidote_learn.core import beliefs
from antidote_learn.core.anchors import GRID, anchor_rows
from antidote_learn.core.beliefs import Beliefs, MeanBeliefs


def kept(probs: np.ndarray, labels: np.ndarray) -> Beliefs:
    made = Beliefs.blank(*probs.shape)
    made.put(slice(None), probs, labels)
    return made


def sample(rows: int, count: int, rate: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(true, given, features): well separated classes, each mistaken for the next one."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, count, rows)
    given = np.where(rng.random(rows) < rate, (true + 1) % count, true)
    features = 4.0 * np.eye(count)[true] + rng.normal(size=(rows, count))
    return true, given, features.astype(np.float32)


def slow_transition(predicted, confidence, labels, count):
    """T, entry by entry."""
    seen = np.zeros((count, count))
    for k in range(count):
        rows = sorted(np.flatnonzero(predicted == k), key=lambda i: -confidence[i])
        for i in rows[: max(10, round(0.1 * len(rows)))]:
            seen[k, labels[i]] += 1
    off = np.array([seen[k].sum() - seen[k, k] for k in range(count)])
    total = seen.sum(axis=1)
    m = (off.sum() + 0.5) / (total.sum() + 1)
    a = max(GRID, key=lambda a: sum(stats.betabinom.logpmf(off[k], total[k], a * m, a * (1 - m)) for k in range(count)))

    def multinomial(b):
        others = [[seen[k, c] for c in range(count) if c != k] for k in range(count)]
        return sum(
            stats.dirichlet_multinomial.logpmf(row, [b / (count - 1)] * (count - 1), sum(row))
            for row in others
            if sum(row)
        )

    b = max(GRID, key=multinomial)
    made = np.zeros((count, count))
    for k in range(count):
        e = (off[k] + a * m) / (total[k] + a)
        for c in range(count):
            made[k, c] = 1 - e if c == k else e * (seen[k, c] + b / (count - 1)) / (off[k] + b)
    return made


@pytest.mark.parametrize(("count", "rate"), [(2, 0.2), (4, 0.3), (7, 0.0)])
def test_the_transition_is_the_slow_one(count, rate):
    true, given, _ = sample(300, count, rate, seed=count)
    confidence = np.random.default_rng(1).random(300)
    fast = transition_of_anchors(true, confidence, given, count).towards(np.arange(count)).T
    np.testing.assert_allclose(fast, slow_transition(true, confidence, given, count), rtol=1e-9)
    np.testing.assert_allclose(fast.sum(axis=1), 1.0)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_the_transition_of_an_audit_is_what_users_can_ask_for(count):
    """Also where a row keeps fewer classes than there are."""
    _, given, features = sample(900, count, 0.3, seed=count)
    probs = softmax(features.astype(np.float64), axis=1)
    theirs = score(given, count, said=[kept(probs, given)]).transition.towards(np.arange(count)).T
    found = estimate_transition(probs, given, method="audit")
    np.testing.assert_allclose(found.transition, theirs, rtol=1e-12)


def test_probabilities_that_float32_cannot_tell_apart_are_tied():
    _, given, features = sample(900, 5, 0.3, seed=0)
    probs = softmax(20.0 * features.astype(np.float64), axis=1)
    judge = kept(probs, given)
    theirs = transition_of_anchors(judge.classes[:, 0].astype(np.int64), judge.probs[:, 0].astype(float), given, 5)
    found = estimate_transition(probs, given, method="audit")
    assert (found.samples > 100).all()  # without ties a tenth of 180
    np.testing.assert_allclose(found.transition, theirs.towards(np.arange(5)).T, rtol=1e-12)


def test_anchors_are_the_surest_of_each_class():
    predicted = np.repeat([0, 1, 2], [200, 50, 3])
    confidence = np.random.default_rng(0).random(253)
    found = anchor_rows(predicted, confidence, 4)
    for k, wanted in ((0, 20), (1, 10), (2, 3), (3, 0)):
        rows = np.flatnonzero(predicted == k)
        best = set(rows[np.argsort(-confidence[rows])][:wanted])
        assert {i for i in found if predicted[i] == k} == best


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000))
@example(2, 160)  # no power is likelier than another
def test_the_posterior_is_the_slow_one(count, seed):
    rng = np.random.default_rng(seed)
    _, given, features = sample(60, count, 0.3, seed)
    parts = [rng.dirichlet(np.ones(count), 60) for _ in range(2)]
    around, trust = nearest_rows(features), rng.random(60)
    held_out, trained_on = (kept(part, given) for part in parts)
    found = score(given, count, said=[held_out], trained_on=trained_on, around=around, trust=trust)

    def pooled(*sources):
        pool = np.zeros((60, count))
        for i in range(60):
            for k in range(count):
                pool[i, k] = math.exp(sum(math.log(s[i, k] + 1e-4) for s in sources) / len(sources))
            pool[i] /= pool[i].sum()
        return pool

    def slow(neighbours):
        judge = pooled(parts[0], neighbours)
        t = slow_transition(judge.argmax(axis=1), judge.max(axis=1).astype(np.float32), given, count)

        def joint(pool, b):
            sharper = pool**b / (pool**b).sum(axis=1, keepdims=True)
            return np.array([[sharper[i, k] * t[k, given[i]] for k in range(count)] for i in range(60)])

        likelihood = {b: sum(math.log(row.sum()) for row in joint(judge, b)) for b in np.geomspace(1, 4, 9)}
        b = min(b for b, value in likelihood.items() if value >= max(likelihood.values()) - 1e-3)
        made = joint(pooled(*parts, neighbours), b)
        return made / made.sum(axis=1, keepdims=True)

    first, again = np.zeros((60, count)), np.zeros((60, count))
    for i in range(60):
        first[i] = 0.5 / count
        for j in around[i]:
            first[i, given[j]] += max(trust[j], 0.02)
    first = slow(first / first.sum(axis=1, keepdims=True))
    for i in range(60):
        again[i] = 0.5 / count + sum(first[j] for j in around[i])
    expected = slow(again / again.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.posterior.dense(slice(None)), expected, atol=2e-5)
    np.testing.assert_allclose(found.quality, expected[np.arange(60), given], atol=2e-5)
    assert (found.likeliest_class == expected.argmax(axis=1)).mean() > 0.98  # ties of float32


def test_wrong_labels_come_first():
    true, given, features = sample(600, 5, 0.3, seed=0)
    found = score(given, 5, around=nearest_rows(features))
    assert average_precision_score(true != given, -found.log_odds) > 0.99
    assert (found.likeliest_class == true).mean() > 0.99


@pytest.mark.parametrize("power", [1.0, 1.5, 3.0])
def test_sources_that_are_too_cautious_are_taken_at_their_word(power):
    """P(k | x) is drawn, and the label from it: the likeliest power undoes what was done to P."""
    rng = np.random.default_rng(3)
    truth = rng.dirichlet(np.full(5, 0.2), 4000)
    given = np.array([rng.choice(5, p=row) for row in truth])
    cautious = truth ** (1 / power) / (truth ** (1 / power)).sum(axis=1, keepdims=True)
    never = Transition(sparse.csc_array((5, 5)), np.full(5, 1e-9), 1.0)
    assert likeliest_power(given, kept(cautious, given), never) == pytest.approx(power, rel=0.1)


def test_the_power_is_the_same_of_many_rows_as_of_all(monkeypatch):
    _, given, features = sample(3000, 5, 0.2, seed=4)
    probs = votes(nearest_rows(features), given, np.ones(3000), 5)
    pool = kept(probs, given)
    transition = transition_of_anchors(probs.argmax(axis=1), probs.max(axis=1), given, 5)
    whole = likeliest_power(given, pool, transition)
    monkeypatch.setattr(scores, "ENOUGH", 5 * 1500)
    assert likeliest_power(given, pool, transition) == pytest.approx(whole, rel=0.2)


def test_few_kept_classes_say_nearly_the_same(monkeypatch):
    true, given, features = sample(2000, 40, 0.2, seed=1)
    probs = 0.9 * np.eye(40)[true] + 0.1 / 40
    around, results = nearest_rows(features), []
    for most in (40, 8):
        monkeypatch.setattr(beliefs, "KEPT", most)
        results.append(score(given, 40, said=[kept(probs, given)], around=around))
    full, few = results
    assert few.posterior.classes.shape == (2000, 8)
    assert ((full.quality < 0.5) == (few.quality < 0.5)).mean() > 0.995
    np.testing.assert_allclose(full.transition.errors, few.transition.errors, atol=0.02)


def test_blocks_change_nothing(monkeypatch):
    _, given, features = sample(200, 4, 0.3, seed=2)
    around = nearest_rows(features)
    whole = score(given, 4, around=around)
    monkeypatch.setattr(beliefs, "BLOCK", 28)
    parts = score(given, 4, around=around)
    np.testing.assert_array_equal(whole.log_odds, parts.log_odds)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 50), st.integers(1, 12), st.integers(0, 1000))
def test_beliefs_keep_the_likeliest_and_the_given_class(count, rows, seed):
    rng = np.random.default_rng(seed)
    probs, labels = rng.dirichlet(np.full(count, 0.3), rows), rng.integers(0, count, rows)
    made = kept(probs, labels)
    dense = made.dense(slice(None))
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(made.of(labels), probs[np.arange(rows), labels], atol=1e-6)
    np.testing.assert_array_equal(made.classes[:, 0], probs.argmax(axis=1))
    if count <= beliefs.KEPT:
        np.testing.assert_allclose(dense, probs, atol=1e-6)


def test_the_mean_of_beliefs_is_the_mean_and_survives_a_restart():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 30)
    epochs = rng.dirichlet(np.ones(6), (4, 30))
    running = MeanBeliefs(labels, 6)
    for number, probs in enumerate(epochs):
        if number == 2:
            again = MeanBeliefs(labels, 6)
            again.restore({key: value.copy() for key, value in running.state().items()})
            running = again
        for part in np.array_split(rng.permutation(30), 4):
            running.add(part, probs[part])
    np.testing.assert_allclose(running.mean.dense(slice(None)), epochs.mean(axis=0), atol=1e-6)


def test_the_nearest_are_the_nearest_others():
    features = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    found = nearest_rows(features)
    for i in range(50):
        distances = np.linalg.norm(features - features[i], axis=1)
        distances[i] = np.inf
        assert set(found[i]) == set(np.argsort(distances)[:20])


def test_a_row_is_not_its_own_neighbour_among_many_copies():
    found = nearest_rows(np.zeros((100, 2), dtype=np.float32))
    assert found.shape == (100, 20)
    assert (found != np.arange(100)[:, None]).all()
    assert nearest_rows(np.zeros((3, 2), dtype=np.float32)).shape == (3, 2)


def test_votes_of_labels_and_of_beliefs_that_are_sure_agree():
    labels = np.array([0, 1, 1, 2, 0])
    around = np.array([[1, 2, 3], [0, 3, 4]])
    sure = kept(np.eye(3)[labels], labels)
    np.testing.assert_allclose(votes(around, labels, np.ones(5), 3), second_votes(around, sure))


def test_rows_of_the_same_bytes_have_the_same_number():
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.5]])
    numbers = duplicate_groups([rows[:1], rows[1:]])
    assert numbers[0] == numbers[2]
    assert len(set(numbers)) == 3
