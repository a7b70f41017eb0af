"""Ctrl-C ends a run after its current step; a second Ctrl-C ends the run at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from multiprocessing.sharedctypes import RawValue
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """The user stopped the run, whose checkpoint is whole."""


_asked = threading.Event()
_before: dict[int, Any] = {}  # the signal handlers outside of `gently`
_flag: Any = None  # the user's wish, shared between processes; it has no lock, as a signal handler cannot wait


def is_interrupted() -> bool:
    """Whether the user asked to stop."""
    return _asked.is_set() or (_flag is not None and bool(_flag.value))


def make_flag() -> Any:
    """Makes a flag that shows the user's wish to the processes that are started from here, which `hear` it."""
    flag = RawValue("b", int(_asked.is_set()))
    hear(flag)
    return flag


def hear(flag: Any) -> None:
    """Makes this process heed the flag from now on; None for no flag."""
    global _flag
    _flag = flag


@contextlib.contextmanager
def gently() -> Iterator[None]:
    """Opens a block in which a first Ctrl-C or terminate signal only asks to stop; a second one acts as usual."""
    if _before:  # another such block is open
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
        hear(None)  # the next run has its own flag


def _ask(number: int, frame: FrameType | None) -> None:
    _asked.set()
    if _flag is not None:
        _flag.value = 1
    signal.signal(number, _before[number])
