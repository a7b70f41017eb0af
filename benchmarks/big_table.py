"""An audit of a large table: time and peak memory of `antidote audit` with its defaults.

    python benchmarks/big_table.py [--rows 20000]

Writes a .csv file with six columns of numbers, one of text (80 characters on average) and labels of eight classes, of
which 15 % are wrong, audits it in a process of its own, and prints JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from antidote_learn import inject

CLASSES, COLUMNS, WRONG = 8, 6, "symmetric:0.15"


def table(rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The table, and which of its labels are wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, rows)
    given = inject(true, WRONG, seed=0).labels
    numbers = rng.normal(rng.normal(size=(CLASSES, COLUMNS))[true], 1.0)
    own, common = rng.integers(0, 200, (rows, 4)), rng.integers(0, 2000, (rows, 10))
    texts = [
        " ".join([*(f"w{k}x{i}" for i in mine), *(f"c{i}" for i in shared)])
        for k, mine, shared in zip(true, own, common, strict=True)
    ]
    columns = {f"n{i}": numbers[:, i] for i in range(COLUMNS)}
    return pd.DataFrame({**columns, "text": texts, "label": [f"class {k}" for k in given]}), given != true


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame, wrong = table(rows)
        frame.to_csv(folder / "big.csv", index=False)
        arguments = ["audit", folder / "big.csv", "--label", "label", "--out", folder / "audit", "--json"]
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "antidote_learn", *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds = time.perf_counter() - start
        found = pd.read_parquet(folder / "audit" / "issues.parquet").sort_values("index")
    summary = json.loads(done.stdout)
    report = {
        "rows": rows,
        "wrong": int(wrong.sum()),
        "estimated_errors": summary["estimated_errors"],
        "interval": summary["interval"],
        "average_precision": round(float(average_precision_score(wrong, -found["label_quality"])), 4),
        "seconds": round(seconds, 1),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
