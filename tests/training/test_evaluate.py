"""Top-k against scikit-learn, and the outputs of a network read a batch at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, top_k_accuracy_score
from torch import nn

from antidote_learn.data.encoding import DenseRows
from antidote_learn.data.loaders import Preparation
from antidote_learn.training import evaluate
from antidote_learn.training.engine import Engine
from antidote_learn.training.evaluate import hits, outputs

NAN, INF = float("nan"), float("inf")


# --- top-k -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), k=st.integers(3, 12), data=st.data())
def test_without_ties_it_is_scikit_learns(seed, n, k, data):
    top = data.draw(st.integers(1, k - 1))
    rng = np.random.default_rng(seed)
    logits, labels = rng.permuted(np.arange(k, dtype=float)[None].repeat(n, axis=0), axis=1), rng.integers(k, size=n)
    expected = top_k_accuracy_score(labels, logits, k=top, labels=np.arange(k))
    assert hits(torch.from_numpy(logits), torch.from_numpy(labels), top=top) == pytest.approx(100 * expected)
    if top == 1:
        assert accuracy_score(labels, logits.argmax(axis=1)) == pytest.approx(expected)


def test_two_classes():
    logits, labels = torch.tensor([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0]]), torch.tensor([1, 1, 0])
    assert hits(logits, labels, top=1) == pytest.approx(100 / 3)
    assert hits(logits, labels, top=2) == 100.0


def test_top_of_all_classes_is_always_a_hit_and_more_are_never_fewer():
    rng = np.random.default_rng(0)
    logits, labels = torch.from_numpy(rng.normal(size=(50, 7))), torch.from_numpy(rng.integers(7, size=50))
    figures = [hits(logits, labels, top=top) for top in range(1, 8)]
    assert figures == sorted(figures)
    assert figures[-1] == 100.0


@pytest.mark.parametrize("label", range(4))
def test_ties_count_against_a_row_whatever_the_order_of_the_classes(label):
    constant, labels = torch.zeros(5, 4), torch.full((5,), label)
    assert [hits(constant, labels, top=top) for top in (1, 2, 3, 4)] == [0.0, 0.0, 0.0, 100.0]
    pair = torch.zeros(1, 4)
    pair[0, [label, (label + 1) % 4]] = 1.0
    assert [hits(pair, labels[:1], top=top) for top in (1, 2)] == [0.0, 100.0]


def test_a_tie_between_other_classes_does_not_matter():
    assert hits(torch.tensor([[3.0, 1.0, 1.0]]), torch.tensor([0]), top=1) == 100.0


@pytest.mark.parametrize("row", [[NAN, NAN, NAN], [NAN, 1.0, 2.0], [1.0, NAN, 0.0], [1.0, NAN, NAN]])
def test_nan_is_never_a_hit(row):
    assert hits(torch.tensor([row]), torch.tensor([0]), top=1) == 0.0


def test_infinite_logits_are_ordered():
    assert hits(torch.tensor([[INF, 1.0], [-INF, 1.0]]), torch.tensor([0, 0]), top=1) == 50.0


def test_the_share_of_many_rows_is_exact():
    logits = torch.eye(2).repeat(100_000, 1)
    assert hits(logits, torch.zeros(200_000, dtype=torch.int64), top=1) == 50.0
    assert hits(logits[:0], torch.zeros(0, dtype=torch.int64), top=1) == 0.0


# --- outputs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


ROWS = np.random.default_rng(0).normal(size=(1300, 4)).astype(np.float32)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2.0 * x


@pytest.mark.parametrize("count", [1, 511, 512, 513, 1024, 1300])
def test_all_rows_come_back_in_order(engine, count):
    found = outputs(doubled, DenseRows(ROWS[:count]), Preparation(), engine)
    assert torch.equal(found, torch.from_numpy(2.0 * ROWS[:count]))


def test_rows_at_an_index_come_back_in_its_order(engine):
    index = np.random.default_rng(1).permutation(1300)[:700]
    found = outputs(doubled, DenseRows(ROWS), Preparation(), engine, index=index)
    assert torch.equal(found, torch.from_numpy(2.0 * ROWS[index]))


def test_no_rows_give_no_outputs(engine):
    assert outputs(nn.Linear(4, 3), DenseRows(ROWS[:0]), Preparation(), engine).shape == (0, 3)


def test_no_gradient_is_kept_and_no_batch_is_too_large(engine):
    sizes = []

    def network(x):
        sizes.append(len(x))
        return layer(x)

    layer = nn.Linear(4, 3)
    found = outputs(network, DenseRows(ROWS), Preparation(), engine)
    assert not found.requires_grad
    assert sizes == [512, 512, 276]
    assert max(sizes) == evaluate.BATCH
    torch.testing.assert_close(found, layer(torch.from_numpy(ROWS)).detach())


def test_images_are_normalised_and_not_augmented(engine):
    images = np.random.default_rng(0).integers(0, 256, (20, 1, 4, 4), dtype=np.uint8)
    found = outputs(lambda x: x, DenseRows(images), Preparation((0.5,), (0.25,)), engine)
    np.testing.assert_allclose(found.numpy(), (images / 255 - 0.5) / 0.25, atol=1e-6)
