"""Which labels are wrong: the audit beside cleanlab's documented routes, on the same features and wrong labels.

    pip install 'antidote-learn[bench]'
    OMP_NUM_THREADS=1 python benchmarks/detection.py DATA ... [--seeds 3] [--cache FOLDER] [--table]

DATA is digits, breast-cancer, fashion-mnist, text:FILE (what `apt-cache dumpavail` prints), cifar10n-worse,
cifar10n-random1, cifar10n-aggregate or cifar100n; seeds come one after the other, data sets in the order given. Records
go to benchmarks/detection-DATA.json after every contender; what is in it is never made again. Noises, seeds, rows and
contenders are fixed here and in `detection_data.py`, before any result. A figure is the average precision (and AUROC)
with which a ranking finds the rows whose label is wrong. Each contender is a process of its own, forked from one that
has read the data: its wall time, the processor's time (on a busy machine the one to compare) and its peak memory,
libraries and data included, are recorded. Texts and photographs
are embedded once, for all. Contenders, each with the audit's own perceptron, batch size and learning rate where one is
needed:

- `audit`, and each of its parts alone: what one robust training says, held-out predictions, neighbours;
- `loss`: the mean loss of one training with cross-entropy, 30 epochs;
- `cleanlab N`: five folds of N epochs, out-of-fold probabilities, ranked by self-confidence and by normalised margin;
- `CleanLearning`: its own five folds, 30 epochs; `Datalab`: its check of features alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from cleanlab import Datalab
from cleanlab.classification import CleanLearning
from cleanlab.rank import get_label_quality_scores
from detection_data import Data, data_of, scaled
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from antidote_learn import Audit, audit
from antidote_learn.auditing import audit_job
from antidote_learn.auditing.neighbours import votes
from antidote_learn.auditing.scores import score
from antidote_learn.auditing.weighted_judges import score_judges
from antidote_learn.models import build_model

EPOCHS = (8, 15, 30, 60)
FOLDS, LR, MOMENTUM = 5, 0.1, 0.9
Scores = dict[str, np.ndarray]  # the higher the more suspicious
Found = tuple[Scores, dict[str, Any]]  # and what else is to be recorded


def batches(rows: int, seed: int) -> Iterator[torch.Tensor]:
    """One epoch, as the audit makes it."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return iter(order.split(min(max(rows // 7, 16), 128)))


class Perceptron(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The audit's network with plain cross-entropy, as scikit-learn wants it."""

    def __init__(self, epochs: int = 30, seed: int = 0) -> None:
        self.epochs, self.seed = epochs, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Perceptron:
        """Trains for so many epochs, the last fifth at a tenth of the learning rate."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        inputs, target = torch.from_numpy(X), torch.from_numpy(labels)
        self.net_ = build_model("mlp", shape=X.shape[1:], classes=len(self.classes_), seed=self.seed)
        optimizer = torch.optim.SGD(self.net_.parameters(), LR, momentum=MOMENTUM, weight_decay=1e-4)
        self.losses_ = np.zeros(len(X))
        for epoch in range(self.epochs):
            optimizer.param_groups[0]["lr"] = LR if epoch < 0.8 * self.epochs else LR / 10
            self.net_.train()
            for index in batches(len(X), self.seed * 1000 + epoch):
                if len(index) < 2:
                    continue  # batch norm
                losses = F.cross_entropy(self.net_(inputs[index]), target[index], reduction="none")
                self.losses_[index.numpy()] += losses.detach().numpy()
                optimizer.zero_grad()
                losses.mean().backward()
                torch.nn.utils.clip_grad_norm_(self.net_.parameters(), 5.0)
                optimizer.step()
        return self

    @torch.no_grad()
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K)."""
        self.net_.eval()
        return np.asarray(self.net_(torch.from_numpy(X)).softmax(1).numpy())

    def predict(self, X: np.ndarray) -> np.ndarray:
        """(N,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])


def by_audit(X: np.ndarray, y: np.ndarray, seed: int) -> Found:
    """The audit and its parts: what goes into its score is looked at on the way."""
    seen: dict[str, Any] = {}

    def listening(function: Any) -> Any:
        def listen(labels: Any, count: int, **given: Any) -> Any:
            seen.update(given, labels=labels, count=count)
            return function(labels, count, **given)

        return listen

    setattr(audit_job, "score", listening(score))  # noqa: B010 - the module's own name for it
    setattr(audit_job, "score_judges", listening(score_judges))  # noqa: B010 - of tables
    found = audit(X, y, seed=seed)
    labels, training = seen["labels"], seen["trained_on"]
    held_out = seen["robust" if "robust" in seen else "said"][0]
    voted = votes(seen["around"], labels, training.of(labels), seen["count"])
    suspicion = {
        "audit": _ranks(found),
        "part: training": -training.of(labels),
        "part: held out": -held_out.of(labels),
        "part: neighbours": -voted[np.arange(len(labels)), labels],
    }
    counted = {"count": found.estimated_errors, "interval": found.interval, "rate": found.summary["anchor_rate"]}
    return suspicion, counted


def _ranks(found: Audit) -> np.ndarray:
    """The table's own order, which keeps what probabilities of 0 and 1 do not tell."""
    ranks = np.empty(len(found.table))
    ranks[found.table["index"].to_numpy()] = -np.arange(len(ranks))
    return ranks


def by_folds(X: np.ndarray, y: np.ndarray, seed: int, epochs: int) -> Scores:
    """Scores by cleanlab of out-of-fold probabilities."""
    probs = np.zeros((len(y), int(y.max()) + 1))
    for number, (train, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y)):
        net = Perceptron(epochs, seed * FOLDS + number).fit(X[train], y[train])
        probs[np.ix_(test, net.classes_)] = net.predict_proba(X[test])
    return {
        f"cleanlab {epochs}: {method}": -get_label_quality_scores(y, probs, method=method)
        for method in ("self_confidence", "normalized_margin")
    }


