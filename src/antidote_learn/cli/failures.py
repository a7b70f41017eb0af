"""Failures of a command end it with one line on stderr and the right exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from antidote_learn.cli.escaping import say
from antidote_learn.cli.flags import with_flags

LONGEST = 2000  # the most characters of a message, which may quote a cell as long as a book


@contextmanager
def failures(again: str = "continue with the same command and --resume") -> Iterator[None]:
    """Turns errors into one line on stderr and an exit code; ``again`` says how to go on after Ctrl-C."""
    try:
        yield
    except (ValueError, FileNotFoundError) as error:
        _leave(2, error)
    except OSError as error:
        _leave(1, error)
    except KeyboardInterrupt:
        _leave(130, f"stopped at once; {again}")
    except Exception as error:
        _leave_by_name(error, again)


def _leave_by_name(error: Exception, again: str) -> None:
    """Handles the errors of training, which are imported only here, where they may have been raised."""
    from antidote_learn.training.engine import RunFailed
    from antidote_learn.training.interrupts import Interrupted

    if isinstance(error, Interrupted):
        _leave(130, f"stopped after the current step; {again}")
    if isinstance(error, RunFailed):
        _leave(1, error)
    raise error


def _leave(code: int, error: object) -> None:
    line = " ".join(with_flags(error).split())
    say(f"antidote: {line if len(line) <= LONGEST else line[: LONGEST - 3] + '...'}", err=True)
    raise typer.Exit(code)
