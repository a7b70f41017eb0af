"""The paper's tables, rebuilt: the cells of a table at a scale, and the figures that their records give."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from antidote_learn.bench.further_tests import further_figures
from antidote_learn.bench.grid import Engine, Listener, Record, run_grid
from antidote_learn.bench.layout import Cell
from antidote_learn.bench.records import record_of
from antidote_learn.presets.paper_tables import Choice, Column, PaperRow, PaperTable, Published, Scale, TablePart

CELLS = "cells"  # the folder of the runs, which all tables of a reproduction share


@dataclass(frozen=True)
class Entry:
    """A figure of a table, with the published one beside it.

    Attributes:
        part: The part of the table.
        row: The row.
        column: The column.
        cells: The runs behind the figure, one for each seed; none where the row is not built.
        values: The figures of the runs that have ended, by seed.
        reason: Why runs are missing; "" where all have ended.
        comparable: Whether the runs are on the data of the published figure.
    """

    part: str
    row: PaperRow
    column: Column
    cells: tuple[Cell, ...]
    values: Mapping[int, float]
    reason: str = ""
    comparable: bool = True

    @property
    def mean(self) -> float | None:
        """The mean over seeds; None without a run."""
        return statistics.fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds; None with fewer than two runs."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def published(self) -> Published | None:
        """The published figure; None where the paper has none."""
        return self.row.published.get(self.column.name)

    @property
    def difference(self) -> float | None:
        """Our mean minus the published one; None where the runs are on other data."""
        known = self.published
        return None if self.mean is None or known is None or not self.comparable else self.mean - known.mean


@dataclass(frozen=True)
class Rebuilt:
    """A table that was rebuilt, whole or in part.

    Attributes:
        table: The table.
        scale: The name of the scale.
        entries: All figures.
        chosen: The protocol that was chosen for each row of a part, with the agreement of each candidate.
        seconds: The time of all runs together.
    """

    table: PaperTable
    scale: str
    entries: tuple[Entry, ...]
    chosen: Mapping[str, Mapping[str, Any]]
    seconds: float

    def part_entries(self, part: str) -> dict[tuple[str, str], Entry]:
        """The figures of a part by row and column."""
        return {(entry.row.name, entry.column.name): entry for entry in self.entries if entry.part == part}


def with_options(table: PaperTable, scale: str, more: Mapping[str, Any]) -> PaperTable:
    """The table with further arguments of `train` for all runs of a scale."""
    parts = []
    for part in table.parts:
        plan = part.scales[scale]
        parts.append(replace(part, scales={**part.scales, scale: replace(plan, options={**plan.options, **more})}))
    return replace(table, parts=tuple(parts))


def missing_cells(table: PaperTable, scale: str, folder: Path) -> list[Cell]:
    """The cells that have not ended; of those that wait for the choice of a protocol, with the first protocol."""
    found: dict[str, Cell] = {}
    for part in table.parts:
        plan = part.scales[scale]
        first = (
            {} if plan.choice is None else {row.name: dict.fromkeys(plan.choice.protocols, 0.0) for row in plan.rows}
        )
        own = [cell for entry in table_entries(part, scale, {}, first) for cell in entry.cells]
        found |= {cell.name: cell for cell in (*choice_cells(plan).values(), *own)}
    return [cell for cell in found.values() if record_of(cell, folder / CELLS) is None]


def choice_cells(scale: Scale) -> dict[tuple[str, str], Cell]:
    """The runs that choose a protocol for each row, by row and protocol; none where the options say it."""
    choice = scale.choice
    if choice is None:
        return {}
    return {
        (row.name, protocol): _choice_cell(scale, choice, row, protocol)
        for row in scale.rows
        if row.method
        for protocol in choice.protocols
    }


def _choice_cell(scale: Scale, choice: Choice, row: PaperRow, protocol: str) -> Cell:
    fitting = [column for column in scale.columns if column.noise == choice.noise] or list(scale.columns)
    options = {**scale.options, **choice.options, "protocol": protocol, "holdout": choice.holdout}
    return Cell(scale.data, row.method_at(fitting[0]), choice.noise, choice.seed, options)


def choose_protocols(scale: Scale, records: Mapping[str, Record]) -> dict[str, dict[str, float]]:
    """The agreement with held-out labels of each row with each protocol, as far as the records tell."""
    found: dict[str, dict[str, float]] = {}
    for (row, protocol), cell in choice_cells(scale).items():
        record = records.get(cell.name, {})
        if "last" in record:
            found.setdefault(row, {})[protocol] = record["last"]
    return found


def table_entries(
    part: TablePart, scale: str, records: Mapping[str, Record], chosen: Mapping[str, Mapping[str, float]]
) -> list[Entry]:
    """The figures of a part at a scale; ``chosen`` are the agreements of `choose_protocols`."""
    plan = part.scales[scale]
    return [
        _entry(part.name, plan, scale, row, column, records, chosen.get(row.name))
        for row in plan.rows
        for column in plan.columns
    ]


def _entry(
    part: str,
    plan: Scale,
    scale: str,
    row: PaperRow,
    column: Column,
    records: Mapping[str, Record],
    agreements: Mapping[str, float] | None,
) -> Entry:
    if not row.method:
        return Entry(part, row, column, (), {}, row.note or "the method is not built yet")
    options = {**plan.options, **row.options.get(scale, {})}
    if plan.choice is not None and "protocol" not in row.options.get(scale, {}):
        if agreements is None or len(agreements) < len(plan.choice.protocols):
            return Entry(part, row, column, (), {}, "its protocol is not chosen yet")
        options["protocol"] = max(plan.choice.protocols, key=lambda name: agreements[name])
    method = row.method_at(column)
    cells = tuple(Cell(plan.data, method, column.noise, seed, options) for seed in range(plan.seeds))
    values, reason = dict[int, float](), ""
    for cell in cells:
        figures = _column_figures(records.get(cell.name), column)
        if figures.get(column.figure) is not None:
            values[cell.seed] = float(figures[column.figure])
        else:
            reason = str(figures.get("error", f"its record has no {column.figure}"))
    return Entry(part, row, column, cells, values, reason, comparable=scale != "smoke")


def _column_figures(record: Record | None, column: Column) -> Mapping[str, Any]:
    """The figures of a run on the test set of a column; or the error for which there are none."""
    if record is None:
        return {"error": "not run yet"}
    if not column.test or "error" in record:
        return record
    figures: Mapping[str, Any] = record.get("tests", {}).get(column.test, {"error": f"not tested on {column.test} yet"})
    return figures


def rebuild_table(
    table: PaperTable, scale: str, folder: Path, engine: Engine, listen: Callable[[Sequence[Cell]], Listener]
) -> Rebuilt:
    """Runs what is missing of a table, and returns the whole.

    First comes the choice of protocols, then the table's own runs, then their tests on further sets.

    Args:
        table: The table.
        scale: The name of the scale.
        folder: The folder of the reproduction; the runs go to its folder ``cells``.
        engine: The engine that runs cells.
        listen: A function that gives the listener to a grid of cells.

    Raises:
        Interrupted: Ctrl-C; every run that was going on can be continued.
        ValueError: A file of a run is damaged.
    """
    choosing = [cell for part in table.parts for cell in choice_cells(part.scales[scale]).values()]
    records = _run_cells(choosing, folder, engine, listen)
    entries = rebuilt_table(table, scale, records).entries
    own = {cell.name: cell for entry in entries for cell in entry.cells}
    records |= _run_cells(list(own.values()), folder, engine, listen)
    return rebuilt_table(table, scale, _with_tests(records, entries, folder))


def known_table(table: PaperTable, scale: str, folder: Path) -> Rebuilt:
    """The table as far as the runs in a reproduction's folder have ended."""
    choosing = [cell for part in table.parts for cell in choice_cells(part.scales[scale]).values()]
    records = _known(choosing, folder)
    own = [cell for entry in rebuilt_table(table, scale, records).entries for cell in entry.cells]
    return rebuilt_table(table, scale, records | _known(own, folder))


