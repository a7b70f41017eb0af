"""The default of `antidote train`, an estimated noise rate, beside the true rate and cross-entropy.

    python benchmarks/rates.py digits|breast-cancer|fashion-mnist|cifar10-estimates [--runs FOLDER]

The collected records are written to benchmarks/rates-GRID.json after every cell; a cell that is in it, or whose runs
are finished under FOLDER, is never run again, and `--table` prints them as Markdown. Seeds, noises and epochs are fixed
here, before any result; the figure is the last epoch's accuracy on the clean test samples. `cifar10-estimates` is about
the estimate alone (one epoch of training follows it), with the one of before the line through stricter anchors beside.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from antidote_learn import Run, load, train

NOISES = (
    "none", "symmetric:0.2", "symmetric:0.4", "symmetric:0.6", "symmetric:0.8",
    "pair:0.2", "pair:0.4", "instance:0.2", "instance:0.4",
)  # fmt: skip
GRIDS: dict[str, dict[str, Any]] = {
    "digits": {"noises": NOISES, "seeds": range(5), "options": {"epochs": 30}},
    "breast-cancer": {
        "noises": ("none", "symmetric:0.1", "symmetric:0.3"), "seeds": range(5), "options": {"epochs": 30},
    },
    "fashion-mnist": {
        "noises": NOISES,
        "seeds": range(2),
        "options": {"subset": 10_000, "epochs": 15, "lr": 0.05, "protocol": "mnist"},
    },
    "cifar10-estimates": {
        "data": "cifar10",
        "noises": (
            "none", "symmetric:0.2", "symmetric:0.4", "symmetric:0.6", "asymmetric:0.4", "pair:0.4", "instance:0.4",
            "human:worse", "human:random1",
        ),
        "seeds": range(2),
        "options": {"subset": 10_000, "epochs": 1, "model": "cnn8:width=0.25", "augment": False},
        "methods": ("estimated",),
    },
}  # fmt: skip
METHODS = {"estimated": "antidote", "true": "antidote:noise_rate=injected", "ce": "ce"}


def run(data: str, noise: str, seed: int, method: str, options: dict[str, Any], folder: Path) -> Run:
    """One cell, from its folder if it is there."""
    out = folder / f"{data}-{noise.replace(':', '-')}-{method.replace(':', '-')}-{seed}-{options['epochs']}"
    if (out / "done").exists():
        return load(out)
    return train(data, noise=noise, seed=seed, method=method, out=out, resume=True, **options)


def cell(name: str, noise: str, seed: int, folder: Path) -> dict[str, Any]:
    """The three methods on one data set with one noise and seed."""
    grid = GRIDS[name]
    data, options = grid.get("data", name), grid["options"]
    record: dict[str, Any] = {"data": data, "noise": noise, "seed": seed}
    for name in grid.get("methods", METHODS):
        method = METHODS[name]
        if noise == "none" and name == "true":
            continue  # told a rate of 0 it is cross-entropy
        summary = run(data, noise, seed, method, options, folder).summary
        record[name] = summary["accuracy"]["last"]
        record["realised"] = summary["noise"]["realised"]
        if name == "estimated":
            found = summary["noise_rate"]
            plain = 1 - found["agreement"] / (1 - found["instability"] / 2)
            record |= {
                **{key: found[key] for key in ("rate", "low", "high")},
                "without_line": max(0.0, min(plain, 0.8)),
            }
    return record


def table(records: list[dict[str, Any]]) -> str:
    """Means over seeds, with the range of the estimates."""
    lines = [
        "| noise | realised | estimate (each seed) | without the line | covered | estimated rate | true rate | CE |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for noise in dict.fromkeys(record["noise"] for record in records):
        rows = [record for record in records if record["noise"] == noise]
        mean = {name: _mean(rows, name) for name in METHODS}
        covered = sum(row["low"] <= row["realised"] <= row["high"] for row in rows)
        estimates, plain = (
            " ".join(f"{row[key]:.2f}" if key in row else "–" for row in rows) for key in ("rate", "without_line")
        )
        realised = statistics.fmean(row["realised"] for row in rows)
        figures = " | ".join(mean.values())
        lines.append(f"| {noise} | {realised:.3f} | {estimates} | {plain} | {covered} of {len(rows)} | {figures} |")
    return "\n".join(lines)


def _mean(rows: list[dict[str, Any]], name: str) -> str:
    values = [row[name] for row in rows if name in row]
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=GRIDS)
    parser.add_argument("--runs", type=Path, default=Path("runs/rates"), help="where the runs lie")
    parser.add_argument("--table", action="store_true", help="print what is recorded, run nothing")
    options = parser.parse_args()
    place = Path(__file__).with_name(f"rates-{options.data}.json")
    if options.table:
        print(table(json.loads(place.read_text())["records"]))
        return
    grid = GRIDS[options.data]
    stored = json.loads(place.read_text()) if place.exists() else {}
    known = stored.get("records", []) if stored.get("options") == grid["options"] else []
    done = {(record["noise"], record["seed"]): record for record in known}
    wanted = [(noise, seed) for noise in grid["noises"] for seed in grid["seeds"]]
    for noise, seed in wanted:
        if (noise, seed) not in done:
            done[noise, seed] = cell(options.data, noise, seed, options.runs)
            records = [done[key] for key in wanted if key in done]
            place.write_text(json.dumps({"options": grid["options"], "records": records}, indent=1) + "\n")
            print(done[noise, seed], file=sys.stderr)
    print(table([done[key] for key in wanted]))


if __name__ == "__main__":
    main()
