"""Records of a grid as one file, and back into the grid's folder, so that the grid goes on elsewhere.

    python benchmarks/grid_records.py collect FOLDER benchmarks/compare-cifar10-corrections.json
    python benchmarks/grid_records.py restore FOLDER benchmarks/compare-cifar10-corrections.json

A cell that has a record is not run again by `antidote compare --out FOLDER`. Each record keeps its digest.
"""

from __future__ import annotations

import argparse
import json
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("collect", "restore"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    act = collect if options.action == "collect" else restore
    print(f"{act(options.folder, options.file)} records")


if __name__ == "__main__":
    main()
