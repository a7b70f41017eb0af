"""`antidote reproduce` rebuilds the paper's tables and figures; `antidote report` shows what was rebuilt on a page."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antidote_learn.cli import options as given
from antidote_learn.cli.compare_command import ENGINES, print_wide
from antidote_learn.cli.escaping import say
from antidote_learn.cli.failures import failures
from antidote_learn.presets.paper_tables import SCALES, PaperTable, read_paper_table, table_names

if TYPE_CHECKING:
    from antidote_learn.bench.layout import Cell
    from antidote_learn.bench.reproduction import Rebuilt

FORMS = ("table", "markdown", "csv", "latex", "json")


def reproduce(
    name: Annotated[str, typer.Argument(help="A table or figure, such as table1 or figure2, or all.")],
    scale: Annotated[
        str, typer.Option(help="smoke (minutes, no files), cpu (hours) or paper (the paper's own protocol).")
    ] = "smoke",
    out: Annotated[Path | None, typer.Option(help="The folder (default: a name under reproductions).")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time (default: one for each core).")] = None,
    engine: Annotated[str, typer.Option(help="Engine: local, or ray for a Ray cluster.")] = "local",
    output: Annotated[
        str, typer.Option("--format", help="Form of the table: table, markdown, csv, latex or json.")
    ] = "table",
    devices: given.Devices = 1,
    data_root: given.DataRoot = None,
    download: given.Download = False,
    quiet: given.Quiet = False,
) -> None:
    """Rebuild a table or figure of the paper; the same command continues one that was stopped."""
    with failures(again="go on with the same command"):
        choices = ((scale, SCALES, "--scale"), (engine, ENGINES, "--engine"), (output, FORMS, "--format"))
        for value, accepted, what in choices:
            if value not in accepted:
                raise ValueError(f"{what} must be one of {', '.join(accepted)}; got {value!r}")
        tables = [read_paper_table(one) for one in (table_names() if name == "all" else [name])]
        if data_root is not None:
            os.environ["ANTIDOTE_DATA"] = str(data_root)  # the workers look there, too
        more: dict[str, Any] = ({"devices": devices} if devices > 1 else {}) | ({"download": True} if download else {})
        folder = out or Path("reproductions") / scale
        rebuilt = _rebuild(tables, scale, folder, engine, jobs, more=more, quiet=quiet)
        for one in rebuilt:
            _print_rebuilt(one, output)
        say(f"folder: {folder}", err=True)
    failed = sum("Error" in entry.reason or "Failed" in entry.reason for one in rebuilt for entry in one.entries)
    if failed:
        say(f"antidote: {failed} figures are missing, as their runs or tests failed; the tables say why", err=True)
        raise typer.Exit(1)


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a reproduction.")],
    out: Annotated[Path | None, typer.Option(help="The page (default: report.html in the folder).")] = None,
) -> None:
    """Write a page with all tables and figures of a reproduction, which needs no other file."""
    with failures():
        from antidote_learn.bench.report import write_report

        say(f"page: {write_report(folder, out)}", err=True)


def _rebuild(
    tables: Sequence[PaperTable],
    scale: str,
    folder: Path,
    engine: str,
    jobs: int | None,
    *,
    more: dict[str, Any],
    quiet: bool,
) -> "list[Rebuilt]":
    """Rebuilds tables one after the other, and writes each when it is done, or as far as it is when it is stopped."""
    from antidote_learn.bench.cluster import ray_engine
    from antidote_learn.bench.grid import default_jobs, local_engine
    from antidote_learn.bench.report import write_rebuilt
    from antidote_learn.bench.reproduction import known_table, rebuild_table, with_options
    from antidote_learn.cli.live import GridLines
    from antidote_learn.training.interrupts import Interrupted

    wanted = [with_options(table, scale, more) for table in tables]
    count = jobs or default_jobs()
    running = ray_engine(jobs) if engine == "ray" else local_engine(count)
    if not quiet and scale != "smoke":
        _say_forecast(wanted, scale, folder, count)
    rebuilt = []
    for table in wanted:
        if not quiet:
            say(f"{table.name}: {table.title}", err=True)
        try:
            one = rebuild_table(table, scale, folder, running, lambda cells: GridLines(cells, told=not quiet))
        except (Interrupted, KeyboardInterrupt):
            write_rebuilt(folder, known_table(table, scale, folder))
            raise Interrupted from None
        for path in write_rebuilt(folder, one):
            if not quiet:
                say(f"written: {path}", err=True)
        rebuilt.append(one)
    return rebuilt


def _say_forecast(tables: Sequence[PaperTable], scale: str, folder: Path, jobs: int) -> None:
    """Says how many runs are missing, and about how long they take."""
    from antidote_learn.bench.forecast import forecast_seconds
    from antidote_learn.bench.reproduction import missing_cells

    cells: list[Cell] = [cell for table in tables for cell in missing_cells(table, scale, folder)]
    missing = list({cell.name: cell for cell in cells}.values())
    if not missing:
        return
    seconds, lacking = forecast_seconds(missing, jobs)
    about = f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.0f} minutes"
    say(f"{len(missing)} runs are missing, about {about} with {jobs} at a time", err=True)
    for reason in lacking:
        say(f"note: some of them cannot run: {reason}", err=True)


def _print_rebuilt(rebuilt: "Rebuilt", output: str) -> None:
    from antidote_learn.bench.rebuilt_texts import TEXTS, rebuilt_json

    if output == "json":
        typer.echo(rebuilt_json(rebuilt), nl=False)
    elif output in TEXTS:
        typer.echo(TEXTS[output][1](rebuilt), nl=False)
    else:
        from antidote_learn.cli.live import rebuilt_tables

        for title, table in rebuilt_tables(rebuilt).items():
            say(title)
            print_wide(table)
            say("")
