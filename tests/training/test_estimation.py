"""The noise rate that the trainer estimates: near the injected one, and continued where it was interrupted."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from antidote_learn.core.rates import estimate_noise_rate
from antidote_learn.data.builtin import load_named
from antidote_learn.data.prepared import prepare
from antidote_learn.presets.protocols import protocols
from antidote_learn.training import estimation
from antidote_learn.training.engine import Engine
from antidote_learn.training.estimation import WARM_UP, estimate_rate
from antidote_learn.training.interrupts import Interrupted, gently, is_interrupted, make_flag
from antidote_learn.training.loop import Trainer
from antidote_learn.training.progress import Silent

SETTINGS = replace(protocols()["features"].settings, model="mlp")
HALVES = [f"noise rate, half {number} of 2" for number in (1, 2)]


class Listener(Silent):
    """Notes stages and epochs; raises the signal of Ctrl-C once so many samples of an epoch of a stage were seen."""

    def __init__(self, stop: tuple[str, int, int] | None = None) -> None:
        self.stop, self.name, self.stages, self.epochs = stop, "", [], []

    def stage(self, name, *, epochs, done):
        self.name = name
        self.stages.append((name, done))

    def step(self, *, epoch, samples, total):
        if self.stop and (self.name, epoch) == self.stop[:2] and samples >= self.stop[2]:
            signal.raise_signal(signal.SIGINT)

    def epoch(self, record):
        self.epochs.append((self.name, record["epoch"]))


def trainer_on(name: str, noise: str, listener: Listener | None = None, subset: int | None = None) -> Trainer:
    data = prepare(load_named(name), noise=noise, noise_seed=0, seed=0, subset=subset, recipe="fitted")
    return Trainer(Engine(), data, SETTINGS, listener or Listener())


def folder_in(parent: Path) -> Path:
    (parent / "checkpoint").mkdir(parents=True)
    return parent


def estimated(trainer: Trainer, folder: Path) -> dict:
    """As a run does it: Ctrl-C only asks. Without the time it took."""
    with gently():
        found = estimate_rate(trainer, folder)
    assert found["seconds"] > 0.0
    return {key: value for key, value in found.items() if key != "seconds"}


def test_on_clean_labels_it_is_nearly_zero(tmp_path):
    found = estimated(trainer_on("digits", "none"), folder_in(tmp_path))
    assert found["rate"] < 0.02
    assert found["low"] == 0.0
    assert found["samples"] == 1297
    assert found["warnings"] == []


@pytest.mark.parametrize("noise", ["symmetric:0.2", "symmetric:0.4", "symmetric:0.6", "pair:0.3"])
def test_it_is_near_the_injected_rate(tmp_path, noise):
    trainer = trainer_on("digits", noise)
    found = estimated(trainer, folder_in(tmp_path))
    assert abs(found["rate"] - trainer.data.noise.rate) < 0.07
    assert found["low"] <= trainer.data.noise.rate <= found["high"]
    assert len(found["per_class"]) == 10


def test_two_classes(tmp_path):
    found = estimated(trainer_on("breast-cancer", "symmetric:0.2"), folder_in(tmp_path))
    assert abs(found["rate"] - 0.2) < 0.1


def test_labels_of_no_meaning_are_warned_of(tmp_path):
    found = estimated(trainer_on("digits", "symmetric:0.9"), folder_in(tmp_path))
    assert found["warnings"]


def test_each_half_is_judged_by_the_network_that_has_not_seen_it(tmp_path, monkeypatch):
    asked = []
    honest = estimation._judge_half

    def judged(trainer, number, own, other, checkpoint):
        asked.append((set(own.tolist()), set(other.tolist())))
        return honest(trainer, number, own, other, checkpoint)

    monkeypatch.setattr(estimation, "_judge_half", judged)
    estimated(trainer_on("digits", "none", subset=301), folder_in(tmp_path))
    (own, other), (second_own, second_other) = asked
    assert not own & other
    assert own | other == set(range(301))
    assert (second_own, second_other) == (other, own)
    assert abs(len(own) - len(other)) == 1


def test_many_samples_are_judged_by_a_part_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(estimation, "MOST_SAMPLES", 400)
    found = estimated(trainer_on("digits", "symmetric:0.2"), folder_in(tmp_path))
    assert found["samples"] == 400


def test_the_record_is_kept_as_strict_json_and_read_again(tmp_path):
    folder, listener = folder_in(tmp_path), Listener()
    few = trainer_on("digits", "none", listener, subset=60)  # some class is never predicted often enough
    found = estimated(few, folder)
    assert None in found["per_class"]

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    text = (folder / "noise_rate.json").read_text()
    assert json.loads(text, parse_constant=refuse).items() >= found.items()
    assert list((folder / "checkpoint").iterdir()) == []
    stages = list(listener.stages)
    assert estimated(few, folder) == found
    assert listener.stages == stages


def test_of_rows_too_few_nothing_is_trained_and_nothing_is_said_to_be_known(tmp_path):
    folder, listener = folder_in(tmp_path), Listener()
    found = estimate_rate(trainer_on("digits", "none", listener, subset=40), folder)
    assert (found["rate"], found["low"], found["high"]) == (0.0, 0.0, 0.9)
    assert "40 rows of 10 classes are too few" in found["warnings"][0]
    assert listener.stages == []
    assert estimate_rate(trainer_on("digits", "none", listener, subset=40), folder) == found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    return estimated(trainer_on("digits", "symmetric:0.4"), folder_in(tmp_path_factory.mktemp("whole")))


@pytest.mark.parametrize(("half", "epoch", "samples"), [(0, 0, 0), (0, 3, 300), (0, 5, 648), (1, 0, 200), (1, 5, 500)])
def test_interrupted_in_either_half_and_continued_it_is_the_same(tmp_path, uninterrupted, half, epoch, samples):
    folder, name = folder_in(tmp_path), HALVES[half]
    with pytest.raises(Interrupted):
        estimated(trainer_on("digits", "symmetric:0.4", Listener((name, epoch, samples))), folder)
    assert not (folder / "noise_rate.json").exists()
    again = Listener()
    assert estimated(trainer_on("digits", "symmetric:0.4", again), folder) == uninterrupted
    assert again.stages == [(HALVES[0], epoch if half == 0 else WARM_UP), (HALVES[1], epoch if half == 1 else 0)]
    left = [(HALVES[0], e) for e in range(1, WARM_UP + 1)] + [(HALVES[1], e) for e in range(1, WARM_UP + 1)]
    assert again.epochs == left[half * WARM_UP + epoch :]


def test_the_estimate_is_a_function_of_the_seed(tmp_path, uninterrupted):
    assert estimated(trainer_on("digits", "symmetric:0.4"), folder_in(tmp_path)) == uninterrupted


def test_a_run_after_one_that_was_stopped_is_not_stopped():
    with gently():
        flag = make_flag()
        signal.raise_signal(signal.SIGINT)
        assert is_interrupted()
        assert flag.value
    with gently():
        assert not is_interrupted()


def test_nothing_is_lost_by_not_keeping_the_probabilities(tmp_path, monkeypatch):
    """The record is that of `estimate_noise_rate` on all probabilities of all epochs, digit by digit."""
    trainer, said = trainer_on("digits", "symmetric:0.3"), []
    honest = estimation.predict_logits

    def outputs(*args, index, **given):
        logits = honest(*args, index=index, **given)
        said.append((index, logits.softmax(dim=1).numpy()))
        return logits

    monkeypatch.setattr(estimation, "predict_logits", outputs)
    found = estimated(trainer, folder_in(tmp_path))
    first, second = (np.stack([probs for _, probs in said[part : part + WARM_UP]]) for part in (0, WARM_UP))
    index = np.concatenate([said[0][0], said[WARM_UP][0]])
    whole = estimate_noise_rate(np.concatenate([first, second], axis=1), trainer.data.labels[index])
    assert (found["rate"], found["low"], found["high"]) == (whole.rate, whole.low, whole.high)
    assert found["per_class"] == whole.per_class.tolist()
