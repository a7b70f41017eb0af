"""Grids and their tables: cells, resuming after a kill, failures, every format, a live table, a real Ray."""

import csv
import errno
import io
import json
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from antidote_learn.bench import tables
from antidote_learn.bench.comparison_figure import draw_comparison, kinds_with_rates
from antidote_learn.bench.grid import known_records, local_engine, run_grid
from antidote_learn.bench.layout import Cell, make_cells
from antidote_learn.bench.records import run_cell
from antidote_learn.cli.compare_command import split_list
from tests.commands import Command, antidote

QUICK = ("--epochs", 1, "--subset", 200, "--model", "mlp:hidden=[16]")
OPTIONS = {"epochs": 1, "subset": 200, "model": "mlp:hidden=[16]"}


class Told:
    def __init__(self):
        self.known, self.records = None, []

    def begin(self, known):
        self.known = list(known)

    def end_cell(self, record):
        self.records.append(record)


def cells(**changes):
    given = {"methods": ["ce", "gce"], "noises": ["none", "symmetric:0.4"], "seeds": [0, 1], "options": OPTIONS}
    return make_cells("digits", **{**given, **changes})


# --- cells and grids ---------------------------------------------------------------------------------------------


def test_every_combination_is_a_cell_and_names_are_what_determines_it():
    grid = cells()
    assert len(grid) == 8
    assert len({cell.name for cell in grid}) == 8
    assert [cell.seed for cell in grid] == [0] * 4 + [1] * 4
    cell = grid[0]
    assert Cell(*vars(cell).values()).name == cell.name
    assert Cell("digits", "ce", "none", 0, {**OPTIONS, "lr": 0.2}).name != cell.name
    same = [Cell("digits", method, "none", 0, OPTIONS).name for method in ("preset:NCE+MAE", "nce+0.5*mae")]
    assert same[0] == same[1]


def test_a_grid_is_made_once(tmp_path):
    grid, told = cells(), Told()
    records = run_grid(grid, tmp_path, local_engine(1), told)
    assert (told.known, len(told.records)) == ([], 8)
    assert [(r["method"], r["noise"], r["seed"]) for r in records] == [(c.method, c.noise, c.seed) for c in grid]
    assert all(0 < record["last"] <= record["best"] <= 100 for record in records)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = Told()
    assert run_grid(grid, tmp_path, local_engine(1), again) == records
    assert (again.known, again.records) == (records, [])
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    larger = Told()
    run_grid(cells(seeds=[0, 1, 2]), tmp_path, local_engine(1), larger)
    assert (len(larger.known), len(larger.records)) == (8, 4)


def test_two_workers_give_the_numbers_of_one(tmp_path):
    grid = cells(methods=["ce", "antidote-dataset"], seeds=[0])
    one = run_grid(grid, tmp_path / "one", local_engine(1), Told())
    two = run_grid(grid, tmp_path / "two", local_engine(2), Told())
    strip = [[{key: value for key, value in r.items() if key != "seconds"} for r in records] for records in (one, two)]
    assert strip[0] == strip[1]


def test_a_cell_that_fails_is_a_record_and_is_not_run_again(tmp_path):
    grid = cells(methods=["ce"], noises=["none"], seeds=[0], options={**OPTIONS, "lr": 1e30})
    (record,) = run_grid(grid, tmp_path, local_engine(1), Told())
    assert "lower --lr" in record["error"] or "loss" in record["error"]
    told = Told()
    run_grid(grid, tmp_path, local_engine(1), told)
    assert told.records == []
    comparison = tables.compare_records(grid, known_records(grid, tmp_path))
    assert comparison.missing[0]["error"] == record["error"]
    assert "1 of them failed; the first: ce, none, seed 0" in tables.missing_line(comparison)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        FileNotFoundError("x.csv"),
    ],
)
def test_a_cell_that_fails_for_a_passing_reason_is_tried_again(tmp_path, error, monkeypatch):
    def fail(*args: object, **options: object) -> None:
        raise error

    grid = cells(methods=["ce"], noises=["none"], seeds=[0])
    with monkeypatch.context() as broken:
        broken.setattr("antidote_learn.bench.records.train", fail)
        (record,) = run_grid(grid, tmp_path, local_engine(1), Told())
    assert record["error"].startswith(type(error).__name__)
    assert tables.compare_records(grid, [record]).missing[0]["error"] == record["error"]
    assert known_records(grid, tmp_path) == []
    (again,) = run_grid(grid, tmp_path, local_engine(1), Told())
    assert again["last"] > 50


