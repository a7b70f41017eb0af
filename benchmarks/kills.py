"""train, audit and compare, killed at random moments and given again: do they end as if nothing had happened?

    python benchmarks/kills.py [KILLS]

Each command runs once without a kill. Then, KILLS times (40 if not given), it is killed once or twice, between the
moment that its folder appears and its end, and given again with ``--resume``. What it leaves is compared with what the
first one left: every file but for seconds and paths. `antidote apply` has its own: ``python -m tests.auditing.kills``.
"""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COMMANDS = {
    "train": ["train", "iris", "--noise", "symmetric:0.2", "--epochs", "60", "--out", "out", "--resume"],
    "audit": ["audit", "iris", "--noise", "symmetric:0.2", "--epochs", "20", "--out", "out", "--resume"],
    "compare": [
        "compare", "iris", "--methods", "ce,antidote-dataset", "--noise", "symmetric:0.2", "--seeds", "2",
        "--epochs", "20", "--jobs", "1", "--out", "out",
    ],
}  # fmt: skip
TIMES = ("seconds", "out", "digest", "sha256")  # keys that differ from run to run, and digests of what holds them
PASSING = {"checkpoint", ".lock", "done", "accuracy.png"}


def plain(value: Any) -> Any:
    """A JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if not any(word in key for word in TIMES)}
    return [plain(part) for part in value] if isinstance(value, list) else value


def content(path: Path) -> str:
    """A digest of what a file holds."""
    if path.suffix in (".json", ".jsonl"):
        lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
        return json.dumps([plain(json.loads(line)) for line in lines], sort_keys=True)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def left(folder: Path) -> dict[str, str]:
    """All that a command left, by name."""
    files = [path for path in folder.rglob("*") if path.is_file() and not PASSING & {*path.parts}]
    return {str(path.relative_to(folder)): content(path) for path in files}


def start(words: list[str], work: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "antidote_learn", *words]
    return subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_folder(work: Path, process: "subprocess.Popen[bytes]") -> float:
    """The moment that its folder appears, or the process ends."""
    while not (work / "out").exists() and process.poll() is None:
        time.sleep(0.001)
    return time.monotonic()


def kill_and_go_on(words: list[str], lasts: float, draw: random.Random) -> tuple[dict[str, str], int, int]:
    """(what is left, the last exit code, how many kills met a running process)."""
    with tempfile.TemporaryDirectory() as room:
        work, met = Path(room), 0
        for _ in range(draw.choice([1, 2])):
            process = start(words, work)
            wait_for_folder(work, process)
            time.sleep(draw.uniform(0, lasts))
            met += process.poll() is None
            process.kill()
            process.wait()
        code = start(words, work).wait()
        return left(work / "out"), code, met


def main(kills: int) -> None:
    found = {}
    for name, words in COMMANDS.items():
        with tempfile.TemporaryDirectory() as room:
            process = start(words, Path(room))
            began = wait_for_folder(Path(room), process)
            assert process.wait() == 0, name
            lasts, wanted = time.monotonic() - began, left(Path(room) / "out")
        identical = others = met = 0
        for number in range(kills):
            files, code, hits = kill_and_go_on(words, lasts, random.Random(f"{name} {number}"))
            identical, others, met = identical + (files == wanted and code == 0), others + (files != wanted), met + hits
            if files != wanted or code:
                differing = sorted(key for key in {*files, *wanted} if files.get(key) != wanted.get(key))
                print(f"{name} {number}: code {code}, {differing}", file=sys.stderr)
        found[name] = {"cases": kills, "kills of a running process": met, "identical ends": identical, "others": others}
        print(json.dumps({name: found[name]}), file=sys.stderr, flush=True)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
