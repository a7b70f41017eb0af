"""The command line, run as a user runs it: in a process of its own."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from antidote_learn._version import __version__
from tests import commands


def antidote(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "antidote_learn", *args], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["list", "--help"], ["list", "nothing"]])
def test_torch_is_imported_only_when_a_command_needs_it(args):
    program = (
        "import sys; from antidote_learn.cli import main\n"
        f"sys.argv = ['antidote', *{args!r}]\n"
        "main()\n"
        "heavy = {'torch', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_version():
    done = antidote("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"antidote-learn {__version__}\n", "")


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help_names_the_commands(args):
    done = antidote(*args)
    assert done.returncode == 0
    assert "list" in done.stdout
    assert not done.stderr


def test_list_divergences_as_a_table():
    done = antidote("list", "divergences")
    assert done.returncode == 0, done.stderr
    for name in ("kl", "chi2", "alpha", "js", "hellinger"):
        assert name in done.stdout


def test_list_divergences_as_json():
    rows = json.loads(antidote("list", "divergences", "--json").stdout)
    exact = {row["name"]: row["forgets_exactly"] for row in rows}
    assert exact["chi2"]
    assert not exact["kl"]
    assert not exact["js"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["list", "nothing"], "divergences"),
        (["list"], "divergences"),
        (["lsit"], "lsit"),
        (["--colour"], "--colour"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(args, says):
    done = antidote(*args)
    assert done.returncode == 2
    assert not done.stdout
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_help_is_quick():
    """In seconds of the processor, which other work on the machine does not prolong."""

    def seconds() -> float:
        before = os.times()
        antidote("--help")
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(3)) < 0.6


KINDS = ("methods", "data", "models", "protocols", "noise", "losses", "divergences")


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_is_a_table_and_json(kind):
    rows = json.loads(commands.antidote("list", kind, "--json").out)
    assert rows
    table = commands.antidote("list", kind)
    assert (table.code, table.err) == (0, "")
    lines = table.out.splitlines()[1:]  # below the heading
    assert [line.startswith(row["name"]) for line, row in zip(lines, rows, strict=True)] == [True] * len(rows)


def test_train_prints_json_on_stdout_and_words_on_stderr(tmp_path):
    args = ("train", "digits", "--noise", "symmetric:0.4", "--method", "ce", "--epochs", "2", "--json")
    done = antidote(*args, "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "training: epoch 2/2" in done.stderr
    summary = json.loads(done.stdout)
    assert {"method", "data", "noise", "accuracy", "epochs", "seconds", "out"} <= summary.keys()
    assert (summary["method"], summary["data"], summary["epochs"]) == ("ce", "digits", 2)
    assert summary["noise"]["spec"] == "symmetric:0.4"
    assert summary["noise"]["realised"] == pytest.approx(0.4, abs=1e-3)
    assert len(summary["noise"]["hash"]) == 64
    assert 50 < summary["accuracy"]["last"] <= summary["accuracy"]["best"] <= 100
    assert summary["accuracy"]["against"] == "clean"
    assert summary["out"] == str(tmp_path / "run")
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())


def test_quiet_leaves_nothing_but_the_data(tmp_path):
    done = commands.antidote("train", "digits", "--epochs", 1, "--quiet", "--json", "--out", tmp_path / "run")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["noise_rate"]["low"] <= json.loads(done.out)["noise_rate"]["rate"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "data.csv"
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": draw.normal(size=200), "kind": draw.choice(["x", "y"], 200), "species": "cat"})
    frame.loc[frame["a"] > 0, "species"] = "dog"
    frame.to_csv(path, index=False)
    return path


def test_a_hold_out_with_labels_as_given_is_no_accuracy(table, tmp_path):
    args = ("train", table, "--label", "species", "--method", "ce", "--epochs", 3)
    done = commands.antidote(*args, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "agreement with the given labels" in done.out
    assert "accuracy" not in done.out
    (folder,) = (tmp_path / "runs").iterdir()  # the default name
    assert json.loads((folder / "summary.json").read_text())["accuracy"]["against"] == "given"


def test_images_that_a_table_lists_are_trained_on_and_predicted(tmp_path):
    draw, rows = np.random.default_rng(0), 60
    for row in range(rows):
        colour = draw.integers(0, 90, 3) + (100 if row % 2 else 0)
        Image.new("RGB", (10, 10), tuple(colour.tolist())).save(tmp_path / f"{row}.png")
    frame = pd.DataFrame({"photo": [f"{row}.png" for row in range(rows)], "light": ["dark", "bright"] * (rows // 2)})
    frame.to_csv(tmp_path / "photos.csv", index=False)
    frame[["photo"]].iloc[:6].to_csv(tmp_path / "new.csv", index=False)
    options = ("--image", "photo", "--label", "light", "--model", "mlp", "--method", "ce", "--epochs", 8)
    done = commands.antidote("train", tmp_path / "photos.csv", *options, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["accuracy"]["last"] > 80
    wrong = 0
    for data, names in (("new.csv", frame["photo"][:6]), (".", sorted(frame["photo"]))):  # a table, and a folder
        predicted = commands.antidote("predict", tmp_path / "run", tmp_path / data)
        assert predicted.code == 0, predicted.err
        found = pd.read_csv(io.StringIO(predicted.out))
        assert found["row"].tolist() == list(names)
        wrong += (found.set_index("row")["label"] != frame.set_index("photo")["light"][names]).sum()
    assert wrong < 8


BAD = {
    "unknown data": (["digit"], "accepted: a built-in name"),
    "a missing file": (["nowhere.csv"], "nowhere.csv"),
    "another kind of file": (["data.xlsx"], ".parquet"),
    "unknown method": (["digits", "--method", "antidot"], "accepted: antidote, antidote-dataset, antidote-lagged"),
    "unknown parameter": (["digits", "--method", "antidote:kapa=1"], "kappa=..."),
    "unknown divergence": (["digits", "--method", "antidote:divergence=tv"], "chi2"),
    "unknown noise": (["digits", "--noise", "symetric:0.4"], "symmetric"),
    "noise without a rate": (["digits", "--noise", "symmetric"], "symmetric"),
    "noise beyond all": (["digits", "--noise", "symmetric:1.4"], "1.4"),
    "unknown model": (["digits", "--model", "resnet"], "resnet34"),
    "a model for images": (["TABLE", "--label", "species", "--model", "cnn8"], "mlp"),
    "a module that is not there": (["digits", "--model", "nowhere.nets:net"], "nowhere"),
    "unknown protocol": (["digits", "--protocol", "c10"], "c10-eps"),
    "unknown schedule": (["digits", "--schedule", "linear"], "cosine"),
    "unknown optimizer": (["digits", "--optimizer", "adam"], "sgd, adamw"),
    "unknown column": (["TABLE", "--label", "specie"], "species"),
    "no label column": (["TABLE"], "species"),
    "unknown text column": (["TABLE", "--label", "species", "--text", "b"], "'b'"),
    "unknown image column": (["TABLE", "--label", "species", "--image", "b"], "'b'"),
    "text and images": (["TABLE", "--label", "species", "--image", "a", "--text", "kind"], "--image a and --text kind"),
    "a rate of words": (["digits", "--noise-rate", "some"], "'some'"),
    "a rate of 1": (["digits", "--noise-rate", "1"], "[0, 1)"),
    "a negative rate": (["digits", "--noise-rate", "-0.1"], "-0.1"),
    "a rate and a budget": (["digits", "--noise-rate", "0.2", "--delta", "0.5"], "noise_rate=0.2 and delta=0.5"),
    "a budget for a method without": (["digits", "--method", "ce", "--delta", "0.5"], "takes no delta"),
    "an injected rate without noise": (["digits", "--noise-rate", "injected"], "--noise"),
    "no epochs": (["digits", "--epochs", "0"], "epochs must be a whole number >= 1 and at most 1000000"),
    "no number": (["digits", "--epochs", "many"], "'--epochs'"),
    "an empty batch": (["digits", "--batch-size", "0"], "batch_size must be a whole number >= 1"),
    "a rate of learning": (["digits", "--lr", "nan"], "lr must be a finite number > 0"),
    "a small subset": (["digits", "--subset", "5"], "subset of 5"),
    "no devices": (["digits", "--devices", "0"], "devices must be a whole number >= 1"),
    "unknown precision": (["digits", "--precision", "8"], "32, bf16, 16"),
    "an option for tables": (["digits", "--label", "species"], "--label"),
    "a negative seed": (["digits", "--seed", "-1"], "seed must be a whole number >= 0"),
    "a negative seed of the noise": (["digits", "--noise-seed", "-1"], "noise_seed must be a whole number >= 0"),
    "epochs of twenty digits": (
        ["digits", "--epochs", "9" * 20],
        "epochs must be a whole number >= 1 and at most 1000000",
    ),
    "too many devices": (["digits", "--devices", "100000"], "devices must be a whole number >= 1"),
    "no network": (["digits", "--model", "torch.nn:Module"], "the factory fails: TypeError"),
    "no factory": (["digits", "--model", "torch:Tensor"], "no factory of networks"),
    "a network that does nothing": (["digits", "--model", "torch.nn:Identity"], "logits (B, 10) for (B, 1, 8, 8)"),
    "wide layers": (["digits", "--model", "mlp:hidden=[1000000000000]"], "of at most 1000000"),
    "a large network": (["digits", "--model", "mlp:hidden=[1000000,1000000]"], "would have 1e+12 parameters"),
    "many layers": (["digits", "--model", f"mlp:hidden=[{'1,' * 9000}]"], "at most 100 layer widths"),
    "deep brackets": (["digits", "--model", f"mlp:hidden={'[' * 9000}"], "received '[[["),
    "few rows": (["FEW", "--label", "species"], "at least 10 samples are needed"),
}


@pytest.mark.parametrize(("args", "says"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_leaves_nothing_behind(args, says, table, tmp_path):
    few = table.with_name("few.csv")
    few.write_text("".join(table.read_text().splitlines(keepends=True)[:6]))
    files = {"TABLE": table, "FEW": few}
    done = commands.antidote("train", *(files.get(arg, arg) for arg in args), cwd=tmp_path)
    assert done.code == 2, done.err
    assert says in done.complaint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["train", "audit"])
def test_a_foreign_folder_is_refused_untouched(command, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = commands.antidote(command, "iris", "--epochs", 1, "--out", tmp_path / "mine")
    assert done.code == 2
    assert "choose another --out" in done.complaint
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]


FAULTY = """
from torch import nn

