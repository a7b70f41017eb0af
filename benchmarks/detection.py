"""Which labels are wrong: the audit beside cleanlab's documented routes, on the same features and wrong labels.

    pip install 'antidote-learn[bench]'
    python benchmarks/detection.py digits|breast-cancer|fashion-mnist|npz:FILE [--seeds 3] [--table]

Records go to benchmarks/detection-DATA.json after every cell; a cell that is in it is never made again. Noises, seeds
and contenders are fixed here, before any result. A figure is the average precision (and AUROC) with which a ranking
finds the rows whose label was changed, with wall time. Contenders, each with the audit's own perceptron, batch size and
learning rate where one is needed:

- `audit`, and each of its parts alone: what one robust training says, held-out predictions, neighbours;
- `loss`: the mean loss of one training with cross-entropy, 30 epochs;
- `cleanlab N`: five folds of N epochs, out-of-fold probabilities, ranked by self-confidence and by normalised margin;
- `CleanLearning`: its own five folds, 30 epochs; `Datalab`: its check of features alone, where it is installed.

An .npz file holds X and y, or X, y and clean_labels: then the labels are wrong already, and no noise is added.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from cleanlab.classification import CleanLearning
from cleanlab.rank import get_label_quality_scores
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from antidote_learn import Audit, audit, inject
from antidote_learn.auditing import job
from antidote_learn.auditing.neighbours import votes
from antidote_learn.auditing.scores import score
from antidote_learn.data.opening import open_data
from antidote_learn.models import build_model

NOISES = (
    "symmetric:0.1", "symmetric:0.2", "symmetric:0.4", "symmetric:0.6", "symmetric:0.8", "pair:0.2", "pair:0.4",
    "instance:0.2", "instance:0.4",
)  # fmt: skip
EPOCHS = (8, 15, 30, 60)
ROWS = 6000  # of a larger data set, the first ones
FOLDS, LR, MOMENTUM = 5, 0.1, 0.9
Scores = dict[str, np.ndarray]  # the higher the more suspicious


def data_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(features, labels, truth where the labels are wrong already)."""
    if name.startswith("npz:"):
        file = np.load(name.removeprefix("npz:"))
        return file["X"].astype(np.float32), file["y"], file.get("clean_labels")
    arrays = open_data(name)
    inputs: Any = arrays.inputs
    flat = np.asarray(inputs, dtype=np.float32)[:ROWS]
    return flat.reshape(len(flat), -1), arrays.labels[:ROWS], None


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


def scaled(X: np.ndarray) -> np.ndarray:
    """Standardised by column for a few columns, else on one common scale: what suits the network, for all alike."""
    few = X.shape[1] <= 40
    spread = X.std(axis=0 if few else None)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), dtype=np.float32)


