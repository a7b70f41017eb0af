"""A method that needs all that the protocol offers: stages, streams, views, an average, an ensemble, own parameters."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch.nn.functional as F
from sklearn.datasets import load_iris

from antidote_learn import load, train
from antidote_learn.data.batching import cut_plan
from antidote_learn.data.recipes import RECIPES
from antidote_learn.methods import EpochPlan, StepStats, Stream
from tests.methods.stopping import numbers, stop_and_resume
from tests.methods.two_streams import TwoStreams

ROWS = load_iris().data
GIVEN = {"method": TwoStreams, "noise": "symmetric:0.2", "epochs": 5, "model": "mlp:hidden=[8]:norm=none"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train("iris", out=tmp_path_factory.mktemp("whole") / "run", **GIVEN)


def test_stages_follow_one_another_with_their_rates(whole):
    metrics = whole.metrics
    assert metrics["stage"].tolist() == ["warm-up", "warm-up", "mixing", "mixing", "fine-tuning"]
    rate = metrics["lr"].iloc[0]
    assert metrics["lr"].iloc[2] == pytest.approx(rate)  # a cosine of its own begins anew
    assert metrics["lr"].iloc[3] == pytest.approx(rate / 2)
    assert metrics["lr"].iloc[4] < 0.1 * rate + 1e-9
    assert metrics["sure"].iloc[0] == 0.0 < metrics["sure"].iloc[2] < 1.0


def test_what_predicts_is_saved_loaded_and_reported(tmp_path):
    """Three networks: the mean of their logits, with the accuracy that the run reports."""
    order = np.random.default_rng(0).permutation(150)
    X, y = ROWS[order], load_iris().target[order]
    np.savez(tmp_path / "iris.npz", X=X[:100], y=y[:100], X_test=X[100:], y_test=y[100:])
    run = train(tmp_path / "iris.npz", out=tmp_path / "run", **GIVEN)
    again = load(run.folder)
    assert numbers(again, ROWS) == numbers(run, ROWS)
    card = json.loads((run.folder / "model" / "model.json").read_text())
    assert (card["members"], card["combine"]) == (3, "logits")
    assert (again.predict(X)[run.samples["index"]] == run.samples["predicted_label"]).all()
    right = (again.predict(X[100:]).astype(int) == y[100:]).mean()
    assert run.summary["accuracy"]["last"] == pytest.approx(100 * right)


@pytest.mark.parametrize("after", [0, 5, 13, 14, 15, 20, 27, 28, 34])
def test_stopped_in_any_stage_and_continued_it_ends_as_if_it_had_not_been(whole, after, tmp_path, monkeypatch):
    """First, middle and last steps of the warm-up (0 to 13), the mixing (to 27) and the fine-tuning (to 34)."""
    run = stop_and_resume(monkeypatch, "iris", after, tmp_path, **GIVEN)
    assert numbers(run, ROWS) == numbers(whole, ROWS)


def test_two_processes_give_the_numbers_of_one(whole, tmp_path):
    run = train("iris", out=tmp_path, devices=2, **GIVEN)
    np.testing.assert_allclose(run.predict_proba(ROWS), whole.predict_proba(ROWS), atol=1e-4)
    np.testing.assert_allclose(run.metrics["loss"], whole.metrics["loss"], rtol=1e-4)


# --- what a stream gives ---------------------------------------------------------------------------------------------


def batches_of(plan: EpochPlan, data, *, rank: int = 0, processes: int = 1, epoch: int = 0, batch_size: int = 16):
    seeds = list(range(len(plan.streams)))
    return cut_plan(
        plan, np.arange(data), seeds=seeds, epoch=epoch, batch_size=batch_size, rank=rank, processes=processes
    )


def test_an_epoch_is_one_round_through_its_first_stream_and_the_others_go_on_and_on():
    long, short = Stream("long", np.arange(50)), Stream("short", np.arange(50, 60), batch_size=4)
    steps = batches_of(EpochPlan((long, short)), 100)
    assert [step[0].total for step in steps] == [16, 16, 16, 2]
    assert [step[1].total for step in steps] == [4, 4, 4, 4]
    seen = np.concatenate([step[0].index for step in steps])
    assert seen.tolist() != list(range(50)) == sorted(seen)
    seen = np.concatenate([step[1].index for step in batches_of(EpochPlan((long, short), steps=10), 100)])
    rounds = seen.reshape(4, 10)
    assert all(sorted(one) == list(range(50, 60)) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 4  # each in another order


def test_a_stream_smaller_than_a_batch_is_a_batch():
    steps = batches_of(EpochPlan((Stream("long"), Stream("three", np.arange(3)))), 40)
    assert all(sorted(step[1].index) == [0, 1, 2] for step in steps)


def test_an_empty_stream_gives_batches_without_samples_and_the_next_one_says_how_long_the_epoch_is():
    empty, full = Stream("empty", np.arange(0)), Stream("full")
    steps = batches_of(EpochPlan((empty, full)), 40)
    assert [(step[0].total, step[1].total) for step in steps] == [(0, 16), (0, 16), (0, 8)]
    assert batches_of(EpochPlan((empty,)), 40) == []


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_every_batch_of_every_stream(processes):
    plan = EpochPlan((Stream("one", np.arange(38)), Stream("two", np.arange(38, 45), batch_size=5)))
    whole = batches_of(plan, 45)
    parts = [batches_of(plan, 45, rank=rank, processes=processes) for rank in range(processes)]
    for step, shares in zip(whole, zip(*parts, strict=True), strict=True):
        for number, expected in enumerate(step):
            mine = [share[number] for share in shares]
            assert np.concatenate([part.index for part in mine]).tolist() == expected.index.tolist()
            assert [part.start for part in mine] == np.cumsum([0, *(len(part.index) for part in mine[:-1])]).tolist()


def test_targets_go_with_their_samples():
    index = np.array([7, 3, 9, 1])
    steps = batches_of(EpochPlan((Stream("some", index, batch_size=2),)), 10)
    for (share,) in steps:
        assert index[share.places].tolist() == share.index.tolist()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Stream(views=()), "views of a stream"),
        (lambda: Stream(views=("odd",)), "views of a stream are some of plain, weak"),
        (lambda: Stream(index=np.arange(3), targets=np.zeros(2)), "targets need an index of as many samples"),
        (lambda: EpochPlan(()), "streams with different names"),
        (lambda: EpochPlan((Stream(), Stream())), "streams with different names"),
    ],
)
def test_what_cannot_be_visited_is_said(build, message):
    with pytest.raises(ValueError, match=message):
        build()


HEARD = []


@dataclass
class Listening:
    """Keeps the views of its batches."""

    def build(self, ctx):
        self.net = ctx.network()
        self.optimizer = ctx.optimizer(self.net)

    def begin_epoch(self, epoch, ctx):
        return EpochPlan((Stream("all", views=("weak", "weak", "plain")),))

    def step(self, batch, ctx):
        HEARD.append((batch.index.numpy(), [view.numpy() for view in batch.views]))
        loss = ctx.mean(F.cross_entropy(self.net(batch.inputs), batch.labels, reduction="none"), batch)
        ctx.update(loss, self.optimizer)
        return StepStats(loss.detach(), {})


def test_views_are_augmented_each_on_its_own_or_not_at_all(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=80)
    X = (rng.integers(0, 100, size=(80, 3, 12, 12)) + 100 * y[:, None, None, None]).astype(np.uint8)
    HEARD.clear()
    run = train((X, y), method=Listening, epochs=2, model="mlp:hidden=[4]", protocol="cifarn-ce", out=tmp_path)
    recipe, source = RECIPES["cifar10n"], run.samples["index"].to_numpy()
    mean, std = (np.array(part).reshape(3, 1, 1) for part in (recipe.mean, recipe.std))
    for index, (one, two, plain) in HEARD:
        assert not np.allclose(one, two)  # drawn anew for each view
        np.testing.assert_allclose(plain, (X[source[index]] / 255.0 - mean) / std, atol=1e-5)
    visited = np.concatenate([index for index, _ in HEARD])
    assert (np.bincount(visited) == 2).all()  # twice in two epochs
