"""A run that was trained on mini-WebVision is tested on ImageNet's validation images, too."""

import json

import numpy as np
import pytest

from antidote_learn import load
from antidote_learn._types import ImageFiles
from antidote_learn.bench import further_tests
from antidote_learn.bench.further_tests import READERS, further_figures
from antidote_learn.bench.grid import local_engine
from antidote_learn.bench.layout import Cell
from antidote_learn.bench.records import run_cell
from antidote_learn.bench.reproduction import CELLS, rebuild_table
from antidote_learn.cli.live import GridLines
from antidote_learn.data import imagenet
from antidote_learn.data.builtin import load_named
from antidote_learn.presets.paper_tables import TESTS, build_paper_table
from tests.webvision import IN_CLASS, imagenet_tree, tree

# With these, the best epoch is not the last one, and ImageNet's figures are not WebVision's.
SETTINGS = {"model": "mlp:hidden=[8]", "lr": 0.05, "epochs": 4, "workers": 1}
COLUMNS = [
    {"name": "WebVision top-1", "noise": "none"},
    {"name": "WebVision top-5", "noise": "none", "figure": "last_top5"},
    {"name": "ImageNet top-1", "noise": "none", "test": "imagenet-val"},
    {"name": "ImageNet top-5", "noise": "none", "test": "imagenet-val", "figure": "last_top5"},
]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root with WebVision."""
    monkeypatch.setattr(imagenet, "IN_CLASS", IN_CLASS)
    monkeypatch.setenv("ANTIDOTE_DATA", str(tmp_path / "data"))
    tree(tmp_path / "data", side=40)
    return tmp_path / "data"


def rebuild(folder, *, data="mini-webvision", method="ce", columns=COLUMNS):
    """The figures of a table with one row by their columns, and the reasons for those that are missing."""
    scale = {"seeds": 1, "options": SETTINGS}
    part = {
        "name": "mini-WebVision",
        "data": data,
        "columns": columns,
        "rows": [{"name": "CE", "method": method, "published": ["70", "90", "60", "80"][: len(columns)]}],
        "scales": dict.fromkeys(("smoke", "cpu", "paper"), scale),
    }
    table = build_paper_table("table2", {"title": "A table", "source": "the paper", "parts": [part]})
    rebuilt = rebuild_table(table, "cpu", folder, local_engine(1), lambda cells: GridLines(cells, told=False))
    return {entry.column.name: entry for entry in rebuilt.entries}


def kept_file(folder):
    (path,) = (folder / CELLS).glob("*/test-imagenet-val.json")
    return path


@pytest.mark.parametrize("layout", ["ILSVRC2012_img_val", "by class"])
def test_the_figures_are_those_of_a_slow_loop(root, tmp_path, layout):
    truth = imagenet_tree(root, layout, side=40)
    found = rebuild(tmp_path / "out")
    assert [entry.reason for entry in found.values()] == [""] * 4
    run = load(kept_file(tmp_path / "out").parent / "run")
    right, among = 0, 0
    for name, label in truth.items():
        (row,) = run.predict_proba(ImageFiles(root / "imagenet", (name,), 8))
        order = np.argsort(-row)
        right += order[0] == label
        among += label in order[:5]
    assert 0 < right < among < len(truth)
    assert found["ImageNet top-1"].values == {0: pytest.approx(100 * right / len(truth))}
    assert found["ImageNet top-5"].values == {0: pytest.approx(100 * among / len(truth))}
    assert found["ImageNet top-5"].difference == pytest.approx(100 * among / len(truth) - 80)
    assert found["WebVision top-1"].values == {0: run.summary["accuracy"]["last"]}
    assert found["WebVision top-5"].values == {0: run.summary["accuracy"]["last_top5"]}


def test_the_runs_own_test_set_has_the_figures_of_its_record(root, tmp_path, monkeypatch):
    cell = Cell("mini-webvision", "ce", "none", 0, {**SETTINGS, "data_root": str(root)})
    monkeypatch.delenv("ANTIDOTE_DATA")
    record = run_cell(cell, tmp_path)

    def own(place):
        assert place == root
        data = load_named("mini-webvision", root=place)
        return data.test_inputs, data.test_labels

    monkeypatch.setitem(READERS, "imagenet-val", ("mini-webvision", own))
    found = further_figures(cell, "imagenet-val", tmp_path)
    assert found["images"] == 50
    assert (found["last"], found["last_top5"]) == (record["last"], record["last_top5"])


def test_figures_are_computed_once(root, tmp_path, monkeypatch):
    imagenet_tree(root, "by class", side=40)
    first = {name: entry.values for name, entry in rebuild(tmp_path / "out").items()}
    monkeypatch.setattr(further_tests, "load", lambda *_: pytest.fail("the model was loaded again"))
    assert {name: entry.values for name, entry in rebuild(tmp_path / "out").items()} == first


def test_without_imagenet_the_other_figures_stay_and_later_only_the_test_is_made(root, tmp_path):
    found = rebuild(tmp_path / "out")
    for name, entry in found.items():
        assert bool(entry.values) == name.startswith("WebVision")
        told = "FileNotFoundError: imagenet-val: " if name.startswith("ImageNet") else ""
        assert entry.reason.startswith(told)
        assert "\n" not in entry.reason
        assert bool(entry.reason) == bool(told)
    assert not list((tmp_path / "out").rglob("test-*.json"))
    imagenet_tree(root, "val", side=40)
    (record,) = (tmp_path / "out" / CELLS).glob("*/record.json")
    before = record.stat().st_mtime_ns
    assert all(entry.values for entry in rebuild(tmp_path / "out").values())
    assert record.stat().st_mtime_ns == before


def test_an_image_that_cannot_be_decoded_is_the_reason(root, tmp_path):
    name = next(iter(imagenet_tree(root, "by class")))
    (root / "imagenet" / name).write_bytes(b"no image")
    assert f"{name} cannot be read (not an image)" in rebuild(tmp_path / "out")["ImageNet top-5"].reason


DAMAGES = {
    "another content": lambda text: text.replace('"images": 100', '"images": 101'),
    "a half": lambda text: text[: len(text) // 2],
    "no figure": lambda _: json.dumps({"last": 50.0}),
    "text for a figure": lambda _: json.dumps({"last": 50.0, "last_top5": "70"}),
}


def test_a_damaged_file_is_told_in_one_line(root, tmp_path):
    imagenet_tree(root, "by class", side=40)
    rebuild(tmp_path / "out")
    path = kept_file(tmp_path / "out")
    whole = path.read_text()
    for damage in DAMAGES.values():
        path.write_text(damage(whole))
        assert path.read_text() != whole
        with pytest.raises(ValueError, match=r"test-imagenet-val\.json is damaged: .*restore it") as caught:
            rebuild(tmp_path / "out")
        assert "\n" not in str(caught.value)


def test_a_run_on_other_data_is_not_tested(tmp_path):
    found = rebuild(tmp_path / "out", data="digits")
    assert found["WebVision top-1"].values
    assert (
        found["ImageNet top-1"].reason == "imagenet-val has the classes of mini-webvision, and the run those of digits"
    )


def test_a_run_that_failed_says_why_in_all_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTIDOTE_DATA", str(tmp_path / "nowhere"))
    reasons = {entry.reason for entry in rebuild(tmp_path / "out").values()}
    (reason,) = reasons
    assert reason.startswith("FileNotFoundError: mini-webvision: ")


def test_every_test_of_a_column_has_a_reader():
    assert set(READERS) == set(TESTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": "imagenet"}, "test must be one of imagenet-val, or empty; received 'imagenet'"),
        ({"figure": "best"}, "figure on imagenet-val must be one of last, last_top5; received 'best'"),
    ],
)
def test_a_column_that_asks_for_what_is_not_there_is_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        rebuild(tmp_path / "out", columns=[{**COLUMNS[2], **changes}])
