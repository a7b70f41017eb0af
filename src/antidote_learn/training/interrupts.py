"""Ctrl-C ends a run after its current step; a second one ends it at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from multiprocessing.sharedctypes import RawValue
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """The user stopped the run, and its checkpoint is whole."""


_asked = threading.Event()
_before: dict[int, Any] = {}  # handlers outside of `gently`
_flag: Any = None  # the same question between processes: without a lock, which a signal handler could not wait for


def is_interrupted() -> bool:
    """Whether the user asked to stop."""
    return _asked.is_set() or (_flag is not None and bool(_flag.value))


def make_flag() -> Any:
    """A flag that goes up here when the user asks, for processes that are started from here to `hear`."""
    flag = RawValue("b", int(_asked.is_set()))
    hear(flag)
    return flag


def hear(flag: Any) -> None:
    """From now on the flag counts in this process, too."""
    global _flag
    _flag = flag


@contextlib.contextmanager
def gently() -> Iterator[None]:
    """Inside, Ctrl-C and a terminate signal only ask; the second time they act as ever."""
    if _before:  # within another such block
        yield
        return
    _asked.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _before.update({number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)})
    for number in _before:
        signal.signal(number, _ask)
    try:
        yield
    finally:
        for number, handler in _before.items():
            signal.signal(number, handler)
        _before.clear()
        hear(None)  # the next run has its own


def _ask(number: int, frame: FrameType | None) -> None:
    _asked.set()
    if _flag is not None:
        _flag.value = 1
    signal.signal(number, _before[number])
