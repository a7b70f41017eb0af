"""Folders of runs, audits and grids, tampered with at random: told in one line, never executed, never waited for."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antidote_learn import audit, load, train
from antidote_learn.bench.grid import local_engine, run_grid
from antidote_learn.bench.layout import make_cells
from antidote_learn.bench.tables import compare_records
from antidote_learn.training import loop
from antidote_learn.training.checkpoint import SEAL, read_tensors, write_json, write_sealed, write_tensors
from antidote_learn.training.engine import RunFailed
from antidote_learn.training.interrupts import Interrupted
from tests.fuzz.budget import SECONDS, SEED
from tests.methods.stopping import Stopping

FEWEST = 60  # cases
PATIENCE = 30  # seconds for one case
TOLD = (ValueError, FileNotFoundError, OSError, RunFailed)
SETTINGS: dict[str, Any] = {"noise": "symmetric:0.2", "epochs": 2, "model": "mlp:hidden=[8]"}
NASTY = [
    None, True, -1, 0, 1, 10**30, -(10**30), 0.5, float("nan"), float("inf"), "", "x", "os:system", "mlp:hidden=[9]",
    [], [1], [[]], ["a", "a"], [-1, 0], [10**9] * 3, {}, {"a": 1}, "\x1b[31m", "../../etc/passwd",
]  # fmt: skip


class Deaf:
    def begin(self, known: Any) -> None: ...

    def end_cell(self, record: Any) -> None: ...


def read_run(folder: Path) -> None:
    run = load(folder)
    run.predict(np.zeros((2, 4)))
    _ = run.samples, run.metrics, run.transition, run.snapshots, repr(run)


def resume_run(folder: Path) -> None:
    train("iris", **SETTINGS, out=folder, resume=True)


def resume_correction(folder: Path) -> None:
    train("iris", method="forward", snapshots="1", **SETTINGS, out=folder, resume=True)


def resume_audit(folder: Path) -> None:
    found = audit("iris", **SETTINGS, out=folder, resume=True)
    _ = found.by_class, found.by_pair, repr(found)


def train_on_audit(folder: Path) -> None:
    train("iris", **SETTINGS, labels=folder, out=folder.with_name("trained"))


def resume_grid(folder: Path) -> None:
    options = {key: value for key, value in SETTINGS.items() if key != "noise"}
    cells = make_cells("iris", methods=["ce"], noises=["none", "pair:0.2"], seeds=[0], options=options)
    compare_records(cells, run_grid(cells, folder, local_engine(1), Deaf()))


ACTIONS: dict[str, tuple[Callable[[Path], None], ...]] = {
    "run": (read_run, resume_run),
    "stopped run": (resume_run,),
    "correction": (read_run, resume_correction),
    "stopped correction": (resume_correction,),
    "audit": (resume_audit, train_on_audit),
    "stopped audit": (resume_audit,),
    "grid": (resume_grid,),
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> Path:
    """A folder of each kind, as it should be."""
    place = tmp_path_factory.mktemp("originals")
    resume_run(place / "run")
    resume_correction(place / "correction")
    resume_audit(place / "audit")
    resume_grid(place / "grid")
    with pytest.MonkeyPatch.context() as often:
        often.setattr(loop, "SAVE_SECONDS", 0.0)
        often.setattr(loop, "SAVE_SHARE", 1e9)
        with contextlib.suppress(Interrupted):
            train("iris", **SETTINGS, out=place / "stopped run", reporter=Stopping(50))
        with contextlib.suppress(Interrupted):
            train(
                "iris", method="forward", snapshots="1", **SETTINGS, out=place / "stopped correction",
                reporter=Stopping(60),
            )  # fmt: skip
        with contextlib.suppress(Interrupted):
            audit("iris", **SETTINGS, out=place / "stopped audit", reporter=Stopping(60))
    assert list((place / "stopped run" / "checkpoint").iterdir())
    assert (place / "stopped correction" / "noise_rate.json").exists()
    assert not (place / "stopped correction" / "done").exists()
    assert list((place / "stopped audit" / "checkpoint").iterdir())
    return place


def in_json(value: Any, draw: random.Random) -> Any:
    """The value with one part of it replaced, removed or added."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        if draw.random() < 0.15:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: in_json(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        return [*value[:place], in_json(value[place], draw), *value[place + 1 :]]
    return draw.choice(NASTY)


