"""What a practitioner gets from one command: `--method auto` beside plain classifiers, CleanLearning and `antidote`.

    OMP_NUM_THREADS=1 python benchmarks/default_training.py FOLDER [--tables churn,magic,spambase] [--seeds 3] [--table]

FOLDER holds the tables as .parquet files with a column `label`, whose labels are taken as true. Of each at most 8000
rows, drawn once: by seed, a fifth is held out with its true labels, and the labels of the others get noise (none,
symmetric, one-sided from the rarest class, instance, and pair where there are more than two classes). A table with the
columns `given_label` and `clean_label` keeps its own noise; texts are embedded by all-minilm-l6-v2. All contenders have
the same numbers: columns standardised or one-hot, or embeddings. Accuracy on true labels in percent, the expected
calibration error of `auto` (15 bins), and processor seconds. Tables, noises, seeds and contenders were fixed before the
first result. Records go to benchmarks/default_training.json; what is there is not made again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.classification import CleanLearning
from noisy_tables import CLASSIFIERS, NOISES, numbers_of, read_table
from sklearn.model_selection import train_test_split

from antidote_learn import inject, train
from antidote_learn._types import Arrays

RECORD = Path(__file__).with_suffix(".json")
BINS = 15
METHODS = ("antidote", "auto")


def expected_calibration_error(probs: np.ndarray, right: np.ndarray) -> float:
    """The mean distance between confidence and accuracy over equal bins of confidence."""
    sure = probs.max(axis=1)
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [abs(right[bins == b].mean() - sure[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(np.sum(gaps))


def fit_plainly(model: Any, data: Arrays) -> np.ndarray:
    """The predictions of a classifier for the test rows."""
    with contextlib.redirect_stdout(io.StringIO()):
        said: np.ndarray = np.asarray(model.fit(data.inputs, data.labels).predict(data.test_inputs))
    return said


def contenders(seed: int) -> dict[str, Callable[[Arrays], np.ndarray]]:
    """What is trained, by name, without our own methods."""
    found: dict[str, Callable[[Arrays], np.ndarray]] = {}
    for name, make in CLASSIFIERS.items():
        found[name] = lambda data, make=make: fit_plainly(make(seed), data)
        found[f"CleanLearning: {name}"] = lambda data, make=make: fit_plainly(
            CleanLearning(make(seed), seed=seed), data
        )
    return found


def one_run(data: Arrays, seed: int) -> dict[str, Any]:
    """The accuracy and time of all contenders on one data set."""
    accuracy, seconds, record = {}, {}, {}
    truth = np.asarray(data.test_labels)
    for name, fit in contenders(seed).items():
        start = time.process_time()
        accuracy[name] = round(100.0 * float((fit(data) == truth).mean()), 2)
        seconds[name] = round(time.process_time() - start, 1)
    for method in METHODS:
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            run = train(data, method=method, seed=seed, out=Path(folder) / "run")
            probs = run.predict_proba(data.test_inputs)
        seconds[method] = round(time.process_time() - start, 1)
        right = probs.argmax(axis=1) == truth
        accuracy[method] = round(100.0 * float(right.mean()), 2)
        record[f"ece {method}"] = round(expected_calibration_error(probs, right), 4)
    return {"accuracy": accuracy, "cpu_seconds": seconds, **record, "decision": run.summary["decision"]}


def data_of(name: str, X: np.ndarray, true: np.ndarray, given: np.ndarray | None, noise: str, seed: int) -> Arrays:
    """A data set whose test part, a fifth, has its true labels."""
    classes, labels = np.unique(true, return_inverse=True)
    kept, held = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=seed)
    if given is not None:
        noisy = np.searchsorted(classes, given)[kept]
    else:
        noisy = inject(labels[kept], noise, X=X[kept], seed=seed, num_classes=len(classes)).labels
    return Arrays(
        name, X[kept], noisy, tuple(classes), test_inputs=X[held], test_labels=labels[held], test_is_clean=True
    )


def embeddings_of(table: Any) -> np.ndarray:
    """Embeddings of the texts of a table, one column after the other."""
    from antidote_learn.data.sentences import embed_texts, texts_of

    return np.concatenate([embed_texts(texts_of(table[name])) for name in table], axis=1)


def measure(folder: Path, names: list[str], seeds: int) -> list[dict[str, Any]]:
    """All records, with those that were missing."""
    runs = json.loads(RECORD.read_text()) if RECORD.exists() else []
    done = {(run["table"], run["noise"], run["seed"]) for run in runs}
    for seed in range(seeds):
        for name in names:
            table, true, given = read_table(folder / f"{name}.parquet")
            noises = NOISES if given is None else ("given",)
            missing = [noise for noise in noises if (name, noise, seed) not in done]
            X = numbers_of(table) if given is None else embeddings_of(table) if missing else np.empty(0)
            for noise in missing:
                if noise.startswith("pair") and len(np.unique(true)) == 2:
                    continue
                data = data_of(name, X, true, given, noise, seed)
                runs.append(
                    {"table": name, "noise": noise, "seed": seed, "rows": len(data.labels), **one_run(data, seed)}
                )
                RECORD.write_text(json.dumps(runs, indent=1) + "\n")
    return runs


def print_table(runs: list[dict[str, Any]]) -> None:
    """A row for each table and noise: means over seeds, the best of the others in hindsight."""
    print("| table | noise | n | auto | antidote | best of the others | difference | calibration error |")
    print("|---|---|---|---|---|---|---|---|")
    for name, noise in dict.fromkeys((run["table"], run["noise"]) for run in runs):
        some = [run for run in runs if (run["table"], run["noise"]) == (name, noise)]
        mean = {key: statistics.fmean(run["accuracy"][key] for run in some) for key in some[0]["accuracy"]}
        best = max((key for key in mean if key not in METHODS), key=mean.__getitem__)
        gap = statistics.fmean(run["ece auto"] for run in some)
        cells = [name, noise, len(some), f"{mean['auto']:.1f}", f"{mean['antidote']:.1f}"]
        cells += [f"{mean[best]:.1f} ({best})", f"{mean['auto'] - mean[best]:+.1f}", f"{gap:.3f}"]
        print("| " + " | ".join(map(str, cells)) + " |")


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