def by_clean_learning(X: np.ndarray, y: np.ndarray, seed: int) -> Scores:
    """Its own route from features to issues."""
    found = CleanLearning(Perceptron(30, seed), seed=seed, cv_n_folds=FOLDS).find_label_issues(X, y)
    return {"CleanLearning": -found["label_quality"].to_numpy()}


def by_datalab(X: np.ndarray, y: np.ndarray) -> Scores:
    """Its check of features alone."""
    lab = Datalab({"X": X, "y": y}, label_name="y", verbosity=0)
    lab.find_issues(features=X, issue_types={"label": {}})
    return {"Datalab": -lab.get_issues("label")["label_score"].to_numpy()}


def alone(function: Callable[[], Found]) -> tuple[Found, dict[str, float]]:
    """What a function gives, in a process of its own, and what it took: seconds, the processor's, peak memory in MB."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def work() -> None:
        start = time.perf_counter(), time.process_time()
        found = function()
        spent = {"seconds": time.perf_counter() - start[0], "cpu_seconds": time.process_time() - start[1]}
        there.send((found, {**spent, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))

    process = context.Process(target=work)
    process.start()
    there.close()
    result: tuple[Found, dict[str, float]] = here.recv()
    process.join()
    return result


def contenders(data: Data, seed: int) -> dict[str, Callable[[], Found]]:
    """By name, the cheapest first."""
    X, given, features = data.X, data.y, scaled(data.X)
    folds = {f"cleanlab {n}": lambda n=n: (by_folds(features, given, seed, n), {}) for n in EPOCHS}
    return {
        "audit": lambda: by_audit(X, given, seed),
        "Datalab": lambda: (by_datalab(features, given), {}),
        "loss": lambda: ({"loss": Perceptron(30, seed).fit(features, given).losses_}, {}),
        **folds,
        "CleanLearning": lambda: (by_clean_learning(features, given, seed), {}),
    }


def blank(data: Data, noise: str, seed: int) -> dict[str, Any]:
    """The record of a cell before anybody had a go at it."""
    said = {"noise": noise, "seed": seed, "rows": len(data.y), "wrong": int((data.truth != data.y).sum())}
    figures: dict[str, Any] = {key: {} for key in ("ap", "auroc", "seconds", "cpu_seconds", "memory")}
    return {**said, "encoder_seconds": round(data.seconds, 1), **figures}


def add(record: dict[str, Any], name: str, function: Callable[[], Found], wrong: np.ndarray) -> None:
    """One contender's figures."""
    (suspicion, further), spent = alone(function)
    for key, value in suspicion.items():
        record["ap"][key] = round(float(average_precision_score(wrong, value)), 4)
        record["auroc"][key] = round(float(roc_auc_score(wrong, value)), 4)
    record.update(further)
    for key, figure in spent.items():
        record[key][name] = round(figure, 2)


