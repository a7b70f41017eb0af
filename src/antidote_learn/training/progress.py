"""Reporters of a run's progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Reporter(Protocol):
    """A reporter of the progress; it is sent to the process that reports, and must be picklable."""

    def note(self, text: str) -> None:
        """Reports a sentence for the user."""
        ...

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        """Reports the beginning of a stage, with the number of epochs that are done already."""
        ...

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        """Reports the number of an epoch's samples that were seen."""
        ...

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Reports the end of an epoch."""
        ...

    def close(self) -> None:
        """Ends the report."""
        ...


class Silent:
    """A reporter that reports nothing."""

    def note(self, text: str) -> None:
        """Does nothing."""

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        """Does nothing."""

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        """Does nothing."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
