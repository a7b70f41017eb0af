"""The transition matrix of a run: what a method says stands in the run's folder, beside the truth, and comes back."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_iris

from antidote_learn import TransitionEstimate, load, train
from antidote_learn.bench.plots import draw_figures
from antidote_learn.training.checkpoint import read_json, write_sealed
from tests.methods.counting import Counting
from tests.methods.stopping import stop_and_resume

QUICK = {"epochs": 3, "model": "mlp:hidden=[8]:norm=none"}
PAIR = {"noise": "pair:0.3", **QUICK}
SAID = np.array([[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.25, 0.0, 0.75]])


@dataclass
class Stating(Counting):
    """The same, with a matrix that it knew before."""

    def transition_estimate(self) -> TransitionEstimate:
        return TransitionEstimate(SAID, np.array([1, 2, 0]), np.full((3, 3), np.nan), "a file")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train("iris", method=Counting, **PAIR, out=tmp_path_factory.mktemp("run"))


def file_of(folder: Path) -> Path:
    return folder / "transition.json"


def content(run: Any) -> dict[str, Any]:
    return json.loads(file_of(run.folder).read_text())


# --- what is written, and what comes back ----------------------------------------------------------------------------


def test_the_file_holds_what_the_method_said_and_the_truth(tmp_path):
    run = train("iris", method=Stating, **PAIR, out=tmp_path)
    held = content(run)
    assert held["format"] == 1
    assert held["source"] == "a file"
    assert held["classes"] == ["setosa", "versicolor", "virginica"]
    assert held["transition"] == SAID.tolist()
    assert held["samples"] == [1, 2, 0]
    assert held["standard_errors"] == [[None] * 3] * 3
    np.testing.assert_allclose(held["true"], [[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]], atol=1e-12)
    assert held["total_variation"] == pytest.approx((0.1 + 0.1 + 0.05) / 3)
    assert run.summary["transition"] == {"source": "a file", "total_variation": held["total_variation"]}


def test_what_is_loaded_is_what_was_said(run):
    found = load(run.folder).transition
    assert (found.source, found.transition.dtype, found.samples.dtype) == ("counted", np.float64, np.int64)
    held = content(run)
    assert found.transition.tolist() == held["transition"]
    assert found.samples.sum() == 3 * len(run.samples)  # every sample is counted in each of three epochs
    assert np.isnan(found.standard_errors[0]).all()
    np.testing.assert_array_equal(found.standard_errors[1:], held["standard_errors"][1:])
    assert found.noise_rate == run.transition.noise_rate


def test_a_method_without_a_matrix_leaves_no_trace_of_one(tmp_path):
    run = train("iris", method="ce", **PAIR, out=tmp_path)
    assert run.transition is None
    assert not file_of(tmp_path).exists()
    assert "transition" not in run.summary


def test_a_method_may_end_without_its_matrix(tmp_path):
    @dataclass
    class Silent(Counting):
        def transition_estimate(self):
            return None

    assert train("iris", method=Silent, **PAIR, out=tmp_path).transition is None
    assert not file_of(tmp_path).exists()


def test_where_nobody_knows_the_truth_none_is_claimed(tmp_path):
    run = train((load_iris().data, load_iris().target), method=Counting, **QUICK, out=tmp_path)
    held = content(run)
    assert (held["true"], held["total_variation"]) == (None, None)
    assert run.summary["transition"] == {"source": "counted", "total_variation": None}


def test_stopped_and_continued_it_ends_with_the_same_file(run, tmp_path, monkeypatch):
    again = stop_and_resume(monkeypatch, "iris", 12, tmp_path, method=Counting, **PAIR)
    assert file_of(again.folder).read_bytes() == file_of(run.folder).read_bytes()


def test_two_processes_end_with_the_matrix_of_one(run, tmp_path):
    two = train("iris", method=Counting, **PAIR, devices=2, out=tmp_path)
    np.testing.assert_allclose(two.transition.transition, run.transition.transition, atol=0.02)
    assert two.transition.samples.sum() == run.transition.samples.sum()


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (SAID, "must come as a TransitionEstimate; received ndarray"),
        (TransitionEstimate(SAID[:2, :2], np.ones(2, int), SAID), r"shape \(3, 3\), as there are 3 classes"),
        (TransitionEstimate(SAID.T, np.ones(3, int), SAID), "pass its transpose"),
        (TransitionEstimate(SAID, np.ones(2, int), SAID), r"must be 3 counts.*shape \(2,\)"),
        (TransitionEstimate(SAID, np.ones(3), SAID), "must be 3 counts.*float64"),
        (TransitionEstimate(SAID, -np.ones(3, int), SAID), "must be 3 counts"),
        (TransitionEstimate(SAID, np.ones(3, int), SAID[:2]), r"received shape \(2, 3\)"),
        (TransitionEstimate(SAID, np.ones(3, int), -SAID), r"not negative, or NaN.*from -0\.8"),
        (TransitionEstimate(SAID, np.ones(3, int), SAID + np.inf), "not negative, or NaN.*to inf"),
    ],
)
def test_a_matrix_that_is_none_ends_the_run_with_one_line(said, says, tmp_path):
    @dataclass
    class Wrong(Counting):
        def transition_estimate(self):
            return said

    with pytest.raises(ValueError, match=says) as caught:
        train("iris", method=Wrong, **PAIR | {"epochs": 1}, out=tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "done").exists()


# --- damaged files ---------------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    text = bytearray(path.read_bytes())
    text[text.index(b"0.") + 2] ^= 1
    path.write_bytes(text)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def newer(path: Path) -> None:
    write_sealed(path, {**read_json(path), "format": 2})


def rename_class(path: Path) -> None:
    write_sealed(path, {**read_json(path), "classes": ["setosa", "versicolor", "lily"]})


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (flip, ValueError, "is damaged: its digest is of another content"),
        (cut, ValueError, "is damaged: it is not JSON"),
        (newer, ValueError, "has format 2, known is 1"),
        (rename_class, ValueError, "its classes are not those of the run"),
        (Path.unlink, FileNotFoundError, "is missing"),
    ],
)
def test_a_damaged_file_is_told_in_one_line(run, damage, error, says, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    damage(file_of(folder))
    again = load(folder)  # the model does not need it
    for read in (lambda: again.transition, lambda: draw_figures(again)):
        with pytest.raises(error, match=says) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert str(file_of(folder)) in str(caught.value)


def forgeries() -> list[tuple[str, Any]]:
    """Keys with values that no run writes there; of the lists also with a single bad entry."""
    flat = [None, "x", -1, 0.5, float("nan"), 10**30, [], [1], {}]
    square = [None, "x", True, -1, [], [[]], [["1"] * 3] * 3, [[0.5]], [[0.5, 0.5, 0.5]] * 3, [[1, 0], [0, 1]], {}]
    strange = [True, "0.7", -0.1, float("inf"), [0.5], {}]
    entries = [[[1, 0, 0], [0, 1, 0], [0, 0, value]] for value in strange]
    return [
        *(("format", value) for value in (None, 2, "1", 1.0, [1], {})),
        *(("source", value) for value in (None, 1, ["x"], {})),
        *(("classes", value) for value in (None, "x", [], ["setosa"], [0, 1, 2], {"setosa": 0})),
        *(
            ("samples", value)
            for value in (*flat, [1, 2], [1, 2, -3], [1, 2, 0.5], [1, 2, "3"], [1, 2, True], [[1]] * 3)
        ),
        *(("transition", value) for value in (*square, *entries, [[1, 0, 0], [0, 1, 0], [0, 0, None]])),
        *(("standard_errors", value) for value in (*square[:8], *entries)),
        *(("true", value) for value in (*square[1:], *entries, [[1, 0, 0], [0, 1, 0], [0, 0, None]])),
    ]


@pytest.mark.parametrize("key", sorted({key for key, _ in forgeries()}))
def test_a_file_of_other_values_is_told_in_one_line(run, key, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    again, held = load(folder), read_json(file_of(folder))
    for value in [value for name, value in forgeries() if name == key]:
        write_sealed(file_of(folder), {**held, key: value})
        with pytest.raises(ValueError, match=r"transition\.json (is damaged|has format)") as caught:
            _ = again.transition
        assert "\n" not in str(caught.value), value


# --- the picture -----------------------------------------------------------------------------------------------------


def test_the_figures_of_the_run_include_its_matrix(run, tmp_path):
    names = [path.name for path in draw_figures(run, tmp_path / "figures")]
    assert names == ["curves.png", "figure1.png", "weights.png", "transition.png"]
    with Image.open(tmp_path / "figures" / "transition.png") as picture:
        assert picture.format == "PNG"
        assert picture.width > 1000
        assert len(np.unique(np.asarray(picture.convert("L")))) > 20


COMMANDS = """
import sys
from pathlib import Path
from antidote_learn import register_method
from antidote_learn.cli import main
from tests.methods.counting import Counting

def command(method):
    sys.argv = ["antidote", "train", "iris", "--epochs", "1", "--method", method, "--out", method, "--quiet"]
    assert main() == 0

register_method("counting", Counting)
command("ce")
assert "matplotlib" not in sys.modules
command("counting")
assert [path.name for path in Path("counting").glob("*.png")] == ["transition.png"]
"""


def test_the_command_draws_the_matrix_without_being_asked_and_imports_matplotlib_for_nothing_else(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "figure" in line] == [
        f"figure: {tmp_path / 'counting' / 'transition.png'}"
    ]
