"""Text as TF-IDF beside sentence embeddings: to which section of Debian a package belongs, by its one-line description.

    apt-cache dumpavail > packages.txt
    python benchmarks/text.py packages.txt [--runs FOLDER]

The file holds paragraphs with the fields Package, Section, Description and, where it differs, Source. The table has 220
packages of each section, one of each source so that no test sample is a training sample's sister. Sections, noise,
seeds and methods are fixed here, before any result; all else is the default of `antidote train`: a fifth is held out,
labels are flipped in the rest alone. Every cell is a run of its own under FOLDER and is never run again once it is
finished; the records are written to benchmarks/text.json, and `--table` prints them as Markdown. Logistic regression on
rows of unit length, with scikit-learn's defaults, stands beside them; it was added after the first results were seen.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from antidote_learn import Run, load, train
from antidote_learn.data.load import open_data
from antidote_learn.data.prepared import prepare

SECTIONS = ("admin", "editors", "games", "graphics", "mail", "math", "net", "science", "sound", "web")
PER_SECTION = 220
NOISE = "symmetric:0.2"
SEEDS = range(3)
FEATURES = ("tfidf", "embeddings")
METHODS = ("ce", "antidote")
REFERENCE = "logistic regression"
FIELDS = re.compile(r"^(Package|Source|Section|Description): (.*)$", re.MULTILINE)


def packages(control: str) -> dict[str, list[str]]:
    """Descriptions by section, of the first package of every source."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    fields = sorted((dict(FIELDS.findall(part)) for part in control.split("\n\n")), key=lambda f: f.get("Package", ""))
    for field in fields:
        if field.get("Section") in found and "Description" in field:
            source = field.get("Source", field["Package"]).split()[0]
            found[field["Section"]].setdefault(source, field["Description"])
    return {section: list(texts.values()) for section, texts in found.items()}


def table(control: str) -> pd.DataFrame:
    """The same number of packages of every section, drawn with seed 0; the sections are the truth."""
    draw = random.Random(0)
    rows = []
    for section, texts in packages(control).items():
        if len(texts) < PER_SECTION:
            sys.exit(f"section {section!r} has {len(texts)} sources, {PER_SECTION} are needed: give the whole archive")
        rows += [(text, section, section) for text in draw.sample(texts, PER_SECTION)]
    return pd.DataFrame(rows, columns=["description", "section", "clean_label"])


def run(data: Path, features: str, method: str, seed: int, folder: Path) -> Run:
    """One cell, from its folder if it is there."""
    out = folder / f"{features}-{method}-{seed}"
    if (out / "done").exists():
        return load(out)
    options: dict[str, Any] = {"label": "section", "text": ["description"], "text_features": features}
    return train(data, **options, noise=NOISE, method=method, seed=seed, out=out, resume=True)


def reference(data: Path, features: str, seed: int) -> dict[str, Any]:
    """Logistic regression on the split, the noisy labels and the features that a run of this seed has."""
    arrays = open_data(data, label="section", text=["description"])
    options: dict[str, Any] = {"noise": NOISE, "noise_seed": seed, "seed": seed, "subset": None, "recipe": "fitted"}
    prepared = prepare(arrays, **options, text_features=features)
    train_rows, test_rows = (
        normalize(rows.take(np.arange(len(rows))).numpy()) for rows in (prepared.rows, prepared.test_rows)
    )
    model = LogisticRegression(max_iter=2000).fit(train_rows, prepared.labels)
    accuracy = 100 * float(model.score(test_rows, prepared.test_labels))
    kept = {"features": features, "method": REFERENCE, "seed": seed, "noise": prepared.noise.rate}
    return {**kept, "accuracy": accuracy, "against": "clean", "rate": None}


def record(features: str, method: str, seed: int, run: Run) -> dict[str, Any]:
    """What is kept of a run."""
    summary = run.summary
    kept = {"features": features, "method": method, "seed": seed, "noise": summary["noise"]["realised"]}
    rate = (summary.get("noise_rate") or {}).get("rate")
    return {**kept, "accuracy": summary["accuracy"]["last"], "against": summary["accuracy"]["against"], "rate": rate}


def markdown(records: list[dict[str, Any]]) -> str:
    """A row for each kind of features and method."""
    lines = ["| text as | method | mean | " + " | ".join(f"seed {seed}" for seed in SEEDS) + " | estimated rate |"]
    lines.append("|---|---|" + "---:|" * (len(SEEDS) + 1) + "---|")
    for features in FEATURES:
        for method in (*METHODS, REFERENCE):
            rows = [row for row in records if (row["features"], row["method"]) == (features, method)]
            values = [row["accuracy"] for row in rows]
            rates = " ".join(f"{row['rate']:.2f}" for row in rows if row["rate"] is not None) or "–"
            figures = " | ".join(f"{value:.1f}" for value in (statistics.fmean(values), *values))
            lines.append(f"| {features} | {method} | {figures} | {rates} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("control", type=Path, nargs="?", help="what `apt-cache dumpavail` prints")
    parser.add_argument("--runs", type=Path, default=Path("runs/text"), help="where the table and the runs lie")
    parser.add_argument("--table", action="store_true", help="print what is recorded, run nothing")
    options = parser.parse_args()
    place = Path(__file__).with_name("text.json")
    if options.table:
        print(markdown(json.loads(place.read_text())["records"]))
        return
    if options.control is None:
        parser.error("give the file with the packages")
    options.runs.mkdir(parents=True, exist_ok=True)
    data = options.runs / "sections.csv"
    table(options.control.read_text(encoding="utf-8")).to_csv(data, index=False)
    digest, records = hashlib.sha256(data.read_bytes()).hexdigest(), []
    for seed, features in itertools.product(SEEDS, FEATURES):
        for method in METHODS:
            records.append(record(features, method, seed, run(data, features, method, seed, options.runs)))
            print(records[-1], file=sys.stderr)
        records.append(reference(data, features, seed))
        place.write_text(json.dumps({"noise": NOISE, "table_sha256": digest, "records": records}, indent=1) + "\n")
    print(markdown(records))


if __name__ == "__main__":
    main()
