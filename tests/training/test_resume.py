"""Runs that are killed, stopped or denied room end, once continued, with the numbers of a run that was left alone."""

import json
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from safetensors import safe_open

from antidote_learn import train
from antidote_learn.training.engine import RunFailed
from antidote_learn.training.interrupts import Interrupted
from antidote_learn.training.progress import Silent
from tests.commands import Command, antidote

MODEL, EPOCHS = "mlp:hidden=[512,512]", 6
ARGS = ("train", "digits", "--noise", "symmetric:0.4", "--model", MODEL, "--epochs", EPOCHS)
REMEMBERS = ("--method", "antidote-dataset")  # its memory of all samples must come back, too
LINES = 2 * 6 + EPOCHS  # one for each epoch, of the halves and of the training
MOMENTS = (np.arange(5) + np.random.default_rng(0).random(5)) / 5 * LINES  # one in every fifth of a run, in epochs


def numbers(folder: Path) -> dict[str, object]:
    """All that a run leaves, without what it knows of time and place."""
    assert (folder / "done").exists()
    assert not list(folder.rglob("*.part"))
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    return {
        **{path.name: path.read_bytes() for path in folder.glob("model/*.safetensors")},
        "metrics": [{key: value for key, value in record.items() if "seconds" not in key} for record in records],
        "samples": (folder / "samples.parquet").read_bytes(),
        "summary": {key: value for key, value in summary.items() if key not in ("seconds", "out")},
    }