def by_audit(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[Scores, Audit]:
    """The audit and its parts: what goes into its score is looked at on the way."""
    seen: dict[str, Any] = {}

    def listening(labels: Any, count: int, **given: Any) -> Any:
        seen.update(given, labels=labels, count=count)
        return score(labels, count, **given)

    setattr(job, "score", listening)  # noqa: B010 - the module's own name for it
    found = audit(X, y, seed=seed)
    labels, (training, held_out) = seen["labels"], seen["said"]
    voted = votes(seen["around"], labels, seen["trust"], seen["count"])
    quality = found.table.sort_values("index")["label_quality"].to_numpy()
    suspicion = {
        "audit": _ranks(found),
        "part: training": -training.of(labels),
        "part: held out": -held_out.of(labels),
        "part: neighbours": -voted[np.arange(len(labels)), labels],
    }
    assert len(quality) == len(y)
    return suspicion, found


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


def by_datalab(X: np.ndarray, y: np.ndarray, seed: int) -> Scores:
    """Its check of features alone; nothing where it is not installed."""
    try:
        import datasets  # noqa: F401 - what Datalab needs
    except ImportError:
        return {}
    from cleanlab import Datalab

    lab = Datalab({"X": X, "y": y}, label_name="y", verbosity=0)
    lab.find_issues(features=X, issue_types={"label": {}})
    return {"Datalab": -lab.get_issues("label")["label_score"].to_numpy()}


def cell(X: np.ndarray, clean: np.ndarray, given: np.ndarray, seed: int) -> dict[str, Any]:
    """All contenders on one set of labels."""
    wrong = clean != given
    record: dict[str, Any] = {"rows": len(given), "wrong": int(wrong.sum()), "ap": {}, "auroc": {}, "seconds": {}}

    def timed(name: str, function: Callable[[], Scores]) -> None:
        start = time.perf_counter()
        suspicion = function()
        record["seconds"][name] = round(time.perf_counter() - start, 2)
        for key, value in suspicion.items():
            record["ap"][key] = round(float(average_precision_score(wrong, value)), 4)
            record["auroc"][key] = round(float(roc_auc_score(wrong, value)), 4)

    def ours() -> Scores:
        suspicion, found = by_audit(X, given, seed)
        record.update(count=found.estimated_errors, interval=found.interval, rate=found.summary["anchor_rate"])
        return suspicion

    features = scaled(X)
    timed("audit", ours)
    timed("loss", lambda: {"loss": Perceptron(30, seed).fit(features, given).losses_})
    for epochs in EPOCHS:
        timed(f"cleanlab {epochs}", lambda epochs=epochs: by_folds(features, given, seed, epochs))
    timed("CleanLearning", lambda: by_clean_learning(features, given, seed))
    timed("Datalab", lambda: by_datalab(features, given, seed))
    return record


def table(records: list[dict[str, Any]]) -> str:
    """Means over seeds: the audit, the best of its parts, the best of cleanlab's routes, the plain loss, the count."""
    lines = [
        "| noise | audit | best part | best of cleanlab | CleanLearning | loss | count / truth | covered | time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for noise in dict.fromkeys(record["noise"] for record in records):
        rows = [record for record in records if record["noise"] == noise]
        mean = {key: statistics.fmean(row["ap"][key] for row in rows) for key in rows[0]["ap"]}
        parts = max(value for key, value in mean.items() if key.startswith("part"))
        theirs = {key: value for key, value in mean.items() if key.startswith(("cleanlab", "CleanLearning", "Datalab"))}
        best = max(theirs, key=lambda key: theirs[key])
        ratios = " ".join(f"{row['count'] / row['wrong']:.2f}" for row in rows)
        covered = sum(row["interval"][0] <= row["wrong"] <= row["interval"][1] for row in rows)
        spent = statistics.fmean(row["seconds"]["audit"] / row["seconds"]["cleanlab 30"] for row in rows)
        lines.append(
            f"| {noise} | {mean['audit']:.3f} | {parts:.3f} | {theirs[best]:.3f} ({best}) | "
            f"{mean['CleanLearning']:.3f} | {mean['loss']:.3f} | {ratios} | {covered} of {len(rows)} | {spent:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print the records as Markdown")
    given = parser.parse_args()
    stem = Path(given.data.removeprefix("npz:")).stem
    path = Path(__file__).with_name(f"detection-{stem}.json")
    records = json.loads(path.read_text()) if path.exists() else []
    if given.table:
        sys.stdout.write(table(records) + "\n")
        return
    X, y, truth = data_of(given.data)
    for seed in range(given.seeds):
        for noise in ("as given",) if truth is not None else NOISES:
            if any((record["noise"], record["seed"]) == (noise, seed) for record in records):
                continue
            labels = y if truth is not None else inject(y, noise, X=scaled(X), seed=seed).labels
            record = {"noise": noise, "seed": seed, **cell(X, y if truth is None else truth, labels, seed)}
            records.append(record)
            path.write_text(json.dumps(records, indent=1) + "\n")
            sys.stdout.write(json.dumps({key: record[key] for key in ("noise", "seed", "wrong", "count", "ap")}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
