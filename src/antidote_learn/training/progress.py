"""What a run tells while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Reporter(Protocol):
    """Who listens. It is handed to the process that reports, so it must be picklable."""

    def note(self, text: str) -> None:
        """A sentence for the user."""
        ...

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        """A stage begins, of which some epochs may be done."""
        ...

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        """So many of an epoch's samples were seen."""
        ...

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch ended."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class Silent:
    """Nobody listens."""

    def note(self, text: str) -> None:
        """Nothing."""

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        """Nothing."""

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        """Nothing."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
