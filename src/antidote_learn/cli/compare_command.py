"""`antidote compare` runs a grid of methods, noises and seeds, and prints its table."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antidote_learn.cli import options as given
from antidote_learn.cli.escaping import say
from antidote_learn.cli.failures import failures
from antidote_learn.cli.flags import with_flags

if TYPE_CHECKING:
    from antidote_learn.bench.layout import Cell
    from antidote_learn.bench.tables import Comparison

FORMATS = ("table", "markdown", "csv", "json", "latex")
ENGINES = ("local", "ray")
NAMED = ("text_features", "augment", "strict")  # options that name a cell even at their default: old grids go on


@given.take_training
def compare(
    data: given.Data,
    methods: Annotated[str, typer.Option(help="Methods and losses, separated by commas.")],
    noise: Annotated[str, typer.Option(help="Noises, separated by commas.")] = "none",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds: 0, 1, ...")] = 3,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time (default: one for each core).")] = None,
    engine: Annotated[str, typer.Option(help="Engine: local, or ray for a Ray cluster.")] = "local",
    out: Annotated[Path | None, typer.Option(help="The grid's folder (default: a name under grids).")] = None,
    output: Annotated[
        str, typer.Option("--format", help="Form of the table: table, markdown, csv, json or latex.")
    ] = "table",
    *,
    training: given.TrainingOptions,
    quiet: given.Quiet = False,
) -> None:
    """Compare methods under one protocol; the same command continues a grid that was stopped."""
    with failures(again="go on with the same command"):
        for value, accepted, what in ((output, FORMATS, "--format"), (engine, ENGINES, "--engine")):
            if value not in accepted:
                raise ValueError(f"{what} must be one of {', '.join(accepted)}; got {value!r}")
        from antidote_learn.bench.layout import check_layout, make_cells
        from antidote_learn.data.load import check_out

        cells = make_cells(
            data,
            methods=split_list(methods),
            noises=split_list(noise),
            seeds=range(seeds),
            options=cell_options(training),
        )
        folder = out or Path("grids") / re.sub(r"[^\w.-]+", "-", Path(data).stem)
        check_out(folder, data=data, test=training.test)
        check_layout(cells, folder)
        for note in dict.fromkeys(cell.note for cell in cells if cell.note and not quiet):
            say(f"note: {note}", err=True)
        comparison = _make_comparison(cells, folder, engine, jobs, quiet)
        _print_comparison(comparison, output, folder)
    failed = sum(cell["error"] is not None for cell in comparison.missing)
    if failed:
        say(f"antidote: {failed} of {len(cells)} runs failed", err=True)
        raise typer.Exit(1)


def cell_options(training: given.TrainingOptions) -> dict[str, Any]:
    """Returns the options of every run of a grid; they name its cells, so that defaults are left out."""
    wanted = {*training.own_options, *NAMED}
    chosen = {name: value for name, value in training.arguments.items() if name in wanted}
    return {name: str(value) if isinstance(value, Path) else value for name, value in chosen.items()}


def split_list(text: str) -> list[str]:
    """Returns the parts of a list with commas; commas in brackets do not split."""
    from antidote_learn.registry import split_outside_brackets

    return [part.strip() for part in split_outside_brackets(text, ",") if part.strip()]


def _make_comparison(cells: "Sequence[Cell]", folder: Path, engine: str, jobs: int | None, quiet: bool) -> "Comparison":
    """Runs the missing cells and compares all; if the user stops it, the table so far is printed first."""
    from antidote_learn.bench.cluster import ray_engine
    from antidote_learn.bench.grid import check_cells, default_jobs, known_records, local_engine, run_grid
    from antidote_learn.bench.tables import compare_records
    from antidote_learn.cli.live import listener_for
    from antidote_learn.training.interrupts import Interrupted

    chosen = ray_engine(jobs) if engine == "ray" else local_engine(jobs or default_jobs())
    check_cells(cells, folder)
    listener = listener_for(cells, quiet=quiet)
    try:
        with listener:
            return compare_records(cells, run_grid(cells, folder, chosen, listener))
    except (Interrupted, KeyboardInterrupt):
        from antidote_learn.bench.tables import as_markdown

        typer.echo(as_markdown(compare_records(cells, known_records(cells, folder))), err=True)
        raise Interrupted from None


def _print_comparison(comparison: "Comparison", output: str, folder: Path) -> None:
    from antidote_learn.bench import tables
    from antidote_learn.bench.comparison_figure import draw_comparison
    from antidote_learn.bench.plots import save

    figure = draw_comparison(comparison)
    if figure is not None:
        say(f"figure: {save(figure, folder / 'accuracy.png')}", err=True)
    if output == "table":
        from antidote_learn.cli.live import table_of

        print_wide(table_of(comparison))
        say(f"{tables.NOTE}. {tables.protocol_line(comparison)}", err=True)
        if comparison.missing:
            say(with_flags(tables.missing_line(comparison)), err=True)
    else:
        written: Any = getattr(tables, f"as_{output}")
        typer.echo(written(comparison), nl=False)
    say(f"grid: {folder}", err=True)


def print_wide(table: Any) -> None:
    """Prints a table on stdout; only a terminal has a width, elsewhere a row is one line."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 1000).print(table)
