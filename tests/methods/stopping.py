"""Runs that are stopped after some steps, with a checkpoint of every step, and what two runs must have in common."""

from collections.abc import Sequence
from typing import Any

import pytest

from antidote_learn import Run, train
from antidote_learn.training import loop
from antidote_learn.training.interrupts import Interrupted
from antidote_learn.training.progress import Silent


class Stopping(Silent):
    def __init__(self, after: int) -> None:
        self.left = after

    def step(self, **_: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise Interrupted


def numbers(run: Run, rows: Any) -> tuple[Any, ...]:
    metrics = run.metrics.drop(columns=[name for name in run.metrics if "seconds" in name])
    return metrics.to_json(), run.samples.to_csv(), run.predict_proba(rows).tobytes()


def stop_and_resume(monkeypatch: Any, data: Any, after: int | Sequence[int], out: Any, **options: Any) -> Run:
    """A run that is stopped after some steps, again after some more for each further number, and then left to end."""
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "SAVE_SHARE", 1e9)
    for number, steps in enumerate([after] if isinstance(after, int) else after):
        with pytest.raises(Interrupted):
            train(data, out=out, reporter=Stopping(steps), resume=number > 0, **options)
    return train(data, out=out, resume=True, **options)
