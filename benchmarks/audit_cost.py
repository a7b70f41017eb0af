"""What an audit costs by the number of rows, and what its approximations for more than 50 000 of them change.

    python benchmarks/audit_cost.py [audits] [forms] [neighbours]

Audits tables of ten columns with the defaults, each in a process of its own and on one thread: CPU seconds by stage,
peak memory, files, and how well the wrong labels are ranked; some of them again with everything exact, or nothing. Then
one network by the data-set form, solved in every step and as it is by default; and the recall of the nearest rows.
Results go into benchmarks/audit_cost.json; those that are there already are not made again.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from antidote_learn import DatasetAntidoteLoss, audit, inject, relax
from antidote_learn.auditing import neighbours
from antidote_learn.nn import dataset
from antidote_learn.training.progress import Silent

RECORD = Path(__file__).with_suffix(".json")
CLASSES, COLUMNS, WRONG = 8, 10, "symmetric:0.2"
AUDITS = [  # rows, seed, form
    *((rows, 0, "default") for rows in (50_000, 1_000_000, 100_000, 200_000, 500_000, 60_000)),
    *((50_000, seed, "default") for seed in (1, 2)),
    *((50_000, seed, "approximate") for seed in (0, 1, 2)),
    *((rows, 0, "exact") for rows in (60_000, 100_000)),
]
LIMITS = {"approximate": 0, "exact": 10**9}  # rows up to which everything is exact; 50 000 by default
FROM, TO = 50_000, 1_000_000  # rows between which the growth is fitted
FORMS = [(60_000,), (100_000,)]
EPOCHS, BATCH, RATE, TEST = 10, 128, 0.2, 20_000
LOOK = 37  # steps between two looks at the weights
SEARCHES = [  # rows, columns, kind
    *((60_000, 10, kind) for kind in ("gaussian", "clusters", "duplicates", "heavy tails")),
    *((60_000, columns, "embeddings") for columns in (384, 1280)),
    *((rows, 10, "gaussian") for rows in (200_000, 1_000_000)),
]
ASKED = 500  # rows whose nearest ones are looked for exactly, too


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian classes that overlap, labels of which a fifth is wrong, and which ones are."""
    centres = np.random.default_rng([seed, 1]).normal(size=(CLASSES, COLUMNS))
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, rows)
    given = inject(true, WRONG, seed=seed).labels
    return rng.normal(centres[true], 1.0).astype(np.float32), given, given != true


class Clock(Silent):
    """CPU seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.name, self.since = "data", time.process_time()

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        now = time.process_time()
        self.seconds[self.name] = round(now - self.since, 2)
        self.name, self.since = name, now


def one_audit(rows: int, seed: int, form: str) -> dict[str, Any]:
    """An audit of a table, in this process."""
    if form in LIMITS:
        dataset.EXACT = neighbours.EXACT_ROWS = LIMITS[form]
    inputs, labels, wrong = table(rows, seed)
    clock, start = Clock(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        found = audit(inputs, labels, seed=seed, out=Path(folder) / "audit", reporter=clock)
        seconds = time.process_time() - start
        files = {path.name: path.stat().st_size for path in sorted((Path(folder) / "audit").iterdir())}
    clock.stage("end", epochs=0, done=0)
    quality = found.table.sort_values("index")["label_quality"].to_numpy()
    return {
        "cpu_seconds": round(seconds, 1),
        "by_stage": clock.seconds,
        "average_precision": float(average_precision_score(wrong, -quality)),
        "auroc": float(roc_auc_score(wrong, -quality)),
        "wrong": int(wrong.sum()),
        "estimated_errors": found.estimated_errors,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "files_megabytes": {name: round(size / 1e6, 1) for name, size in files.items() if size > 1e5},
    }


def one_form(rows: int) -> dict[str, Any]:
    """What it changes that solutions of the data-set form are used again: in a training, and in a step."""
    inputs, labels, wrong = table(rows + TEST, 0)
    clean = ~wrong[rows:]
    test, truth = torch.from_numpy(inputs[rows:][clean]), torch.from_numpy(labels[rows:][clean])
    found, scores = {}, []
    for form in ("exact", "default"):
        dataset.EXACT = LIMITS.get(form, 50_000)
        start = time.process_time()
        net, loss, step_errors = train_net(torch.from_numpy(inputs[:rows]), torch.from_numpy(labels[:rows]))
        seconds = time.process_time() - start
        with torch.no_grad():
            accuracy = float((net.eval()(test).argmax(dim=1) == truth).float().mean())
        whole = relax(loss.scores, loss.delta, kappa=loss.kappa, groups=loss.labels)
        scores.append(whole.weights)
        ranking = average_precision_score(wrong[:rows], loss.scores)
        found[form] = {
            "cpu_seconds": round(seconds, 1),
            "temperature": round(float(whole.lam) + loss.kappa, 5),
            "accuracy": round(accuracy, 4),
            "average_precision_of_scores": round(float(ranking), 5),
        }
    found["weights_apart"] = round(float((scores[0] - scores[1]).abs().mean()), 5)
    found["step_weights_apart"] = {"mean": round(float(np.mean(step_errors)), 5), "most": round(max(step_errors), 5)}
    return found


def train_net(inputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.nn.Module, DatasetAntidoteLoss, list[float]]:
    """A perceptron, its loss, and how far the weights of steps are from those of a solve over the same memory."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 256), torch.nn.ReLU(), torch.nn.Linear(256, CLASSES))
    loss, optimizer = DatasetAntidoteLoss(len(labels), noise_rate=RATE), torch.optim.SGD(net.parameters(), 0.1, 0.9)
    batches = [part for _ in range(EPOCHS) for part in torch.randperm(len(labels)).split(BATCH)]
    errors = []
    for step, part in enumerate(batches):
        loss.set_progress(step / len(batches))
        optimizer.zero_grad()
        loss(net(inputs[part]), labels[part], index=part).backward()
        optimizer.step()
        if step % LOOK == LOOK - 1:
            budget = loss.delta * min(1.0, step / len(batches) / dataset.RAMP)
            solved = relax(loss.scores, budget, kappa=loss.kappa, groups=loss.labels, base_weight=loss.measure)
            exact = solved.weights[part] * float(loss.measure.mean())
            errors.append(float((loss.last.weights - exact).abs().mean()))
    return net, loss, errors


