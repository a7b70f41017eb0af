"""Damaged and hostile data files: the readers of train, audit, predict and apply give a result or say one line."""

import json
import random
import resource
import shutil
import signal
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest

from antidote_learn._types import Arrays
from antidote_learn.auditing.audit_prepare import input_places
from antidote_learn.auditing.editing import EDITORS
from antidote_learn.auditing.features import same_rows
from antidote_learn.data.image_folders import read_folder
from antidote_learn.data.inputs import take_inputs
from antidote_learn.data.load import open_data, open_inputs
from antidote_learn.data.prepared import fingerprint, prepare
from antidote_learn.data.text_forms import UNKNOWN
from tests.commands import SERVER
from tests.fuzz.budget import SECONDS, SEED
from tests.fuzz.made_files import WRITERS

ANSWERS = (ValueError, OSError)  # a FileNotFoundError is one of these: what the command line says in one line
HANGS = 20  # seconds that no file of a few kB takes
ROOM = 4 * 2**30  # bytes of address space beyond what the libraries take


class Hang(BaseException):
    """A case that does not end."""


def read_as_train(path: Path, rng: random.Random) -> Any:
    """What training and an audit do with their data before anything is written."""
    image = "image" if path.name == "list.csv" else None
    test = path if path.suffix not in (".npz", "") and rng.random() < 0.2 else None
    arrays = open_data(path, image=image, test=test)
    if len(arrays.labels) < 10:
        return arrays
    prepared = prepare(arrays, noise="none", noise_seed=0, seed=0, subset=None, recipe="fitted")
    fingerprint(prepared)
    return prepared


def read_as_audit(path: Path, rng: random.Random) -> Any:
    """The same without a test part, and which rows are identical."""
    arrays = open_data(path, label="label" if path.suffix == ".csv" and rng.random() < 0.5 else None)
    prepared = prepare(arrays, noise="none", noise_seed=0, seed=0, subset=None, recipe="fitted", hold_out=False)
    return same_rows(prepared, take_inputs(arrays.inputs, input_places(arrays, prepared)))


def read_as_predict(path: Path, rng: random.Random) -> Any:
    """Inputs alone, with columns that are read as they are written."""
    inputs, names = open_inputs(path, strings=("a", "label"), image="image" if path.name == "list.csv" else "")
    json.dumps(names).encode()
    return inputs


def read_as_apply(path: Path, rng: random.Random) -> Any:
    """A file that is to be written again."""
    suffix = next((end for end in EDITORS if path.name.endswith(end)), "")
    return EDITORS[suffix](path, None, UNKNOWN) if suffix else read_folder(path)


READERS = (read_as_train, read_as_audit, read_as_predict, read_as_apply)


def run_case(kind: str, seed: int, folder: Path) -> bool:
    """Whether a case was read; an answer in one line is none. Anything else goes through."""
    rng = random.Random(f"{kind} {seed}")
    folder.mkdir()
    path = WRITERS[kind](rng, folder)
    try:
        found = rng.choice(READERS)(path, rng)
    except ANSWERS as error:
        if not str(error).strip():
            raise AssertionError(f"{type(error).__name__} without a word") from error
        return False
    if isinstance(found, Arrays):
        json.dumps(found.notes, ensure_ascii=False).encode()  # every page and table can hold them
    return True


def fuzz(kind: str, first: int, seconds: float, folder: Path) -> None:
    """Runs cases in a process that can be killed, and writes down how far it came."""
    signal.signal(signal.SIGALRM, _raise_hang)
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, resource.RLIM_INFINITY))
    end, seed, read = time.monotonic() + seconds, first, 0
    while time.monotonic() < end:
        (folder / "log").write_text(json.dumps({"seed": seed, "cases": seed - first, "read": read}))
        signal.alarm(HANGS)
        try:
            read += run_case(kind, seed, folder / "case")
        except BaseException:
            (folder / "failure").write_text(traceback.format_exc())
            return
        signal.alarm(0)
        shutil.rmtree(folder / "case")
        seed += 1
    (folder / "log").write_text(json.dumps({"seed": seed, "cases": seed - first, "read": read}))
    (folder / "done").touch()


def _raise_hang(*_: Any) -> None:
    raise Hang


@pytest.mark.parametrize("kind", WRITERS)
def test_every_file_is_read_or_refused_in_words(kind, tmp_path):
    seconds = SECONDS / len(WRITERS)
    process = SERVER.Process(target=fuzz, args=(kind, SEED * 10**9, seconds, tmp_path))
    process.start()
    process.join(seconds + 3 * HANGS)
    if process.is_alive():
        process.kill()
        process.join()
    log = json.loads((tmp_path / "log").read_text())
    failure = tmp_path / "failure"
    assert not failure.exists(), f"{kind} case {log['seed']}:\n{failure.read_text()}"
    assert (tmp_path / "done").exists(), f"{kind} case {log['seed']}: the process ended with {process.exitcode}"
    print(f"{kind}: {log['cases']} cases, {log['read']} of them read")
    assert log["read"] or log["cases"] < 50 or kind == "special"
