"""Figures of a finished run: curves, the paper's Figure 1, weights of right and wrong labels, transition matrix."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from antidote_learn._types import FADED
from antidote_learn.bench.transition_figure import draw_matrices
from antidote_learn.core.budgets import delta_from_rate
from antidote_learn.core.divergences import CHI2, KL, Divergence
from antidote_learn.core.relaxation import relax
from antidote_learn.nn.antidote import AntidoteLoss
from antidote_learn.registry import MethodSpec, parse_method
from antidote_learn.training.checkpoint import replacing
from antidote_learn.training.transition_file import read_transition

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from antidote_learn._types import Relaxed
    from antidote_learn.training.results import Run

RIGHT, WRONG, QUIET = "#0072B2", "#D55E00", "0.35"  # blue and vermilion, which the colour-blind tell apart, and grey
WIDTH = 7.0  # the width in inches: 10-point letters stay readable if a page shows the figure 600 pixels wide
DPI = 160  # pixels per inch: 1120 in the width, which high-resolution screens show sharply
FEWEST = 0.7  # the start of a logarithmic axis of counts: below 1, so that a single sample shows
LOSS_BINS = np.logspace(-7, 2, 55)  # bins of losses: float32 knows no cross-entropy between 0 and 6e-8


def draw_figures(run: Run, folder: Path | None = None) -> list[Path]:
    """Draws the figures of a run, and returns their paths.

    Every run has ``curves.png``. If the clean labels are known and the noise rate is positive, there are also
    ``figure1.png`` and ``weights.png``. If the method has a transition matrix, there is also ``transition.png``.

    Args:
        run: A finished run.
        folder: The folder for the pictures; the run's own folder by default.
    """
    folder = run.folder if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [save(_curves(run), folder / "curves.png")]
    if "clean_label" in run.samples and run_rate(run) > 0.0:
        for name, draw in (("figure1.png", draw_threshold), ("weights.png", draw_weights)):
            figure = new_figure(3.8)
            draw(figure.add_subplot(), run)
            drawn.append(save(figure, folder / name))
    return drawn + draw_transition(run, folder)


def draw_transition(run: Run, folder: Path | None = None) -> list[Path]:
    """Draws ``transition.png`` into a folder, by default the run's own; nothing for a method without such a matrix.

    Returns:
        The paths of what was drawn, one or none.
    """
    if "transition" not in run.summary:
        return []
    figure = draw_matrices(read_transition(run.folder, run.classes), run.classes, _heading(run))
    return [save(figure, (run.folder if folder is None else folder) / "transition.png", crop=True)]


def new_figure(height: float) -> Figure:
    """Returns an empty figure, ``height`` inches high."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def save(figure: Figure, path: Path, *, crop: bool = False) -> Path:
    """Writes a PNG file, whole or not at all, and returns its path; a crop fits the picture to what is drawn."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI, bbox_inches="tight" if crop else None)
    return path


def run_rate(run: Run) -> float:
    """Returns a run's noise rate: the one it was told, else its estimate, else the realised one."""
    told = _method_spec(run).rate
    if isinstance(told, float):
        return told
    estimated = run.summary["noise_rate"]
    return float(run.summary["noise"]["realised"] or 0.0) if estimated is None else float(estimated["rate"])


def draw_losses(axis: Axes, run: Run) -> None:
    """Draws histograms of the losses of right and wrong labels after training, on a logarithmic axis."""
    losses, wrong = _sample_losses(run.samples), _wrong_labels(run.samples)
    _histograms(axis, np.clip(losses, LOSS_BINS[0], LOSS_BINS[-1]), wrong, LOSS_BINS)
    learned = (run.samples["predicted_label"] == run.samples["given_label"]).to_numpy()
    _title(axis, f"Losses after training with {_method(run)}", f"learned: {_shares_text(learned, wrong)}")
    axis.set(xscale="log", xlabel="loss of a training sample; all below 1e-7 in the first bin")


