"""The command line as a user meets it: in a process that can be killed, stopped, and denied room on the disk.

The processes are forked from a server that has imported torch already, which saves seconds for each of them.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "antidote_learn.auditing.audits",
        "antidote_learn.cli.reporters",
        "antidote_learn.training.predictions",
        "antidote_learn.training.runs",
        "pyarrow.parquet",
        "sklearn.datasets",
        "torch.profiler",
        "tests.commands",
    ]
)
_WITHOUT = """
import sys

blocked = sys.argv.pop(1)

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from antidote_learn.cli import main
sys.exit(main())
"""
CHANGES = (os.replace, os.rename, os.link, os.unlink, os.mkdir, os.rmdir)
PROGRESS = ("noise rate,", "training:", "training, ", "held-out predictions,", "all rows:", "note:")


NO_CONDITIONS: Mapping[str, Any] = {
    "environment": {},
    "largest_file": None,
    "dies_at": None,
    "dies_at_change": None,
    "signal_at_change": signal.SIGKILL,
    "saves_often": False,
}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that is all a command says when it fails."""
        assert not self.out
        lines = [line for line in self.err.splitlines() if not line.startswith(PROGRESS)]
        assert len(lines) == 1, self.err
        return lines[0]


class Command:
    """A running ``antidote``.

    Args:
        args: Its arguments.
        cwd: Its current directory.
        environment: Further variables.
        largest_file: It cannot write files of more bytes.
        dies_at: It is killed just before this rename of a file that it wrote, counted from 1.
        saves_often: It writes checkpoints as quickly as a long run does in proportion, not every few seconds.
    """

    def __init__(
        self,
        *args: object,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        largest_file: int | None = None,
        dies_at: int | None = None,
        saves_often: bool = False,
    ) -> None:
        self._logs = tempfile.TemporaryDirectory()
        conditions = {"cwd": cwd, "environment": environment or {}, "largest_file": largest_file}
        conditions |= {"dies_at": dies_at, "saves_often": saves_often}
        conditions = {**NO_CONDITIONS, **conditions}
        words = [str(arg) for arg in args]
        self._process = SERVER.Process(target=_main, args=(words, self._logs.name, torch.get_num_threads(), conditions))
        self._process.start()

    def _said(self, stream: str) -> str:
        path = Path(self._logs.name, stream)
        return path.read_text() if path.exists() else ""

    def until(self, words: str, *, times: int = 1) -> None:
        """Waits until the words have come so many times on stderr."""
        deadline = time.monotonic() + 60
        while self._said("stderr").count(words) < times:
            assert self._process.is_alive(), self._said("stderr")
            assert time.monotonic() < deadline, self._said("stderr")
            time.sleep(0.005)

    def signal(self, number: int, *, group: bool = False) -> None:
        """Sends a signal, to the processes that it started, too, if the whole group is meant."""
        assert self._process.pid is not None
        (os.killpg if group else os.kill)(self._process.pid, number)

    def until_all_are_gone(self) -> None:
        """Waits until the processes that it started have ended, too."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self.signal(0, group=True)
            except ProcessLookupError:
                return
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def wait(self) -> Done:
        self._process.join(90)
        if self._process.exitcode is None:
            self.signal(signal.SIGKILL, group=True)
            raise TimeoutError(self._said("stderr"))
        return Done(self._process.exitcode, self._said("stdout"), self._said("stderr"))


def antidote(*args: object, **conditions: Any) -> Done:
    """A command from beginning to end."""
    return Command(*args, **conditions).wait()


def forked(*args: object, cwd: Path, **conditions: Any) -> int:
    """A command in a fork of this process, which has no threads, to the end; its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code: object = 1
        try:
            with tempfile.TemporaryDirectory() as logs:
                _main([str(arg) for arg in args], logs, 1, {"cwd": cwd, **NO_CONDITIONS, **conditions})
        except SystemExit as end:
            code = end.code or 0
        finally:
            os._exit(int(code))  # type: ignore[call-overload]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def without(package: str, *args: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, where a package is not installed."""
    command = [sys.executable, "-c", _WITHOUT, package, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _main(args: list[str], logs: str, threads: int, conditions: dict[str, Any]) -> None:
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background inherits it ignored
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(logs, name), os.O_WRONLY | os.O_CREAT), number)
    os.chdir(conditions["cwd"] or logs)
    os.environ.update(conditions["environment"])
    torch.set_num_threads(threads)
    if conditions["largest_file"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (conditions["largest_file"], resource.RLIM_INFINITY))
    if conditions["dies_at"] is not None:
        _die_at(conditions["dies_at"], (os.replace,), signal.SIGKILL)
    if conditions["dies_at_change"] is not None:
        _die_at(conditions["dies_at_change"], CHANGES, conditions["signal_at_change"])
    if conditions["saves_often"]:
        from antidote_learn.training import loop

        loop.SAVE_SECONDS, loop.SAVE_SHARE = 0.04, 1.0
    from antidote_learn.cli import main

    sys.argv = ["antidote", *args]
    sys.exit(main())


def _die_at(number: int, functions: tuple[Callable[..., Any], ...], signal_number: int) -> None:
    left = iter(range(number - 1))

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(left, None) is None:
                os.kill(os.getpid(), signal_number)
            return function(*args, **options)

        return call

    for function in functions:
        setattr(os, function.__name__, dying(function))
