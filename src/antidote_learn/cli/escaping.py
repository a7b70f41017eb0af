"""Text for a terminal, in which control characters of labels, names and messages are shown and never obeyed."""

import sys
import unicodedata

import typer

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # categories of characters that steer or are invisible


def escape_text(text: object) -> str:
    """Returns one line, with control characters, ends of lines and marks without width written as in Python."""
    line = str(text)
    return line if line.isascii() and line.isprintable() else "".join(map(_escape_hidden, line))


def say(text: object, *, err: bool = False) -> None:
    """Prints a line on stdout, or on stderr."""
    typer.echo(escape_text(text), err=err)


def print_data(text: str) -> None:
    """Prints lines as they are for other programs, and escaped for a terminal."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False, color=True)  # without `color`, typer would leave out text that looks like a colour
        return
    for line in text.splitlines():
        say(line)


def _escape_hidden(char: str) -> str:
    return repr(char)[1:-1] if unicodedata.category(char) in HIDDEN else char
