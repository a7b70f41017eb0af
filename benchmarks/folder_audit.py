"""A folder of photographs whose folders are what people called them, audited with and without the encoder of images.

    ANTIDOTE_DATA=... python benchmarks/folder_audit.py [--folder FOLDER] [--images 2000] [--model NAME]

The first images of CIFAR-10 are written as PNG files into folders named by their human labels (CIFAR-10N, worse). Each
audit is a process of its own, so that its peak memory is its own, with the defaults of `antidote audit`, but for the
network that reads pixels where no encoder does, if one is given. Times are wall times of an audit from the folder on.
Prints JSON, which is also written to benchmarks/folder_audit.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.metrics import average_precision_score, roc_auc_score

from antidote_learn import audit
from antidote_learn.cli.reporters import reporter_for
from antidote_learn.data.builtin import load_named

DATA = "cifar10n-worse"
ENCODERS = ("efficientnet-lite0", "none")


def write(folder: Path, count: int) -> dict[str, bool]:
    """The images as PNG files; which of them have a wrong label, by the name that an audit gives a file."""
    arrays = load_named(DATA)
    wrong = {}
    for i in range(count):
        name = f"{arrays.classes[arrays.labels[i]]}/{i:05}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(arrays.inputs[i]).transpose(1, 2, 0)).save(folder / name)
        wrong[name] = bool(arrays.labels[i] != arrays.clean_labels[i])
    return wrong


def one(folder: Path, encoder: str, model: str | None, seed: int) -> dict[str, Any]:
    """An audit in this process."""
    wrong = json.loads((folder / "wrong.json").read_text())
    start = time.monotonic()
    found = audit(folder / "images", encoder=encoder, model=model, seed=seed, reporter=reporter_for(quiet=False))
    seconds = time.monotonic() - start
    truth, quality = found.table["file"].map(wrong), found.table["label_quality"]
    return {
        "encoder": encoder,
        "model": model or "default",
        "seed": seed,
        "features": found.summary["features"],
        "average_precision": round(float(average_precision_score(truth, -quality)), 4),
        "auroc": round(float(roc_auc_score(truth, -quality)), 4),
        "estimated_errors": found.estimated_errors,
        "interval": list(found.interval),
        "seconds": round(seconds),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def run(folder: Path, count: int, seeds: int, model: str | None) -> dict[str, Any]:
    """All audits, one after the other."""
    wrong = write(folder / "images", count)
    (folder / "wrong.json").write_text(json.dumps(wrong))
    records = []
    for encoder in ENCODERS:
        for seed in range(seeds):
            command = [sys.executable, __file__, "--folder", str(folder), "--one", encoder, "--seed", str(seed)]
            command += ["--model", model] if model and encoder == "none" else []
            records.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
            print(records[-1], file=sys.stderr)
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    return {"data": DATA, "images": count, "wrong": sum(wrong.values()), "threads": threads, "records": records}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the images are written (default: a temporary folder)")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--model", help="the network that reads pixels (default: that of antidote audit)")
    parser.add_argument("--one", choices=ENCODERS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.folder, options.one, options.model, options.seed)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        found = run(options.folder or Path(temporary), options.images, options.seeds, options.model)
    text = json.dumps(found, indent=1) + "\n"
    Path(__file__).with_suffix(".json").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
