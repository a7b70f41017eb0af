"""Records of a grid as one file, and back into the grid's folder, so that the grid goes on elsewhere.

    python benchmarks/grid_records.py collect FOLDER benchmarks/compare-cifar10-corrections.json
    python benchmarks/grid_records.py restore FOLDER benchmarks/compare-cifar10-corrections.json
    python benchmarks/grid_records.py table benchmarks/compare-cifar10-corrections.json

A cell that has a record is not run again by `antidote compare --out FOLDER`. Each record keeps its digest.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path

from antidote_learn.bench.layout import RECORD
from antidote_learn.training.checkpoint import write_bytes


def collect(folder: Path, file: Path) -> int:
    """Writes all records of a grid's folder to one file, and returns their number."""
    found = [{**json.loads(path.read_text()), "cell": path.parent.name} for path in folder.glob(f"*/{RECORD}")]
    found.sort(key=lambda record: (record["method"], record["noise"], record["seed"]))
    write_bytes(file, (json.dumps(found, indent=1) + "\n").encode())
    return len(found)


def restore(folder: Path, file: Path) -> int:
    """Puts the records of a file back where the folder has none, and returns the number of all."""
    records = json.loads(file.read_text())
    for record in records:
        path = folder / record.pop("cell") / RECORD
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_bytes(path, (json.dumps(record, indent=1) + "\n").encode())
    return len(records)


def print_table(file: Path) -> None:
    """Prints a row for each method, the best mean first: mean ± deviation over the seeds, and their number."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in json.loads(file.read_text()):
        cells[record["method"], record["noise"]].append(record["last"])
    noises = list(dict.fromkeys(noise for _, noise in cells))
    means = {key: statistics.fmean(values) for key, values in cells.items()}
    methods = {
        method: statistics.fmean(means[method, noise] for noise in noises if (method, noise) in means)
        for method, _ in cells
    }
    print(f"| method | {' | '.join(noises)} | mean |")
    print("|---" * (len(noises) + 2) + "|")
    for method in sorted(methods, key=methods.__getitem__, reverse=True):
        row = [_figure(cells.get((method, noise), [])) for noise in noises]
        print(f"| `{method}` | {' | '.join(row)} | {methods[method]:.1f} |")


def _figure(values: list[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{spread} ({len(values)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("collect", "restore", "table"))
    parser.add_argument("folder", type=Path, nargs="?", help="the grid's folder; a table needs none")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    if options.action == "table":
        print_table(options.file)
        return
    if options.folder is None:
        parser.error("name the grid's folder, too")
    act = collect if options.action == "collect" else restore
    print(f"{act(options.folder, options.file)} records")


if __name__ == "__main__":
    main()
