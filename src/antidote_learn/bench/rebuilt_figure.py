"""The figure of a rebuilt table: our figures and the paper's over the columns, a panel for each part."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from antidote_learn.bench.comparison_figure import STYLES
from antidote_learn.bench.plots import WIDTH
from antidote_learn.bench.reproduction import Entry, Rebuilt

PANEL_HEIGHT = 4.0  # the height of a panel in inches
ROOM = 0.14  # inches of height for each line of the legend
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")  # told apart by all


def draw_rebuilt(rebuilt: Rebuilt) -> Figure | None:
    """Draws our figures as lines and the paper's as pale ones; None without a figure of ours."""
    parts = [part for part in rebuilt.table.parts if any(e.values for e in rebuilt.part_entries(part.name).values())]
    if not parts:
        return None
    lines = max(len(part.scales[rebuilt.scale].rows) for part in parts)
    figure = Figure(figsize=(WIDTH, len(parts) * (PANEL_HEIGHT + ROOM * lines)), layout="constrained")
    for panel, part in zip(figure.subplots(len(parts), 1, squeeze=False)[:, 0], parts, strict=True):
        plan, found = part.scales[rebuilt.scale], rebuilt.part_entries(part.name)
        names = [column.name for column in plan.columns]
        for number, row in enumerate(plan.rows):
            _draw_row(panel, [found[row.name, name] for name in names], number)
        panel.set_xticks(range(len(names)), names, rotation=30 if max(map(len, names)) > 4 else 0, ha="center")
        panel.set_title(f"{part.name}: ours, and the paper's in pale", loc="left", fontweight="bold")
        panel.set_ylabel("seconds" if plan.columns[0].figure == "seconds" else "accuracy (%)")
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, fontsize=8, frameon=False)
    return figure


def _draw_row(panel: Axes, entries: list[Entry], number: int) -> None:
    """Draws a row's figures of ours with their deviations, and the published ones behind them."""
    colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
    ours = [(place, entry) for place, entry in enumerate(entries) if entry.mean is not None]
    known = [(place, entry.published.mean) for place, entry in enumerate(entries) if entry.published is not None]
    if known:
        panel.plot(*zip(*known, strict=True), style, color=colour, alpha=0.3, lw=1.2, ms=3)
    if ours:
        places, drawn = zip(*ours, strict=True)
        means, spreads = [entry.mean for entry in drawn], [entry.std or 0.0 for entry in drawn]
        label = drawn[0].row.name
        panel.errorbar(places, means, spreads, fmt=style, color=colour, label=label, capsize=2, ms=4, lw=1.4)