def test_a_failure_that_older_versions_wrote_down_is_tried_again(tmp_path):
    (cell,) = cells(methods=["ce"], noises=["none"], seeds=[0])
    record = {"method": "ce", "noise": "none", "seed": 0, "error": "OSError: [Errno 28] No space left on device"}
    (tmp_path / cell.name).mkdir()
    (tmp_path / cell.name / "record.json").write_text(json.dumps(record))
    assert known_records([cell], tmp_path) == []


@pytest.mark.parametrize(
    "content", ["", "{}", '{"noise": "none", "seed": 0}', "[1]", '{"noise": 1, "seed": 0, "last": 1.0}']
)
def test_a_damaged_record_is_named(tmp_path, content):
    (cell,) = cells(methods=["ce"], noises=["none"], seeds=[0])
    (tmp_path / cell.name).mkdir()
    (tmp_path / cell.name / "record.json").write_text(content)
    with pytest.raises(ValueError, match=r"record\.json is damaged"):
        known_records([cell], tmp_path)


BAD_GRIDS = {
    "no such data": (["nowhere.csv"], "nowhere.csv"),
    "no such column": (["TABLE", "--label", "specie"], "species"),
    "no such network": (["iris", "--model", "resnet"], "unknown model"),
    "a network that does not fit": (["iris", "--model", "torch.nn:Identity"], "must give logits"),
    "no epochs": (["iris", "--epochs", "0"], "epochs must be a whole number"),
    "no such protocol": (["iris", "--protocol", "c10"], "unknown protocol"),
    "no such labels": (["iris", "--noise", "human:worse"], "worse"),
    "nothing to be told": (["iris", "--methods", "antidote:noise_rate=injected"], "--noise"),
    "countless seeds": (["iris", "--seeds", "1000000000"], "at most 100000 cells"),
}


@pytest.mark.parametrize(("args", "says"), BAD_GRIDS.values(), ids=BAD_GRIDS)
def test_bad_input_is_told_before_the_grid_and_leaves_nothing_behind(args, says, tmp_path):
    (tmp_path / "table.csv").write_text("a,species\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(40)))
    options = [str(tmp_path / "table.csv") if arg == "TABLE" else arg for arg in args]
    options += [] if "--methods" in args else ["--methods", "ce"]
    done = antidote("compare", *options, "--out", tmp_path / "grid")
    assert done.code == 2, done.err
    assert says in done.complaint
    assert not (tmp_path / "grid").exists()


def test_a_grid_with_runs_that_fail_is_printed_and_exits_with_1(tmp_path):
    options = ("--methods", "ce,gce", "--seeds", 1, "--epochs", 1, "--lr", "1e30", "--jobs", 1, "--out", tmp_path)
    for _ in range(2):  # a failure that is known is one still
        done = antidote("compare", "iris", *options, "--format", "json")
        assert done.code == 1, done.err
        failed = [cell for cell in json.loads(done.out)["missing"] if cell["error"]]
        assert failed
        assert f"{len(failed)} of 2 runs failed" in done.err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["ce", "gcee"]}, "unknown method 'gcee'"),
        ({"methods": ["gce:p=1"]}, "unknown parameter 'p=1'"),
        ({"noises": ["symetric:0.4"]}, "symetric"),
        ({"methods": ["ce", "ce"]}, "the method 'ce' is there twice"),
        ({"methods": []}, "give at least one method"),
        ({"methods": ["antidote:delta=0.1:penalty=1"]}, "one of"),
    ],
)
def test_mistakes_are_found_before_anything_runs(changes, message):
    with pytest.raises(ValueError, match=message):
        cells(**changes)


# --- tables ------------------------------------------------------------------------------------------------------


def made_up(values):
    """A comparison from accuracies: {(method, noise): one for each seed, None where it is missing, or an error}."""
    methods, noises = (list(dict.fromkeys(key[i] for key in values)) for i in (0, 1))
    grid = make_cells("digits", methods=methods, noises=noises, seeds=range(3), options={})
    records = []
    for (method, noise), numbers in values.items():
        for seed, number in enumerate(numbers):
            record = {"method": method, "noise": noise, "seed": seed}
            if isinstance(number, str):
                records.append({**record, "error": number})
            elif number is not None:
                records.append({**record, "last": number, "best": number + 1, "seconds": 2.0, "against": "clean"})
    return tables.compare_records(grid, records)


