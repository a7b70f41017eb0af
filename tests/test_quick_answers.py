"""What is wrong with names, options and paths is said before torch is imported, by the command in its own process."""

import subprocess
import sys

import pytest

# Whatever of these is imported is refused: the command cannot answer but without it.
PROGRAM = """
import sys
HEAVY = {"torch", "lightning_fabric", "pandas", "sklearn", "scipy", "pyarrow", "PIL", "matplotlib"}

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HEAVY:
            raise SystemExit(f"{name} is imported")

sys.meta_path.insert(0, Refused())
from antidote_learn.cli import main
sys.exit(main())
"""
TRAIN = {
    "data": (["nowhere"], "there is no data 'nowhere'"),
    "table": (["nowhere.csv"], "there is no file nowhere.csv"),
    "test table": (["rows.csv", "--test", "nowhere.csv"], "there is no file nowhere.csv"),
    "option of tables": (["digits", "--label", "y"], "'digits' takes no --label"),
    "method": (["digits", "--method", "antidot"], "unknown method 'antidot'"),
    "loss": (["digits", "--method", "gce+nope"], "unknown loss 'nope'"),
    "parameter": (["digits", "--method", "antidote:kapa=1"], "unknown parameter 'kapa=1'"),
    "budgets": (["digits", "--delta", "1", "--penalty", "1"], "give one of noise_rate, delta and penalty"),
    "rate": (["digits", "--noise-rate", "injected"], "add --noise, or give a rate"),
    "noise": (["digits", "--noise", "symetric:0.4"], "unknown noise 'symetric:0.4'"),
    "epochs": (["digits", "--epochs", "0"], "epochs must be a whole number >= 1"),
    "lr": (["digits", "--lr", "-1"], "lr must be a finite number > 0"),
    "optimizer": (["digits", "--optimizer", "x"], "unknown optimizer 'x'"),
    "schedule": (["digits", "--schedule", "x"], "unknown schedule 'x'"),
    "protocol": (["digits", "--protocol", "x"], "unknown protocol 'x'"),
    "model": (["digits", "--model", "resnet"], "unknown model 'resnet'"),
    "model's parameter": (["digits", "--model", "cnn8:with=1"], "unknown parameter 'with=1'"),
    "precision": (["digits", "--precision", "8"], "unknown precision '8'"),
    "devices": (["digits", "--devices", "0"], "devices must be a whole number >= 1"),
    "text features": (["digits", "--text-features", "x"], "text_features must be one of tfidf, embeddings"),
    "labels": (["digits", "--labels", "nowhere"], "nowhere holds no finished audit"),
    "out": (["digits", "--out", "rows.csv"], "rows.csv is a file, or lies in one: choose another --out"),
    "out inside": (["digits", "--out", "rows.csv/run"], "choose another --out"),
}
ALL = (
    {f"train, {what}": (["train", *args], says) for what, (args, says) in TRAIN.items()}
    | {
        f"compare, {what}": (["compare", *args, "--methods", "ce"], says)
        for what, (args, says) in TRAIN.items()
        if what in ("data", "noise", "epochs", "model", "precision", "out")
    }
    | {
        "compare, method": (["compare", "digits", "--methods", "ce,antidot"], "unknown method 'antidot'"),
        "compare, twice": (["compare", "digits", "--methods", "ce,ce"], "the method 'ce' is there twice"),
        "audit, data": (["audit", "nowhere"], "there is no data 'nowhere'"),
        "audit, noise": (["audit", "digits", "--noise", "x"], "unknown noise 'x'"),
        "audit, encoder": (["audit", "digits", "--encoder", "x"], "encoder must be one of auto, none"),
        "audit, model": (["audit", "digits", "--model", "resnet"], "unknown model 'resnet'"),
        "audit, columns": (["audit", "digits", "--with-columns"], "--with-columns carries the columns of a table"),
        "audit, share": (["audit", "digits", "--fdr", "2"], "fdr must lie between 0 and 1"),
        "audit, cut": (["audit", "digits", "--flag", "9", "--fdr", "0.1"], "leave out --max-flagged and --fdr"),
        "audit, epochs": (["audit", "digits", "--epochs", "0"], "epochs must be a whole number >= 1"),
    }
)


@pytest.mark.parametrize(("args", "says"), ALL.values(), ids=ALL)
def test_bad_input_is_answered_without_torch(args, says, tmp_path):
    (tmp_path / "rows.csv").write_text("x,label\n1,a\n2,b\n")
    command = [sys.executable, "-c", PROGRAM, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_methods_are_listed_without_torch(tmp_path):
    command = [sys.executable, "-c", PROGRAM, "list", "methods", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"about": "ELR: cross-entropy, and a pull' in done.stdout


def test_a_bad_value_in_a_method_needs_torch_alone(tmp_path):
    program = PROGRAM.replace('"torch", ', "")
    command = [sys.executable, "-c", program, "train", "digits", "--method", "antidote:kappa=-1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.stderr == "antidote: kappa must be a finite number >= 0, got -1.0\n"
