"""What a dozen runs, audits and fits give, to be compared before and after the code is changed.

    python -m tests.same_results write FILE      # before
    python -m tests.same_results compare FILE    # after, on the same machine: every bit

`tests/test_same_results.py` compares with tests/same_results.json: to 1e-6 on the kind of processor that wrote it. On
another one last digits differ, and training makes first digits of them; what is there is then compared alone. To store
the results of another kind of processor, write that file anew with code whose results are known to be the same.
"""

import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from antidote_learn import AntidoteClassifier, RobustClassifier, audit, inject, train
from antidote_learn.bench.grid import local_engine, run_grid
from antidote_learn.bench.layout import make_cells

NOISY: dict[str, Any] = {"noise": "symmetric:0.3", "epochs": 3}
DIGITS: dict[str, Any] = {**NOISY, "subset": 500, "model": "mlp:hidden=[32]"}
METHODS = ("ce", "gce", "nce+rce", "antidote", "antidote:penalty=1", "antidote-dataset", "antidote:divergence=chi2")


class Deaf:
    def begin(self, known: Any) -> None: ...

    def end_cell(self, record: Any) -> None: ...


def processor() -> str:
    """The kind of processor: its instructions decide which kernels run, and these the last digits."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = sorted({name for line in lines if line.startswith(("flags", "Features")) for name in line.split()})
    kind = hashlib.sha256(" ".join(names).encode()).hexdigest()[:12] if names else platform.processor()
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {kind}"


def figures(value: Any) -> Any:
    """A JSON value without times and places."""
    if isinstance(value, dict):
        return {k: figures(v) for k, v in value.items() if "seconds" not in k and k not in ("out", "digest", "cell")}
    return [figures(part) for part in value] if isinstance(value, (list, tuple)) else value


def columns(table: pd.DataFrame) -> dict[str, Any]:
    """Of each column: a digest of all rows, and the first few."""
    return {
        name: {"digest": hashlib.sha256(column.to_csv().encode()).hexdigest(), "first": column[:8].tolist()}
        for name, column in table.items()
    }


def of_run(data: str, folder: Path, **options: Any) -> dict[str, Any]:
    run = train(data, out=folder, **options)
    metrics = run.metrics.drop(columns=[name for name in run.metrics if "seconds" in name])
    probabilities = run.predict_proba(load_iris().data[:9]) if data == "iris" else np.zeros(0)
    return {
        "summary": figures(run.summary),
        "metrics": columns(metrics),
        "samples": columns(run.samples),
        "predicted": probabilities.ravel().tolist(),
    }


def of_audit(data: str, folder: Path, **options: Any) -> dict[str, Any]:
    found = audit(data, out=folder, **options)
    return {"summary": figures(found.summary), "table": columns(found.table)}


def of_soft_labels(folder: Path) -> dict[str, Any]:
    audit("digits", out=folder / "audit", **DIGITS)
    return of_run("digits", folder / "run", labels=folder / "audit", **DIGITS)


def of_grid(folder: Path) -> dict[str, Any]:
    cells = make_cells(
        "iris", methods=["ce", "antidote"], noises=["none", "pair:0.2"], seeds=[0, 1], options={"epochs": 3}
    )
    return {"records": figures(run_grid(cells, folder, local_engine(1), Deaf()))}


def of_estimator(model: Any) -> dict[str, Any]:
    X, y = load_iris(return_X_y=True)
    model.fit(X, inject(y, "symmetric:0.2", seed=0).labels)
    return {"predicted": model.predict_proba(X).ravel().tolist(), "issues": columns(model.label_issues_)}


def cases() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """What is compared, by name."""
    found: dict[str, Callable[[Path], dict[str, Any]]] = {}
    for method in METHODS:
        found[f"digits {method}"] = lambda folder, method=method: of_run("digits", folder, method=method, **DIGITS)
    found["iris antidote"] = lambda folder: of_run("iris", folder, **NOISY)
    found["iris two processes"] = lambda folder: of_run("iris", folder, devices=2, method="antidote-dataset", **NOISY)
    found["iris adamw cosine"] = lambda folder: of_run(
        "iris", folder, optimizer="adamw", lr=0.01, schedule="cosine", warmup=1, clip=1, **NOISY
    )
    found["digits audit"] = lambda folder: of_audit("digits", folder, **DIGITS)
    found["iris audit"] = lambda folder: of_audit("iris", folder, **NOISY)
    found["digits soft labels"] = of_soft_labels
    found["iris grid"] = of_grid
    found["AntidoteClassifier"] = lambda folder: of_estimator(AntidoteClassifier(max_epochs=3, random_state=0))
    found["RobustClassifier"] = lambda folder: of_estimator(
        # A solver that converges to all digits: another processor's rounding stays rounding.
        RobustClassifier(LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=1000), random_state=0)
    )
    return found


def results(name: str) -> dict[str, Any]:
    """What the case gives, as JSON would give it back."""
    with tempfile.TemporaryDirectory() as room:
        found: dict[str, Any] = json.loads(json.dumps(cases()[name](Path(room) / "out")))
        return found


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """Places at which two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            place
            for key in sorted({*before, *after})
            for place in differences(before.get(key), after.get(key), f"{where} / {key}")
        ]
    return [] if before == after else [f"{where}: {str(before)[:60]} is {str(after)[:60]} now"]


def main(action: str, path: Path) -> int:
    if action == "write":
        found = {"processor": processor(), "cases": {name: results(name) for name in cases()}}
        path.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    before = json.loads(path.read_text())["cases"]
    differing = [place for name in before for place in differences(before[name], results(name), name)]
    sys.stdout.write("\n".join(differing) + f"\n{len(before)} cases, {len(differing)} differences\n")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