EXAMPLE = {
    ("ce", "none"): (90.0, 91.0, 92.0),
    ("ce", "symmetric:0.4"): (60.0, 61.0, 65.0),
    ("gce", "none"): (89.0, 91.5, 92.2),
    ("gce", "symmetric:0.4"): (80.0, None, 82.0),
    ("mae", "none"): (70.0, "RunFailed: the loss is nan", 71.0),
    ("mae", "symmetric:0.4"): (75.0, 76.0, 77.0),
}
MARKDOWN = """\
| method | none | symmetric:0.4 |
|---|---|---|
| ce | **91.00 ± 1.00** | *62.00 ± 2.65* |
| gce | *90.90 ± 1.68* = | 81.00 ± 1.41 (2 of 3) |
| mae | 70.50 ± 0.71 (2 of 3) | **76.00 ± 1.00** |
"""


def test_markdown_marks_the_best_and_shows_what_is_missing():
    text = tables.as_markdown(made_up(EXAMPLE))
    assert text.startswith(MARKDOWN)
    assert "optimistic" in text
    assert "seeds 0, 1, 2" in text
    assert "2 cells are missing, 1 of them failed; the first: mae, none, seed 1: RunFailed: the loss is nan" in text


def test_json_has_the_contracts_shape():
    found = json.loads(tables.as_json(made_up(EXAMPLE)))
    assert found.keys() == {"protocol", "rows", "missing"}
    assert len(found["rows"]) == 6
    row = found["rows"][0]
    assert row == {
        "method": "ce",
        "noise": "none",
        "n": 3,
        "last": {"mean": 91.0, "std": 1.0},
        "best": {"mean": 92.0, "std": 1.0},
        "seconds": 2.0,
    }
    assert {(cell["method"], cell["noise"], cell["seed"]) for cell in found["missing"]} == {
        ("mae", "none", 1),
        ("gce", "symmetric:0.4", 1),
    }


def test_csv_is_read_back():
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(made_up(EXAMPLE)))))
    assert len(rows) == 6
    assert float(rows[0]["last_mean"]) == 91.0
    assert [row["mark"] for row in rows] == ["best", "second equal", "", "second", "", "best"]


def test_latex_is_a_tabular():
    text = tables.as_latex(made_up(EXAMPLE))
    assert r"ce & \textbf{91.00 $\pm$ 1.00} & \underline{62.00 $\pm$ 2.65} \\" in text
    assert text.count(r"\\") == 4
    assert tables._latex("eps_ce 5%") == r"eps\_ce 5\%"


def test_significance_is_that_of_a_paired_test_from_three_seeds_on():
    rng = np.random.default_rng(0)
    for _ in range(30):
        a, b = 90 + rng.normal(size=3), 89.5 + rng.normal(size=3)
        if a.mean() < b.mean():
            a, b = b, a
        comparison = made_up({("ce", "none"): tuple(a), ("gce", "none"): tuple(b)})
        expected = stats.ttest_rel(a, b).pvalue > 0.05
        assert ("equal" in tables.marks(comparison, "none")["gce"]) == expected
    two = made_up({("ce", "none"): (90.0, 91.0, None), ("gce", "none"): (89.0, 91.5, None)})
    assert "equal" not in tables.marks(two, "none")["gce"]


def test_a_tie_has_two_best():
    comparison = made_up({("ce", "none"): (90.0,) * 3, ("gce", "none"): (90.0,) * 3, ("mae", "none"): (80.0,) * 3})
    assert tables.marks(comparison, "none") == {"ce": "best", "gce": "best", "mae": "second"}


def test_the_figure_has_a_panel_for_each_kind_with_rates():
    values = {
        (m, n): (50.0 + 10 * i, 51.0 + 10 * i, 52.0)
        for i, m in enumerate(("ce", "gce"))
        for n in ("none", "symmetric:0.2", "symmetric:0.4", "pair:0.4", "human:worse")
    }
    comparison = made_up(values)
    assert kinds_with_rates(comparison) == {
        "symmetric": {0.0: "none", 0.2: "symmetric:0.2", 0.4: "symmetric:0.4"},
        "pair": {0.0: "none", 0.4: "pair:0.4"},
    }
    figure = draw_comparison(comparison)
    assert len(figure.axes) == 2
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["ce", "gce"]
    assert draw_comparison(made_up({("ce", "none"): (1.0, 2.0, 3.0)})) is None


