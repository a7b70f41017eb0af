"""Flags in messages: the library names arguments of Python, the command line shows them as flags."""

import re

# An argument is a whole word in backticks; paths and names of the user's never stand so.
ARGUMENT = re.compile(r"(?<![^\s(])`([a-z][a-z_]*)(?:=([^`]*))?`(?![^\s,;:.)])")


def with_flags(text: object) -> str:
    """Returns the message with every argument as a flag.

    Example:
        >>> with_flags("continue it with `resume=True`, or choose another `out`")
        'continue it with --resume, or choose another --out'
        >>> with_flags("`engine=ray` needs Ray")
        '--engine ray needs Ray'
    """
    return ARGUMENT.sub(_flag, str(text))


def _flag(found: re.Match[str]) -> str:
    name, value = found.groups()
    flag = f"--{name.replace('_', '-')}"
    return flag if value in (None, "True") else f"{flag} {value}"
