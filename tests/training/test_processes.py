"""Two processes train what one trains: the batch is the global one, however it is split."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.commands import Command, Done, antidote

# 1297 samples in batches of 100: the last one has 97, which two processes cannot halve.
COMMON = ("train", "digits", "--noise", "symmetric:0.4", "--batch-size", 100, "--epochs", 5, "--json")
METHODS = {
    "ce": ("--method", "ce"),
    "antidote": ("--noise-rate", 0.4),
    "antidote-dataset": ("--method", "antidote-dataset", "--noise-rate", 0.4, "--lr", 0.02),  # at 0.1 rounding grows
}
FILES = {"done", "metrics.jsonl", "samples.parquet", "spec.json", "summary.json"}


def in_two(folder: Path, *args: object) -> Done:
    """A run whose processes something else starts, as torchrun does: it costs less than --devices 2 alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    common |= {"TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"}
    commands = [
        Command(*args, "--devices", 2, "--out", folder, environment={**common, "RANK": rank, "LOCAL_RANK": rank})
        for rank in ("0", "1")
    ]
    first, second = (command.wait() for command in commands)
    assert second.code == first.code, second.err
    return first


def in_one(folder: Path, *args: object) -> Done:
    return antidote(*args, "--out", folder)


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def accuracy(done: Done) -> float:
    assert done.code == 0, done.err
    return json.loads(done.out)["accuracy"]["last"]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_without_batch_statistics_the_losses_are_the_same(method, tmp_path):
    args = (*COMMON, *method, "--model", "mlp:norm=none")
    one, two = in_one(tmp_path / "one", *args), in_two(tmp_path / "two", *args)
    assert accuracy(one) == pytest.approx(accuracy(two), abs=0.5)
    assert len(losses(tmp_path / "two")) == 5
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-4)
    assert {path.name for path in (tmp_path / "two").iterdir() if path.is_file()} == {*FILES, ".lock"}


def test_with_batch_norm_both_learn(tmp_path):
    """Each process normalises its own half of a batch: the numbers differ, what is learnt does not."""
    args = (*COMMON, *METHODS["antidote"])
    one, two = in_one(tmp_path / "one", *args), in_two(tmp_path / "two", *args)
    assert losses(tmp_path / "one") != losses(tmp_path / "two")
    assert accuracy(one) > 85
    assert accuracy(two) == pytest.approx(accuracy(one), abs=6)


def test_ctrl_c_with_two_devices(tmp_path):
    """Stopped twice and continued, two processes estimate the rate and train as if nobody had stopped them.

    And as one process does, as long as rounding has not grown: the first batches of a new network have nearly equal
    losses, which makes their weights magnify the last digits.
    """
    args = [*COMMON[:-1], "--model", "mlp:norm=none", "--epochs", 12]
    for epoch, group in ((2, False), (5, True)):  # the command alone is told, or, as by a terminal, all its processes
        two = Command(*args, "--devices", 2, "--out", tmp_path / "two", "--resume")
        two.until(f"training: epoch {epoch}/")
        two.signal(signal.SIGINT, group=group)
        stopped = two.wait()
        assert stopped.code == 130
        assert stopped.err.splitlines()[-1].startswith("antidote: stopped after the current step")
        assert "Traceback" not in stopped.err
        assert len(losses(tmp_path / "two")) < 12
    done = in_two(tmp_path / "two", *args, "--resume", "--json")
    assert accuracy(done) > 85
    assert json.loads(done.out)["noise_rate"]["rate"] == pytest.approx(0.4, abs=0.15)
    in_two(tmp_path / "whole", *args)
    assert losses(tmp_path / "two") == losses(tmp_path / "whole")
    antidote(*args, "--out", tmp_path / "one")
    np.testing.assert_allclose(losses(tmp_path / "two")[:3], losses(tmp_path / "one")[:3], rtol=1e-3)
    files = {path.name for path in (tmp_path / "two").iterdir() if path.is_file()}
    assert files == {*FILES, ".lock", "noise_rate.json"}


def test_under_torchrun_the_first_process_alone_prints(tmp_path):
    """The summary and the figures once, also where the run was finished before."""
    run = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m")
    digits = ("antidote_learn", "train", "digits", "--method", "ce", "--epochs", "1", "--batch-size", "400")
    args = (*run, *digits, "--devices", "2", "--out", str(tmp_path), "--json", "--resume", "--figures")
    for _ in range(2):
        done = subprocess.run(args, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["epochs"] == 1
        assert done.stderr.count("curves.png") == 1


def test_what_breaks_in_two_processes_is_one_line(tmp_path):
    done = in_two(tmp_path, *COMMON, *METHODS["ce"], "--lr", 1e30)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("antidote: the loss is nan in epoch 1")
