"""Progress outside of trainings, which stops after Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable

from antidote_learn.training.interrupts import Interrupted, is_interrupted
from antidote_learn.training.progress import Reporter


def progress_teller(reporter: Reporter, name: str) -> Callable[[int, int], None]:
    """Returns a function that reports progress outside of trainings and stops the work after Ctrl-C."""
    reporter.stage(name, epochs=1, done=0)

    def tell(done: int, total: int) -> None:
        reporter.step(epoch=0, samples=done, total=total)
        if is_interrupted():
            raise Interrupted

    return tell
