"""docs/your-own-method.md, run as it stands: by name, class and object, in `train` and `compare`, killed, resumed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from antidote_learn import load, register_method, train
from antidote_learn.registry import METHODS, method_of, parse_method
from tests.methods.stopping import numbers, stop_and_resume

PAGE = Path(__file__).parents[2] / "docs" / "your-own-method.md"
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
METHOD, TRAINING, NAMING, STAGES = (text for kind, text in BLOCKS if kind == "python")
(ENTRY_POINT,) = (text for kind, text in BLOCKS if kind == "toml")
ROWS = load_iris().data
QUICK = {"noise": "symmetric:0.2", "epochs": 3, "model": "mlp:hidden=[8]:norm=none"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The page's method as an installed package: its module, and its metadata with the page's entry point."""
    place = tmp_path_factory.mktemp("package")
    info = place / "small_loss-1.0.dist-info"
    info.mkdir()
    (place / "small_loss.py").write_text(METHOD)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: small-loss\nVersion: 1.0\n")
    table, entry = ENTRY_POINT.strip().splitlines()
    assert table == '[project.entry-points."antidote_learn.methods"]'
    (info / "entry_points.txt").write_text(f"[antidote_learn.methods]\n{entry.replace(chr(34), '')}\n")
    return place


@pytest.fixture
def SmallLoss(package, monkeypatch):
    monkeypatch.syspath_prepend(package)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), *sys.path]))  # for processes that are started
    monkeypatch.setattr("antidote_learn.registry.METHODS", dict(METHODS))
    from small_loss import SmallLoss

    return SmallLoss


def start(package, *args, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *sys.path]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "antidote_learn", *map(str, args)]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def antidote(package, *args, **options):
    process = start(package, *args, **options)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_the_method_is_some_forty_lines_long():
    assert len(METHOD.strip().splitlines()) <= 40