def draw_weights(axis: Axes, run: Run) -> None:
    """Draws histograms of the weights that one KL relaxation over the training set gives right and wrong labels."""
    solved, wrong = _solve_relaxation(run, run.samples, KL), _wrong_labels(run.samples)
    weights = solved.weights.numpy()
    _histograms(axis, weights, wrong, np.linspace(0.0, max(float(weights.max()), 1.0) * 1.02, 52))
    note = f"forgotten (< {FADED}): {_shares_text(weights < FADED, wrong)}"
    _title(axis, f"Weights after training with {_method(run)}", note)
    axis.set(xlabel="weight of a training sample (mean 1)", xlim=(0.0, None))


def threshold_scores(run: Run, samples: pd.DataFrame) -> NDArray[np.float64]:
    """Returns -(L + rho) of samples of a run, by one relaxation of them at alpha = 2, which forgets below 0."""
    solved = _solve_relaxation(run, samples, CHI2)
    assert solved.rho is not None  # every divergence but KL has one
    return -(_sample_losses(samples) + float(solved.rho))


def draw_threshold(
    axis: Axes, run: Run, *, samples: pd.DataFrame | None = None, title: str = "", legend: bool = True
) -> None:
    """The paper's Figure 1 (fig:losses_cropped): histograms of -(L + rho) at alpha = 2, which forgets below 0.

    Args:
        axis: The axis to draw on.
        run: A finished run.
        samples: The samples after some epoch; by default those after the last.
        title: The title; by default the method's name.
        legend: Whether the colours are explained beside the title.
    """
    samples = run.samples if samples is None else samples
    scores, wrong = threshold_scores(run, samples), _wrong_labels(samples)
    low, high = min(float(scores.min()), 0.0), max(float(scores.max()), 1e-6)
    _histograms(axis, scores, wrong, _with_edge_at_zero(low, high), legend=legend)
    axis.set(xlim=(low, high + 0.1 * (high - low)), ylim=(FEWEST, 3.0 * axis.get_ylim()[1]))  # room for the words
    axis.axvspan(low, 0.0, color="0.95", zorder=0)
    axis.axvline(0.0, color=QUIET, lw=1.2, ls="--")
    words = title or f"Threshold after training with {_method(run)}"
    _title(axis, words, f"forgotten: {_shares_text(scores < 0.0, wrong)}")
    for text, side, place in (("forgotten", -6, "right"), ("kept", 6, "left")):
        axis.annotate(
            text, (0.0, 1.0), (side, -10), xycoords=("data", "axes fraction"), textcoords="offset points",
            color=QUIET, ha=place, va="center", style="italic",
        )  # fmt: skip
    axis.set(xlabel="−(L + ρ) of a training sample, α = 2")


def _with_edge_at_zero(low: float, high: float) -> NDArray[np.float64]:
    """About 55 equal bins, none of which straddles the threshold."""
    width = (high - low) / 55
    return width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)


def _curves(run: Run) -> Figure:
    """Draws panels of the test accuracy, the temperature and the forgotten share, as far as the run has them."""
    metrics, realised = run.metrics, run.summary["noise"]["realised"]
    clean = run.summary["accuracy"]["against"] == "clean"
    panels: dict[str, tuple[str, float, str]] = {
        "top1": ("Test accuracy" if clean else "Agreement with the given labels", 1.0, "{:.1f} %"),
        "temperature": ("Temperature", 1.0, "{:.3g}"),
        "forgotten": ("Forgotten in a batch", 100.0, "{:.1f} %"),
    }
    shown = [name for name in panels if name in metrics]
    figure = new_figure(1.2 + 1.5 * len(shown))
    axes = dict(zip(shown, figure.subplots(len(shown), sharex=True, squeeze=False)[:, 0], strict=True))
    for name in shown:
        title, factor, form = panels[name]
        _line(axes[name], metrics["epoch"].to_numpy(), factor * metrics[name].to_numpy(), title, form)
    if "forgotten" in shown and realised:
        axes["forgotten"].axhline(100.0 * realised, color=WRONG, lw=1.2, ls="--")
        axes["forgotten"].set_title(f"dashed: wrong labels, {100 * realised:.1f} %", loc="right", color=WRONG)
    axes[shown[-1]].set(xlabel="epoch")
    figure.suptitle(_heading(run), x=0.01, ha="left", fontweight="bold")
    return figure


