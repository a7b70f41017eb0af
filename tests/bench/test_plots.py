"""Figures of runs: which are drawn, and that what they say is what an independent calculation finds."""

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.optimize import brentq
from scipy.special import softmax

import antidote_learn
from antidote_learn.bench import plots

NOISE_RATE = 0.3


@dataclasses.dataclass
class Finished:
    """What a figure reads of a run."""

    spec: dict
    summary: dict
    samples: pd.DataFrame
    metrics: pd.DataFrame


def finished(losses, wrong, *, method=f"antidote:noise_rate={NOISE_RATE}", estimated=None, against="clean"):
    samples = pd.DataFrame({"loss": np.asarray(losses, dtype=np.float32), "clean_label": "a", "predicted_label": "a"})
    samples["given_label"] = np.where(wrong, "b", "a")
    summary = {
        "noise_rate": None if estimated is None else {"rate": estimated},
        "noise": {"realised": float(np.mean(wrong)), "spec": "symmetric:0.3"},
        "accuracy": {"against": against},
        "data": "folder/mine.csv",
    }
    metrics = pd.DataFrame({"epoch": [1, 2], "top1": [50.0, 61.25], "temperature": [2.0, 1.5], "forgotten": [0.1, 0.2]})
    return Finished({"method": method}, summary, samples, metrics)


def mixed(count=400):
    """A run whose wrong labels mostly have the larger losses."""
    draws = np.random.default_rng(0)
    wrong = draws.random(count) < NOISE_RATE
    return finished(draws.exponential(np.where(wrong, 4.0, 0.3)), wrong)


def chi2_ratio(losses, rate, kappa):
    """(N,) weights w = max(-(L + rho), 0) / t by nested bisection; f = (w^2 - 1) / 2, t no smaller than kappa."""
    delta = 0.5 * ((1.0 / (1.0 - rate)) - 1.0)

    def weights(t):
        shift = brentq(lambda s: np.maximum(s - losses, 0.0).mean() / t - 1.0, losses.min(), losses.max() + t)
        return np.maximum(shift - losses, 0.0) / t

    def excess(t):
        return 0.5 * (weights(t) ** 2 - 1.0).mean() - delta

    return weights(kappa if excess(kappa) <= 0.0 else brentq(excess, kappa, 1e3))


def kl_weights(losses, rate, kappa):
    def at(t):
        return len(losses) * softmax(-losses / t)

    def excess(t):
        return np.mean(at(t) * np.log(np.maximum(at(t), 1e-300))) + np.log(1.0 - rate)

    return at(kappa if excess(kappa) <= 0.0 else brentq(excess, kappa, 1e3))


def shares(chosen, wrong):
    return f"{100 * chosen[~wrong].mean():.0f} % of right labels, {100 * chosen[wrong].mean():.0f} % of wrong labels"


def drawn(draw, run):
    axis = plots.new_figure(3.0).add_subplot()
    draw(axis, run)
    return axis


def words(axis):
    return [text.get_text() for text in axis.texts]


def test_figure_1_forgets_whom_an_independent_solver_forgets():
    run = mixed()
    losses, wrong = run.samples["loss"].to_numpy(float), (run.samples["given_label"] == "b").to_numpy()
    forgotten = chi2_ratio(losses, NOISE_RATE, 0.05) <= 0.0
    assert 0 < forgotten.sum() < NOISE_RATE * len(losses)
    assert f"forgotten: {shares(forgotten, wrong)}" in words(drawn(plots.draw_threshold, run))


def test_no_bin_of_figure_1_straddles_the_threshold():
    axis = drawn(plots.draw_threshold, mixed())
    edges = np.unique(axis.patches[0].get_path().vertices[:, 0])
    assert np.abs(edges).min() < 1e-9
    assert edges.min() < -1 < 0.1 < edges.max()


def test_the_weights_are_those_of_an_independent_solver():
    run = mixed()
    losses, wrong = run.samples["loss"].to_numpy(float), (run.samples["given_label"] == "b").to_numpy()
    faded = kl_weights(losses, NOISE_RATE, 0.05) < 0.05
    assert faded.sum() > 0
    assert f"forgotten (< 0.05): {shares(faded, wrong)}" in words(drawn(plots.draw_weights, run))