# --- the command -------------------------------------------------------------------------------------------------


def test_commas_separate_and_brackets_protect():
    assert split_list("ce, gce:q=0.5,antidote:divergence=[alpha:1.5],") == [
        "ce", "gce:q=0.5", "antidote:divergence=[alpha:1.5]",
    ]  # fmt: skip
    assert split_list("antidote:base_loss=[nce+rce],mlp:hidden=[1,2]") == [
        "antidote:base_loss=[nce+rce]", "mlp:hidden=[1,2]",
    ]  # fmt: skip


def test_the_command_from_beginning_to_end(tmp_path):
    args = (
        "compare",
        "digits",
        "--methods",
        "ce,preset:NCE+MAE",
        "--noise",
        "none,symmetric:0.4",
        "--seeds",
        1,
        *QUICK,
    )
    done = antidote(*args, "--out", tmp_path / "grid", "--jobs", 1, "--format", "json")
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["rows"]) == 4
    assert (tmp_path / "grid" / "accuracy.png").stat().st_size > 10_000
    assert re.search(r"4/4 preset:NCE\+MAE, symmetric:0.4, seed 0: [\d.]+ %", done.err)
    again = antidote(*args, "--out", tmp_path / "grid", "--jobs", 1)
    assert "4 of 4 cells are done already" in again.err
    assert again.out.splitlines()[0].split() == ["method", "none", "symmetric:0.4"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--methods", "cee"), "unknown method 'cee'"),
        (("--methods", "ce", "--format", "html"), "--format must be one of table, markdown, csv, json, latex"),
        (("--methods", "ce", "--engine", "dask"), "--engine must be one of local, ray"),
    ],
)
def test_bad_input_is_one_line(args, says, tmp_path):
    done = antidote("compare", "digits", *args, cwd=tmp_path)
    assert done.code == 2
    assert says in done.complaint
    assert list(tmp_path.iterdir()) == []


def test_a_grid_that_is_killed_goes_on_and_repeats_nothing(tmp_path):
    args = ("compare", "digits", "--methods", "ce,gce,mae", "--noise", "symmetric:0.4", "--seeds", 2, "--jobs", 2)
    args += ("--epochs", 30, "--out", tmp_path / "grid", "--format", "json")
    command = Command(*args)
    command.until("2/6")
    command.signal(signal.SIGKILL)
    command.wait()
    command.until_all_are_gone()
    ended = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.json")}
    assert 2 <= len(ended) < 6
    done = antidote(*args)
    assert done.code == 0, done.err
    assert f"{len(ended)} of 6 cells are done already" in done.err
    assert {path: path.stat().st_mtime_ns for path in ended} == ended
    assert all(row["n"] == 2 for row in json.loads(done.out)["rows"])


def test_ctrl_c_leaves_a_table_of_what_there_is(tmp_path):
    args = ("compare", "digits", "--methods", "ce,gce", "--noise", "symmetric:0.4", "--seeds", 3, "--jobs", 2)
    command = Command(
        *args, "--epochs", 150, "--out", tmp_path / "grid"
    )  # far from done, however late the signal comes
    command.until("1/6")
    command.signal(signal.SIGINT, group=True)
    done = command.wait()
    assert done.code == 130
    assert done.err.splitlines()[-1] == "antidote: stopped after the current step; go on with the same command"
    assert "| ce |" in done.err
    assert "cells are missing" in done.err


def test_a_real_ray_makes_the_same_grid(tmp_path, monkeypatch):
    import ray

    from antidote_learn.bench.cluster import ray_engine

    monkeypatch.setenv("RAY_worker_niceness", "0")  # its workers yield to all other processes otherwise
    grid = cells(seeds=[0], noises=["symmetric:0.4"])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        there = run_grid(grid, tmp_path / "ray", ray_engine(), Told())
    finally:
        ray.shutdown()
    here = run_grid(grid, tmp_path / "here", local_engine(1), Told())
    assert [record["last"] for record in there] == [record["last"] for record in here]


def test_run_cell_reads_a_record_that_is_there(tmp_path):
    (cell,) = cells(methods=["ce"], noises=["none"], seeds=[0])
    first = run_cell(cell, Path(tmp_path))
    start = time.monotonic()
    assert run_cell(cell, Path(tmp_path)) == first
    assert time.monotonic() - start < 0.5
