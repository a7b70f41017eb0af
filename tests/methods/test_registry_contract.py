"""What every method of the registry keeps to, and methods of a user's own: by name, as a class, as an object."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from antidote_learn import load, register_method, relax, train
from antidote_learn.core.budgets import delta_from_rate
from antidote_learn.registry import METHODS, method_of, parse_method
from antidote_learn.training import loop
from antidote_learn.training.interrupts import Interrupted
from antidote_learn.training.progress import Silent
from tests.methods.small_loss import SmallLoss

BUILT_IN = tuple(METHODS)
RATE = {"noise_rate": 0.2}
QUICK = {"noise": "symmetric:0.2", "epochs": 3, "model": "mlp:hidden=[8]"}


def options(name: str) -> dict:
    return {**QUICK, **(RATE if parse_method(name).forgets else {})}


def numbers(run) -> tuple:
    metrics = run.metrics.drop(columns=[name for name in run.metrics if "seconds" in name])
    return metrics.to_json(), run.samples.to_csv(), run.predict_proba(load_iris().data).tobytes()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    place = tmp_path_factory.mktemp("whole")
    return {name: train("iris", method=name, out=place / name, **options(name)) for name in BUILT_IN}


class Stopping(Silent):
    def __init__(self, after: int) -> None:
        self.left = after

    def step(self, **_) -> None:
        self.left -= 1
        if self.left < 0:
            raise Interrupted


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_loaded_predicts_what_was_reported(uninterrupted, name):
    run = uninterrupted[name]
    again = load(run.folder)
    assert numbers(again) == numbers(run)
    assert 0 < run.summary["accuracy"]["last"] <= 100
    assert run.samples["weight"].mean() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("after", [1, 12, 20])
@pytest.mark.parametrize("name", BUILT_IN)
def test_stopped_and_continued_it_ends_as_if_it_had_not_been(uninterrupted, name, after, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "SAVE_SHARE", 1e9)
    with pytest.raises(Interrupted):
        train("iris", method=name, out=tmp_path, reporter=Stopping(after), **options(name))
    run = train("iris", method=name, out=tmp_path, resume=True, **options(name))
    assert numbers(run) == numbers(uninterrupted[name])


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name not in ("antidote", "antidote-dataset")])
def test_two_processes_give_the_numbers_of_one(uninterrupted, name, tmp_path):
    """Without batch norm, whose statistics are those of a part of the batch."""
    given = {**options(name), "model": "mlp:hidden=[8]:norm=none"}
    one, two = (train("iris", method=name, out=tmp_path / str(n), devices=n, **given) for n in (1, 2))
    np.testing.assert_allclose(two.predict_proba(load_iris().data), one.predict_proba(load_iris().data), atol=1e-4)
    np.testing.assert_allclose(two.metrics["loss"], one.metrics["loss"], rtol=1e-4)


def test_the_learned_budget_learns_and_its_weights_are_those_of_its_budget(uninterrupted):
    run = uninterrupted["antidote-learned-budget"]
    rates = run.metrics["r_max"].to_numpy()
    assert (np.diff(rates) != 0).all()
    assert abs(rates[0] - 0.2) < 0.05


def test_dro_weighs_the_largest_losses_most(uninterrupted):
    samples = uninterrupted["antidote-dro"].samples
    assert np.corrcoef(samples["loss"], samples["weight"])[0, 1] > 0.3
    losses = torch.tensor(samples["loss"].to_numpy())
    expected = relax(-losses, delta_from_rate(0.2), kappa=0.05).weights
    np.testing.assert_allclose(samples["weight"], expected, rtol=1e-4)


# --- a user's own ----------------------------------------------------------------------------------------------------


@pytest.fixture
def named(monkeypatch):
    monkeypatch.setattr("antidote_learn.registry.METHODS", dict(METHODS))
    register_method("small-loss", SmallLoss)


def test_a_method_of_one_s_own_by_name_as_a_class_and_as_an_object(named, tmp_path):
    given = (("small-loss:noise_rate=0.2", {}), (SmallLoss, RATE), (SmallLoss(noise_rate=0.2), {}))
    runs = [
        train("iris", method=method, out=tmp_path / str(i), **rate, **QUICK) for i, (method, rate) in enumerate(given)
    ]
    assert len({numbers(run) for run in runs}) == 1
    assert runs[0].metrics["kept"].between(0.75, 0.85).all()
    assert runs[0].spec["method"] == "small-loss:noise_rate=0.2"
    assert runs[1].spec["method"] == runs[2].spec["method"] == "SmallLoss:noise_rate=0.2"
    assert numbers(load(runs[2].folder)) == numbers(runs[2])


def test_its_rate_is_estimated_where_it_is_not_given(named, tmp_path):
    run = train("digits", method="small-loss", noise="symmetric:0.4", epochs=2, out=tmp_path)
    assert run.summary["noise_rate"]["rate"] == pytest.approx(0.4, abs=0.12)
    assert run.metrics["kept"].iloc[-1] == pytest.approx(1 - run.summary["noise_rate"]["rate"], abs=0.02)


def test_a_parameter_that_is_none_is_answered_in_one_line(named):
    with pytest.raises(ValueError, match=r"'small-loss' accepts: noise_rate=\.\.\.") as caught:
        parse_method("small-loss:rate=1")
    assert "\n" not in str(caught.value)


@dataclass
class Nothing:
    """Lacks all."""


@pytest.mark.parametrize(
    ("name", "recipe", "message"),
    [
        ("ce", SmallLoss, "'ce' is taken"),
        ("antidote", SmallLoss, "'antidote' is taken"),
        ("a:b", SmallLoss, "no name"),
        ("mine", 5, "must be a dataclass"),
        ("mine", dict, "must be a dataclass"),
        ("mine", SmallLoss(), "must be a dataclass"),
        ("mine", Nothing, "has no 'build'"),
    ],
)
def test_what_cannot_be_registered_is_said(name, recipe, message):
    with pytest.raises(ValueError, match=message):
        register_method(name, recipe)
    assert METHODS.get(name) is not SmallLoss


def test_what_is_no_method_is_said():
    with pytest.raises(ValueError, match="must be a dataclass"):
        method_of(5)


def test_an_installed_package_brings_methods_by_entry_points(tmp_path):
    """In a process of its own, where the package lies on the path with its metadata."""
    package = tmp_path / "other"
    info = package / "other-1.0.dist-info"
    info.mkdir(parents=True)
    source = Path(__file__).with_name("small_loss.py").read_text()
    (package / "other_methods.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[antidote_learn.methods]\nother-small-loss = other_methods:SmallLoss\n")
    program = f"import sys; sys.path.insert(0, {str(package)!r}); from antidote_learn.cli import main; main()"
    run = [sys.executable, "-c", program]
    listed = subprocess.run([*run, "list", "methods", "--json"], capture_output=True, text=True, check=True)
    assert "other-small-loss" in {row["name"] for row in json.loads(listed.stdout)}
    args = [
        "train",
        "iris",
        "--method",
        "other-small-loss:noise_rate=0.1",
        "--epochs",
        "2",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run([*run, *args, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "other-small-loss:noise_rate=0.1"
