"""The progress of a run on stderr: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from antidote_learn.cli.escaping import escape_text
from antidote_learn.cli.flags import with_flags
from antidote_learn.training.progress import Reporter, Silent

EVERY = 30.0  # seconds between two lines inside an epoch, so that logs show life and stay short


def reporter_for(*, quiet: bool) -> Reporter:
    """Returns the listener to a run that suits stderr."""
    if quiet:
        return Silent()
    return Bars() if sys.stderr.isatty() else Lines()


def epoch_text(record: Mapping[str, Any]) -> str:
    """Returns the figures of an epoch in words."""
    words = [f"loss {record['loss']:.4f}"]
    if "top1" in record:
        words.append(f"test {record['top1']:.2f} %")
    if "forgotten" in record:
        words.append(f"forgotten {100 * record['forgotten']:.1f} %")
    if "temperature" in record:
        words.append(f"temperature {record['temperature']:.3g}")
    return ", ".join(words)


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Lines:
    """Prints a line for each epoch, and every half minute within long ones."""

    def __init__(self) -> None:
        self._name, self._epochs, self._done, self._start, self._told = "", 0, 0, 0.0, 0.0

    def _say(self, text: str) -> None:
        print(escape_text(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the command line

    def note(self, text: str) -> None:
        """Prints a note."""
        self._say(f"note: {with_flags(text)}")

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        """Notes the stage and its start, without a line."""
        self._name, self._epochs, self._done = name, epochs, done
        self._start = self._told = time.monotonic()
        self._first = done

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        """Prints a line every half minute."""
        now = time.monotonic()
        if now - self._told >= EVERY and samples < total:
            self._told = now
            rate = (samples + (epoch - self._first) * total) / (now - self._start)
            left = ((self._epochs - epoch) * total - samples) / rate
            self._say(
                f"{self._name}: epoch {epoch + 1}/{self._epochs}, {samples}/{total} samples, "
                f"{rate:.0f}/s, {_time(left)} left"
            )

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Prints the line of an epoch."""
        self._told = now = time.monotonic()
        spent = (now - self._start) / (record["epoch"] - self._first)
        left = _time(spent * (self._epochs - record["epoch"]))
        self._say(f"{self._name}: epoch {record['epoch']}/{self._epochs}, {epoch_text(record)}, {left} left")

    def close(self) -> None:
        """Does nothing, as lines leave nothing to clean up."""


class Bars:
    """Shows a bar for the stage and one for its epoch, with rates and time left, above the last epoch's figures."""

    def __init__(self) -> None:
        self._live: Any = None

    def _start(self) -> None:
        """Makes the bars, in the process that reports."""
        if self._live is not None:
            return
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.text import Text

        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}", markup=False),
            TimeRemainingColumn(),
        )
        self._figures = Text()
        self._live = Live(Group(self._bars, self._figures), console=Console(stderr=True))
        self._live.start()

    def note(self, text: str) -> None:
        """Prints a note above the bars."""
        self._start()
        self._live.console.print(escape_text(f"note: {with_flags(text)}"), markup=False, highlight=False, emoji=False)

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        """Starts a new pair of bars."""
        self._start()
        for task in self._bars.task_ids:
            self._bars.remove_task(task)
        self._whole = self._bars.add_task(escape_text(name), total=epochs, completed=done, unit="epochs")
        self._inner = self._bars.add_task("", total=1, unit="samples")
        self._figures.plain = ""
        self._began = time.monotonic()

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        """Moves the inner bar."""
        rate = samples / max(time.monotonic() - self._began, 1e-9)
        self._bars.update(self._inner, completed=samples, total=total, unit=f"samples, {rate:.0f}/s")

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Moves the outer bar."""
        self._bars.update(self._whole, completed=record["epoch"])
        self._figures.plain = epoch_text(record)
        self._began = time.monotonic()

    def close(self) -> None:
        """Leaves the bars as they are."""
        if self._live is not None:
            self._live.stop()
            self._live = None
