"""Training on what an audit found, beside training on the given labels and an oracle.

    python benchmarks/found.py digits|text|fashion-mnist|cifar10 [--runs FOLDER] [--packages FILE] [--table]

Every cell is one data set, noise and seed: the same rows and labels for all methods, all of them with the same network
and protocol. `audit` is what `antidote train DATA --labels AUDIT` does after `antidote audit DATA`, both with their
defaults; `oracle` is cross-entropy on the rows whose labels are right, which nobody knows. The figure is the last
epoch's accuracy on clean test samples. Noises, seeds and scales are fixed here, before any result; records go to
benchmarks/found-DATA.json after every cell, finished runs under FOLDER are never made again. The text set is that of
benchmarks/text.py and needs its file; human labels are CIFAR-10N's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import text
from sklearn.model_selection import train_test_split

from antidote_learn import Arrays, Run, audit, load, train
from antidote_learn.data.load import open_data
from antidote_learn.data.prepared import prepare

SEEDS = range(3)
METHODS = ("ce", "antidote", "antidote-dataset", "audit", "oracle")
GRIDS: dict[str, dict[str, Any]] = {
    "digits": {
        "noises": (
            "none", "symmetric:0.2", "symmetric:0.4", "symmetric:0.6", "symmetric:0.8", "pair:0.2", "pair:0.4",
            "instance:0.2", "instance:0.4",
        ),
        "options": {"epochs": 30},
    },
    "text": {
        "noises": ("none", "symmetric:0.2", "symmetric:0.4", "pair:0.4"),
        "options": {"epochs": 30, "text_features": "embeddings"},
    },
    "fashion-mnist": {
        "noises": ("none", "symmetric:0.4", "pair:0.4", "instance:0.4"),
        "subset": 3000,
        "test": 2000,
        "options": {"epochs": 15, "lr": 0.05, "protocol": "mnist"},
    },
    "cifar10": {
        "noises": ("human:worse", "none"),
        "subset": 3000,
        "test": 2000,
        "options": {"epochs": 40, "model": "cnn8:width=0.25", "augment": False},
    },
}  # fmt: skip


def source(name: str, seed: int, packages: Path | None, folder: Path) -> Arrays:
    """The data with a test part, the first samples of it; that of the text set is drawn."""
    if name != "text":
        whole = open_data(name)
        part = slice(GRIDS[name].get("test"))
        assert whole.test_inputs is not None
        assert whole.test_labels is not None
        return replace(whole, test_inputs=whole.test_inputs[part], test_labels=whole.test_labels[part])
    table = folder / "sections.csv"
    if not table.exists():
        if packages is None:
            sys.exit("the text set needs --packages, what `apt-cache dumpavail` prints")
        text.table(packages.read_text(encoding="utf-8")).to_csv(table, index=False)
    whole = open_data(table, label="section", text=["description"])
    rows, test = train_test_split(np.arange(len(whole.labels)), test_size=0.2, stratify=whole.labels, random_state=seed)
    return replace(
        taken(whole, rows), test_inputs=picked(whole.inputs, test), test_labels=whole.labels[test], test_is_clean=True
    )


def picked(inputs: Any, rows: Any) -> Any:
    """Some of the inputs, a table's or an array's."""
    return inputs.iloc[rows].reset_index(drop=True) if hasattr(inputs, "iloc") else inputs[rows]


def taken(arrays: Arrays, rows: Any) -> Arrays:
    """Some of the training samples, as they are labelled."""
    clean = None if arrays.clean_labels is None else arrays.clean_labels[rows]
    return replace(arrays, inputs=picked(arrays.inputs, rows), labels=arrays.labels[rows], clean_labels=clean)


def noisy(arrays: Arrays, noise: str, seed: int, subset: int | None) -> Arrays:
    """The training part with wrong labels, and the truth beside them."""
    made = prepare(arrays, noise=noise, noise_seed=seed, seed=seed, subset=subset, recipe="fitted")
    return replace(taken(arrays, made.index), labels=made.labels, clean_labels=arrays.labels[made.index])


def trained(arrays: Arrays, method: str, seed: int, options: dict[str, Any], folder: Path) -> Run:
    """One run, from its folder if it is there."""
    out = folder / method
    if (out / "done").exists():
        return load(out)
    given: dict[str, Any] = {**options, "seed": seed, "out": out, "resume": True}
    if method == "oracle":
        assert arrays.clean_labels is not None
        return train(taken(arrays, np.flatnonzero(arrays.labels == arrays.clean_labels)), method="ce", **given)
    if method != "audit":
        return train(arrays, method=method, **given)
    found = folder / "found"
    audit(arrays, seed=seed, out=found, resume=True)
    return train(arrays, labels=found, **given)


def cell(name: str, noise: str, seed: int, packages: Path | None, folder: Path) -> dict[str, Any]:
    """All methods on one set of labels."""
    grid, place = GRIDS[name], folder / f"{name}-{noise.replace(':', '-')}-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    arrays = noisy(source(name, seed, packages, folder), noise, seed, grid.get("subset"))
    assert arrays.clean_labels is not None
    record: dict[str, Any] = {"noise": noise, "seed": seed, "rows": len(arrays.labels)}
    record["wrong"] = int((arrays.labels != arrays.clean_labels).sum())
    for method in METHODS:
        run = trained(arrays, method, seed, grid["options"], place)
        record[method] = run.summary["accuracy"]["last"]
    return record


def table(name: str, records: list[dict[str, Any]]) -> str:
    """Means and standard deviations over seeds, a column for each noise."""
    noises = [noise for noise in GRIDS[name]["noises"] if any(record["noise"] == noise for record in records)]
    lines = ["| method | " + " | ".join(noises) + " |", "|---|" + "---|" * len(noises)]
    for method in METHODS:
        columns = [[record[method] for record in records if record["noise"] == noise] for noise in noises]
        lines.append(f"| {method} | " + " | ".join(_mean(values) for values in columns) + " |")
    return "\n".join(lines)


def _mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{spread}" + ("" if len(values) == len(SEEDS) else f" ({len(values)} seeds)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=GRIDS)
    parser.add_argument("--runs", type=Path, default=Path("runs/found"), help="where the runs lie")
    parser.add_argument("--packages", type=Path, help="of the text set")
    parser.add_argument("--table", action="store_true", help="print what is recorded, run nothing")
    given = parser.parse_args()
    path = Path(__file__).with_name(f"found-{given.data}.json")
    records = json.loads(path.read_text()) if path.exists() else []
    done = {(record["noise"], record["seed"]) for record in records}
    wanted = [(noise, seed) for seed in SEEDS for noise in GRIDS[given.data]["noises"]]
    for noise, seed in [] if given.table else [one for one in wanted if one not in done]:
        records.append(cell(given.data, noise, seed, given.packages, given.runs))
        path.write_text(json.dumps(records, indent=1) + "\n")
        print(records[-1], file=sys.stderr)
    print(table(given.data, records))


if __name__ == "__main__":
    main()
