"""The paper's tables and figures as data: rows, columns, protocols at three scales, and published figures."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

SCALES = ("smoke", "cpu", "paper")  # the scales of every table, from minutes to weeks of a processor
FIGURES = ("last", "best", "last_top5", "seconds")  # the figures of a run that a column may show
INHERITED = ("figure", "test", "values")  # what a column has from the one that it is like
TESTS = {"imagenet-val": ("last", "last_top5")}  # further sets to test a run on, and the figures that a run has there
KINDS = ("table", "histograms")  # what a file describes: numbers, or the losses of all samples at some epochs


@dataclass(frozen=True)
class Published:
    """A published figure: its mean, and its standard deviation where one is given."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: The heading.
        noise: The noise of the training labels.
        figure: The figure of a run that is shown, one of `FIGURES`.
        test: Another set to test on, one of `TESTS`; "" for the run's own.
        values: Values of the fields in a row's method, as in ``{kappa}``.
        like: An earlier column whose figure, test, values and published figures hold for this one, too; "" for none.
    """

    name: str
    noise: str
    figure: str = "last"
    test: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    like: str = ""


@dataclass(frozen=True)
class PaperRow:
    """A row of a table.

    Attributes:
        name: The heading, as the paper has it.
        method: The method, in which ``{field}`` stands for a value of the column; "" for one that is not built yet.
        published: The published figures by the column's name.
        options: Arguments of `train` for this row alone, by scale.
        note: What there is to say about the row; why it is missing, where it has no method.
    """

    name: str
    method: str
    published: Mapping[str, Published]
    options: Mapping[str, Mapping[str, Any]]
    note: str = ""

    def method_at(self, column: Column) -> str:
        """The method for a column."""
        return self.method.format(**column.values)


@dataclass(frozen=True)
class Choice:
    """How a row's protocol is chosen: by one run with each, tested on held-out labels, which are as noisy as the rest.

    Attributes:
        protocols: The protocols to choose from.
        noise: The noise of these runs.
        seed: The seed of these runs, which no run of the table has.
        holdout: The share of the training samples that is held out.
        options: Arguments of `train` that these runs have in place of the scale's: fewer images, say.
    """

    protocols: tuple[str, ...]
    noise: str
    seed: int
    holdout: float
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """How a part of a table is run.

    Attributes:
        seeds: The number of seeds.
        options: Arguments of `train` for all runs.
        data: The data set.
        columns: The columns that are run.
        rows: The rows that are run.
        choice: How a protocol is chosen for each row; None if the options say it.
        note: What this scale leaves out, for the reader.
    """

    seeds: int
    options: Mapping[str, Any]
    data: str
    columns: tuple[Column, ...]
    rows: tuple[PaperRow, ...]
    choice: Choice | None = None
    note: str = ""


@dataclass(frozen=True)
class TablePart:
    """A part of a table: one data set.

    Attributes:
        name: The name of the data set, as the paper has it.
        columns: All columns.
        rows: All rows.
        scales: How the part is run, by scale.
    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[PaperRow, ...]
    scales: Mapping[str, Scale]


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper.

    Attributes:
        name: The name on the command line, as "table1".
        title: The title.
        source: The place in the paper.
        kind: "table", or "histograms" for a figure of all samples' losses.
        parts: The parts, one for each data set.
        note: Choices of ours where the paper says nothing, and other remarks.
    """

    name: str
    title: str
    source: str
    kind: str
    parts: tuple[TablePart, ...]
    note: str = ""


def table_names() -> tuple[str, ...]:
    """The names of all tables and figures, in the paper's order; those that it does not have come last."""
    found = _table_files()
    return (*(name for name in ORDER if name in found), *sorted(set(found) - set(ORDER)))


def read_paper_table(name: str) -> PaperTable:
    """Reads a table.

    Raises:
        ValueError: There is no such table.
    """
    if name not in table_names():
        raise ValueError(f"unknown table or figure {name!r}; accepted: {', '.join((*table_names(), 'all'))}")
    return parse_paper_table(name, _table_files()[name])


ORDER = (
    "table1", "table2", "table3", "table4", "table5", "penalised", "transition", "kappa", "delta", "ablation",
    "penalty", "poisoning", "base-losses", "figure1", "figure2",
)  # fmt: skip