def test_the_page_runs_from_top_to_bottom(SmallLoss, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in (TRAINING, NAMING):
        exec(block.replace("import train", "import train as whole").replace("train(", "quick("), names_with(names))
    told, named = load("runs/told"), load("runs/named")
    assert told.spec["method"] == "SmallLoss:noise_rate=0.4:warmup=2"
    assert named.spec["method"] == "small-loss:warmup=2:noise_rate=auto"
    assert load("runs/small-loss").summary["noise_rate"]["rate"] == pytest.approx(0.4, abs=0.12)
    np.testing.assert_allclose(told.metrics["kept"], [1.0, 1.0, 0.6], atol=0.01)


def names_with(names):
    """The page's names, with trainings that are short."""
    names["quick"] = lambda data, **options: train(data, epochs=3, **options)
    return names


def test_the_page_s_stages_and_streams_are_those_of_a_run(SmallLoss, tmp_path):
    functions = {}
    exec(STAGES, functions)
    parts = {name: functions[name] for name in ("stages", "begin_stage", "begin_epoch")}
    Staged = dataclass(type("Staged", (SmallLoss,), {**parts, "__module__": __name__}))
    run = train("iris", method=Staged(noise_rate=0.1), out=tmp_path, **{**QUICK, "epochs": 4, "schedule": "constant"})
    assert run.metrics["stage"].tolist() == ["warm-up", "warm-up", "selection", "selection"]
    assert run.metrics["lr"].iloc[2] == pytest.approx(0.1 * run.metrics["lr"].iloc[0])


def test_by_name_as_a_class_and_as_an_object_it_is_the_same(SmallLoss, tmp_path):
    register_method("small-loss", SmallLoss)
    given = (("small-loss:noise_rate=0.2", {}), (SmallLoss, {"noise_rate": 0.2}), (SmallLoss(noise_rate=0.2), {}))
    runs = [
        train("iris", method=method, out=tmp_path / str(i), **rate, **QUICK) for i, (method, rate) in enumerate(given)
    ]
    assert len({numbers(run, ROWS) for run in runs}) == 1
    assert numbers(load(runs[2].folder), ROWS) == numbers(runs[2], ROWS)
    assert runs[1].spec["method"] == "SmallLoss:noise_rate=0.2"


@pytest.mark.parametrize("after", [1, 12, 20])
def test_stopped_and_continued_it_ends_as_if_it_had_not_been(SmallLoss, after, tmp_path, monkeypatch):
    given = {"method": SmallLoss(noise_rate=0.2), **QUICK}
    whole = train("iris", out=tmp_path / "whole", **given)
    assert numbers(stop_and_resume(monkeypatch, "iris", after, tmp_path / "run", **given), ROWS) == numbers(whole, ROWS)


def test_two_processes_give_the_numbers_of_one(SmallLoss, tmp_path):
    given = {"method": SmallLoss(noise_rate=0.2), **QUICK}
    one, two = (train("iris", out=tmp_path / str(n), devices=n, **given) for n in (1, 2))
    np.testing.assert_allclose(two.predict_proba(ROWS), one.predict_proba(ROWS), atol=1e-4)


def test_an_installed_package_brings_it_by_its_entry_point(package, tmp_path):
    listed = json.loads(antidote(package, "list", "methods", "--json"))
    (row,) = [row for row in listed if row["name"] == "small-loss"]
    assert row["about"] == "Small-loss selection: each batch trains on its samples of smallest loss"
    given = ["iris", "--noise", "symmetric:0.2", "--epochs", 2, "--out", tmp_path / "run"]
    summary = json.loads(antidote(package, "train", *given, "--method", "small-loss:noise_rate=0.1", "--json"))
    assert summary["method"] == "small-loss:noise_rate=0.1"


def test_compare_takes_it_with_workers_of_its_own(package, tmp_path):
    given = [
        "--noise",
        "symmetric:0.2",
        "--seeds",
        2,
        "--epochs",
        2,
        "--jobs",
        2,
        "--format",
        "json",
        "--out",
        tmp_path,
    ]
    table = json.loads(antidote(package, "compare", "iris", "--methods", "ce,small-loss:noise_rate=0.2", *given))
    assert [(row["method"], row["n"]) for row in table["rows"]] == [("ce", 2), ("small-loss:noise_rate=0.2", 2)]
    assert table["missing"] == []


def test_killed_and_resumed_it_ends_as_if_it_had_not_been(package, tmp_path):
    """A real process, a real SIGKILL, in the middle of the training."""
    method = ["--method", "small-loss:noise_rate=0.2", "--epochs", 60]
    given = ["train", "digits", "--noise", "symmetric:0.2", *method, "--quiet", "--json"]
    process = start(package, *given, "--out", tmp_path / "run")
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "checkpoint").is_dir() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    resumed = json.loads(antidote(package, *given, "--out", tmp_path / "run", "--resume"))
    whole = json.loads(antidote(package, *given, "--out", tmp_path / "whole"))
    assert resumed["accuracy"] == whole["accuracy"]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_bad_parameter_is_answered_in_one_line(SmallLoss):
    register_method("small-loss", SmallLoss)
    for text, says in {
        "small-loss:rate=1": r"'small-loss' accepts: noise_rate=\.\.\., warmup=\.\.\.",
        "small-loss:warmup=few": "warmup must be a number, got 'few'",
    }.items():
        with pytest.raises(ValueError, match=says) as caught:
            parse_method(text)
        assert "\n" not in str(caught.value)


@dataclass
class Nothing:
    """Lacks all."""


@pytest.mark.parametrize(
    ("name", "recipe", "message"),
    [
        ("ce", None, "'ce' is taken"),
        ("antidote", None, "'antidote' is taken"),
        ("a:b", None, "no name"),
        ("mine", 5, "must be a dataclass"),
        ("mine", dict, "must be a dataclass"),
        ("mine", Nothing(), "must be a dataclass"),
        ("mine", Nothing, "has no 'build'"),
    ],
)
def test_what_cannot_be_registered_is_said(SmallLoss, name, recipe, message):
    before = dict(METHODS)
    with pytest.raises(ValueError, match=message):
        register_method(name, SmallLoss if recipe is None else recipe)
    assert before == METHODS


def test_what_is_no_method_is_said():
    with pytest.raises(ValueError, match="must be a dataclass"):
        method_of(5)
