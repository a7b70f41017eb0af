"""Labels, names and reasons on a terminal: shown, never obeyed; for other programs they stay what they are."""

import io
import os
import pty
import re
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

from antidote_learn.bench.tables import compare_records
from antidote_learn.cli import live, reporters
from antidote_learn.cli.escaping import escape_text, print_data
from tests.commands import antidote

RED, FORMULA = "\x1b[31mred\x07\u202e[bold]:cat:", "=cmd()"
HOSTILE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    which = np.arange(60) % 2
    frame = pd.DataFrame(
        {"x": rng.normal(size=60) + 3 * which, "a\x1b[2Jb": 1.0, "label": np.array([RED, FORMULA])[which]}
    )
    path = tmp_path_factory.mktemp("hostile") / "hostile.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("text", "shown"),
    {
        "a b [red] é 日本 👍 \\n": "a b [red] é 日本 👍 \\n",
        "\x1b[31m\x07\x00\x7f\x9b": r"\x1b[31m\x07\x00\x7f\x9b",
        "a\nb\rc\td": r"a\nb\rc\td",
        "\u202eab\u2066\u200b\ufeff\u2028": r"\u202eab\u2066\u200b\ufeff\u2028",
        "caf\udce9": r"caf\udce9",
    }.items(),
)
def test_what_steers_a_terminal_is_written_out(text, shown):
    assert escape_text(text) == shown
    assert escape_text(escape_text(text)) == shown


def test_a_report_shows_labels_and_names(table, tmp_path):
    done = antidote("audit", table, "--noise", "symmetric:0.2", "--epochs", 1, "--out", tmp_path / "\x1b[0maudit")
    assert done.code == 0, done.err
    assert r"\x1b[31mred\x07\u202e[bold]:cat:" in done.out
    assert r"\x1b[0maudit" in done.err
    assert not HOSTILE.search(done.out + done.err)


def test_predictions_stay_data_and_no_spreadsheet_executes_them(table, tmp_path):
    trained = antidote("train", table, "--method", "ce", "--epochs", 2, "--out", tmp_path / "run", "--quiet")
    assert trained.code == 0, trained.err
    printed = antidote("predict", tmp_path / "run", table)
    assert antidote("predict", tmp_path / "run", table, "--out", tmp_path / "p.csv").code == 0
    assert antidote("predict", tmp_path / "run", table, "--out", tmp_path / "p.parquet").code == 0
    assert printed.out == (tmp_path / "p.csv").read_text()
    cells, plain = pd.read_csv(tmp_path / "p.csv"), pd.read_parquet(tmp_path / "p.parquet")
    assert set(cells["label"]) == {RED, f"'{FORMULA}"}
    assert set(plain["label"]) == {RED, FORMULA}
    assert not antidote("audit", tmp_path / "\x1b[31m.csv").err.startswith("\x1b")


def test_names_of_images_are_shown_in_notes_and_errors(tmp_path):
    for name in ("cat", "\x1b[31mdog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(8):
            Image.new("RGB", (8, 8), (20 * i, 0, 0)).save(tmp_path / "images" / name / f"\u202e{i}.png")
        (tmp_path / "images" / name / "\x1b]0;x\x07.png").write_bytes(b"none")
    refused = antidote("train", tmp_path / "images", "--strict", "--out", tmp_path / "run")
    assert refused.code == 2
    assert r"\x1b]0;x\x07.png (not an image)" in refused.complaint
    done = antidote("train", tmp_path / "images", "--method", "ce", "--epochs", 1, "--out", tmp_path / "run")
    assert r"note: 2 of 18 images cannot be read and were left out" in done.err
    assert not HOSTILE.search(refused.err + done.err + done.out)


def test_lines_and_bars_show_what_they_are_told(monkeypatch, capsys):
    said = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=said, force_terminal=False, width=200))
    for reporter in (reporters.Lines(), reporters.Bars()):
        reporter.note(f"column {RED}")
        reporter.stage(RED, epochs=1, done=0)
        reporter.epoch({"epoch": 1, "loss": 1.0})
        reporter.close()
    for text in (capsys.readouterr().err, said.getvalue()):
        assert r"note: column \x1b[31mred\x07\u202e[bold]:cat:" in text
        assert text.count(r"\x1b[31mred\x07\u202e[bold]:cat:") >= 2
        assert not HOSTILE.search(text)


def test_a_terminal_is_shown_data_escaped(monkeypatch):
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        print_data(f"row,label\n0,{RED}\n")
        terminal.flush()
        shown = b""
        while shown.count(b"\n") < 2:
            shown += os.read(reader, 1000)
    os.close(reader)
    assert shown.decode().splitlines() == ["row,label", r"0,\x1b[31mred\x07\u202e[bold]:cat:"]


def test_a_grid_shows_names_as_they_are(capsys):
    from antidote_learn.bench.layout import Cell

    cells = [Cell("iris", "ce", f"[red]{RED}", 0, {})]
    record = {"method": "ce", "trained": "ce", "noise": cells[0].noise, "seed": 0, "error": f"ValueError: {RED}"}
    said = io.StringIO()
    Console(file=said, width=200).print(live.table_of(compare_records(cells, [record])))
    live.GridLines(cells).end_cell(record)
    for text in (said.getvalue(), capsys.readouterr().err):
        assert r"\x1b[31mred\x07\u202e[bold]:cat:" in text
        assert not HOSTILE.search(text)
    assert r"[red]\x1b" in said.getvalue()
