"""antidote apply, killed: at every change that it makes, or at random moments; then the same command once more.

``python -m tests.auditing.kills 100`` kills as many commands at random moments and prints how they ended.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from antidote_learn.auditing.contents import content_hash
from tests.commands import SERVER, forked

Tree = dict[str, str | None]
COLUMNS = "index,given_label,decision,new_label,data_hash\n"


def tree(folder: Path) -> Tree:
    """Every name below a folder, hidden ones too, with the digest of what a file holds."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def write_decisions(path: Path, data: Path, lines: Sequence[str]) -> Path:
    """Decisions on data as they are now."""
    content = content_hash(data)
    path.write_text(COLUMNS + "".join(f"{line},{content}\n" for line in lines))
    return path


def make_images(folder: Path, number: int) -> Path:
    """Tiny images, no two alike, of the classes cat and dog; below each class some in a folder of their own."""
    for at in range(number):
        path = folder / ("cat", "dog")[at % 2] / ("sub", "")[at % 3 > 0] / f"{at:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (at % 256, at // 256, 7)).save(path)
    return folder


def kill_everywhere(folder: Path, *words: str, number: int = signal.SIGKILL) -> list[str]:
    """What went wrong when the command was stopped before each change that it makes, and given again.

    Args:
        folder: The command's current directory; a copy of it is worked on.
        words: Of the command.
        number: The signal.
    """
    with tempfile.NamedTemporaryFile() as told:
        process = SERVER.Process(target=_kill_everywhere, args=(folder, words, number, told.name))
        process.start()
        process.join(120)
        assert process.exitcode == 0
        return json.loads(Path(told.name).read_text())


def _kill_everywhere(folder: Path, words: Sequence[str], number: int, told: str) -> None:
    _import_all()
    os.fsync = lambda handle: None  # a kill, unlike a power cut, loses nothing that was written
    before, wrong = tree(folder), []
    with tempfile.TemporaryDirectory() as room:
        work = Path(room, "work")
        assert _run_in_copy(folder, work, words) == 0
        after = tree(work)
        for at in range(1, 1000):
            if _run_in_copy(folder, work, words, dies_at_change=at, signal_at_change=number) == 0:
                break
            wrong += [f"stopped at {at}: {word}" for word in _lost(before, after, tree(work))]
            code = forked(*words, cwd=work)
            if code == 2 and tree(work) == after:
                continue  # a copy that had been finished is not written again
            if code or tree(work) != after:
                wrong.append(f"stopped at {at}, given again: code {code}, {_differences(after, tree(work))}")
        if at < 8 or tree(work) != after:
            wrong.append(f"{at} changes: {_differences(after, tree(work))}")
    Path(told).write_text(json.dumps(wrong))


def _import_all() -> None:
    """Once, not in every fork: the command line imports when it is used."""
    from antidote_learn.auditing.applying import apply_decisions  # noqa: F401
    from antidote_learn.cli import main

    sys.argv = ["antidote", "apply", "--undo", "nothing"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        main()


def _run_in_copy(folder: Path, work: Path, words: Sequence[str], **conditions: Any) -> int:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work)
    return forked(*words, cwd=work, **conditions)


def _lost(before: Tree, after: Tree, now: Tree) -> list[str]:
    """Contents that were there before, or are to stay, and are nowhere now; a table that is neither old nor new."""
    kept = {content for content in before.values() if content in after.values()}
    found = [f"{content} is nowhere" for content in kept - {*now.values()}]
    table = now.get("data.csv")
    return found + [f"data.csv is {table}"] * (table not in (before.get("data.csv"), after.get("data.csv")))


def _differences(wanted: Tree, found: Tree) -> list[str]:
    return sorted(name for name in {*wanted, *found} if wanted.get(name, 0) != found.get(name, 0))


def kill_randomly(folder: Path, start: Callable[[Path], Any], *, kills: int, seed: int, sign: str) -> Counter[str]:
    """How often a command, killed at random moments and given again, ended as one that was not.

    Args:
        folder: The command's current directory; copies of it are worked on.
        start: Starts the command in a folder: what it returns has ``kill`` and ``wait``.
        kills: How many.
        seed: Of the moments.
        sign: The name of what is in the folder as long as the work lasts.
    """
    rng, ends = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        work = Path(room, "work")
        lasts = _timed(folder, work, start, sign, None)
        after = tree(work)
        for _ in range(kills):
            _timed(folder, work, start, sign, rng.uniform(0, 1.1 * lasts))
            whole = "before" if tree(work) == tree(folder) else "after" if tree(work) == after else "between"
            again = start(work).wait()
            code = getattr(again, "code", again)
            ends[f"killed {whole}, given again: {'identical' if tree(work) == after else 'OTHER'}, code {code}"] += 1
    return ends


def _timed(folder: Path, work: Path, start: Callable[[Path], Any], sign: str, moment: float | None) -> float:
    """Runs the command in a copy, killed some seconds after the sign appears, or to the end; how long the sign was."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work)
    process, deadline = start(work), time.monotonic() + 60
    while not (work / sign).exists() and time.monotonic() < deadline:
        time.sleep(0.0005)
    began = time.monotonic()
    while (work / sign).exists() and (moment is None or time.monotonic() < began + moment):
        time.sleep(0.0005)
    ended = time.monotonic()
    if moment is not None:
        process.kill()
    process.wait()
    return ended - began


def main(kills: int) -> None:
    """Kills ``python -m antidote_learn apply`` on a folder and on a file, in place and not."""
    with tempfile.TemporaryDirectory() as room:
        images, table = make_images(Path(room, "images", "data"), 300).parent, Path(room, "table")
        table.mkdir()
        (table / "data.csv").write_text(
            "x,label\n" + "".join(f"{at},{('cat', 'dog')[at % 2]}\n" for at in range(20000))
        )
        lines = [f"{at},cat,{('drop,', 'relabel,dog')[at % 2]}" for at in range(150)]
        write_decisions(images / "decisions.csv", images / "data", lines)
        lines = [f"{at},cat,{('drop,', 'relabel,dog')[at // 2 % 2]}" for at in range(0, 10000, 2)]
        write_decisions(table / "decisions.csv", table / "data.csv", lines)
        for folder, data, sign, options in (
            (images, "data", "data/.changes.jsonl.applying", ("--in-place",)),
            (images, "data", ".data-corrected.applying", ()),
            (table, "data.csv", ".data.csv.changes.jsonl.applying", ("--in-place",)),
            (table, "data.csv", ".data-corrected.csv.changes.jsonl.applying", ()),
        ):
            words = ["apply", "decisions.csv", data, *options]
            start = functools.partial(_python, words)
            ends = kill_randomly(folder, start, kills=kills, seed=0, sign=sign)
            for end, number in sorted(ends.items()):
                sys.stdout.write(f"{' '.join(words)}: {end}: {number}\n")


def _python(words: Sequence[str], work: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "antidote_learn", *words]
    return subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