def points(rows: int, columns: int, kind: str) -> np.ndarray:
    """Rows to find neighbours of."""
    rng = np.random.default_rng(0)
    if kind == "clusters":  # sorted, as files often are
        found = np.repeat(rng.normal(size=(rows // 1000, columns)), 1000, axis=0)
        found = found + 0.01 * rng.normal(size=found.shape)
    elif kind == "duplicates":
        found = rng.integers(0, 3, (rows, columns))
    elif kind == "heavy tails":
        found = rng.standard_t(1.5, size=(rows, columns))
    elif kind == "embeddings":  # each class near a subspace of 24 dimensions
        own = rng.integers(0, CLASSES, rows)
        planes = rng.normal(size=(CLASSES, 24, columns)).astype(np.float32) / 5
        found = 0.1 * rng.normal(size=(rows, columns)).astype(np.float32)
        for k, centre in enumerate(0.5 * rng.normal(size=(CLASSES, columns))):
            found[own == k] += centre + rng.normal(size=(int((own == k).sum()), 24)).astype(np.float32) @ planes[k]
    else:
        found = rng.normal(rng.normal(size=(CLASSES, columns))[rng.integers(0, CLASSES, rows)], 1.0)
    return found.astype(np.float32)


def one_search(rows: int, columns: int, kind: str) -> dict[str, Any]:
    """The recall of the nearest rows, by distance: of identical rows any is as good."""
    features, start = points(rows, columns, kind), time.process_time()
    around = neighbours.nearest_rows(features)
    seconds = time.process_time() - start
    asked = np.random.default_rng(1).choice(rows, ASKED, replace=False)
    search = NearestNeighbors(n_neighbors=neighbours.NEAREST + 1, algorithm="brute").fit(features)
    limit = search.kneighbors(features[asked])[0][:, -1]
    apart = np.linalg.norm(features[around[asked]].astype(np.float64) - features[asked][:, None], axis=2)
    return {
        "cpu_seconds": round(seconds, 1),
        "recall": float((apart <= limit[:, None] * (1 + 1e-5) + 1e-6).mean()),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def growth(audits: list[dict[str, Any]]) -> float | None:
    """The exponent of the CPU seconds in the rows, by least squares over all sizes."""
    chosen = [a for a in audits if FROM <= a["rows"] <= TO and a["seed"] == 0 and a["form"] == "default"]
    by_rows = {a["rows"]: a["cpu_seconds"] for a in chosen}
    logs = np.log([list(by_rows), list(by_rows.values())])
    return round(float(np.polyfit(*logs, 1)[0]), 3) if len(by_rows) > 1 else None


PARTS = {  # what is made, by whom, and what its arguments are called
    "audits": (AUDITS, one_audit, ("rows", "seed", "form")),
    "forms": (FORMS, one_form, ("rows",)),
    "neighbours": (SEARCHES, one_search, ("rows", "columns", "kind")),
}


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        part, *arguments = json.loads(sys.argv[2])
        print(json.dumps(PARTS[part][1](*arguments)))
        return
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for part in sys.argv[1:] or PARTS:
        todo, _, names = PARTS[part]
        rows = record.setdefault(part, [])
        for arguments in todo:
            about = dict(zip(names, arguments, strict=True))
            if any(about.items() <= done.items() for done in rows):
                continue
            command = [sys.executable, __file__, "one", json.dumps([part, *arguments])]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
            rows.append({**about, **json.loads(done.stdout)})
            record["exponent"] = growth(record["audits"])
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
            print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
