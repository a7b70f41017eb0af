"""The progress of a grid: a live table on a terminal, a line for each cell elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from antidote_learn.bench.layout import Cell
from antidote_learn.bench.rebuilt_texts import figure_text, published_text
from antidote_learn.bench.reproduction import Rebuilt
from antidote_learn.bench.tables import Comparison, cell_text, compare_records, marks
from antidote_learn.cli.escaping import escape_text
from antidote_learn.cli.flags import with_flags

STYLES = {"best": "bold green", "second": "underline"}  # styles of the marks of `bench.tables.marks`


def listener_for(cells: Sequence[Cell], *, quiet: bool) -> GridLines:
    """Returns the listener to a grid that suits stderr."""
    if quiet:
        return GridLines(cells, told=False)
    return GridTable(cells) if sys.stderr.isatty() else GridLines(cells)


def table_of(comparison: Comparison) -> Table:
    """Returns a table of methods by noises; the best and the second best of a column stand out."""
    columns = [Column(_plain(name)) for name in ("method", *comparison.noises)]
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    marked = {noise: marks(comparison, noise) for noise in comparison.noises}
    for method in comparison.methods:
        texts = []
        for noise in comparison.noises:
            mark = marked[noise][method]
            style = STYLES.get(mark.split(" ")[0])
            text = cell_text(comparison.row(method, noise)) + (" =" if "equal" in mark else "")
            texts.append(Text(escape_text(text), style=style or ""))
        table.add_row(_plain(method), *texts)
    return table


def rebuilt_tables(rebuilt: Rebuilt) -> dict[str, Table]:
    """Returns a table for each part of a rebuilt table by its title: our figures, the published ones below them."""
    found = {}
    for part in rebuilt.table.parts:
        plan, entries = part.scales[rebuilt.scale], rebuilt.part_entries(part.name)
        columns = [Column(_plain(name)) for name in ("", *(column.name for column in plan.columns))]
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in plan.rows:
            mine = [entries[row.name, column.name] for column in plan.columns]
            table.add_row(_plain(row.name), *(_plain(figure_text(entry)) for entry in mine))
            published = [published_text(entry) for entry in mine]
            if any(published):
                table.add_row("", *(Text(escape_text(text), style="dim") for text in published))
        found[f"{rebuilt.table.title}: {part.name} (scale {rebuilt.scale})"] = table
    return found


def _plain(name: str) -> Text:
    """Returns a name without markup, whatever brackets and colons it holds."""
    return Text(escape_text(name))


class GridLines:
    """Prints a line for each cell that ends, with the time that is left."""

    def __init__(self, cells: Sequence[Cell], *, told: bool = True) -> None:
        self._cells, self._told, self._records = cells, told, list[dict[str, Any]]()
        self._first, self._start = 0, time.monotonic()

    def __enter__(self) -> GridLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Does nothing, as lines leave nothing to clean up."""

    def begin(self, known: Sequence[dict[str, Any]]) -> None:
        """Prints how many cells are done already."""
        self._records, self._first = list(known), len(known)
        if self._told and known:
            self._say(f"{len(known)} of {len(self._cells)} cells are done already")

    def end_cell(self, record: dict[str, Any]) -> None:
        """Prints the line of a cell that ended."""
        self._records.append(record)
        if self._told:
            done, total = len(self._records), len(self._cells)
            figure = f"{record['last']:.2f} %" if "last" in record else f"FAILED: {with_flags(record['error'])}"
            left = (time.monotonic() - self._start) / (done - self._first) * (total - done)
            where = f"{record['method']}, {record['noise']}, seed {record['seed']}"
            self._say(f"{done}/{total} {where}: {figure}, {left / 60:.0f} min left")

    def _say(self, text: str) -> None:
        print(escape_text(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the command line


class GridTable(GridLines):
    """Shows the table itself as it fills, with a bar below."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        super().__init__(cells, told=False)
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("cells"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("cells", total=len(cells))
        self._live = Live(self._bar, console=console, transient=True)

    def __enter__(self) -> GridTable:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves the terminal as it was."""
        self._live.stop()

    def begin(self, known: Sequence[dict[str, Any]]) -> None:
        """Starts the table with the cells that are done already."""
        super().begin(known)
        self._show()

    def end_cell(self, record: dict[str, Any]) -> None:
        """Adds a cell that ended to the table."""
        super().end_cell(record)
        self._show()

    def _show(self) -> None:
        self._bar.update(self._task, completed=len(self._records))
        if self._records:
            self._live.update(Group(table_of(compare_records(self._cells, self._records)), self._bar))
