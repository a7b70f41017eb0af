"""An audit of many rows, with what is approximate in it, ranks as an exact one does and resumes to the same table."""

import signal

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score

from antidote_learn import audit, inject
from antidote_learn.auditing import neighbours
from antidote_learn.nn import dataset
from antidote_learn.training.interrupts import Interrupted
from antidote_learn.training.progress import Silent

ROWS = 1500


def approximate(monkeypatch):
    """Few rows are many, and a solution lasts for several batches."""
    monkeypatch.setattr(dataset, "EXACT", 0)
    monkeypatch.setattr(dataset, "SOLVES", 4)
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 0)


class Stopper(Silent):
    """Ctrl-C in the third epoch of the training on all rows, while a solution is used again, or in the graph."""

    def __init__(self, stage):
        self.wanted, self.name = stage, ""

    def stage(self, name, *, epochs, done):
        self.name = name

    def step(self, *, epoch, samples, total):
        if self.name == self.wanted and (epoch == 2 or "nearest" in self.name) and samples > 0.3 * total:
            signal.raise_signal(signal.SIGINT)


def table():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 4, ROWS)
    given = inject(true, "symmetric:0.2", seed=0).labels
    return rng.normal(rng.normal(size=(4, 6))[true], 1.0).astype(np.float32), given, given != true


def quality(found):
    return found.table.sort_values("index")["label_quality"].to_numpy()


def test_the_ranking_is_that_of_the_exact_audit(monkeypatch):
    inputs, labels, wrong = table()
    exact = quality(audit(inputs, labels, epochs=5))
    approximate(monkeypatch)
    near = quality(audit(inputs, labels, epochs=5))
    assert not np.array_equal(near, exact)
    assert average_precision_score(wrong, -near) == pytest.approx(average_precision_score(wrong, -exact), abs=0.005)


def test_stopped_and_resumed_it_ends_with_the_same_table(monkeypatch, tmp_path):
    approximate(monkeypatch)
    inputs, labels, _ = table()
    whole = audit(inputs, labels, epochs=4, out=tmp_path / "whole")
    for stage in ("all rows", "nearest rows"):
        with pytest.raises(Interrupted):
            audit(inputs, labels, epochs=4, out=tmp_path / "again", resume=True, reporter=Stopper(stage))
    again = audit(inputs, labels, epochs=4, out=tmp_path / "again", resume=True)
    pd.testing.assert_frame_equal(again.table, whole.table)
