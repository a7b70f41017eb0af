"""Tables of a grid's records: means over seeds, missing cells, and differences that mean something."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from antidote_learn.bench.layout import Cell

LEVEL = 0.05  # the usual level of the test behind "not significantly worse"
FEWEST = 3  # the fewest seeds for that test: two differences say next to nothing
NOTE = (
    "Last epoch, mean ± standard deviation over seeds. The best mean of a column is bold, the second best in italics "
    "or underlined; = marks a mean that is not significantly below the best (paired t-test over seeds, p > 0.05, not "
    "corrected for the number of methods)"
)
OPTIMISTIC = "Best epoch, chosen on the test samples themselves: optimistic."

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A method with one noise.

    Attributes:
        method: The method as the user wrote it.
        noise: The noise as the user wrote it.
        last: The accuracies of the last epoch by seed.
        best: The accuracies of the best epoch by seed.
        seconds: The mean time of a run.
        wanted: The number of seeds in the grid.
    """

    method: str
    noise: str
    last: dict[int, float]
    best: dict[int, float]
    seconds: float | None
    wanted: int

    @property
    def mean(self) -> float:
        """The mean accuracy of the last epoch; NaN without a run."""
        return statistics.fmean(self.last.values()) if self.last else math.nan


@dataclass(frozen=True)
class Comparison:
    """The outcome of a grid: rows (method by noise), missing cells, and the protocol of all runs."""

    methods: tuple[str, ...]
    noises: tuple[str, ...]
    rows: tuple[Row, ...]
    missing: tuple[Record, ...]
    protocol: Record

    def row(self, method: str, noise: str) -> Row:
        """Returns the row of a method and a noise."""
        return next(row for row in self.rows if (row.method, row.noise) == (method, noise))


def compare_records(cells: Sequence[Cell], records: Sequence[Record]) -> Comparison:
    """Returns the comparison of the cells that their records make."""
    methods = tuple(dict.fromkeys(cell.method for cell in cells))
    noises = tuple(dict.fromkeys(cell.noise for cell in cells))
    seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
    found = {(record["method"], record["noise"], record["seed"]): record for record in records}
    rows = tuple(_grid_row(method, noise, seeds, found) for method in methods for noise in noises)
    missing = tuple(
        {"method": cell.method, "noise": cell.noise, "seed": cell.seed, "error": (record or {}).get("error")}
        for cell in cells
        if (record := found.get((cell.method, cell.noise, cell.seed))) is None or "error" in record
    )
    return Comparison(methods, noises, rows, missing, _protocol(cells, seeds, records))


def _grid_row(method: str, noise: str, seeds: Sequence[int], found: dict[Any, Record]) -> Row:
    known = {seed: found[method, noise, seed] for seed in seeds if "last" in found.get((method, noise, seed), {})}
    last, best = ({seed: record[key] for seed, record in known.items()} for key in ("last", "best"))
    seconds = statistics.fmean(record["seconds"] for record in known.values()) if known else None
    return Row(method, noise, last, best, seconds, len(seeds))


def _protocol(cells: Sequence[Cell], seeds: Sequence[int], records: Sequence[Record]) -> Record:
    settings: Record = next((record["settings"] for record in records if "settings" in record), {})
    against = next((record["against"] for record in records if "against" in record), None)
    return {"data": cells[0].data, "seeds": list(seeds), **settings, "against": against}


def marks(comparison: Comparison, noise: str) -> dict[str, str]:
    """Returns for each method words of "best", "second" and "equal" (not significantly below the best)."""
    rows = [row for row in comparison.rows if row.noise == noise and len(row.last) == row.wanted]
    found = dict.fromkeys(comparison.methods, "")
    if len(rows) < 2:
        return found
    first = max(rows, key=lambda row: row.mean)
    ranked = sorted({row.mean for row in rows}, reverse=True)
    for row in rows:
        words = [word for word, mean in zip(("best", "second"), ranked, strict=False) if row.mean == mean]
        if row.mean < first.mean and _not_worse(row, first):
            words.append("equal")
        found[row.method] = " ".join(words)
    return found


def _not_worse(row: Row, best: Row) -> bool:
    """Tells whether the paired differences over the seeds may be chance; with fewer than three seeds, no."""
    if len(best.last) < FEWEST:
        return False
    differences = np.array([best.last[seed] - row.last[seed] for seed in best.last])
    if np.ptp(differences) == 0.0:
        return bool(differences[0] == 0.0)
    return bool(stats.ttest_1samp(differences, 0.0).pvalue > LEVEL)


def as_json(comparison: Comparison) -> str:
    """Returns the comparison as JSON, for programs."""
    rows = [
        {
            "method": row.method,
            "noise": row.noise,
            "n": len(row.last),
            "last": _mean_and_std(row.last),
            "best": _mean_and_std(row.best),
            "seconds": row.seconds,
        }
        for row in comparison.rows
    ]
    found = {"protocol": comparison.protocol, "rows": rows, "missing": list(comparison.missing)}
    return json.dumps(found, indent=2) + "\n"


