"""The heat map of a run's transition matrix, beside the true one where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from antidote_learn.training.transition_file import RunTransition

PANEL, GAP = 3.125, 0.2  # the side of a matrix and the gap between two, in inches: 100 classes have 5 pixels each
COLOURS = "Blues"  # one hue from light to dark, which is readable without colours, too
MARKS = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0)  # entries that the colour bar marks
MOST_NAMED = 20  # the most classes whose names stand on the axes
MOST_WRITTEN = 10  # the most classes whose entries stand in the cells
LONGEST_NAME = 16  # the most characters of a name on an axis; longer ones lose their middle
LETTER = 6.0  # the mean width of a letter on an axis, in points


def draw_matrices(transition: RunTransition, classes: Sequence[str], note: str) -> Figure:
    """Draws the method's matrix, and on its right the true one if it is known; the title holds the error.

    A colour stands for the square root of an entry, as entries off the diagonal are small if there are many classes.

    Args:
        transition: The matrices.
        classes: The names of the classes.
        note: The line below the title.
    """
    estimate, error = transition.estimate, transition.total_variation
    panels = {f"T of the method ({estimate.source})" if estimate.source else "T of the method": estimate.transition}
    if transition.truth is not None:
        panels["true T"] = transition.truth
    step, scale = PANEL + GAP, PowerNorm(0.5, 0.0, 1.0)
    figure = Figure(figsize=(len(panels) * step, PANEL))
    for place, (title, matrix) in enumerate(panels.items()):
        axis = figure.add_axes((place / len(panels), 0.0, PANEL / step / len(panels), 1.0))
        axis.imshow(matrix, cmap=COLOURS, norm=scale)
        axis.set_title(title, loc="left", size=10, color="0.35", parse_math=False)
        axis.set(xlabel="given label", ylabel="" if place else "true class")
        _mark_classes(axis, classes, on_the_left=not place)
        if len(classes) <= MOST_WRITTEN:
            _write_entries(axis, matrix)
    _draw_bar(figure, scale)
    head = "Transition matrix" if error is None else f"Transition matrix, total variation error {error:.3f}"
    for text, height, weight, colour, size in ((head, 44, "bold", "black", 12), (note, 29, "normal", "0.35", 10)):
        figure.axes[0].annotate(
            text, (0, 1), (0, height), xycoords="axes fraction", textcoords="offset points",
            weight=weight, color=colour, size=size, parse_math=False,
        )  # fmt: skip
    return figure


def _mark_classes(axis: Axes, classes: Sequence[str], *, on_the_left: bool) -> None:
    """Writes the names of the classes on the axes, or their numbers where the font lacks letters; of many, some."""
    axis.spines[:].set_color("0.8")
    axis.tick_params(which="both", length=0, labelsize=9, labelleft=on_the_left)
    if len(classes) > MOST_NAMED:
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_locator(MaxNLocator(6, integer=True))
        return
    places, edges = range(len(classes)), np.arange(1, len(classes)) - 0.5
    names = [*map(_short, classes)] if _has_glyphs("".join(classes)) else [*map(str, places)]
    upright = max(map(len, names)) * LETTER * len(names) > 72 * PANEL
    axis.set_xticks(places, names, rotation=90 if upright else 0, parse_math=False)
    axis.set_yticks(places, names, parse_math=False)
    axis.set_xticks(edges, minor=True)
    axis.set_yticks(edges, minor=True)
    axis.grid(which="minor", color="0.9", lw=0.5)


def _short(name: str) -> str:
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[1 - half :]}"


def _has_glyphs(text: str) -> bool:
    """Tells whether the font of figures has all letters of a text."""
    return {*map(ord, text)} <= get_font(findfont(FontProperties())).get_charmap().keys()


def _write_entries(axis: Axes, matrix: NDArray[np.float64]) -> None:
    """Writes each entry into its cell, light on dark or dark on light."""
    size = 10 if len(matrix) <= 6 else 7.5
    for (row, column), value in np.ndenumerate(matrix):
        text = f"{value:.2f}" if value >= 0.005 else "0"
        colour = "white" if value > 0.35 else "0.2" if value >= 0.005 else "0.6"
        axis.text(column, row, text, ha="center", va="center", color=colour, size=size)


def _draw_bar(figure: Figure, scale: PowerNorm) -> None:
    """Draws the colours with their entries at the right of the last matrix."""
    place = figure.add_axes((1.0, 0.1, 0.12 / figure.get_figwidth(), 0.8))
    bar = figure.colorbar(ScalarMappable(scale, COLOURS), cax=place, ticks=MARKS)
    bar.set_ticklabels([f"{mark:g}" for mark in MARKS], size=9)
    bar.set_label("P(given | true)")
    bar.ax.tick_params(length=0)
    bar.outline.set_color("0.8")
