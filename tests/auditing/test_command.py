"""antidote audit as a user meets it: files in, files out, killed, continued, refused."""

import json
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from antidote_learn.auditing.audit_result import read_audit
from tests.commands import Command, antidote

ARGS = ("audit", "digits", "--noise", "symmetric:0.3")
LINES = 2 * 6 + 3 * 10  # one for each epoch


def files(folder: Path) -> dict[str, object]:
    assert (folder / "done").exists()
    assert not list(folder.rglob("*.part"))
    summary = json.loads((folder / "summary.json").read_text())
    names = ("issues.csv", "issues.parquet", "neighbours.safetensors", "posterior.safetensors", "review.html")
    return {**{name: (folder / name).read_bytes() for name in names}, "summary": {**summary, "out": ""}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, float]:
    antidote("--version")  # the server is up
    folder, start = tmp_path_factory.mktemp("whole"), time.monotonic()
    done = antidote(*ARGS, "--out", folder, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["out"] == str(folder)
    return folder, time.monotonic() - start


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """300 rows with 3 classes, some of which are mistaken for the next one."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 300)
    frame = pd.DataFrame(rng.normal(size=(300, 4)) + 4 * np.eye(3, 4)[true], columns=list("abcd"))
    path = tmp_path_factory.mktemp("table") / "data.csv"
    frame.assign(kind=[f"class {k}" for k in np.where(rng.random(300) < 0.2, (true + 1) % 3, true)]).to_csv(
        path, index=False
    )
    return path


@pytest.mark.parametrize("moment", [11.8, 26.7, 41.5])
def test_killed_at_any_moment_and_continued_it_is_the_same(whole, moment, tmp_path):
    folder, seconds = whole
    command = Command(*ARGS, "--out", tmp_path / "audit", saves_often=True)
    command.until(": epoch ", times=int(moment))
    time.sleep(moment % 1 * seconds / LINES)
    command.signal(signal.SIGKILL)
    assert command.wait().code == -signal.SIGKILL
    done = antidote(*ARGS, "--out", tmp_path / "audit", "--resume", "--quiet")
    assert done.code == 0, done.err
    assert files(tmp_path / "audit") == files(folder)


def test_stopped_by_ctrl_c_it_says_how_to_go_on(whole, tmp_path):
    command = Command(*ARGS, "--out", tmp_path)
    command.until("all rows: epoch 2/")
    command.signal(signal.SIGINT)
    done = command.wait()
    assert done.code == 130
    assert "--resume" in done.complaint
    assert not (tmp_path / "issues.csv").exists()
    assert antidote(*ARGS, "--out", tmp_path, "--resume").code == 0
    assert files(tmp_path) == files(whole[0])


def test_a_finished_audit_is_flagged_anew(whole, tmp_path):
    folder, _ = whole
    before = files(folder)
    done = antidote(*ARGS, "--out", folder, "--resume", "--json", "--max-flagged", 5)
    assert json.loads(done.out)["flagged"] == 5
    flags = pd.read_csv(folder / "issues.csv")["is_label_issue"]
    assert flags[:5].all()
    assert flags.sum() == 5
    done = antidote(*ARGS, "--out", folder, "--resume", "--json", "--flag", len(flags) - 2)
    assert json.loads(done.out)["flagged"] == len(flags) - 2
    assert pd.read_csv(folder / "issues.csv")["is_label_issue"].tolist() == [True] * (len(flags) - 2) + [False] * 2
    complaint = antidote(*ARGS, "--out", folder, "--resume", "--flag", len(flags) + 1).complaint
    assert f"--flag must be at most {len(flags)}" in complaint
    assert antidote(*ARGS, "--out", folder, "--resume").code == 0
    assert files(folder) == before


def test_what_is_written(table, tmp_path):
    folder, exported = tmp_path / "audit", tmp_path / "rows.jsonl"
    done = antidote("audit", table, "--label", "kind", "--out", folder, "--json", "--export", exported)
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert {"n", "estimated_errors", "interval", "noise_rate", "out"} <= printed.keys()
    assert printed["noise_rate"] == printed["estimated_errors"] / printed["n"]
    issues = pd.read_csv(folder / "issues.csv")
    pd.testing.assert_frame_equal(issues, pd.read_parquet(folder / "issues.parquet"), check_dtype=False)
    assert sorted(issues["index"]) == list(range(300))
    source = pd.read_csv(table)
    assert (source["kind"][issues["index"]].to_numpy() == issues["given_label"]).all()
    assert (pd.read_json(exported, lines=True)["given_label"] == source["kind"]).all()
    assert json.loads((folder / "summary.json").read_text())["format"] == 1
    stored = read_audit(folder)
    np.testing.assert_allclose(stored.posterior.beliefs.dense(slice(None)).sum(axis=1), 1.0, atol=1e-5)
    assert stored.posterior.classes == ("class 0", "class 1", "class 2")


def test_the_tables_carry_the_columns_of_the_data_where_asked(table, tmp_path):
    arguments = ("audit", table, "--label", "kind", "--out", tmp_path / "audit", "--quiet")
    done = antidote(*arguments, "--with-columns", "--export", tmp_path / "rows.parquet")
    assert done.code == 0, done.err
    source = pd.read_csv(table)
    for rows in (pd.read_csv(tmp_path / "audit" / "issues.csv"), pd.read_parquet(tmp_path / "rows.parquet")):
        found = rows[list("abcd")].to_numpy()
        np.testing.assert_allclose(found, source[list("abcd")].to_numpy()[rows["index"]], rtol=1e-12)
    assert "a" not in pd.read_parquet(tmp_path / "audit" / "issues.parquet")
    assert antidote(*arguments, "--resume").code == 0
    assert "a" not in pd.read_csv(tmp_path / "audit" / "issues.csv")
    assert antidote(*arguments, "--resume", "--with-columns").code == 0
    assert "a" in pd.read_csv(tmp_path / "audit" / "issues.csv")
    refused = antidote("audit", "digits", "--out", tmp_path / "digits", "--with-columns")
    assert (refused.code, "--with-columns carries the columns of a table" in refused.complaint) == (2, True)
    assert not (tmp_path / "digits").exists()


def test_the_report_is_for_people(table, tmp_path):
    done = antidote("audit", table, "--label", "kind", "--out", tmp_path / "audit", "--max-flagged", 3)
    assert done.code == 0, done.err
    assert "of 300 labels look wrong" in done.out
    assert "3 rows are flagged" in done.out
    assert done.out.count("  row ") == 3
    assert "labelled as" in done.out
    assert "wrong most often" not in done.out  # all classes are alike
    assert "issues.csv" in done.err
    assert "review.html" in done.err


def test_the_summary_has_the_rate_of_each_given_class(table, tmp_path):
    antidote("audit", table, "--label", "kind", "--out", tmp_path / "audit")
    for row in json.loads((tmp_path / "audit" / "summary.json").read_text())["classes"]:
        assert row["error_rate"] == pytest.approx(row["estimated_errors"] / row["given"])
        low, high = row["interval"]
        assert low <= row["estimated_errors"] <= high


def test_a_folder_of_images(tmp_path):
    rng = np.random.default_rng(0)
    for k, colour in enumerate(("red", "green")):
        (tmp_path / "images" / colour).mkdir(parents=True)
        for i in range(30):
            pixels = rng.integers(0, 60, (8, 8, 3), dtype=np.uint8)
            pixels[..., k if i else 1 - k] += 180  # the first of each folder belongs to the other
            Image.fromarray(pixels).save(tmp_path / "images" / colour / f"{i:02}.png")
    options = ("--model", "mlp", "--out", tmp_path / "audit", "--json", "--quiet")
    done = antidote("audit", tmp_path / "images", *options)
    assert done.code == 0, done.err
    issues = pd.read_csv(tmp_path / "audit" / "issues.csv")
    assert set(issues["file"][:2]) == {"red/00.png", "green/00.png"}
    assert (issues["file"].str.split("/").str[0] == issues["given_label"]).all()


HOSTILE = {
    "column": ("a,b\n" + "1,x\n2,y\n" * 30, ["--label", "z"], "there is no column 'z'"),
    "unique": ("a,label\n" + "".join(f"1,{i}\n" for i in range(60)), [], "60 different values"),
    "one": ("a,label\n" + "1,x\n" * 60, [], "all labels are 'x'"),
    "empty": ("", [], "cannot be read"),
    "header": ("a,label\n", [], "0 rows"),
    "missing": ("a,label\n" + "1,x\n2,\n" * 30, [], "30 of 60 rows have no label in column 'label'"),
    "few": ("a,label\n" + "1,x\n2,y\n" * 4, [], "at least 20 rows"),
    "regression": ("a,label\n" + "1,0.25\n2,1\n" * 30, [], "regression target"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_in_one_line(case, tmp_path):
    content, options, words = HOSTILE[case]
    (tmp_path / "data.csv").write_text(content)
    done = antidote("audit", tmp_path / "data.csv", *options, "--out", tmp_path / "audit")
    assert done.code == 2
    assert words in done.complaint
    assert not (tmp_path / "audit").exists()


def test_an_export_that_cannot_be_is_refused_first(table, tmp_path):
    for path, words in (("rows.xlsx", "accepted: .csv, .parquet, .jsonl"), ("no/rows.csv", "there is no folder")):
        done = antidote("audit", table, "--label", "kind", "--out", tmp_path / "a", "--export", tmp_path / path)
        assert done.code == 2
        assert words in done.complaint
        assert not (tmp_path / "a").exists()


def test_mixed_types_and_missing_values_are_columns_like_others(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal() + 4 * (i % 2):.2f},{['', 'x', '7'][i % 3]},{'yes' if i % 2 else 'no'}" for i in range(80)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,label", *lines]))
    done = antidote("audit", tmp_path / "data.csv", "--out", tmp_path / "audit", "--json")
    assert done.code == 0, done.err


def test_a_folder_that_holds_something_else_is_refused(whole, table, tmp_path):
    folder, _ = whole
    assert "holds an audit already" in antidote(*ARGS, "--out", folder).complaint
    other = antidote(*ARGS, "--seed", 1, "--out", folder, "--resume").complaint
    assert "seed is 0 there, 1 now" in other
    (tmp_path / "file.txt").write_text("mine")
    assert "is not empty and holds no audit" in antidote(*ARGS, "--out", tmp_path).complaint
    done = antidote("train", "iris", "--epochs", 1, "--noise-rate", 0.1, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "no spec of format 1 of an audit" in antidote(*ARGS, "--out", tmp_path / "run", "--resume").complaint
