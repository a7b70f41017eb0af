"""Messages of the library, which name arguments of Python, in the words of the command line, which has flags."""

import re

# A whole word in backticks, as no path and no quoted name of the user's is one.
ARGUMENT = re.compile(r"(?<![^\s(])`([a-z][a-z_]*)(?:=([^`]*))?`(?![^\s,;:.)])")


def with_flags(text: object) -> str:
    """The message with every argument as its flag.

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
