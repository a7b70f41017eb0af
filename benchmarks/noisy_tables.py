"""Audits of tables whose classes overlap, beside cleanlab over the classifiers that people use for tables.

    OMP_NUM_THREADS=1 python benchmarks/noisy_tables.py FOLDER [--tables churn,magic,spambase] [--seeds 3] [--table]

FOLDER holds the tables as .parquet files with a column `label`, whose labels are taken as true. Of each at most 8000
rows, drawn once, are audited, with noise that is added: none, symmetric, one-sided (the rarest class), instance, and
pair where there are more than two classes. cleanlab ranks by five-fold predictions of a logistic regression, LightGBM
and a random forest, by self-confidence and by normalised margin. A file with the columns `given_label` and
`clean_label` is taken as it is. Tables, noises, seeds and classifiers were fixed before the first result. Records go to
benchmarks/noisy_tables.json; what is there is not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cleanlab.rank import get_label_quality_scores
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from antidote_learn import audit, inject

RECORD = Path(__file__).with_suffix(".json")
ROWS = 8000
NOISES = ("none", "symmetric:0.1", "symmetric:0.3", "one-sided:0.2", "one-sided:0.4", "instance:0.3", "pair:0.3")
CLASSIFIERS = {
    "logistic regression": lambda seed: LogisticRegression(max_iter=1000),
    "LightGBM": lambda seed: LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1),
    "random forest": lambda seed: RandomForestClassifier(random_state=seed),
}


def read_table(path: Path) -> tuple[pd.DataFrame, np.ndarray, np.ndarray | None]:
    """The columns, the true labels, and the given ones where there are any."""
    table = pd.read_parquet(path)
    if "given_label" in table:
        columns = table.drop(columns=["given_label", "clean_label"])
        return columns, table["clean_label"].to_numpy(str), table["given_label"].to_numpy(str)
    table = table.sample(min(ROWS, len(table)), random_state=0).reset_index(drop=True)
    return table.drop(columns=["label"]), table["label"].to_numpy(str), None


def numbers_of(table: pd.DataFrame) -> np.ndarray:
    """The columns standardised or one-hot, as a practitioner would encode them."""
    encoder = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
    )
    return np.asarray(make_pipeline(encoder).fit_transform(table), dtype=np.float32)


def cleanlab_scores(X: np.ndarray, y: np.ndarray, wrong: np.ndarray, seed: int) -> dict[str, float]:
    """The average precision of each route."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    found = {}
    for name, make in CLASSIFIERS.items():
        probs = cross_val_predict(make(seed), X, y, cv=folds, method="predict_proba")
        for how in ("self_confidence", "normalized_margin"):
            quality = get_label_quality_scores(y, probs, method=how)
            found[f"{name}: {how}"] = round(float(average_precision_score(wrong, -quality)), 4)
    return found


def one_run(table: pd.DataFrame, X: np.ndarray, true: np.ndarray, given: np.ndarray, seed: int) -> dict[str, Any]:
    """The audit and cleanlab on one table with its noise."""
    wrong = given != true
    start = time.process_time()
    found = audit(table, given, seed=seed)
    spent = time.process_time() - start
    ranks = np.empty(len(given))
    ranks[found.table["index"].to_numpy()] = -np.arange(len(given))
    run = {"rows": len(given), "wrong": int(wrong.sum()), "count": found.estimated_errors, "interval": found.interval}
    run |= {"flagged": int(found.summary["flagged"]), "cpu_seconds": round(spent, 1)}
    if wrong.any():
        numbers = np.unique(given, return_inverse=True)[1]
        run["ap"] = {"audit": round(float(average_precision_score(wrong, ranks)), 4)}
        run["ap"] |= cleanlab_scores(X, numbers, wrong, seed)
    return run


def measure(folder: Path, names: list[str], seeds: int) -> list[dict[str, Any]]:
    """All records, with those that were missing."""
    runs = json.loads(RECORD.read_text()) if RECORD.exists() else []
    done = {(run["table"], run["noise"], run["seed"]) for run in runs}
    for seed in range(seeds):
        for name in names:
            table, true, given = read_table(folder / f"{name}.parquet")
            X = numbers_of(table) if given is None else np.empty(0)
            classes, numbers = np.unique(true, return_inverse=True)
            for noise in NOISES if given is None else ("given",):
                if (name, noise, seed) in done or (noise.startswith("pair") and len(classes) == 2):
                    continue
                noisy = given if given is not None else classes[inject(numbers, noise, X=X, seed=seed).labels]
                runs.append({"table": name, "noise": noise, "seed": seed, **one_run(table, X, true, noisy, seed)})
                RECORD.write_text(json.dumps(runs, indent=1) + "\n")
    return runs


def print_table(runs: list[dict[str, Any]]) -> None:
    """A row for each table and noise: means over seeds, the count and interval of the first seed."""
    print("| table | noise | wrong | count (each seed) | interval, first seed | covers | audit | best of cleanlab |")
    print("|---|---|---|---|---|---|---|---|")
    for name, noise in dict.fromkeys((run["table"], run["noise"]) for run in runs):
        some = [run for run in runs if (run["table"], run["noise"]) == (name, noise)]
        covered = sum(run["interval"][0] <= run["wrong"] <= run["interval"][1] for run in some)
        low, high = some[0]["interval"]
        scores = {key: statistics.fmean(run["ap"][key] for run in some) for key in some[0].get("ap", {})}
        best = max((key for key in scores if key != "audit"), key=scores.__getitem__, default="")
        ours, theirs = (f"{scores[key]:.3f}" if key in scores else "–" for key in ("audit", best))
        counts = " ".join(str(run["count"]) for run in some)
        cells = [name, noise, some[0]["wrong"], counts, f"{low} to {high}", f"{covered} of {len(some)}", ours]
        print("| " + " | ".join(map(str, (*cells, f"{theirs} ({best})" if best else theirs))) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", default="churn,magic,spambase")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print what is recorded, and measure nothing")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    seeds = 0 if options.table else options.seeds
    print_table(measure(options.folder, options.tables.split(","), seeds))


if __name__ == "__main__":
    main()
