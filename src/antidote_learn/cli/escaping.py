"""Text for a terminal: what labels, names and messages hold is shown, and never obeyed."""

import sys
import unicodedata

import typer

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # kinds of characters that steer, or cannot be seen


def escape_text(text: object) -> str:
    """One line in which control characters, ends of lines and marks without width are written as in Python."""
    line = str(text)
    return line if line.isascii() and line.isprintable() else "".join(map(_escape_hidden, line))


def say(text: object, *, err: bool = False) -> None:
    """Prints a line, on stderr if wanted."""
    typer.echo(escape_text(text), err=err)


def print_data(text: str) -> None:
    """Prints lines for other programs as they are, and for a terminal escaped."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False, color=True)  # without the colour, it would leave out what looks like one
        return
    for line in text.splitlines():
        say(line)


def _escape_hidden(char: str) -> str:
    return repr(char)[1:-1] if unicodedata.category(char) in HIDDEN else char