def as_csv(comparison: Comparison) -> str:
    """Returns the comparison as CSV, a line for each method and noise."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "noise", "n", "last_mean", "last_std", "best_mean", "best_std", "seconds", "mark"])
    for noise in comparison.noises:
        marked = marks(comparison, noise)
        for method in comparison.methods:
            row = comparison.row(method, noise)
            figures = [value for part in (row.last, row.best) for value in _mean_and_std(part).values()]
            writer.writerow([method, noise, len(row.last), *figures, row.seconds, marked[method]])
    return text.getvalue()


def as_markdown(comparison: Comparison) -> str:
    """Returns two tables in Markdown, of the last and of the best epoch, with notes."""
    wraps = {"best": ("**", "**"), "second": ("*", "*")}

    def table(figures: Callable[[Row], dict[int, float]], marked: bool) -> list[str]:
        lines = ["| method | " + " | ".join(comparison.noises) + " |", "|---" * (len(comparison.noises) + 1) + "|"]
        chosen = {noise: marks(comparison, noise) for noise in comparison.noises}
        for method in comparison.methods:
            cells = []
            for noise in comparison.noises:
                row = comparison.row(method, noise)
                mark = chosen[noise][method] if marked else ""
                cells.append(_wrap_mark(_figure_text(figures(row), row.wanted, "±"), mark, wraps, " ="))
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        return lines

    lines = [*table(lambda row: row.last, True), "", f"{NOTE}. {protocol_line(comparison)}"]
    lines += ["", OPTIMISTIC, "", *table(lambda row: row.best, False)]
    if comparison.missing:
        lines += ["", missing_line(comparison)]
    return "\n".join(lines) + "\n"


def as_latex(comparison: Comparison) -> str:
    """Returns a LaTeX tabular of the last epoch, for the package booktabs."""
    wraps = {"best": (r"\textbf{", "}"), "second": (r"\underline{", "}")}
    lines = [
        r"\begin{tabular}{l" + "r" * len(comparison.noises) + "}",
        r"\toprule",
        " & ".join(["method", *map(_latex, comparison.noises)]) + r" \\",
        r"\midrule",
    ]
    chosen = {noise: marks(comparison, noise) for noise in comparison.noises}
    for method in comparison.methods:
        cells = []
        for noise in comparison.noises:
            row = comparison.row(method, noise)
            text = _figure_text(row.last, row.wanted, r"$\pm$", absent="--")
            cells.append(_wrap_mark(text, chosen[noise][method], wraps, r"$^=$"))
        lines.append(" & ".join([_latex(method), *cells]) + r" \\")
    notes = [f"% {NOTE}.", f"% {protocol_line(comparison)}"]
    if comparison.missing:
        notes.append(f"% {missing_line(comparison)}")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def protocol_line(comparison: Comparison) -> str:
    """Returns the settings of all runs in one sentence."""
    known = {key: value for key, value in comparison.protocol.items() if value is not None}
    seeds = ", ".join(map(str, known.pop("seeds")))
    return "; ".join([*(f"{key} {value}" for key, value in known.items()), f"seeds {seeds}"]) + "."


def missing_line(comparison: Comparison) -> str:
    """Returns a sentence about the missing cells, and the first error."""
    failed = [cell for cell in comparison.missing if cell["error"]]
    line = f"{len(comparison.missing)} cells are missing"
    if not failed:
        return line + "."
    first = failed[0]
    return (
        f"{line}, {len(failed)} of them failed; the first: {first['method']}, {first['noise']}, seed {first['seed']}: "
        f"{first['error']}"
    )


def cell_text(row: Row) -> str:
    """Returns a row's accuracy as text for people."""
    return _figure_text(row.last, row.wanted, "±")


def _figure_text(values: dict[int, float], wanted: int, plus_minus: str, absent: str = "–") -> str:
    if not values:
        return absent
    spread = _mean_and_std(values)
    text = f"{spread['mean']:.2f}" + ("" if spread["std"] is None else f" {plus_minus} {spread['std']:.2f}")
    return text if len(values) == wanted else f"{text} ({len(values)} of {wanted})"


def _mean_and_std(values: dict[int, float]) -> dict[str, float | None]:
    numbers = list(values.values())
    mean = statistics.fmean(numbers) if numbers else None
    return {"mean": mean, "std": statistics.stdev(numbers) if len(numbers) > 1 else None}


def _wrap_mark(text: str, mark: str, wraps: dict[str, tuple[str, str]], equal: str) -> str:
    kind = mark.split(" ")[0]
    before, after = wraps.get(kind, ("", ""))
    return f"{before}{text}{after}{equal if 'equal' in mark else ''}"


def _latex(text: str) -> str:
    return "".join("\\" + letter if letter in "_%&#" else letter for letter in text)
