"""The demo keeps what the README says of it."""

import runpy
import subprocess
import sys
from pathlib import Path

import torch

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_antidote_is_at_least_15_points_above_cross_entropy(tmp_path):
    picture = tmp_path / "made" / "digits.png"
    done = subprocess.run(
        [sys.executable, str(DEMO), "--out", str(picture)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split()[-7:] == ["mean", "seed", "0", "seed", "1", "seed", "2"]
    accuracy = {row.split()[0]: float(row.split()[1]) for row in rows}
    assert accuracy["ANTIDOTE"] - accuracy["cross-entropy"] >= 15
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "\x1b" not in done.stderr, "escape codes where there is no terminal"


def test_the_noise_is_exclusive_exact_and_seeded():
    noisy_digits = runpy.run_path(str(DEMO))["noisy_digits"]
    first, again, other = noisy_digits(0), noisy_digits(0), noisy_digits(1)
    assert int(first.wrong.sum()) == round(0.4 * len(first.labels))
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.labels, other.labels)
    assert len(first.test_labels) == 450