def forge(path: Path, draw: random.Random) -> None:
    """Another content, with a digest that fits or none."""
    if path.suffix == ".json":
        value = in_json(json.loads(path.read_text()), draw)
        value = {name: part for name, part in value.items() if name != SEAL} if isinstance(value, dict) else value
        draw.choice([write_sealed, write_json])(path, value if isinstance(value, dict) else {"value": value})
    elif path.suffix == ".safetensors":
        tensors, state = read_tensors(path)
        name = draw.choice(sorted(tensors)) if tensors else ""
        change = draw.randrange(5)
        if change == 0 or not name:
            state = in_json(state, draw)
        elif change == 1:
            del tensors[name]
        elif change == 2:
            tensors[name] = tensors[name][:1] if tensors[name].dim() else tensors[name].expand(2)
        elif change == 3:
            tensors[name] = tensors[name].to(torch.int8)
        else:
            tensors[name] = -tensors[name] if tensors[name].dtype.is_signed else tensors[name] + 1
        write_tensors(path, tensors, state)
    else:
        flip(path, draw)


def flip(path: Path, draw: random.Random) -> None:
    content = bytearray(path.read_bytes() or b"x")
    for _ in range(draw.choice([1, 1, 1, 20])):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def cut(path: Path, draw: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size + 1)])


def swap(path: Path, draw: random.Random) -> None:
    others = sorted(other for other in path.parent.rglob("*") if other.is_file())
    shutil.copyfile(draw.choice(others), path.with_name("swapped"))
    os.replace(path.with_name("swapped"), path)


def replace(path: Path, draw: random.Random) -> None:
    """Something else in the file's place: nothing, a folder, a pipe, links."""
    path.unlink()
    kind = draw.choice(["nothing", "folder", "pipe", "zeros", "itself", "text"])
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "itself":
        path.symlink_to(path)
    elif kind == "text":
        path.write_text(draw.choice(["[" * 9000, "9" * 9000, "{}", "[]", "null", '{"format": 1}', "\ufeff{}", "\x00"]))


TAMPERING = (forge, forge, forge, flip, cut, swap, replace)


def outcome(act: Callable[[Path], None], folder: Path, what: str) -> Exception | None:
    """What it raised, if anything; it must not hang."""

    def complain(*_: Any) -> None:
        raise AssertionError(f"it hangs: {what}")

    before = signal.signal(signal.SIGALRM, complain)
    signal.alarm(PATIENCE)
    try:
        act(folder)
    except Exception as error:
        return error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def test_tampered_folders(originals, tmp_path, capsys):
    end, done, told = time.monotonic() + SECONDS, 0, 0
    while done < FEWEST or time.monotonic() < end:
        draw = random.Random(f"{SEED} {done}")
        kind = draw.choice(sorted(ACTIONS))
        folder = tmp_path / "case" / kind
        shutil.copytree(originals / kind, folder)
        path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"))
        tamper, act = draw.choice(TAMPERING), draw.choice(ACTIONS[kind])
        what = f"seed {SEED}, case {done}: {tamper.__name__} {path.relative_to(folder)}, then {act.__name__}"
        tamper(path, draw)
        error = outcome(act, folder, what)
        if tamper is forge and path.suffix == ".safetensors":
            error = None  # numbers with a digest that fits are not looked through: they may break a run
        if error is not None:
            assert isinstance(error, TOLD), f"{what}: {type(error).__name__}: {error}"
            assert len(str(error).splitlines()) == 1, f"{what}: {error}"
            told += 1
        shutil.rmtree(tmp_path / "case")
        done += 1
    with capsys.disabled():
        print(f"\n{done} tampered folders: {told} told in a line, {done - told} did no harm")
