"""`compare` has the options of `train`, with the same meaning; grids of earlier versions keep their names."""

import inspect
import json
from pathlib import Path

import pytest

from antidote_learn.bench.layout import Cell
from antidote_learn.cli import app
from antidote_learn.cli.compare_command import cell_options
from antidote_learn.cli.options import TrainingOptions
from tests.commands import antidote

NOT_OF_A_GRID = {
    "method": "a list, --methods",
    "seed": "a number of seeds, --seeds",
    "noise_rate": "of one method: antidote:noise_rate=0.1",
    "delta": "of one method: antidote:delta=0.3",
    "penalty": "of one method: antidote:penalty=1",
    "nodes": "machines share a grid by --engine ray",
    "resume": "a grid always goes on",
    "figures": "of one run",
    "as_json": "one of the formats, --format json",
}


def options(command: str) -> dict[str, inspect.Parameter]:
    named = {one.callback.__name__: one.callback for one in app.registered_commands}
    return dict(inspect.signature(named[command]).parameters)


def test_compare_has_every_option_of_train():
    train, compare = options("train"), options("compare")
    assert set(train) - set(compare) == set(NOT_OF_A_GRID)
    own = {"data", "noise", "out"}  # a list of noises; the grid's folder
    for name in (set(train) & set(compare)) - own:
        assert (train[name].annotation, train[name].default) == (compare[name].annotation, compare[name].default)


@pytest.mark.parametrize(
    ("cell", "training", "name"),
    [
        (("digits", "gce:q=0.5", "symmetric:0.4", 1), TrainingOptions(epochs=2), "28efbe37100d12d1"),
        (
            ("table.csv", "ce", "none", 0),
            TrainingOptions(
                label="kind", text=["a", "b"], text_features="embeddings", lr=0.05, augment=False,
                data_root=Path("official"), strict=True,
            ),
            "25f00267c5e84402",
        ),
    ],
)  # fmt: skip
def test_cells_are_named_as_in_grids_made_before(cell, training, name):
    """The names are those of version 0.1."""
    assert Cell(*cell, cell_options(training)).name == name


def test_what_changes_no_number_changes_no_name():
    plain, busy, exact = (
        Cell("digits", "ce", "none", 0, cell_options(training)).name
        for training in (
            TrainingOptions(),
            TrainingOptions(workers=4, download=True),
            TrainingOptions(precision="bf16"),
        )
    )
    assert plain == busy
    assert plain != exact


def test_a_grid_trains_as_its_options_say(tmp_path):
    words = ["--precision", "bf16", "--noise-seed", 7, "--workers", 1, "--warmup", 0.5]
    done = antidote(
        "compare", "iris", "--methods", "ce", "--noise", "symmetric:0.2", "--seeds", 1, "--epochs", 1, "--jobs", 1,
        *words, "--out", tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    (spec,) = (json.loads(path.read_text())["run"] for path in tmp_path.glob("*/run/spec.json"))
    assert (spec["precision"], spec["noise_seed"], spec["warmup"]) == ("bf16", 7, 0.5)
    bad = antidote("compare", "iris", "--methods", "ce", "--precision", "8", "--out", tmp_path / "bad")
    assert bad.code == 2
    assert "unknown precision '8'" in bad.complaint
