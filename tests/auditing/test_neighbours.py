"""The nearest rows of many: by a graph, against distances to every row."""

import numpy as np
import pytest
import torch

from antidote_learn.auditing import neighbours
from antidote_learn.auditing.neighbours import NEAREST, nearest_rows

RECALL = 0.97  # of 3000 rows; that of more is in docs/speed.md


@pytest.fixture
def few(monkeypatch):
    """Few rows are many."""
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 100)


def drawn(kind, rows=3000):
    rng = np.random.default_rng(0)
    if kind == "clusters":  # as many as rows of each, one cluster after the other
        centres = np.repeat(rng.normal(size=(rows // 50, 10)), 50, axis=0)
        return (centres + 1e-3 * rng.normal(size=centres.shape)).astype(np.float32)
    if kind == "copies":  # 3^5 different rows
        return rng.integers(0, 3, (rows, 5)).astype(np.float32)
    if kind == "half copies":
        found = rng.normal(size=(rows, 4))
        found[::2] = found[0]
        return found.astype(np.float32)
    if kind == "constant":
        return np.full((rows, 3), 7.0, dtype=np.float32)
    if kind == "embeddings":
        return (rng.normal(size=(rows, 12)) @ rng.normal(size=(12, 384))).astype(np.float32)
    return rng.normal(size=(rows, 10)).astype(np.float32)


KINDS = ["gaussian", "clusters", "copies", "half copies", "constant", "embeddings"]


def share_found(features, around):
    """Of the 20 nearest, by distance: among identical rows any is as good as another."""
    found = []
    for i in range(0, len(features), 29):
        apart = np.linalg.norm(features.astype(np.float64) - features[i], axis=1)
        apart[i] = np.inf
        limit = np.partition(apart, NEAREST - 1)[NEAREST - 1]
        found.append(np.mean(apart[around[i]] <= limit * (1 + 1e-5) + 1e-6))
    return float(np.mean(found))


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_that_are_nearest_are_found(few, kind):
    features = drawn(kind)
    around = nearest_rows(features)
    assert around.shape == (3000, NEAREST)
    assert (around != np.arange(3000)[:, None]).all()
    assert all(len(set(row)) == NEAREST for row in around.tolist())
    assert share_found(features, around) >= RECALL


def test_identical_rows_come_first_as_they_do_in_an_exact_search(few, monkeypatch):
    features = drawn("gaussian")
    features[[5, 17, 900]] = features[2999]
    features[100:140] = features[50]
    around = nearest_rows(features)
    assert set(around[17][:3]) == {5, 900, 2999}
    assert set(around[50]) <= set(range(100, 140))
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 3000)
    exact = nearest_rows(features)
    for i in (5, 17, 900, 2999, *range(0, 50, 7)):
        assert set(around[i]) == set(exact[i])


def test_the_same_rows_have_the_same_neighbours_whatever_the_number_of_threads(few):
    features, threads = drawn("gaussian"), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        first = nearest_rows(features)
        torch.set_num_threads(4)
        second = nearest_rows(features.copy())
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(first, second)


def test_up_to_50_000_rows_the_search_is_exact(monkeypatch):
    assert neighbours.EXACT_ROWS == 50_000
    for limit, is_exact in ((3000, True), (2999, False)):
        monkeypatch.setattr(neighbours, "EXACT_ROWS", limit)
        monkeypatch.setattr(neighbours, "LINKS", 4)  # a bad graph, which misses some
        monkeypatch.setattr(neighbours, "CHOICE", 8)
        monkeypatch.setattr(neighbours, "DEPTH", 21)
        assert (share_found(drawn("gaussian"), nearest_rows(drawn("gaussian"))) == 1.0) == is_exact


def test_a_graph_in_pieces_is_no_failure(few, monkeypatch):
    """Where it leads to fewer rows than are wanted, these are looked for among all."""
    monkeypatch.setattr(neighbours, "LINKS", 2)
    monkeypatch.setattr(neighbours, "CHOICE", 2)
    features = drawn("clusters")
    around = nearest_rows(features)
    assert (around != np.arange(3000)[:, None]).all()
    assert all(len(set(row)) == NEAREST for row in around.tolist())


def test_both_passes_are_told(few):
    told = []
    nearest_rows(drawn("gaussian"), lambda done, total: told.append((done, total)))
    assert told == [(2048, 3000), (3000, 3000)] * 2
