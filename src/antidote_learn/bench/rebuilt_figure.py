"""The figure of a rebuilt table: our figures and the paper's over the columns, or histograms of all samples."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from antidote_learn.bench.comparison_figure import STYLES
from antidote_learn.bench.layout import RUN, Cell
from antidote_learn.bench.plots import RIGHT, WIDTH, WRONG, draw_threshold
from antidote_learn.bench.reproduction import CELLS, Entry, Rebuilt
from antidote_learn.training.runs import load

PANEL_HEIGHT = 4.0  # the height of a panel in inches
LABELS = {"right": RIGHT, "wrong": WRONG}  # the colours of samples by their labels
ROOM = 0.14  # inches of height for each line of the legend
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")  # told apart by all


def draw_rebuilt(rebuilt: Rebuilt, folder: Path) -> Figure | None:
    """Draws a table or a figure of histograms; None without a run.

    Args:
        rebuilt: The table.
        folder: The folder of the reproduction, which holds the runs.
    """
    return _draw_histograms(rebuilt, folder) if rebuilt.table.kind == "histograms" else _draw_lines(rebuilt)


def _draw_histograms(rebuilt: Rebuilt, folder: Path) -> Figure | None:
    """Draws -(L + rho) of all samples, a row of panels for each run and a panel for each epoch that was kept."""
    runs = [(entry, load(folder / CELLS / cell.name / RUN)) for entry, cell in _histogram_cells(rebuilt)]
    kept = [(entry, run, run.snapshots) for entry, run in runs if run.snapshots]
    if not kept:
        return None
    wide = max(len(snapshots) for _, _, snapshots in kept)
    figure = Figure(figsize=(5.0 * wide, 3.6 * len(kept)), layout="constrained")
    panels = figure.subplots(len(kept), wide, squeeze=False)
    for line, (entry, run, snapshots) in zip(panels, kept, strict=True):
        for panel, (epoch, samples) in zip(line, snapshots.items(), strict=False):
            where = f"{run.summary['data']}, {entry.column.name}, epoch {epoch}"
            draw_threshold(panel, run, samples=samples, title=where, legend=False)
        for panel in line[len(snapshots) :]:
            panel.set_axis_off()
    colours = [Patch(facecolor=colour, alpha=0.4, label=f"{name} labels") for name, colour in LABELS.items()]
    figure.legend(handles=colours, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _histogram_cells(rebuilt: Rebuilt) -> list[tuple[Entry, Cell]]:
    """The first run of each figure that has ended."""
    return [(entry, entry.cells[min(entry.values)]) for entry in rebuilt.entries if entry.values]


def _draw_lines(rebuilt: Rebuilt) -> Figure | None:
    """Draws our figures as lines and the paper's as pale ones; None without a figure of ours."""
    parts = [part for part in rebuilt.table.parts if any(e.values for e in rebuilt.part_entries(part.name).values())]
    if not parts:
        return None
    lines = max(len(part.scales[rebuilt.scale].rows) for part in parts)
    figure = Figure(figsize=(WIDTH, len(parts) * (PANEL_HEIGHT + ROOM * lines)), layout="constrained")
    for panel, part in zip(figure.subplots(len(parts), 1, squeeze=False)[:, 0], parts, strict=True):
        plan, found = part.scales[rebuilt.scale], rebuilt.part_entries(part.name)
        names = [column.name for column in plan.columns]
        if len(names) == 1:
            _draw_single_column(panel, [found[row.name, names[0]] for row in plan.rows], part.name)
            continue
        for number, row in enumerate(plan.rows):
            _draw_row(panel, [found[row.name, name] for name in names], number)
        panel.set_xticks(range(len(names)), names, rotation=30 if max(map(len, names)) > 4 else 0, ha="center")
        panel.set_title(f"{part.name}: ours, and the paper's in pale", loc="left", fontweight="bold")
        panel.set_ylabel("seconds" if plan.columns[0].figure == "seconds" else "accuracy (%)")
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, fontsize=8, frameon=False)
    return figure


def _draw_single_column(panel: Axes, entries: list[Entry], part: str) -> None:
    """Draws a table of one column: a line for each row, our figure as a dot and the published one as a ring."""
    shown = [entry for entry in entries if entry.mean is not None][::-1]
    for place, entry in enumerate(shown):
        if entry.published is not None and entry.comparable:
            panel.plot(entry.published.mean, place, "o", mfc="none", mec=COLOURS[1], ms=6)
        panel.errorbar(
            [entry.mean or 0.0], [place], xerr=[entry.std or 0.0], fmt="o", color=COLOURS[0], ms=4, capsize=2
        )
    panel.set_yticks(range(len(shown)), [entry.row.name for entry in shown])
    where = part if entries[0].comparable else f"{part} (run on {shown[0].cells[0].data})"
    panel.set_title(f"{where}, {entries[0].column.name}", loc="left", fontweight="bold")
    unit = "seconds" if entries[0].column.figure == "seconds" else "accuracy (%)"
    panel.set_xlabel(f"{unit}; dots are ours" + (", rings the paper's" if entries[0].comparable else ""))
    panel.margins(y=0.5 / max(len(shown), 1))
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_row(panel: Axes, entries: list[Entry], number: int) -> None:
    """Draws a row's figures of ours with their deviations, and the published ones behind them."""
    colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
    ours = [(place, entry) for place, entry in enumerate(entries) if entry.mean is not None]
    known = [
        (place, entry.published.mean)
        for place, entry in enumerate(entries)
        if entry.published is not None and entry.comparable
    ]
    if known:
        panel.plot(*zip(*known, strict=True), style, color=colour, alpha=0.3, lw=1.2, ms=3)
    if ours:
        places, drawn = zip(*ours, strict=True)
        means, spreads = [entry.mean for entry in drawn], [entry.std or 0.0 for entry in drawn]
        label = drawn[0].row.name
        panel.errorbar(places, means, spreads, fmt=style, color=colour, label=label, capsize=2, ms=4, lw=1.4)
