"""Uses the installed wheel the way a newcomer would. Run with `python -I`, so that the source tree is out of sight."""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch

import antidote_learn
from antidote_learn import AntidoteLoss


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    package = Path(antidote_learn.__file__).parent
    assert "site-packages" in package.parts, f"imported from {package}, not from the installed wheel"
    assert (package / "py.typed").is_file(), "py.typed is missing: type checkers would ignore the annotations"

    logits = torch.randn(32, 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    criterion = AntidoteLoss(noise_rate=0.4)
    value = criterion(logits, torch.arange(32) % 10)
    value.backward()
    assert torch.isfinite(value), value
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all(), logits.grad
    assert criterion.last is not None
    assert abs(float(criterion.last.weights.mean()) - 1) < 1e-5, criterion.last.weights

    installed = version("antidote-learn")
    for command in ("antidote", "antidote-learn"):
        assert run(str(Path(sys.executable).with_name(command)), "--version") == f"antidote-learn {installed}"
    assert "kl" in run(sys.executable, "-I", "-m", "antidote_learn", "list", "divergences")
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        antidote = (sys.executable, "-I", "-m", "antidote_learn")
        found = run(*antidote, "train", "digits", "--noise", "symmetric:0.4", "--epochs", "2", "--out", out, "--json")
        assert json.loads(found)["accuracy"]["against"] == "clean", found
        assert run(*antidote, "predict", out, "digits").startswith("row,label,probability")
        run(*antidote, "audit", "iris", "--epochs", "1", "--out", str(Path(folder) / "audit"))
        assert (Path(folder) / "audit" / "review.html").stat().st_size > 10_000
    print(f"antidote-learn {installed}: the installed wheel works (torch {torch.__version__})")


if __name__ == "__main__":
    main()