class Whole(NamedTuple):
    folder: Path
    seconds: float
    out: str
    numbers: dict[str, object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Whole:
    """The run that is left alone; it starts in an empty folder with --resume."""
    return left_alone(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def remembered(tmp_path_factory) -> Whole:
    """The same of a method that remembers every sample."""
    return left_alone(tmp_path_factory.mktemp("remembered"), *REMEMBERS)


def left_alone(folder: Path, *args: object) -> Whole:
    antidote("--version")  # the server is up
    start = time.monotonic()
    done = antidote(*ARGS, *args, "--out", folder, "--resume", "--json")
    assert done.code == 0, done.err
    return Whole(folder, time.monotonic() - start, done.out, numbers(folder))


def in_process(folder: Path, **given: object) -> None:
    train("digits", noise="symmetric:0.4", model=MODEL, epochs=EPOCHS, out=folder, **given)


def continued(folder: Path, *args: object) -> dict[str, object]:
    done = antidote(*ARGS, *args, "--out", folder, "--resume")
    assert done.code == 0, done.err
    return numbers(folder)


def checkpoint_of(folder: Path, stage: str) -> dict[str, object]:
    with safe_open(folder / "checkpoint" / f"{stage}.safetensors", "np") as stored:
        return json.loads(stored.metadata()["state"])["progress"]


@pytest.mark.parametrize("moment", MOMENTS.round(2))
def test_killed_at_a_random_moment(whole, moment, tmp_path):
    killed(tmp_path / "run", moment, whole.seconds)
    assert continued(tmp_path / "run") == whole.numbers


@pytest.mark.parametrize("moment", [13.3, 14.6, 16.8])  # in the training
def test_a_memory_of_samples_killed_at_a_random_moment(remembered, moment, tmp_path):
    killed(tmp_path / "run", moment, remembered.seconds, *REMEMBERS)
    assert continued(tmp_path / "run", *REMEMBERS) == remembered.numbers


def killed(folder: Path, moment: float, seconds: float, *args: object) -> None:
    command = Command(*ARGS, *args, "--out", folder, saves_often=True)
    command.until(": epoch ", times=int(moment))
    time.sleep(moment % 1 * seconds / LINES)
    command.signal(signal.SIGKILL)
    assert command.wait().code == -signal.SIGKILL
    kept = [*(folder / "checkpoint").glob("*.safetensors"), *folder.glob("noise_rate.json")]
    assert kept  # between the estimate and the first step of the training there is no checkpoint, but the estimate


def test_killed_again_and_again_between_two_files(whole, tmp_path):
    """The n-th process is killed before it renames its n-th file, until one comes through."""
    for number in range(1, 40):
        done = antidote(*ARGS, "--out", tmp_path, "--resume", dies_at=number, saves_often=True)
        if done.code != -signal.SIGKILL:
            break
        assert len(list(tmp_path.rglob("*.part"))) == 1  # the file itself; those of earlier processes are gone
    assert number > 5
    assert done.code == 0, done.err
    assert numbers(tmp_path) == whole.numbers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_that_can_be_continued(whole, number, tmp_path):
    command = Command(*ARGS, "--out", tmp_path)
    command.until("training: epoch 2/")
    command.signal(number)
    done = command.wait()
    assert done.code == 130
    assert "--resume" in done.complaint
    assert 2 <= checkpoint_of(tmp_path, "training")["epoch"] < EPOCHS
    assert continued(tmp_path) == whole.numbers


class Stopper(Silent):
    """Sends Ctrl-C from inside an epoch."""

    def __init__(self, stage: str, epoch: int, *, times: int = 1) -> None:
        self._wanted, self._times, self._name, self._steps = (stage, epoch), times, "", 0

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        self._name = name

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        if (self._name, epoch) == self._wanted and 0.3 * total < samples < 0.6 * total:
            for _ in range(self._times):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("name", "epoch", "file"),
    [("noise rate, half 1 of 2", 1, "half1"), ("noise rate, half 2 of 2", 5, "half2"), ("training", 2, "training")],
)
def test_stopped_inside_an_epoch(whole, name, epoch, file, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted):
        in_process(tmp_path, reporter=Stopper(name, epoch))
    assert signal.getsignal(signal.SIGINT) is before
    stopped = checkpoint_of(tmp_path, file)
    assert stopped["epoch"] == epoch
    assert stopped["step"] > 0
    in_process(tmp_path, resume=True)
    assert numbers(tmp_path) == whole.numbers


def test_a_memory_of_samples_stopped_inside_an_epoch(remembered, tmp_path):
    with pytest.raises(Interrupted):
        in_process(tmp_path, method=REMEMBERS[1], reporter=Stopper("training", 2))
    assert checkpoint_of(tmp_path, "training")["step"] > 0
    in_process(tmp_path, method=REMEMBERS[1], resume=True)
    assert numbers(tmp_path) == remembered.numbers


@pytest.fixture
def listens():
    """Ctrl-C as at a terminal: a process that was started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listens")
def test_a_second_ctrl_c_ends_a_run_at_once(whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        in_process(tmp_path, reporter=Stopper("training", 2, times=2))
    assert not (tmp_path / "checkpoint" / "training.safetensors").exists()
    in_process(tmp_path, resume=True)
    assert numbers(tmp_path) == whole.numbers


def test_a_finished_run_prints_the_same_summary_again(whole):
    times = {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*") if path.is_file()}
    done = antidote(*ARGS, "--out", whole.folder, "--resume", "--json")
    assert (done.code, done.out) == (0, whole.out)
    assert {path: path.stat().st_mtime_ns for path in times} == times


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--resume", "--seed", 1], ["seed is 0 there, 1 now", "noise_seed is 0 there, 1 now"]),
        (["--resume", "--lr", 0.2], ["lr is 0.1 there, 0.2 now"]),
        ([], ["holds a run already", "--resume"]),
    ],
)
def test_a_folder_with_another_run_is_refused(whole, args, says):
    done = antidote(*ARGS, "--out", whole.folder, *args)
    assert done.code == 2
    assert all(words in done.complaint for words in says)
    assert numbers(whole.folder) == whole.numbers


def test_data_that_changed_is_another_run(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    train((X, y), out=tmp_path, method="ce", epochs=1)
    with pytest.raises(ValueError, match="data_hash is"):
        train((X + 1.0, 1 - y), out=tmp_path, method="ce", epochs=1, resume=True)


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_folder_with_foreign_files_is_refused(resume, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    done = antidote(*ARGS, "--out", tmp_path, *resume)
    assert done.code == 2
    assert "not empty" in done.complaint
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["thesis.tex"]


def test_a_second_process_on_the_folder_is_refused(whole, tmp_path):
    first = Command(*ARGS, "--out", tmp_path)
    first.until("half 1 of 2: epoch 1/")
    first.signal(signal.SIGSTOP)
    second = antidote(*ARGS, "--out", tmp_path, "--resume")
    first.signal(signal.SIGCONT)
    assert second.code == 2
    assert "in use by another process" in second.complaint
    assert first.wait().code == 0
    assert numbers(tmp_path) == whole.numbers


def test_a_full_disk_leaves_the_last_checkpoint(whole, tmp_path):
    with pytest.raises(Interrupted):
        in_process(tmp_path, reporter=Stopper("training", 2))
    kept = (tmp_path / "checkpoint" / "training.safetensors").read_bytes()
    done = antidote(*ARGS, "--out", tmp_path, "--resume", largest_file=100_000)
    assert done.code == 1
    assert "cannot write" in done.complaint
    assert "safetensors" in done.complaint
    assert (tmp_path / "checkpoint" / "training.safetensors").read_bytes() == kept
    assert not list(tmp_path.rglob("*.part"))
    assert continued(tmp_path) == whole.numbers


@pytest.mark.skipif(not Path("/sys").exists(), reason="needs a place where nobody may write")
def test_a_folder_that_cannot_be_written(tmp_path):
    done = antidote(*ARGS, "--out", "/sys/antidote/run")
    assert done.code in (1, 2)
    assert "/sys/antidote" in done.complaint


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in ("file", "file/run"):
        done = antidote(*ARGS, "--out", tmp_path / out)
        assert done.code == 2
        assert "is a file" in done.complaint
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("method", [["--method", "ce"], ["--delta", 0.5], []])
def test_a_loss_that_is_no_number(method, tmp_path):
    done = antidote("train", "digits", *method, "--lr", 1e30, "--out", tmp_path)
    assert done.code == 1
    assert "NaN" in done.complaint or "the loss is" in done.complaint
    assert "--lr" in done.complaint


def test_a_loss_that_is_no_number_in_python(tmp_path):
    with pytest.raises(RunFailed, match="the loss is nan in epoch 1"):
        train("digits", method="ce", lr=1e30, out=tmp_path)


def test_files_can_be_read_by_those_whom_the_user_lets_read(whole):
    mask = os.umask(0)
    os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in whole.folder.rglob("*") if path.is_file()} == {0o666 & ~mask}
