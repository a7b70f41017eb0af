"""The method `auto`: what it decides, and that a run of it is saved, stopped and continued like any other."""

import json

import numpy as np
import pandas as pd
import pytest

from antidote_learn import inject, load, train
from antidote_learn.auditing.auto_plan import PLAN
from tests.methods.stopping import numbers, stop_and_resume

SMALL = {"method": "auto:models=linear", "epochs": 2, "model": "mlp:hidden=[8]"}
RNG = np.random.default_rng(0)
COLUMNS = pd.DataFrame({"size": RNG.normal(size=700), "age": 40 + 9 * RNG.normal(size=700)}).astype("float32")
TRUE = np.where(COLUMNS["size"] + (COLUMNS["age"] - 40) / 9 > 0.4, "yes", "no")
GIVEN = np.array(["no", "yes"])[
    inject((TRUE == "yes").astype(int), "one-sided:0.4:class=yes", seed=1, names=("no", "yes")).labels
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "table.csv"
    COLUMNS.assign(label=GIVEN, clean_label=TRUE).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    return train(table, out=tmp_path_factory.mktemp("runs") / "run", **SMALL)


def test_one_sided_noise_is_found_and_undone(run):
    decision = run.summary["decision"]
    assert decision["trained_on"] == "beliefs"
    assert decision["errors_by_class"]["yes"] > 0.25 > 0.1 > decision["errors_by_class"]["no"]
    assert run.summary["accuracy"]["against"] == "clean"
    assert run.summary["accuracy"]["last"] > 90


def test_what_is_loaded_predicts_what_was_reported(run, table):
    again = load(run.folder)
    assert numbers(again, COLUMNS) == numbers(run, COLUMNS)
    right = (again.predict(COLUMNS) == TRUE).mean()
    assert right > (GIVEN == TRUE).mean()
    probs = again.predict_proba(COLUMNS)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)


def test_stopped_and_continued_it_ends_as_if_it_had_not_been(run, table, tmp_path, monkeypatch):
    again = stop_and_resume(monkeypatch, table, [3, 9, 12], tmp_path / "run", **SMALL)
    assert numbers(again, COLUMNS) == numbers(run, COLUMNS)


def test_a_network_and_classifiers_of_every_kind_make_one_model(table, tmp_path):
    run = train(table, method="auto", epochs=2, out=tmp_path / "run")
    names = json.loads((run.folder / "model" / "model.json").read_text())["pool"]
    assert {name.split(":")[0] for name in names} >= {"linear", "trees"}
    assert set(run.summary["decision"]["models"]) == {
        "linear model",
        "small trees",
        "boosted trees",
        "forest",
        "network",
    }
    assert numbers(load(run.folder), COLUMNS) == numbers(run, COLUMNS)


def test_images_are_trained_on_what_an_audit_believes(tmp_path):
    run = train("digits", noise="symmetric:0.4", method="auto", subset=600, epochs=8, out=tmp_path / "run")
    plain = train("digits", noise="symmetric:0.4", method="ce", subset=600, epochs=8, out=tmp_path / "plain")
    assert run.summary["accuracy"]["last"] > plain.summary["accuracy"]["last"] + 10
    assert run.summary["decision"]["relabelled"] > 150


def test_a_damaged_plan_is_told_in_a_line(table, tmp_path):
    run = train(table, out=tmp_path / "run", **SMALL)
    plan = run.folder / "checkpoint" / PLAN
    (run.folder / "done").unlink()
    plan.write_bytes(plan.read_bytes()[:-9])
    with pytest.raises(ValueError, match=PLAN):
        train(table, out=run.folder, resume=True, **SMALL)


def test_two_processes_give_the_numbers_of_one(run, table, tmp_path):
    two = train(table, out=tmp_path / "run", devices=2, **SMALL)
    np.testing.assert_allclose(two.predict_proba(COLUMNS), run.predict_proba(COLUMNS), atol=1e-4)


def test_it_takes_no_rate_and_no_other_models(table, tmp_path):
    with pytest.raises(ValueError, match="takes no noise_rate"):
        train(table, noise_rate=0.2, out=tmp_path / "run", method="auto")
    with pytest.raises(ValueError, match="models must be all or linear or trees or network"):
        train(table, out=tmp_path / "run", method="auto:models=forest")
    assert not (tmp_path / "run").exists()
