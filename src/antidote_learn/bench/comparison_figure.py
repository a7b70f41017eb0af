"""The figure of a comparison: accuracy against the rate of the noise."""

from __future__ import annotations

import re
import statistics

from matplotlib.figure import Figure

from antidote_learn.bench.plots import WIDTH
from antidote_learn.bench.tables import Comparison, Row

RATE = re.compile(r"([a-z]+):([\d.]+)$")  # a noise with its rate
STYLES = ("o-", "s--", "^-.", "D:", "v-", "P--", "X-.", "*:")  # markers and lines, which differ without colour, too
PANEL = 4.2  # the height of a panel in inches


def kinds_with_rates(comparison: Comparison) -> dict[str, dict[float, str]]:
    """Returns the noises by rate for each kind with two rates or more; clean labels are rate 0 of every kind."""
    kinds: dict[str, dict[float, str]] = {}
    for noise in comparison.noises:
        found = RATE.match(noise)
        if found:
            kinds.setdefault(found.group(1), {})[float(found.group(2))] = noise
    for rates in kinds.values():
        if "none" in comparison.noises:
            rates[0.0] = "none"
    return {kind: dict(sorted(rates.items())) for kind, rates in kinds.items() if len(rates) > 1}


def draw_comparison(comparison: Comparison) -> Figure | None:
    """Draws a panel for each kind of noise with several rates; None if there is no such kind."""
    kinds = kinds_with_rates(comparison)
    if not kinds:
        return None
    figure = Figure(figsize=(WIDTH, PANEL * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 1, squeeze=False)[:, 0]
    for panel, (kind, rates) in zip(panels, kinds.items(), strict=True):
        for number, method in enumerate(comparison.methods):
            drawn = [(rate, row) for rate, noise in rates.items() if (row := comparison.row(method, noise)).last]
            if drawn:
                places, rows = zip(*drawn, strict=True)
                spreads = [_deviation(row) for row in rows]
                panel.errorbar(
                    places,
                    [row.mean for row in rows],
                    spreads,
                    fmt=STYLES[number % len(STYLES)],
                    color=f"C{number % 10}",
                    label=method,
                    capsize=2,
                    markersize=4,
                    linewidth=1.2,
                )
        panel.set_xlabel(f"{kind} noise: share of wrong labels asked for")
        panel.set_ylabel("accuracy, last epoch (%)")
        panel.grid(alpha=0.25)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", fontsize=8, ncols=3)  # below the panels it hides no line
    return figure


def _deviation(row: Row) -> float:
    return statistics.stdev(row.last.values()) if len(row.last) > 1 else 0.0
