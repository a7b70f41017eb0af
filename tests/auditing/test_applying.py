"""antidote apply: decisions carried out on tables, arrays and folders, and what is refused."""

import json
import os
import re
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from antidote_learn import apply_decisions
from antidote_learn.auditing.image_moves import check_inside
from tests.auditing.kills import tree, write_decisions
from tests.commands import antidote

HEADER = "index,given_label,decision,new_label\n"


def decided(folder: Path, *lines: str) -> Path:
    path = folder / "decisions.csv"
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return path


def changes(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def csv(tmp_path) -> Path:
    path = tmp_path / "data.csv"
    path.write_text('id,note,kind\n007,"a, ""b""",cat\n008,?,dog\n009,NA,cat\n010, x,-1\n011,1.50,dog\n')
    return path


def test_a_csv_keeps_every_other_cell(csv, tmp_path):
    decisions = decided(tmp_path, "1,dog,relabel,'-1", "3,'-1,accept,cat", "0,cat,keep,cat", "4,dog,drop,")
    before = csv.read_bytes()
    done = apply_decisions(decisions, csv, label="kind")
    assert csv.read_bytes() == before
    assert done.out == tmp_path / "data-corrected.csv"
    assert done.out.read_text() == 'id,note,kind\n007,"a, ""b""",cat\n008,?,-1\n009,NA,cat\n010, x,cat\n'
    assert (done.relabelled, done.dropped, done.kept) == (2, 1, 1)
    assert changes(done.log) == [
        {"index": 1, "given_label": "dog", "new_label": "-1"},
        {"index": 3, "given_label": "-1", "new_label": "cat"},
        {"index": 4, "given_label": "dog", "new_label": None},
    ]


@pytest.mark.parametrize("data", ["csv", "images"])
def test_an_unsure_row_stays_as_it_is_and_is_logged(data, request, tmp_path):
    source = request.getfixturevalue(data)
    label = "kind" if data == "csv" else None
    decisions = decided(tmp_path, "1,cat,unsure,cat" if data == "images" else "2,cat,unsure,", "0,cat,relabel,dog")
    done = apply_decisions(decisions, source, label=label)
    assert (done.relabelled, done.dropped, done.kept, done.unsure) == (1, 0, 0, 1)
    change, row = changes(done.log)
    assert (change["index"], change["new_label"]) == (0, "dog")
    assert row == {"index": 2 if data == "csv" else 1, "given_label": "cat", "decision": "unsure"}
    if data == "csv":
        assert done.out.read_text().splitlines()[3] == "009,NA,cat"
    else:
        assert (done.out / "cat" / "sub" / "2.png").exists()


@pytest.mark.parametrize("name", ["data.tsv", "data.csv.gz"])
def test_other_tables_of_text(name, tmp_path):
    path = tmp_path / name
    frame = pd.DataFrame({"a": ["1.50", "x,y", "z"], "label": ["p", "q", "p"]})
    frame.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    done = apply_decisions(decided(tmp_path, "2,p,relabel,q"), path)
    assert done.out.name == name.replace("data", "data-corrected")
    again = pd.read_csv(done.out, sep="\t" if "tsv" in name else ",", dtype=str)
    pd.testing.assert_frame_equal(again, frame.assign(label=["p", "q", "q"]), check_dtype=False)


def test_classes_are_written_as_the_file_writes_them(tmp_path):
    (tmp_path / "data.csv").write_text("a,label\n1,1.0\n2,2.0\n3,2.0\n")
    done = apply_decisions(decided(tmp_path, "0,1,relabel,2"), tmp_path / "data.csv")
    assert done.out.read_text() == "a,label\n1,2.0\n2,2.0\n3,2.0\n"


def test_parquet_keeps_its_schema(tmp_path):
    kinds = pa.array(["cat", "dog", "cat"]).dictionary_encode()
    table = pa.table({"n": pa.array([1, None, 3], pa.int8()), "label": kinds, "when": pa.array([1, 2, 3], pa.date32())})
    table = table.replace_schema_metadata({"mine": "yes"})
    parquet.write_table(table, tmp_path / "data.parquet")
    done = apply_decisions(decided(tmp_path, "0,cat,relabel,dog", "2,cat,drop,"), tmp_path / "data.parquet")
    again = parquet.read_table(done.out)
    assert again.schema.equals(table.schema, check_metadata=True)
    assert again.to_pylist() == [{**row, "label": "dog"} for row in table.to_pylist()[:2]]


def test_npz_keeps_its_types(tmp_path):
    X, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([3, 5, 3, 5], dtype=np.int16)
    np.savez(tmp_path / "data.npz", X=X, y=y, X_test=X, y_test=y, ids=np.array(list("abcd")), version=np.array(2))
    done = apply_decisions(decided(tmp_path, "0,3,relabel,5", "1,5,drop,"), tmp_path / "data.npz")
    with np.load(done.out) as again:
        np.testing.assert_array_equal(again["y"], [5, 3, 5])
        assert again["y"].dtype == np.int16
        np.testing.assert_array_equal(again["X"], X[[0, 2, 3]])
        np.testing.assert_array_equal(again["ids"], list("acd"))
        np.testing.assert_array_equal(again["X_test"], X)
        assert again["version"] == 2


def test_a_class_that_only_the_truth_has(tmp_path):
    X, y = np.zeros((4, 2)), np.array(["a", "b", "a", "b"])
    np.savez(tmp_path / "data.npz", X=X, y=y, clean_labels=np.array(["a", "b", "longer", "b"]))
    done = apply_decisions(decided(tmp_path, "2,a,relabel,longer"), tmp_path / "data.npz")
    with np.load(done.out) as again:
        assert again["y"].tolist() == ["a", "b", "longer", "b"]


@pytest.fixture
def images(tmp_path) -> Path:
    root = tmp_path / "images"
    for number, name in enumerate(("cat/1.png", "cat/sub/2.png", "dog/1.png", "dog/3.png")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(root / name)
    (root / "dog" / "broken.png").write_text("no image")
    return root


def test_a_folder_of_images_is_copied(images, tmp_path):
    before = everything(images)
    decisions = decided(tmp_path, "0,cat,relabel,dog", "1,cat,accept,dog", "3,dog,drop,")
    done = apply_decisions(decisions, images, out=tmp_path / "better")
    assert everything(images) == before
    found = everything(done.out)
    log = found.pop("changes.jsonl")
    assert found == {
        "dog/1.png": before["dog/1.png"],
        "dog/1-cat.png": before["cat/1.png"],
        "dog/sub/2.png": before["cat/sub/2.png"],
    }
    assert [json.loads(line)["new_file"] for line in log.splitlines()] == ["dog/1-cat.png", "dog/sub/2.png", None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["better", "decisions.csv", "images"]


def test_a_folder_with_a_test_part_stays_whole(images, tmp_path):
    (tmp_path / "whole").mkdir()
    images.rename(tmp_path / "whole" / "train")
    for kind in ("cat", "dog"):
        (tmp_path / "whole" / "test" / kind).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "whole" / "test" / kind / "t.png")
    done = apply_decisions(decided(tmp_path, "0,cat,drop,"), tmp_path / "whole")
    assert done.out == tmp_path / "whole-corrected"
    train = ["train/cat/sub/2.png", "train/dog/1.png", "train/dog/3.png"]
    assert sorted(everything(done.out)) == ["changes.jsonl", "test/cat/t.png", "test/dog/t.png", *train]


def test_in_place_only_when_asked_and_nothing_is_lost(images, csv, tmp_path):
    before = everything(images)
    decisions = write_decisions(tmp_path / "decisions.csv", images, ["0,cat,relabel,dog", "3,dog,drop,"])
    done = apply_decisions(decisions, images, in_place=True)
    found = everything(images)
    log = found.pop("changes.jsonl")
    assert len(log.splitlines()) == 3
    assert found[".dropped/dog/3.png"] == before["dog/3.png"]
    assert found["dog/1-cat.png"] == before["cat/1.png"]
    assert sorted(found.values()) == sorted(before.values())
    assert done.out == images
    for line in ("0,cat,relabel,dog", "0,dog,relabel,cat"):
        write_decisions(decisions, csv, [line])
        table = apply_decisions(decisions, csv, label="kind", in_place=True)
    assert table.out == csv
    assert [change["new_label"] for change in changes(table.log) if "index" in change] == ["dog", "cat"]
    assert csv.read_text().count("cat") == 2


def test_nothing_is_moved_through_a_link_out_of_the_folder(images, tmp_path):
    outside = tmp_path / "outside"
    (images / "dog").rename(outside)
    (images / "dog").symlink_to(outside)
    before = everything(outside)
    decisions = write_decisions(tmp_path / "decisions.csv", images, ["0,cat,relabel,dog"])
    with pytest.raises(ValueError, match="lies outside"):
        apply_decisions(decisions, images, in_place=True)
    assert everything(outside) == before


@pytest.mark.parametrize("name", ["../x.png", "a/../../x.png", "/etc/x.png"])
def test_names_that_lead_out_of_the_folder(name, tmp_path):
    with pytest.raises(ValueError, match="lies outside"):
        check_inside(tmp_path, name, linked=False)


REFUSED = {
    "other labels": (["0,dog,accept,cat"], "row 0 is labelled 'cat' here, 'dog' in the decisions"),
    "too many rows": (["5,dog,accept,cat"], "there is no row 5 here, rows are 0 ... 4"),
    "no number": (["-1,dog,accept,cat"], "whole numbers"),
    "twice": (["0,cat,accept,dog", "0,cat,drop,"], "row 0 is decided twice"),
    "twice, written otherwise": (["1,dog,accept,cat", "01,dog,drop,"], "row 1 is decided twice"),
    "digits of another script": (["1,dog,accept,cat", "１,dog,drop,"], "whole numbers"),
    "a number of 5000 digits": (["1" * 5000 + ",dog,drop,"], "whole numbers"),
    "unknown class": (["0,cat,relabel,../../bird"], "'../../bird', which is no class"),
    "no class": (["0,cat,accept,"], "'', which is no class"),
    "unknown decision": (["0,cat,change,dog"], "accepted: accept, keep, relabel, drop, unsure"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_decisions_that_do_not_fit_are_refused_and_nothing_is_written(case, csv, tmp_path):
    lines, words = REFUSED[case]
    decisions = decided(tmp_path, *lines)
    before = everything(tmp_path)
    with pytest.raises(ValueError, match=re.escape(words)):
        apply_decisions(decisions, csv, label="kind")
    assert everything(tmp_path) == before


def test_where_it_may_not_write(csv, images, tmp_path):
    decisions = decided(tmp_path, "0,cat,relabel,dog")
    before = everything(tmp_path)
    for data, options, words in (
        (csv, {"label": "kind", "out": csv}, "exists already"),
        (csv, {"label": "kind", "out": tmp_path / "x.parquet"}, "ends in .csv"),
        (csv, {"label": "kind", "out": tmp_path / "x.csv", "in_place": True}, "give one of them"),
        (images, {"out": images / "cat" / "new"}, "lies in the data itself"),
        (images, {"out": images}, "exists already"),
        (images, {"label": "kind"}, "takes no `label`"),
        ("digits", {}, "can be applied to"),
    ):
        with pytest.raises(ValueError, match=words):
            apply_decisions(decisions, data, **options)
    with pytest.raises(ValueError, match="lacks column 'index'"):
        apply_decisions(csv, csv)
    for files in ((decisions, tmp_path / "no.csv"), (tmp_path / "no.csv", csv)):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            apply_decisions(*files)
    assert everything(tmp_path) == before


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


IN_THE_WAY = {
    "file": (lambda path: path.write_text("mine\n"), "exists already"),
    "empty file": (lambda path: path.touch(), "exists already"),
    "link": (lambda path: path.symlink_to(path.parent / "precious"), "is a link"),
    "link that leads nowhere": (lambda path: path.symlink_to("nowhere"), "is a link"),
    "pipe": (make_pipe, "is a pipe"),
    "socket": (make_socket, "is a socket"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_lies_where_the_log_belongs_stays_as_it_is(kind, csv, images, tmp_path):
    make, words = IN_THE_WAY[kind]
    (tmp_path / "precious").write_text("precious")
    make(tmp_path / "new.csv.changes.jsonl")
    decisions = decided(tmp_path, "0,cat,relabel,dog")
    before = tree(tmp_path)
    done = antidote("apply", decisions, csv, "--label", "kind", "--out", tmp_path / "new.csv")
    assert (done.code, words in done.complaint) == (2, True), done.err
    assert tree(tmp_path) == before
    if "file" in kind:
        return
    for data in (images, csv):
        log = images / "changes.jsonl" if data == images else tmp_path / "data.csv.changes.jsonl"
        write_decisions(decisions, data, ["0,cat,relabel,dog"])
        make(log)
        before = tree(tmp_path)
        label = () if data == images else ("--label", "kind")
        for arguments in ((decisions, data, "--in-place", *label), ("--undo", log)):
            done = antidote("apply", *arguments)
            assert (done.code, words in done.complaint) == (2, True), done.err
        assert tree(tmp_path) == before


def test_a_link_is_not_followed_to_what_it_names(csv, images, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder").symlink_to("empty")
    (tmp_path / "new.csv").symlink_to("nowhere.csv")
    decisions = decided(tmp_path, "0,cat,relabel,dog")
    before = tree(tmp_path)
    for data, out in ((csv, "new.csv"), (images, "folder")):
        with pytest.raises(ValueError, match="exists already"):
            apply_decisions(decisions, data, label="kind" if data == csv else None, out=tmp_path / out)
    assert tree(tmp_path) == before
    assert (tmp_path / "new.csv").is_symlink()


def test_the_command_says_what_was_done(csv, tmp_path):
    done = antidote("apply", decided(tmp_path, "0,cat,accept,dog"), csv, "--label", "kind", "--out", tmp_path / "b.csv")
    assert done.code == 0, done.err
    assert done.out == "1 labels changed, 0 rows dropped, 0 kept as they were\n"
    assert "b.csv.changes.jsonl" in done.err
    unsure = decided(tmp_path, "0,cat,accept,dog", "1,dog,unsure,dog")
    done = antidote("apply", unsure, csv, "--label", "kind", "--out", tmp_path / "c.csv")
    assert done.out == "1 labels changed, 0 rows dropped, 0 kept as they were, 1 unsure\n"
    again = antidote("apply", tmp_path / "decisions.csv", csv, "--label", "kind", "--out", tmp_path / "b.csv")
    assert (again.code, "exists already" in again.complaint) == (2, True)
