"""The contract of methods, over every entry of the registry and two of its combinations; one loss stands for all."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from antidote_learn import load, relax, train
from antidote_learn.core.budgets import delta_from_rate
from antidote_learn.registry import METHODS, build_method, parse_method
from tests.methods.stopping import numbers, stop_and_resume

COMPOSED = ("forward:objective=antidote", "mixup:objective=antidote")
WALKED = ("ce", *METHODS, *COMPOSED)
STAGED = {"nlnl-stages": 13, "t-revision": 6}  # methods of more than two stages, with epochs for all of them
ROWS = load_iris().data
RATE = {"noise_rate": 0.2}
QUICK = {"noise": "symmetric:0.2", "epochs": 3, "model": "mlp:hidden=[8]"}


def options(name: str) -> dict:
    return {**QUICK, **(RATE if parse_method(name).forgets else {})}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    place = tmp_path_factory.mktemp("whole")
    return {name: train("iris", method=name, out=place / name, **options(name)) for name in WALKED}


@pytest.mark.parametrize("name", WALKED)
def test_what_is_loaded_predicts_what_was_reported(uninterrupted, name):
    run = uninterrupted[name]
    again = load(run.folder)
    assert numbers(again, ROWS) == numbers(run, ROWS)
    assert 0 < run.summary["accuracy"]["last"] <= 100
    assert run.samples["weight"].mean() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("after", [1, 12, 20])
@pytest.mark.parametrize("name", WALKED)
def test_stopped_and_continued_it_ends_as_if_it_had_not_been(uninterrupted, name, after, tmp_path, monkeypatch):
    run = stop_and_resume(monkeypatch, "iris", after, tmp_path, method=name, **options(name))
    assert numbers(run, ROWS) == numbers(uninterrupted[name], ROWS)


@pytest.mark.parametrize("name", STAGED)
def test_stopped_in_every_stage_it_ends_as_if_it_had_not_been(name, tmp_path, monkeypatch):
    given = {**options(name), "epochs": STAGED[name]}
    whole = train("iris", method=name, out=tmp_path / "whole", **given)
    steps = -(-len(whole.samples) // whole.spec["batch_size"])
    starts = whole.metrics["stage"].drop_duplicates()
    assert len(starts) == len(build_method(parse_method(name)).stages(STAGED[name]))
    places = [epoch * steps + inside for epoch in starts.index for inside in (0, 2)]  # as it begins, and inside it
    run = stop_and_resume(monkeypatch, "iris", np.diff(places, prepend=0), tmp_path / "run", method=name, **given)
    assert numbers(run, ROWS) == numbers(whole, ROWS)


@pytest.mark.parametrize("name", [name for name in WALKED if name not in ("antidote", "antidote-dataset")])
def test_two_processes_give_the_numbers_of_one(uninterrupted, name, tmp_path):
    """Without batch norm, whose statistics are those of a part of the batch."""
    given = {**options(name), "model": "mlp:hidden=[8]:norm=none"}
    one, two = (train("iris", method=name, out=tmp_path / str(n), devices=n, **given) for n in (1, 2))
    np.testing.assert_allclose(two.predict_proba(ROWS), one.predict_proba(ROWS), atol=1e-4)
    np.testing.assert_allclose(two.metrics["loss"], one.metrics["loss"], rtol=1e-4)


def test_the_learned_budget_learns_and_its_weights_are_those_of_its_budget(uninterrupted):
    run = uninterrupted["antidote-learned-budget"]
    rates = run.metrics["r_max"].to_numpy()
    assert (np.diff(rates) != 0).all()
    assert abs(rates[0] - 0.2) < 0.05


def test_dro_weighs_the_largest_losses_most(uninterrupted):
    samples = uninterrupted["antidote-dro"].samples
    assert np.corrcoef(samples["loss"], samples["weight"])[0, 1] > 0.3
    losses = torch.tensor(samples["loss"].to_numpy())
    expected = relax(-losses, delta_from_rate(0.2), kappa=0.05).weights
    np.testing.assert_allclose(samples["weight"], expected, rtol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_a_bad_parameter_is_answered_in_one_line(name):
    with pytest.raises(ValueError, match=rf"unknown parameter 'nonsense=1'; '{name}' accepts: ") as caught:
        parse_method(f"{name}:nonsense=1")
    assert "\n" not in str(caught.value)
