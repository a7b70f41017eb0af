"""The demo keeps what the README says of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEMO), "--out", str(folder)], capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "made"
    return folder, run(folder)


def test_antidote_is_at_least_15_points_above_cross_entropy(made):
    folder, done = made
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.split("\n\n")[0].splitlines()
    assert header.split()[-7:] == ["mean", "seed", "0", "seed", "1", "seed", "2"]
    figures = {row[:18].strip(): [float(word) for word in row[18:].split()] for row in rows}
    assert list(figures) == ["cross-entropy", "ANTIDOTE", "estimated rate"]
    for mean, *seeds in figures.values():
        assert len(seeds) == 3
        assert mean == pytest.approx(sum(seeds) / 3, abs=0.11)
    assert figures["ANTIDOTE"][0] - figures["cross-entropy"][0] >= 15
    assert (folder / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert "\x1b" not in done.stderr, "escape codes where there is no terminal"


def test_it_ends_with_an_audit_and_the_path_of_its_page(made):
    folder, done = made
    said, page = done.stdout.splitlines()[-2:]
    flagged, rows, right, wrong = (int(number) for number in re.findall(r"\d+", said))
    assert (rows, wrong) == (1297, 519)
    assert right > 0.95 * flagged
    assert right > 0.85 * wrong
    assert page.endswith(f": {folder / 'audit' / 'review.html'}")
    assert (folder / "audit" / "review.html").read_text().startswith("<!doctype html>")


def test_cross_entropy_has_memorised_the_labels(made):
    from antidote_learn import load

    for seed in range(3):
        samples = load(made[0] / "runs" / f"ce-seed{seed}").samples
        assert (samples["predicted_label"] == samples["given_label"]).mean() > 0.97


def test_a_second_time_reuses_the_runs(made):
    folder, first = made
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("done")}
    again = run(folder)
    assert again.stdout == first.stdout
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("done")}
    assert len(before) == 7