@pytest.mark.parametrize("draw", [plots.draw_losses, plots.draw_weights, plots.draw_threshold])
def test_every_sample_is_in_a_histogram_of_its_colour(draw):
    run = mixed()
    run.samples.loc[:3, "loss"] = [0.0, 1e-30, 200.0, 1e4]
    wrong = (run.samples["given_label"] == "b").to_numpy()
    axis = drawn(draw, run)
    for polygon, count in zip(axis.patches[:2], ((~wrong).sum(), wrong.sum()), strict=True):
        across, up = polygon.get_path().vertices.T
        tops = {(a, b): y for a, b, y in zip(across, across[1:], up, strict=False) if b > a and y > 0}
        assert round(sum(tops.values())) == count
    assert [text.get_text() for text in axis.get_legend().get_texts()] == [
        f"right labels ({(~wrong).sum()})",
        f"wrong labels ({wrong.sum()})",
    ]


def test_the_kappa_of_the_run_is_used():
    run = mixed()
    run.spec["method"] = "antidote:noise_rate=0.3:kappa=50"
    assert "forgotten: 0 % of right labels, 0 % of wrong labels" in words(drawn(plots.draw_threshold, run))


def test_the_rate_is_told_or_else_estimated_or_else_realised():
    wrong = [True, False, False, False]
    assert plots.run_rate(finished([1.0] * 4, wrong)) == NOISE_RATE
    assert plots.run_rate(finished([1.0] * 4, wrong, method="antidote:noise_rate=auto", estimated=0.1)) == 0.1
    assert plots.run_rate(finished([1.0] * 4, wrong, method="ce")) == 0.25


def test_a_run_without_a_wrong_label_says_nothing_of_them():
    run = finished(np.linspace(0.1, 3, 50), np.zeros(50, dtype=bool))
    assert "wrong" not in " ".join(words(drawn(plots.draw_threshold, run)))


def test_losses_that_are_all_the_same_can_be_drawn():
    run = finished(np.zeros(20), np.arange(20) < 5, method="antidote:noise_rate=0.3:kappa=0")
    assert drawn(plots.draw_losses, run).patches
    for draw in (plots.draw_weights, plots.draw_threshold):
        assert "0 % of right labels, 0 % of wrong labels" in words(drawn(draw, run))[0]


@pytest.fixture
def figures(monkeypatch):
    """Figures by file name, instead of files."""
    kept = {}

    def keep(figure, path):
        kept[path.name] = figure
        return path

    monkeypatch.setattr(plots, "save", keep)
    return kept


def test_curves_have_a_panel_for_each_figure_with_its_last_value(figures, tmp_path):
    plots.draw_figures(mixed(), tmp_path)
    axes = figures["curves.png"].axes
    assert [axis.get_title("left") for axis in axes] == ["Test accuracy", "Temperature", "Forgotten in a batch"]
    assert [words(axis) for axis in axes] == [["61.2 %"], ["1.5"], ["20.0 %"]]
    assert "ANTIDOTE on mine.csv, noise symmetric:0.3" in figures["curves.png"].get_suptitle()


def test_an_epoch_without_a_temperature_is_left_out(figures, tmp_path):
    run = mixed()
    run.metrics.loc[1, "temperature"] = np.nan
    plots.draw_figures(run, tmp_path)
    assert words(figures["curves.png"].axes[1]) == ["2"]


def test_agreement_is_not_called_accuracy(figures, tmp_path):
    run = finished([1.0, 2.0], [False, True], method="ce", against="given")
    run.metrics = run.metrics[["epoch", "top1"]]
    run.samples = run.samples.drop(columns="clean_label")
    assert [path.name for path in plots.draw_figures(run, tmp_path)] == ["curves.png"]
    assert [axis.get_title("left") for axis in figures["curves.png"].axes] == ["Agreement with the given labels"]


def test_labels_that_are_all_right_have_no_threshold(figures, tmp_path):
    run = finished([1.0, 2.0], [False, False], method="ce")
    assert [path.name for path in plots.draw_figures(run, tmp_path)] == ["curves.png"]


def test_a_real_run_leaves_its_pictures_in_its_folder(tmp_path):
    run = antidote_learn.train("digits", noise="symmetric:0.4", noise_rate=0.4, epochs=1, out=tmp_path / "run")
    paths = plots.draw_figures(run)
    assert [path.relative_to(run.folder).as_posix() for path in paths] == ["curves.png", "figure1.png", "weights.png"]
    for path in paths:
        with Image.open(path) as picture:
            picture.load()
            assert picture.format == "PNG"
            assert picture.width >= 1000


def test_a_method_without_a_name_in_this_process_keeps_its_rate_and_its_figures(figures, tmp_path):
    run = mixed()
    run.spec["method"] = "SmallLoss:noise_rate=0.25:mode=auto:warmup=2"
    assert plots.run_rate(run) == 0.25
    plots.draw_figures(run, tmp_path)
    assert "SmallLoss on mine.csv" in figures["curves.png"].get_suptitle()


def test_nothing_global_of_matplotlib_is_touched():
    code = "import sys, antidote_learn.bench.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
