"""The command line: parse, call, print.

Data goes to stdout, words to stderr. Exit codes: 0 done, 1 the run failed, 2 bad usage (one line on stderr).
Nothing heavy is imported before a command needs it: `antidote --help` imports no torch.
"""

import json
import math
from collections.abc import Callable
from typing import Annotated

import typer

from antidote_learn._version import __version__

Value = str | float | bool | None
Row = dict[str, Value]

app = typer.Typer(
    name="antidote",
    help="Learning from labels that cannot be trusted.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> int:
    """Runs the program and returns its exit code."""
    try:
        return app(prog_name="antidote", standalone_mode=False) or 0
    except typer.TyperException as error:  # bad usage, found by typer or by a command below
        typer.echo(f"antidote: {error.format_message()}", err=True)
        return error.exit_code
    except typer.Abort:
        return 1


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antidote-learn {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_names(
    kind: Annotated[str, typer.Argument(help="What to list.", metavar="{divergences}")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what can be chosen by name."""
    if kind not in _LISTS:
        raise typer.BadParameter(f"cannot list {kind!r}; choose from: {', '.join(_LISTS)}")
    rows = _LISTS[kind]()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print_table(rows)


def _divergences() -> list[Row]:
    from antidote_learn.core.divergences import DIVERGENCES, alpha

    named = [*DIVERGENCES.items(), ("alpha:A", alpha(1.5))]  # any A > 1 behaves like 1.5 in what is listed
    return [
        {
            "name": name,
            "f": _FORMULAS[name],
            "max_delta": None if math.isinf(record.max_delta) else record.max_delta,
            "forgets_exactly": math.isfinite(record.vanishing_score),
        }
        for name, record in named
    ]


_FORMULAS = {
    "kl": "w log w",
    "chi2": "(w^2 - 1) / 2",
    "js": "(w log w - (w + 1) log((w + 1) / 2)) / 2",
    "hellinger": "(sqrt(w) - 1)^2 / 2",
    "alpha:A": "(w^A - 1) / (A (A - 1)), A > 1",
}


_LISTS: dict[str, Callable[[], list[Row]]] = {"divergences": _divergences}


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*(column.replace("_", " ") for column in rows[0]), box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console().print(table)


def _cell(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value or "unbounded"
