"""`transition=auto`: the matrix that two networks estimate, each from the half that it did not train on."""

import json

import numpy as np
import pytest

from antidote_learn import load, total_variation_error, train
from antidote_learn.data.noise import inject
from tests.methods.stopping import numbers, stop_and_resume

PAIR = {"noise": "pair:0.4", "epochs": 3, "seed": 1}


def test_it_is_much_nearer_to_the_truth_than_an_estimate_from_the_training_itself(tmp_path):
    truth = inject(np.arange(10), "pair:0.4", num_classes=10).transition
    runs = {
        source: train("digits", method=f"forward:transition={source}", out=tmp_path / source, **{**PAIR, "epochs": 30})
        for source in ("auto", "dual-t")
    }
    errors = {source: total_variation_error(run.transition.transition, truth) for source, run in runs.items()}
    assert errors["auto"] < 0.2 < errors["dual-t"] + 0.05
    assert runs["auto"].summary["accuracy"]["last"] > runs["dual-t"].summary["accuracy"]["last"] + 10.0


def test_the_run_says_where_the_matrix_comes_from_and_what_carries_it(tmp_path):
    run = load(train("digits", method="rw", out=tmp_path / "run", **PAIR).folder)
    found = run.transition
    assert found.source == "held-out predictions"
    assert (found.samples >= 10).all()
    assert np.isfinite(found.standard_errors).all()
    assert run.summary["noise_rate"]["rate"] == pytest.approx(found.noise_rate, abs=0.1)


def test_one_estimate_serves_the_matrix_and_the_rate(tmp_path):
    run = train("digits", method="forward:objective=antidote", out=tmp_path / "run", **PAIR)
    kept = json.loads((tmp_path / "run" / "noise_rate.json").read_text())
    np.testing.assert_allclose(kept["transition"]["matrix"], run.transition.transition, atol=1e-6)
    assert kept["rate"] == run.summary["noise_rate"]["rate"]


@pytest.mark.parametrize("after", [3, 20, 50])
def test_a_run_that_is_stopped_in_the_estimate_or_later_ends_alike(after, tmp_path, monkeypatch):
    whole = train("iris", method="rent", out=tmp_path / "whole", **PAIR)
    again = stop_and_resume(monkeypatch, "iris", after, tmp_path / "stopped", method="rent", **PAIR)
    rows = np.ones((2, 4))
    assert numbers(again, rows) == numbers(whole, rows)
    np.testing.assert_array_equal(again.transition.transition, whole.transition.transition)
