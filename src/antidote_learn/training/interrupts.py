"""Ctrl-C ends a run after its current step; a second one ends it at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupted(Exception):
    """The user stopped the run, and its checkpoint is whole."""


_asked = threading.Event()


def interrupted() -> bool:
    """Whether the user asked to stop."""
    return _asked.is_set()


@contextlib.contextmanager
def gently() -> Iterator[None]:
    """Inside, Ctrl-C and a terminate signal only ask; the second time they act as ever."""
    _asked.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        _asked.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
