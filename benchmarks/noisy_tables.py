"""Audits of tables whose classes overlap, and of labels by rules and by people, beside cleanlab.

    OMP_NUM_THREADS=1 ANTIDOTE_DATA=... python benchmarks/noisy_tables.py FOLDER [--data churn,...] [--table]

FOLDER holds tables as .parquet files with a column `label`, whose labels are taken as true. Of each at most 8000 rows,
drawn once, are audited, with noise that is added: none, symmetric, one-sided (the rarest class), instance, and pair
where there are more than two classes. A file with the columns `text`, `given_label` and `clean_label` is taken as it
is; so are the first 3000 photographs of CIFAR-10N, embedded once for all. cleanlab ranks by five-fold predictions of a
logistic regression, LightGBM and a random forest, by self-confidence and by normalised margin, of texts over embeddings
and over TF-IDF. Data, noises, seeds and classifiers were fixed before the first result. Records go to
benchmarks/noisy_tables.json; what is there is not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from cleanlab.rank import get_label_quality_scores
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from antidote_learn import audit, inject
from antidote_learn.data.builtin import load_named
from antidote_learn.data.pictures import embed_images
from antidote_learn.data.sentences import embed_texts

RECORD = Path(__file__).with_suffix(".json")
DATA = "churn,magic,spambase,youtube-rules,cifar10n-random1"
ROWS, PHOTOGRAPHS = 8000, 3000  # the most rows of a table and of CIFAR-10N
NOISES = ("none", "symmetric:0.1", "symmetric:0.3", "one-sided:0.2", "one-sided:0.4", "instance:0.3", "pair:0.3")
CLASSIFIERS = {
    "logistic regression": lambda seed: LogisticRegression(max_iter=1000),
    "LightGBM": lambda seed: LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1),
    "random forest": lambda seed: RandomForestClassifier(random_state=seed),
}


@dataclass(frozen=True, eq=False)
class Rows:
    """A data set.

    Attributes:
        inputs: What the audit reads.
        features: What cleanlab's classifiers read, by name.
        true: (N,) the truth.
        given: (N,) the given labels; None where noise is added.
    """

    inputs: Any
    features: dict[str, Any]
    true: np.ndarray
    given: np.ndarray | None


def read_rows(name: str, folder: Path) -> Rows:
    """The data set of a name."""
    if name.startswith("cifar"):
        return read_photographs(name)
    table = pd.read_parquet(folder / f"{name}.parquet")
    if "given_label" in table:
        texts = table["text"].tolist()
        features = {" of embeddings": embed_texts(texts), " of TF-IDF": TfidfVectorizer().fit_transform(texts)}
        return Rows(table[["text"]], features, table["clean_label"].to_numpy(str), table["given_label"].to_numpy(str))
    table = table.sample(min(ROWS, len(table)), random_state=0).reset_index(drop=True)
    inputs = table.drop(columns=["label"])
    return Rows(inputs, {"": numbers_of(inputs)}, table["label"].to_numpy(str), None)


def read_photographs(name: str) -> Rows:
    """The first photographs of CIFAR-10N, embedded."""
    arrays = load_named(name)
    images = torch.from_numpy(np.asarray(arrays.inputs)[:PHOTOGRAPHS])
    embeddings = torch.cat([embed_images(part) for part in images.split(32)]).numpy()
    assert arrays.clean_labels is not None
    true, given = (labels[:PHOTOGRAPHS].astype(str) for labels in (arrays.clean_labels, arrays.labels))
    return Rows(embeddings, {"": StandardScaler().fit_transform(embeddings)}, true, given)


def numbers_of(table: pd.DataFrame) -> np.ndarray:
    """The columns standardised or one-hot, as a practitioner would encode them."""
    encoder = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
    )
    return np.asarray(make_pipeline(encoder).fit_transform(table), dtype=np.float32)


def cleanlab_scores(features: dict[str, Any], y: np.ndarray, wrong: np.ndarray, seed: int) -> dict[str, float]:
    """The average precision of each route."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    found = {}
    for kind, X in features.items():
        for name, make in CLASSIFIERS.items():
            probs = cross_val_predict(make(seed), X, y, cv=folds, method="predict_proba")
            for how in ("self_confidence", "normalized_margin"):
                quality = get_label_quality_scores(y, probs, method=how)
                found[f"{name}{kind}: {how}"] = round(float(average_precision_score(wrong, -quality)), 4)
    return found


def one_run(rows: Rows, given: np.ndarray, seed: int) -> dict[str, Any]:
    """The audit and cleanlab on one data set with its noise."""
    wrong = given != rows.true
    start = time.process_time()
    found = audit(rows.inputs, given, seed=seed)
    spent = time.process_time() - start
    ranks = np.empty(len(given))
    ranks[found.table["index"].to_numpy()] = -np.arange(len(given))
    run = {"rows": len(given), "wrong": int(wrong.sum()), "count": found.estimated_errors, "interval": found.interval}
    run |= {"flagged": int(found.summary["flagged"]), "cpu_seconds": round(spent, 1)}
    if wrong.any():
        run["ap"] = {"audit": round(float(average_precision_score(wrong, ranks)), 4)}
        run["ap"] |= cleanlab_scores(rows.features, np.unique(given, return_inverse=True)[1], wrong, seed)
    return run


def stored_runs() -> list[dict[str, Any]]:
    """The records that there are."""
    runs: list[dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else []
    return runs


def measure(folder: Path, names: list[str], seeds: int) -> list[dict[str, Any]]:
    """All records, with those that were missing."""
    runs = stored_runs()
    done = {(run["table"], run["noise"], run["seed"]) for run in runs}
    for name in names:
        rows = read_rows(name, folder)
        classes, numbers = np.unique(rows.true, return_inverse=True)
        for seed in range(seeds):
            for noise in NOISES if rows.given is None else ("as given",):
                if (name, noise, seed) in done or (noise.startswith("pair") and len(classes) == 2):
                    continue
                given = rows.given
                if given is None:
                    given = classes[inject(numbers, noise, X=rows.features[""], seed=seed).labels]
                runs.append({"table": name, "noise": noise, "seed": seed, **one_run(rows, given, seed)})
                RECORD.write_text(json.dumps(runs, indent=1) + "\n")
    return runs


def print_table(runs: list[dict[str, Any]]) -> None:
    """A row for each table and noise: means over seeds, the count and interval of the first seed."""
    print("| data | noise | wrong | count (each seed) | interval, first seed | covers | audit | best of cleanlab |")
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
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print what is recorded, and measure nothing")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    print_table(stored_runs() if options.table else measure(options.folder, options.data.split(","), options.seeds))


if __name__ == "__main__":
    main()
