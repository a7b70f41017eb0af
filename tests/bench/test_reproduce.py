"""`antidote reproduce` and `antidote report` on the smoke scale, which needs no files."""

import csv
import io
import json
import re
import signal

import numpy as np
import pytest

from antidote_learn.bench.grid import local_engine
from antidote_learn.bench.plots import threshold_scores
from antidote_learn.bench.rebuilt_texts import rebuilt_csv, rebuilt_markdown
from antidote_learn.bench.reproduction import CELLS, choice_cells, rebuild_table, rebuilt_table
from antidote_learn.cli.live import GridLines
from antidote_learn.presets.paper_tables import build_paper_table, table_names
from antidote_learn.training.runs import load
from tests.commands import Command, antidote

QUIET = lambda cells: GridLines(cells, told=False)  # noqa: E731
QUICK = {"epochs": 2, "model": "mlp:hidden=[8]"}


def table_of(**scale):
    """A table of two methods and two noises on iris."""
    part = {
        "name": "Iris",
        "data": "iris",
        "columns": [{"name": "20 %", "noise": "symmetric:0.2"}, {"name": "40 %", "noise": "symmetric:0.4"}],
        "rows": [
            {"name": "CE", "method": "ce", "published": ["90.5 ± 0.2", ""]},
            {"name": "GCE", "method": "gce", "options": {"cpu": {"lr": 0.05}}},
            {"name": "Later", "method": "", "note": "its method comes later"},
        ],
        "scales": {name: {"seeds": 2, "options": QUICK, **scale} for name in ("smoke", "cpu", "paper")},
    }
    return build_paper_table("mine", {"title": "Mine", "source": "nowhere", "parts": [part]})


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All tables and figures on the smoke scale, and their page."""
    folder = tmp_path_factory.mktemp("smoke")
    done = antidote("reproduce", "all", "--scale", "smoke", "--out", str(folder), "--jobs", "1", "--quiet")
    assert done.code == 0, done.err
    assert antidote("report", str(folder)).code == 0
    return folder, done.out


def test_every_table_and_figure_is_written_in_every_form(everything):
    folder, printed = everything
    for name in table_names():
        table = json.loads((folder / name / "table.json").read_text())
        assert table["scale"] == "smoke"
        assert table["version"]
        assert table["title"] in printed
        rows = list(csv.DictReader(io.StringIO((folder / name / "table.csv").read_text())))
        assert len(rows) == len(table["entries"]) > 0
        assert "no reproduction" in (folder / name / "table.md").read_text()
        assert (folder / name / "table.tex").read_text().count(r"\begin{tabular}") >= 1
        built = [entry for entry in table["entries"] if entry["method"]]
        assert all(entry["mean"] is not None for entry in built if "ImageNet" not in entry["column"]), name
        assert (folder / name / "figure.png").exists() == any(entry["mean"] is not None for entry in built)


def test_what_is_not_built_is_missing_with_the_reason(everything):
    folder, _ = everything
    entries = json.loads((folder / "table4" / "table.json").read_text())["entries"]
    assert all(entry["mean"] is None and entry["reason"] for entry in entries)
    assert "Missing (" in (folder / "table4" / "table.md").read_text()


def test_the_page_needs_no_other_file_and_has_every_table(everything):
    page = (everything[0] / "report.html").read_text()
    for name in table_names():
        assert f'id="{name}"' in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "<script" not in page


def test_a_second_call_trains_nothing_and_says_the_same(everything):
    folder, _ = everything
    before = (folder / "kappa" / "table.csv").read_text()
    records = sorted((folder / CELLS).glob("*/record.json"))
    times = [path.stat().st_mtime_ns for path in records]
    assert antidote("reproduce", "kappa", "--scale", "smoke", "--out", str(folder), "--quiet").code == 0
    assert (folder / "kappa" / "table.csv").read_text() == before
    assert [path.stat().st_mtime_ns for path in sorted((folder / CELLS).glob("*/record.json"))] == times


def test_figures_are_means_over_seeds_beside_the_published_ones(tmp_path):
    rebuilt = rebuild_table(table_of(), "cpu", tmp_path, local_engine(1), QUIET)
    entry = rebuilt.part_entries("Iris")["CE", "20 %"]
    runs = [load(tmp_path / CELLS / cell.name / "run") for cell in entry.cells]
    expected = [run.summary["accuracy"]["last"] for run in runs]
    assert entry.mean == pytest.approx(np.mean(expected))
    assert entry.std == pytest.approx(np.std(expected, ddof=1))
    assert entry.difference == pytest.approx(np.mean(expected) - 90.5)
    assert rebuilt.part_entries("Iris")["CE", "40 %"].difference is None
    other = rebuilt.part_entries("Iris")["GCE", "20 %"]
    assert load(tmp_path / CELLS / other.cells[0].name / "run").spec["lr"] == 0.05
    assert rebuilt.part_entries("Iris")["Later", "20 %"].reason == "its method comes later"


def test_the_protocol_of_a_row_is_the_one_with_the_higher_agreement_on_held_out_noisy_labels(tmp_path):
    choice = {"protocols": ["features", "images"], "noise": "symmetric:0.4", "seed": 1000, "holdout": 0.1}
    choice["options"] = {"epochs": 3}
    table = table_of(choice=choice, options={"epochs": 2, "model": "mlp:hidden=[8]"})
    rebuilt = rebuild_table(table, "paper", tmp_path, local_engine(1), QUIET)
    cells = choice_cells(table.parts[0].scales["paper"])
    assert set(cells) == {(row, protocol) for row in ("CE", "GCE") for protocol in choice["protocols"]}
    for row in ("CE", "GCE"):
        agreement = {}
        for protocol in choice["protocols"]:
            run = load(tmp_path / CELLS / cells[row, protocol].name / "run")
            assert (run.spec["holdout"], run.spec["seed"], run.spec["noise"]) == (0.1, 1000, "symmetric:0.4")
            assert (run.spec["epochs"], run.spec["model"]) == (3, "mlp:hidden=[8]")
            assert run.summary["accuracy"]["against"] == "given"
            agreement[protocol] = run.summary["accuracy"]["last"]
        best = max(choice["protocols"], key=lambda name: agreement[name])
        assert rebuilt.chosen["Iris"][row] == agreement
        for column in ("20 %", "40 %"):
            own = rebuilt.part_entries("Iris")[row, column].cells
            assert {cell.options["protocol"] for cell in own} == {best}
            assert all("holdout" not in cell.options and cell.options["epochs"] == 2 for cell in own)
    assert "Protocols were chosen with epochs 3." in rebuilt_markdown(rebuilt)


def test_without_records_everything_is_missing(tmp_path):
    rebuilt = rebuilt_table(table_of(), "cpu", {})
    reasons = {entry.row.name: entry.reason for entry in rebuilt.entries}
    assert reasons == {"CE": "not run yet", "GCE": "not run yet", "Later": "its method comes later"}


def test_the_histograms_separate_right_from_wrong_labels_at_the_end(tmp_path):
    """As the paper describes its Figure 1: the medians lie on the right sides of the threshold."""
    part = {
        "name": "Digits",
        "data": "digits",
        "columns": [{"name": "50 %", "noise": "symmetric:0.5"}],
        "rows": [{"name": "ANTIDOTE", "method": "antidote:divergence=[alpha:2]:noise_rate=injected"}],
        "scales": {name: {"seeds": 1, "options": {"snapshots": "5,30"}} for name in ("smoke", "cpu", "paper")},
    }
    table = build_paper_table("mine", {"title": "M", "source": "here", "kind": "histograms", "parts": [part]})
    rebuilt = rebuild_table(table, "cpu", tmp_path, local_engine(1), QUIET)
    run = load(tmp_path / CELLS / rebuilt.entries[0].cells[0].name / "run")
    samples = run.snapshots[30]
    scores, wrong = threshold_scores(run, samples), (samples["given_label"] != samples["clean_label"]).to_numpy()
    assert np.median(scores[wrong]) < 0.0 < np.median(scores[~wrong])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("table99",), "unknown table or figure 'table99'; accepted: table1, "),
        (("kappa", "--scale", "huge"), "--scale must be one of smoke, cpu, paper"),
        (("kappa", "--format", "pdf"), "--format must be one of "),
        (("kappa", "--engine", "spark"), "--engine must be one of local, ray"),
    ],
)
def test_mistakes_are_answered_in_one_line(words, says, tmp_path):
    done = antidote("reproduce", *words, "--out", str(tmp_path / "out"))
    assert done.code == 2
    assert says in done.complaint
    assert not (tmp_path / "out").exists()


def test_a_folder_without_tables_has_no_report(tmp_path):
    done = antidote("report", str(tmp_path))
    assert done.code == 2
    assert "holds no table that was rebuilt" in done.complaint


def test_a_damaged_table_is_told_in_one_line(tmp_path):
    (tmp_path / "kappa").mkdir()
    (tmp_path / "kappa" / "table.json").write_text('{"name": "kappa"')
    done = antidote("report", str(tmp_path))
    assert done.code == 2
    assert "table.json" in done.complaint


def test_a_reproduction_that_is_killed_three_times_ends_with_the_same_table(everything, tmp_path):
    args = ("reproduce", "transition", "--scale", "smoke", "--out", tmp_path / "out", "--jobs", 1)
    for number in (2, 6, 10):  # runs that have ended when the kill comes
        command = Command(*args)
        command.until(f"{number}/14")
        command.signal(signal.SIGKILL)
        command.wait()
        command.until_all_are_gone()
    assert antidote(*args).code == 0
    for name in ("table.csv", "table.md", "table.tex"):
        assert (tmp_path / "out" / "transition" / name).read_text() == (everything[0] / "transition" / name).read_text()


def test_a_table_over_a_real_ray_is_the_one_without(tmp_path, monkeypatch):
    import ray

    from antidote_learn.bench.cluster import ray_engine

    monkeypatch.setenv("RAY_worker_niceness", "0")  # its workers yield to all other processes otherwise
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        there = rebuild_table(table_of(), "cpu", tmp_path / "ray", ray_engine(), QUIET)
    finally:
        ray.shutdown()
    here = rebuild_table(table_of(), "cpu", tmp_path / "here", local_engine(1), QUIET)
    assert rebuilt_csv(there) == rebuilt_csv(here)


def test_ctrl_c_leaves_the_table_as_far_as_it_is(tmp_path):
    args = ("reproduce", "table1", "--scale", "smoke", "--out", tmp_path / "out", "--jobs", 1)
    command = Command(*args)
    command.until("2/27")
    command.signal(signal.SIGINT, group=True)
    assert command.wait().code == 130
    entries = json.loads((tmp_path / "out" / "table1" / "table.json").read_text())["entries"]
    reasons = {entry["reason"] for entry in entries}
    assert reasons == {"", "not run yet"}
    assert 2 <= sum(entry["mean"] is not None for entry in entries) < len(entries)