@cache
def _table_files() -> dict[str, str]:
    """The texts of the files in presets/tables, by name."""
    folder = files("antidote_learn.presets").joinpath("tables")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return {entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8") for entry in found}


def parse_paper_table(name: str, text: str) -> PaperTable:
    """Makes a table of the text of its file.

    Raises:
        ValueError: The text is no TOML, or a key, row, column or scale does not fit; the message names it.
    """
    try:
        return build_paper_table(name, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"table {name!r} is no TOML: {error}") from error


def build_paper_table(name: str, entries: Mapping[str, Any]) -> PaperTable:
    """Makes a table of its entries.

    Raises:
        ValueError: A key, row, column or scale does not fit; the message names it.
    """
    where = f"table {name!r}"
    _check_keys(where, entries, needed=("title", "source", "parts"), other=("kind", "note"))
    kind = entries.get("kind", "table")
    if kind not in KINDS:
        raise ValueError(f"{where}: kind must be one of {', '.join(KINDS)}; received {kind!r}")
    parts = tuple(_parse_part(f"{where}, part {part.get('name')!r}", part) for part in entries["parts"])
    _check_names(where, "part", parts)
    return PaperTable(name, entries["title"], entries["source"], kind, parts, entries.get("note", ""))


def _parse_part(where: str, entries: Mapping[str, Any]) -> TablePart:
    _check_keys(where, entries, needed=("name", "data", "columns", "rows", "scales"), other=())
    columns = _parse_columns(where, entries["columns"])
    rows = tuple(_parse_row(where, row, columns) for row in entries["rows"])
    _check_names(where, "row", rows)
    if set(entries["scales"]) != set(SCALES):
        raise ValueError(f"{where}: scales must be {', '.join(SCALES)}; received {', '.join(entries['scales'])}")
    scales = {
        scale: _parse_scale(f"{where}, scale {scale!r}", given, entries["data"], columns, rows)
        for scale, given in entries["scales"].items()
    }
    return TablePart(entries["name"], columns, rows, scales)


def _parse_columns(where: str, listed: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The columns of a part; one that is like another has all that it does not say itself from there."""
    known: dict[str, Column] = {}
    for entries in listed:
        own = {key: value for key, value in entries.items() if key != "like"}
        like = entries.get("like", "")
        same = {key: getattr(_pick(where, known, like), key) for key in INHERITED} if like else {}
        column = replace(_parse_column(where, {**same, **own}), like=like)
        _check_names(where, "column", (*known.values(), column))
        known[column.name] = column
    return tuple(known.values())


def _parse_column(where: str, entries: Mapping[str, Any]) -> Column:
    _check_keys(f"{where}, column", entries, needed=("name", "noise"), other=INHERITED)
    column = Column(**entries)
    if column.figure not in FIGURES:
        raise ValueError(f"{where}: figure must be one of {', '.join(FIGURES)}; received {column.figure!r}")
    if column.test and column.test not in TESTS:
        raise ValueError(f"{where}: test must be one of {', '.join(TESTS)}, or empty; received {column.test!r}")
    if column.test and column.figure not in TESTS[column.test]:
        accepted = ", ".join(TESTS[column.test])
        raise ValueError(f"{where}: figure on {column.test} must be one of {accepted}; received {column.figure!r}")
    return column


def _parse_row(where: str, entries: Mapping[str, Any], columns: Sequence[Column]) -> PaperRow:
    """A row; its published figures stand in the order of the columns that are like no other, "" where there is none."""
    where = f"{where}, row {entries.get('name')!r}"
    _check_keys(where, entries, needed=("name", "method"), other=("published", "options", "note"))
    own = [column.name for column in columns if not column.like]
    texts = entries.get("published", [""] * len(own))
    if len(texts) != len(own):
        raise ValueError(f"{where}: {len(texts)} published figures for {len(own)} columns")
    published = {name: _parse_figure(where, text) for name, text in zip(own, texts, strict=True) if text != ""}
    for column in columns:
        if column.like in published:
            published[column.name] = published[column.like]
    options = entries.get("options", {})
    _check_keys(f"{where}, options", options, needed=(), other=SCALES)
    if not entries["method"] and not entries.get("note"):
        raise ValueError(f"{where} has no method: add a note that says why")
    return PaperRow(entries["name"], entries["method"], published, options, entries.get("note", ""))


def _parse_figure(where: str, text: str) -> Published:
    """A figure as the paper prints it: "90.50 ± 0.35" or "90.50"."""
    mean, plus_minus, std = text.partition("±")
    try:
        return Published(float(mean), float(std) if plus_minus else None)
    except ValueError as error:
        raise ValueError(f"{where}: {text!r} is no figure as in '90.50 ± 0.35'") from error


def _parse_scale(
    where: str, entries: Mapping[str, Any], data: str, columns: Sequence[Column], rows: Sequence[PaperRow]
) -> Scale:
    """A scale; its columns are names of the part's columns, or columns of their own; by default it has all."""
    _check_keys(where, entries, needed=("seeds",), other=("data", "options", "columns", "rows", "choice", "note"))
    known, named = {column.name: column for column in columns}, {row.name: row for row in rows}
    chosen = [
        _pick(where, known, column) if isinstance(column, str) else _parse_column(where, column)
        for column in entries.get("columns", list(known))
    ]
    _check_names(where, "column", chosen)
    found = tuple(_pick(where, named, row) for row in entries.get("rows", list(named)))
    _check_fields(where, found, chosen)
    choice = entries.get("choice")
    if choice is not None:
        _check_keys(f"{where}, choice", choice, needed=("protocols", "noise", "seed", "holdout"), other=("options",))
        choice = Choice(**{**choice, "protocols": tuple(choice["protocols"])})
    return Scale(
        seeds=entries["seeds"],
        options=entries.get("options", {}),
        data=entries.get("data", data),
        columns=tuple(chosen),
        rows=found,
        choice=choice,
        note=entries.get("note", ""),
    )


def _pick(where: str, known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise ValueError(f"{where}: there is no {name!r}; there are {', '.join(known)}")
    return known[name]


def _check_names(where: str, what: str, parts: Iterable[TablePart | PaperRow | Column]) -> None:
    twice = [name for name, times in Counter(part.name for part in parts).items() if times > 1]
    if twice:
        raise ValueError(f"{where} has the {what} {twice[0]!r} twice: give each a name of its own")


def _check_fields(where: str, rows: Sequence[PaperRow], columns: Sequence[Column]) -> None:
    """Refuses a method with a field that a column has no value for."""
    for row, column in product(rows, columns):
        try:
            row.method_at(column)
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(
                f"{where}, row {row.name!r}: the column {column.name!r} has no value for a field of {row.method!r}; "
                f"its values: {', '.join(column.values) or 'none'}"
            ) from error


def _check_keys(where: str, entries: Mapping[str, Any], *, needed: Sequence[str], other: Sequence[str]) -> None:
    lacking, foreign = [key for key in needed if key not in entries], set(entries) - {*needed, *other}
    if lacking or foreign:
        what = f"lacks {lacking[0]!r}" if lacking else f"has an unknown key {sorted(foreign)[0]!r}"
        raise ValueError(f"{where} {what}; accepted: {', '.join((*needed, *other))}")