class Faulty(nn.Module):  # it fails in training alone, which nothing can tell before
    def __init__(self, shape, classes):
        super().__init__()
        self.net = nn.Linear(shape[0], classes)

    def forward(self, x):
        if self.training:
            raise ValueError("no training today")
        return self.net(x)
"""


@pytest.mark.parametrize("out", ["run", "some/where/run", "empty"])
def test_what_fails_at_once_leaves_no_folder_behind(out, tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    (tmp_path / "empty").mkdir()
    options = ("--model", "faulty:Faulty", "--method", "ce", "--epochs", 1, "--out", out)
    done = commands.antidote("train", "iris", *options, cwd=tmp_path, environment={"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.code in (1, 2), done.err
    assert "no training today" in done.err
    if done.code == 2:
        assert sorted(os.listdir(tmp_path)) == ["empty", "faulty.py"]
        assert os.listdir(tmp_path / "empty") == []


def test_progress_fits_a_terminal_of_80_columns(tmp_path):
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "antidote_learn", "train", "iris", "--noise-rate", "0.1", "--epochs", "3"]
    plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=end,
        env={**plain, "TERM": "xterm"},
        check=True,
    )
    os.close(end)
    with open(terminal, "rb", buffering=0) as reader:
        shown = b"".join(iter(lambda: _read(reader), b"")).decode()
    assert b"accuracy" in done.stdout
    for words in ("3/3 epochs", "105/105 samples", "/s", "0:00:00", "loss ", "forgotten "):
        assert words in shown
    assert "…" not in shown


def _read(reader):
    try:
        return reader.read(4096)
    except OSError:  # how Linux says that the other end is closed
        return b""
