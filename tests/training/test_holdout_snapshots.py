"""Samples that are held out with their noisy labels, and the losses of all samples after some epochs."""

import numpy as np
import pytest

from antidote_learn import load, train
from tests.commands import antidote
from tests.methods.stopping import stop_and_resume

QUICK = {"method": "ce", "noise": "symmetric:0.4", "model": "mlp:hidden=[8]", "epochs": 4}


def test_the_held_out_share_has_the_labels_that_training_would_see(tmp_path):
    whole = train("digits", out=tmp_path / "whole", **QUICK)
    held = train("digits", out=tmp_path / "held", holdout=0.25, **QUICK)
    given = whole.samples.set_index("index")["given_label"]
    rest = held.samples.set_index("index")["given_label"]
    assert len(rest) == len(given) - round(0.25 * len(given))
    assert (given[rest.index] == rest).all()  # the noise was drawn before the split
    assert held.summary["accuracy"]["against"] == "given"
    assert held.summary["test"] == "held out"
    assert held.summary["accuracy"]["last"] < 75.0  # 40 % of the held-out labels are wrong


@pytest.mark.parametrize("share", ["0", "0.6", "-1", "nan"])
def test_a_share_out_of_range_is_refused_in_one_line(share, tmp_path):
    done = antidote("train", "digits", "--holdout", share, "--out", str(tmp_path / "run"))
    assert done.code == 2
    assert "holdout must be a share above 0 and up to 0.5" in done.err
    assert not (tmp_path / "run").exists()


def test_snapshots_are_the_samples_after_their_epochs(tmp_path):
    run = train("iris", out=tmp_path / "run", snapshots=(2, 4), **QUICK)
    again = load(run.folder)
    assert list(again.snapshots) == [2, 4]
    np.testing.assert_array_equal(again.snapshots[4]["loss"], run.samples["loss"])
    short = train("iris", out=tmp_path / "short", **{**QUICK, "epochs": 2, "schedule": "constant"})
    same = train("iris", out=tmp_path / "same", snapshots="2", **{**QUICK, "schedule": "constant"})
    np.testing.assert_allclose(same.snapshots[2]["loss"], short.samples["loss"])


def test_a_run_that_was_stopped_keeps_all_snapshots(tmp_path, monkeypatch):
    whole = train("iris", out=tmp_path / "whole", snapshots="1,3", **QUICK)
    resumed = stop_and_resume(monkeypatch, "iris", 14, tmp_path / "stopped", snapshots="1,3", **QUICK)
    for epoch, samples in whole.snapshots.items():
        np.testing.assert_array_equal(resumed.snapshots[epoch]["loss"], samples["loss"])


@pytest.mark.parametrize(("given", "said"), [("5", "up to 4"), ("0", "from 1 on"), ("two", "epochs such as")])
def test_other_epochs_are_refused(given, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        train("iris", out=tmp_path / "run", snapshots=given, **QUICK)
    assert not (tmp_path / "run").exists()