def table(records: list[dict[str, Any]]) -> str:
    """A row for each noise: what is found by whom, and the count of the audit."""
    lines = [
        "| noise | n | audit | best part | best of cleanlab | CleanLearning | Datalab | loss | count / truth | "
        "covered | time | memory |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for noise in dict.fromkeys(record["noise"] for record in records):
        rows = [record for record in records if record["noise"] == noise and "audit" in record["seconds"]]
        if rows:
            lines.append(_line(noise, rows))
    return "\n".join(lines)


def _line(noise: str, rows: list[dict[str, Any]]) -> str:
    """Means over the n seeds that all contenders have seen; the best is the best in hindsight; counts of all seeds."""
    names = {key for row in rows for key in row["ap"]}
    seen = [row for row in rows if names == row["ap"].keys()]
    mean = {key: statistics.fmean(row["ap"][key] for row in seen) for key in sorted(names)}
    parts = {key.removeprefix("part: "): value for key, value in mean.items() if key.startswith("part")}
    theirs = {key: value for key, value in mean.items() if key.startswith(("cleanlab", "CleanLearning", "Datalab"))}
    plain = " | ".join(f"{mean[key]:.3f}" if key in mean else "–" for key in ("CleanLearning", "Datalab", "loss"))
    ratios = " ".join(f"{row['count'] / row['wrong']:.2f}" for row in rows)
    covered = sum(row["interval"][0] <= row["wrong"] <= row["interval"][1] for row in rows)
    return (
        f"| {noise} | {len(seen)} | {mean['audit']:.3f} | {_best(parts)} | {_best(theirs)} | {plain} | {ratios} | "
        f"{covered} of {len(rows)} | {_ratio(rows, 'cpu_seconds')} | {_ratio(rows, 'memory')} |"
    )


def _best(values: dict[str, float]) -> str:
    best = max(values, key=lambda key: values[key], default="")
    return f"{values[best]:.3f} ({best})" if best else "–"


def _ratio(rows: list[dict[str, Any]], key: str) -> str:
    """Of the audit to five folds of 30 epochs, the median."""
    both = [row[key] for row in rows if {"audit", "cleanlab 30"} <= row[key].keys()]
    found = [figures["audit"] / figures["cleanlab 30"] for figures in both]
    return f"{statistics.median(found):.2f}" if found else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="these contenders; the others can follow")
    parser.add_argument("--cache", type=Path, default=Path("runs/detection"), help="where embeddings are kept")
    parser.add_argument("--table", action="store_true", help="print the records as Markdown, run nothing")
    given = parser.parse_args()
    for seed in range(1 if given.table else given.seeds):
        for name in given.data:
            path = Path(__file__).with_name(f"detection-{name.split(':')[0]}.json")
            records = json.loads(path.read_text()) if path.exists() else []
            if given.table:
                print(f"{name}\n\n{table(records)}\n")
            else:
                complete(path, records, data_of(name, given.cache), seed, given.only)


def complete(path: Path, records: list[dict[str, Any]], data: Data, seed: int, only: list[str] | None) -> None:
    """What is not there yet of the cells of a seed."""
    for noise in data.noises:
        noisy = data.with_noise(noise, seed)
        found = [record for record in records if (record["noise"], record["seed"]) == (noise, seed)]
        if not found:
            found = [blank(noisy, noise, seed)]
            records += found
        for name, function in contenders(noisy, seed).items():
            if name not in found[0]["seconds"] and name in (only or [name]):
                add(found[0], name, function, noisy.truth != noisy.y)
                path.write_text(json.dumps(records, indent=1) + "\n")
        print(path.stem, json.dumps(found[0]), flush=True)


if __name__ == "__main__":
    main()