def _heading(run: Run) -> str:
    """Returns the method, data and noise of a run in words."""
    words = [f"{_method(run)} on {Path(run.summary['data']).name}", run.summary["noise"]["spec"]]
    return ", noise ".join(words).removesuffix(", noise none")


def _line(axis: Axes, epochs: NDArray[Any], values: NDArray[np.float64], title: str, form: str) -> None:
    """Draws one curve with its last value written at its end; epochs without a value are left out."""
    epochs, values = (numbers[np.isfinite(values)] for numbers in (epochs, values))
    axis.plot(epochs, values, color=RIGHT, lw=1.8, marker="o", ms=4, markevery=[-1])
    axis.annotate(
        form.format(values[-1]), (epochs[-1], values[-1]), (7, 0), textcoords="offset points",
        color=RIGHT, va="center", fontweight="bold", annotation_clip=False,
    )  # fmt: skip
    axis.set_title(title, loc="left", color=QUIET)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axis.grid(axis="y", color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    axis.set(xlim=(min(1, epochs[-1] - 1), epochs[-1]))
    axis.margins(y=0.15)


def _histograms(
    axis: Axes, values: NDArray[Any], wrong: NDArray[np.bool_], bins: NDArray[np.float64], *, legend: bool = True
) -> None:
    """Draws two histograms over common bins, with counts on a logarithmic axis."""
    for name, chosen, colour in (("right labels", ~wrong, RIGHT), ("wrong labels", wrong, WRONG)):
        label, fill = f"{name} ({int(chosen.sum())})", (colour, 0.3)
        axis.hist(values[chosen], bins=bins.tolist(), label=label, histtype="stepfilled", fc=fill, ec=colour, lw=1.5)
    axis.set_yscale("log")
    axis.set(ylabel="training samples", ylim=(FEWEST, None), xlim=(bins[0], bins[-1]))
    axis.spines[["top", "right"]].set_visible(False)
    if legend:
        axis.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0, handlelength=1.2)


def _title(axis: Axes, text: str, note: str) -> None:
    """Writes a bold title, and a grey line below it."""
    axis.set_title(text, loc="left", fontweight="bold", pad=24)
    axis.annotate(note, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=QUIET)


def _shares_text(chosen: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> str:
    """Returns the chosen shares of right and of wrong labels in words; an empty group is left out."""
    groups = (("right", ~wrong), ("wrong", wrong))
    return ", ".join(f"{100 * chosen[group].mean():.0f} % of {name} labels" for name, group in groups if group.any())


def _method(run: Run) -> str:
    names = {"antidote": "ANTIDOTE", "antidote-dataset": "ANTIDOTE over the data set", "ce": "cross-entropy"}
    return names.get(name := _method_spec(run).name, name)


def _method_spec(run: Run) -> MethodSpec:
    """Returns a run's method; of a class that has no name in this process, with the parameters that are numbers."""
    text = run.spec["method"]
    try:
        return parse_method(text)
    except ValueError:
        numbers = re.findall(r":(\w+)=(\d+(?:\.\d+)?)(?=:|$)", text)
        return MethodSpec(text.partition(":")[0], {key: float(value) for key, value in numbers})


def _sample_losses(samples: pd.DataFrame) -> NDArray[np.float64]:
    return samples["loss"].to_numpy(dtype=np.float64)


def _wrong_labels(samples: pd.DataFrame) -> NDArray[np.bool_]:
    wrong: NDArray[np.bool_] = (samples["given_label"] != samples["clean_label"]).to_numpy(dtype=bool)
    return wrong


def _solve_relaxation(run: Run, samples: pd.DataFrame, divergence: Divergence) -> Relaxed:
    """Solves one relaxation over the samples' losses, with the run's kappa or else the loss's default."""
    kappa = _method_spec(run).parameters.get("kappa", AntidoteLoss(delta=0.0).kappa)
    losses, delta = torch.from_numpy(_sample_losses(samples)), delta_from_rate(run_rate(run), divergence)
    return relax(losses, delta, kappa=kappa, divergence=divergence)
