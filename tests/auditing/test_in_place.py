"""antidote apply --in-place: once, whole or not at all, and back again."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from antidote_learn import apply_decisions, audit, undo_decisions
from antidote_learn.auditing.contents import content_hash
from antidote_learn.data.load import open_inputs
from tests.auditing.kills import make_images, tree, write_decisions
from tests.commands import antidote

FRAME = pd.DataFrame({"x": [1.5, 2.5, 3.5, 4.5], "label": ["cat", "cat", "cat", "dog"]})
LINES = ["0,cat,drop,", "1,cat,relabel,dog", "2,cat,keep,cat"]


def make_table(path: Path) -> Path:
    if path.suffix == ".npz":
        np.savez(path, X=FRAME[["x"]].to_numpy(), y=FRAME["label"].to_numpy(str))
    elif path.suffix == ".parquet":
        FRAME.to_parquet(path)
    elif path.suffix == ".jsonl":
        FRAME.to_json(path, orient="records", lines=True)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if "tsv" in path.name else ",", lineterminator="\r\n")
    return path


def make_data(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    if "." in name:
        return make_table(folder / name)
    if name == "parts":
        make_images(folder / name / "test", 4)
    return make_images(folder / name / ("train" if name == "parts" else ""), 6) and folder / name


DATA = ["data.csv", "data.tsv", "data.csv.gz", "data.jsonl", "data.parquet", "data.npz", "images", "parts"]


@pytest.mark.parametrize("name", DATA)
def test_twice_is_once_and_undone_is_before(name, tmp_path):
    data = make_data(tmp_path, name)
    before = tree(tmp_path)
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    first = apply_decisions(decisions, data, in_place=True)
    assert (first.relabelled, first.dropped, first.kept, first.already) == (1, 1, 1, False)
    after = tree(tmp_path)
    again = apply_decisions(decisions, data, in_place=True)
    assert (again.relabelled, again.dropped, again.kept, again.already) == (1, 1, 1, True)
    assert tree(tmp_path) == after
    mode, modified = (os.stat(data).st_mode, os.stat(data).st_mtime) if data.is_file() else (0, 0)
    undone = undo_decisions(first.log)
    assert (undone.relabelled, undone.dropped, undone.already) == (1, 1, False)
    found = tree(tmp_path)
    log = str(first.log.relative_to(tmp_path))
    assert {file: content for file, content in found.items() if file not in (log, "decisions.csv")} == before
    assert undo_decisions(first.log).already
    assert tree(tmp_path) == found
    apply_decisions(decisions, data, in_place=True)
    assert {**tree(tmp_path), log: ""} == {**after, log: ""}
    if data.is_file():
        assert (os.stat(data).st_mode, os.stat(data).st_mtime >= modified) == (mode, True)


@pytest.mark.parametrize("name", ["data.csv", "images"])
def test_unsure_rows_are_logged_and_do_not_hinder_undoing(name, tmp_path):
    data = make_data(tmp_path, name)
    before = tree(data.parent)
    decisions = write_decisions(tmp_path / "decisions.csv", data, ["0,cat,relabel,dog", "1,cat,unsure,cat"])
    first = apply_decisions(decisions, data, in_place=True)
    assert (first.relabelled, first.unsure) == (1, 1)
    assert apply_decisions(decisions, data, in_place=True).unsure == 1  # as the log tells
    lines = [json.loads(line) for line in first.log.read_text().splitlines()]
    assert lines[-1] == {"index": 1, "given_label": "cat", "decision": "unsure"}
    assert not undo_decisions(first.log).already
    found = tree(tmp_path)
    assert {name: found[name] for name in before} == before
    lines[0].pop("unsure")  # a log of before there was such a decision
    first.log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    apply_decisions(decisions, data, in_place=True)
    assert not undo_decisions(first.log).already


@pytest.mark.parametrize("name", ["data.csv", "images"])
def test_the_command_recognises_what_it_did(name, tmp_path):
    data = make_data(tmp_path, name)
    arguments = ("apply", write_decisions(tmp_path / "decisions.csv", data, LINES), data, "--in-place")
    first = antidote(*arguments)
    assert (first.code, first.out) == (0, "1 labels changed, 1 rows dropped, 1 kept as they were\n")
    after = tree(tmp_path)
    again = antidote(*arguments)
    assert (again.code, again.out[:16]) == (0, "already applied:")
    assert tree(tmp_path) == after
    log = data / "changes.jsonl" if data.is_dir() else tmp_path / "data.csv.changes.jsonl"
    words = ("1 labels are what they were, 1 rows are back\n", "already undone: nothing is left to undo\n")
    for expected in words:
        undone = antidote("apply", "--undo", log)
        assert (undone.code, undone.out) == (0, expected)
    for wrong in (("apply",), ("apply", tmp_path / "decisions.csv"), ("apply", "--undo", log, "--in-place")):
        assert antidote(*wrong).code == 2


@pytest.mark.parametrize("name", ["data.csv", "images"])
def test_decisions_without_the_datas_hash_are_not_applied_in_place(name, tmp_path):
    data = make_data(tmp_path, name)
    (tmp_path / "old.csv").write_text("index,given_label,decision,new_label\n0,cat,drop,\n")
    before = tree(tmp_path)
    done = antidote("apply", tmp_path / "old.csv", data, "--in-place")
    assert done.code == 2
    assert re.search("without a 'data_hash'.*new audit, or give --out", done.complaint)
    assert tree(tmp_path) == before
    assert apply_decisions(tmp_path / "old.csv", data).dropped == 1


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", ["data.csv", "images"])
def test_decisions_on_data_that_were_otherwise_are_refused(name, in_place, tmp_path):
    data = make_data(tmp_path, name)
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    if data.is_dir():  # sorts before all others
        shutil.copy(data / "dog" / "0001.png", data / "cat" / "0.png")
    else:
        data.write_text(data.read_text().replace("4.5", "4.6"))
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=r"of other data.*audit it again"):
        apply_decisions(decisions, data, in_place=in_place)
    assert tree(tmp_path) == before


def test_file_names_and_hashes_must_agree(tmp_path):
    images = make_data(tmp_path, "images")
    decisions = write_decisions(tmp_path / "decisions.csv", images, ["0,cat,drop,", "1,cat,drop,"])
    table = pd.read_csv(decisions, dtype=str, keep_default_na=False)
    for other, words in (
        (table.assign(file=["cat/0004.png", "cat/sub/0000.png"]), "row 1 is 'cat/sub/0000.png'|row 0 is"),
        (table.assign(data_hash=["0" * 64, table["data_hash"][0]]), "one digest"),
        (table.assign(data_hash="=1+1"), "one digest"),
        (table.assign(data_hash=["", table["data_hash"][0]]), "one digest"),
        (table.assign(data_hash="0" * 64), "of other data"),
    ):
        before = tree(tmp_path)
        if "file" in other:
            other["file"] = other["file"][::-1].to_list()
        with pytest.raises(ValueError, match=words):
            apply_decisions(other, images, in_place=True)
        assert tree(tmp_path) == before
    names = ["cat/0002.png", "cat/0004.png"]
    assert apply_decisions(table.assign(file=names), images, in_place=True).dropped == 2
    assert all((images / ".dropped" / name).exists() for name in names)


def test_what_is_undone_is_the_latest_application(tmp_path):
    data = make_data(tmp_path, "images")
    trees, decisions = [tree(data)], []
    for number, line in enumerate(("0,cat,relabel,dog", "4,dog,drop,")):
        decisions.append(write_decisions(tmp_path / f"{number}.csv", data, [line]))
        log = apply_decisions(decisions[-1], data, in_place=True).log
        trees.append(tree(data))
    assert apply_decisions(decisions[0], data, in_place=True).already  # though there were others since
    for expected in (trees[1], trees[0]):
        undo_decisions(log)
        assert {**tree(data), "changes.jsonl": ""} == {**expected, "changes.jsonl": ""}
    assert undo_decisions(log).already
    with pytest.raises(ValueError, match="of other data"):
        apply_decisions(decisions[1], data, in_place=True)


@pytest.mark.parametrize("name", ["data.csv", "images"])
def test_nothing_is_undone_where_the_data_changed_since(name, tmp_path):
    data = make_data(tmp_path, name)
    log = apply_decisions(write_decisions(tmp_path / "decisions.csv", data, LINES), data, in_place=True).log
    if data.is_dir():
        (data / "dog" / "0001.png").rename(data / "dog" / "mine.png")
        removed = data / ".dropped" / "cat" / "0002.png"
    else:
        data.write_bytes(data.read_bytes() + b"9.5,dog\n")
        [removed] = tmp_path.glob(".*.backup")
    before = tree(tmp_path)
    assert "changed since" in antidote("apply", "--undo", log).complaint
    assert tree(tmp_path) == before
    if data.is_dir():
        (data / "dog" / "mine.png").rename(data / "dog" / "0001.png")
    else:
        data.write_bytes(data.read_bytes().removesuffix(b"9.5,dog\n"))
    removed.write_bytes(b"other")
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=r"missing or.* changed"):
        undo_decisions(log)
    assert tree(tmp_path) == before


def test_decisions_that_change_nothing_leave_the_file_to_the_byte(tmp_path):
    data = make_data(tmp_path, "data.csv")
    before = tree(tmp_path)
    decisions = write_decisions(tmp_path / "decisions.csv", data, ["0,cat,keep,cat"])
    assert apply_decisions(decisions, data, in_place=True).kept == 1
    decisions.unlink()
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_the_log_tells_the_rows_that_were_dropped(name, tmp_path):
    data = make_data(tmp_path, name)
    before = content_hash(data)
    done = apply_decisions(write_decisions(tmp_path / "decisions.csv", data, LINES), data, in_place=True)
    first, dropped, relabelled = (json.loads(line) for line in done.log.read_text().splitlines())
    assert (first["data_hash"], first["new_data_hash"]) == (before, content_hash(data))
    assert dropped == {"index": 0, "given_label": "cat", "new_label": None, "row": ["1.5", "cat"]}
    assert relabelled == {"index": 1, "given_label": "cat", "new_label": "dog"}
    assert hashlib.sha256((tmp_path / first["backup"]).read_bytes()).hexdigest() == before


def test_what_is_kept_for_undoing_is_not_read_as_data(tmp_path):
    data = make_data(tmp_path, "images")
    apply_decisions(write_decisions(tmp_path / "decisions.csv", data, LINES), data, in_place=True)
    assert (data / ".dropped").is_dir()
    assert len(open_inputs(data)[1]) == 5


def test_an_audit_knows_the_bytes_of_its_file_and_the_files_of_its_folder(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=40), "label": ["cat", "dog"] * 20})
    table.to_csv(tmp_path / "data.csv", index=False)
    audit(tmp_path / "data.csv", epochs=1).write_review(tmp_path / "review.html")
    page = re.search(r'id="data">(.*?)</script>', (tmp_path / "review.html").read_text(), re.DOTALL)[1]
    expected = hashlib.sha256((tmp_path / "data.csv").read_bytes()).hexdigest()
    assert json.loads(page)["content_hash"] == expected
    assert audit(table[["x"]], table["label"], epochs=1).summary["content_hash"] is None
    images = make_images(tmp_path / "images", 24)
    found = audit(images, epochs=1, encoder="none")
    line = f"0,cat,drop,,{found.summary['content_hash']},{found.inputs.names[0]}\n"
    (tmp_path / "decisions.csv").write_text("index,given_label,decision,new_label,data_hash,file\n" + line)
    Image.new("RGB", (4, 4)).save(images / "dog" / "0001.png")  # the same names, another picture
    with pytest.raises(ValueError, match="of other data"):
        apply_decisions(tmp_path / "decisions.csv", images, in_place=True)
    shutil.rmtree(images)
    make_images(images, 24)
    assert apply_decisions(tmp_path / "decisions.csv", images, in_place=True).dropped == 1
