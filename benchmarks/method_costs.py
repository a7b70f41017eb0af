"""What every training method costs, relative to cross-entropy: time and peak memory of whole runs.

    python benchmarks/method_costs.py [--rounds 3] [--methods antidote,elr]

Trains each method with its defaults, in a process of its own and on one thread, at two scales: digits with the `mlp`,
and small colour images made at random with a narrow `cnn8`. A run has everything that a user pays for: an estimate of
the noise rate where the method needs one, warm-ups, passes over the data. Each round has all methods, in an order of
its own, and cross-entropy among them. Time is the median over rounds of a run's seconds over those of cross-entropy in
the same round. Memory is the number of megabytes by which the peak is above that of cross-entropy, from one more run in
the first round. There every larger array is handed back to the system at once, which takes longer, but leaves no holes
in the heap: with them the peak of one and the same run varies by some 70 MB, without them by less than 1.

Results go into benchmarks/method_costs.json, from which docs/generate.py takes them; runs that are there already are
not made again. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from antidote_learn.registry import METHODS, parse_method

RECORD = Path(__file__).with_suffix(".json")
PLAIN = "ce"  # what all costs are relative to
NOISE = "symmetric:0.2"
SCALES: dict[str, dict[str, Any]] = {
    "digits": {"epochs": 10},
    "images": {"epochs": 5, "model": "cnn8:width=0.25", "batch_size": 128, "precision": "bf16"},
}
IMAGES, TEST_IMAGES, CLASSES = 2000, 500, 10
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # glibc: what has more bytes is handed back when it is freed
PROTOCOL = {"noise": NOISE, "scales": SCALES, "images": IMAGES, "threads": 1}


def images() -> Any:
    """Colour images of 32 x 32: each class has a random picture of its own, and each image noise on top of it."""
    from antidote_learn import Arrays

    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, IMAGES + TEST_IMAGES)
    pictures = rng.integers(0, 128, (CLASSES, 3, 32, 32))
    pixels = (pictures[labels] + rng.integers(0, 128, (len(labels), 3, 32, 32))).astype(np.uint8)
    return Arrays(
        "pictures",
        pixels[:IMAGES],
        labels[:IMAGES],
        tuple(map(str, range(CLASSES))),
        labels[:IMAGES],
        pixels[IMAGES:],
        labels[IMAGES:],
        test_is_clean=True,
    )


def one_run(method: str, scale: str) -> dict[str, float]:
    """A run in this process, after a short one of other data, which imports what every run imports."""
    from antidote_learn import train

    data = images() if scale == "images" else scale
    with tempfile.TemporaryDirectory() as folder:
        train("iris", method=PLAIN, epochs=1, out=Path(folder) / "first")
        start = time.perf_counter()
        train(data, method=method, noise=NOISE, out=Path(folder) / "run", **SCALES[scale])
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(seconds, 3), "megabytes": round(peak, 1)}


def run_apart(method: str, scale: str, settings: dict[str, str]) -> dict[str, float]:
    """`one_run` in a process of its own, with settings of its environment.

    A process's account of its peak begins with that of the process that started it: this one imports no torch.
    """
    command = [sys.executable, __file__, "--one", method, scale]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{method} on {scale} failed: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def cell(number: int, scale: str, method: str) -> dict[str, Any]:
    """One method in one round: its seconds, and in the first round its peak memory."""
    found: dict[str, Any] = {"round": number, "scale": scale, "method": method}
    found["seconds"] = run_apart(method, scale, {})["seconds"]
    if number == 0:
        found["megabytes"] = run_apart(method, scale, RETURNED)["megabytes"]
    return found


def costs(runs: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Times over that of cross-entropy (medians over rounds), and megabytes beyond it, by scale and method."""
    plain = {(run["scale"], run["round"]): run for run in runs if run["method"] == PLAIN}
    ratios: dict[tuple[str, str], list[float]] = {}
    beyond: dict[tuple[str, str], float] = {}
    for run in runs:
        other, key = plain.get((run["scale"], run["round"])), (run["scale"], run["method"])
        if other is None:
            continue
        ratios.setdefault(key, []).append(run["seconds"] / other["seconds"])
        if "megabytes" in run:
            beyond[key] = run["megabytes"] - other["megabytes"]
    found: dict[str, dict[str, dict[str, float]]] = {scale: {} for scale in SCALES}
    for (scale, method), megabytes in beyond.items():
        times = ratios[scale, method]
        entry = {"time": round(statistics.median(times), 3), "megabytes": round(megabytes, 1), "rounds": len(times)}
        found[scale][method] = entry
    return found


def measure(methods: list[str], rounds: int) -> dict[str, Any]:
    """The record, with the runs that it lacked."""
    record: dict[str, Any] = {"protocol": PROTOCOL, "costs": {}, "runs": []}
    if RECORD.exists():
        record = json.loads(RECORD.read_text())
    if record["protocol"] != PROTOCOL:
        sys.exit(f"{RECORD} was made with other settings: remove it to begin anew")
    done = {(run["round"], run["scale"], run["method"]) for run in record["runs"]}
    for number in range(rounds):
        wanted = [(number, scale, method) for scale in SCALES for method in methods]
        random.Random(number).shuffle(wanted)
        for about in [run for run in wanted if run not in done]:
            try:
                record["runs"].append(cell(*about))
            except RuntimeError as error:
                print(error, file=sys.stderr, flush=True)
                continue
            record["costs"] = costs(record["runs"])
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
            print(json.dumps(record["runs"][-1]), file=sys.stderr, flush=True)
    return record


def print_costs(record: dict[str, Any], methods: list[str]) -> None:
    """A line for each method: its time over that of cross-entropy and its megabytes beyond it, at each scale."""
    print(f"{'method':24}" + "".join(f"{scale + ', time':>16}{scale + ', MB':>16}" for scale in SCALES))
    for method in methods:
        entries = [record["costs"].get(scale, {}).get(method) for scale in SCALES]
        cells = [("-", "-") if e is None else (f"{e['time']:.2f}", f"{e['megabytes']:+.0f}") for e in entries]
        print(f"{method:24}" + "".join(f"{ratio:>16}{memory:>16}" for ratio, memory in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS), help="names, with commas between (default: all)")
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "SCALE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_run(*options.one)))
        return
    methods = [PLAIN, *(name for name in options.methods.split(",") if name != PLAIN)]
    for name in methods:
        parse_method(name)
    print_costs(measure(methods, options.rounds), methods)


if __name__ == "__main__":
    main()