def _known(cells: Sequence[Cell], folder: Path) -> dict[str, Record]:
    return {cell.name: record for cell in cells if (record := record_of(cell, folder / CELLS)) is not None}


def rebuilt_table(table: PaperTable, scale: str, records: Mapping[str, Record]) -> Rebuilt:
    """The table as far as the records, by name of their cell, tell."""
    entries, chosen = list[Entry](), dict[str, Mapping[str, Any]]()
    for part in table.parts:
        agreements = choose_protocols(part.scales[scale], records)
        entries += table_entries(part, scale, records, agreements)
        if agreements:
            chosen[part.name] = agreements
    used = {cell.name for entry in entries for cell in entry.cells} | {
        cell.name for part in table.parts for cell in choice_cells(part.scales[scale]).values()
    }
    seconds = sum(records[name].get("seconds", 0.0) for name in used if name in records)
    return Rebuilt(table, scale, tuple(entries), chosen, seconds)


def _run_cells(
    cells: Sequence[Cell], folder: Path, engine: Engine, listen: Callable[[Sequence[Cell]], Listener]
) -> dict[str, Record]:
    """Runs cells, and returns the records of all by the names of their cells."""
    if not cells:
        return {}
    with listen(cells) as listener:  # type: ignore[attr-defined]
        found = run_grid(cells, folder / CELLS, engine, listener)
    return {record["cell"]: record for record in found}


def _with_tests(records: Mapping[str, Record], entries: Sequence[Entry], folder: Path) -> dict[str, Record]:
    """The records of all runs, with their figures on the further test sets that columns ask for."""
    wanted = {(cell.name, entry.column.test): cell for entry in entries if entry.column.test for cell in entry.cells}
    found = dict(records)
    for (name, test), cell in wanted.items():
        if "error" not in found[name]:
            tests = {**found[name].get("tests", {}), test: further_figures(cell, test, folder / CELLS)}
            found[name] = {**found[name], "tests": tests}
    return found
