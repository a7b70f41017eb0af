"""Text for a terminal: what labels, names and messages hold is shown, and never obeyed."""

import unicodedata

import typer

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # kinds of characters that steer, or cannot be seen
LONGEST = 2000  # characters of a line


def escape_text(text: object) -> str:
    """One line in which control characters, ends of lines and marks without width are written as in Python."""
    line = str(text)
    if not line.isascii() or not line.isprintable():
        line = "".join(_escape_hidden(char) for char in line)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def say(text: object, *, err: bool = False) -> None:
    """Prints a line, on stderr if wanted."""
    typer.echo(escape_text(text), err=err)


def _escape_hidden(char: str) -> str:
    return repr(char)[1:-1] if unicodedata.category(char) in HIDDEN else char
