"""Command lines put together at random: an answer, or one line and the right exit code; a refusal leaves nothing."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from antidote_learn.cli import app
from tests.fuzz.budget import SECONDS, SEED

FEWEST = 60  # cases
PATIENCE = 60  # seconds for one case
WORDS = [
    "",
    " ",
    "none",
    "auto",
    "x",
    "-",
    "--",
    "..",
    "nan",
    "inf",
    "-1",
    "0",
    "1e400",
    "9" * 20,
    "é" * 300,
    "a\x1b[31mb",
]
NUMBERS = ["-1", "0", "1", "2", "0.5", "nan", "-inf", "1e-320", "9" * 20, "many", "0x10", "１", "1_0"]
GOOD = ["iris", "wine", "good.csv", "text.csv", "good.npz", "good.parquet", "images"]
DATA = [
    *GOOD * 2,
    *[
        "few.csv",
        "one.csv",
        "empty.csv",
        "twice.csv",
        "bad.npz",
        "bad.parquet",
        "good.xlsx",
        "nothing",
        ".",
        "/dev/null",
        "good.csv/x",
    ],
]
NOISES = [
    "none",
    "symmetric:0.4",
    "symmetric",
    "symmetric:2",
    "pair:0.2",
    "instance:0.3",
    "human:worse",
    "asymmetric:nan",
    ":",
    "adversarial:0.1",
    "symmetric:0.2:count=iid",
    "symmetric:0.4,pair:0.1",
]
METHODS = [
    "ce",
    "antidote",
    "antidote-dataset",
    "gce:q=0.5",
    "gce:q=nan",
    "nce+rce",
    "0.5*ce+mae",
    "antidote:penalty=1",
    "ce+",
    "*",
    "ce,ce",
    "[",
    "antidote:divergence=[alpha:1.5]",
    "antidote:divergence=[alpha:1e9]",
    "preset:NCE+MAE",
    "antidote:kappa=5e-324",
    "ls:smoothing=2",
    "antidote:noise_rate=injected",
    "antidote:base_loss=[nce+rce]",
]
MODELS = [
    "mlp",
    "mlp:hidden=[4]",
    "mlp:hidden=[]",
    "mlp:hidden=[1e9]",
    "cnn8",
    "cnn8:width=0",
    "torch.nn:Module",
    "os:system",
    "x:y:z",
    "json:loads",
    "torch.nn:Identity",
    ":",
    "mlp:hidden=[999999999999]",
]
OPTIONS: dict[str, dict[str, list[str]]] = {
    "train": {
        "--method": METHODS, "--noise": NOISES, "--noise-rate": [*NUMBERS, "injected"], "--delta": NUMBERS,
        "--penalty": NUMBERS, "--label": ["label", "", "a"], "--text": ["words", "a", ""], "--image": ["a", "file"],
        "--text-features": ["tfidf", "x"], "--test": ["good.csv", "few.csv", "x"], "--subset": NUMBERS,
        "--model": MODELS, "--protocol": ["features", "c10-eps", *WORDS], "--batch-size": [*NUMBERS, "16"],
        "--lr": NUMBERS,
        "--optimizer": ["sgd", "adamw", "x"], "--weight-decay": NUMBERS, "--warmup": NUMBERS, "--clip": NUMBERS,
        "--schedule": ["cosine", "step:1", "step:", "step:nan", "exponential:0", "exponential:1e400", *WORDS],
        "--seed": NUMBERS, "--noise-seed": NUMBERS, "--out": ["out", "good.csv", "images/out", "a" * 300, "full"],
        "--devices": ["-1", "0", "1", "1000000"], "--nodes": ["-1", "1"], "--precision": ["32", "bf16", "8"],
        "--workers": ["-1", "0", "1", "9" * 20], "--data-root": ["x", "."],
        "--labels": ["nothing", "images", "good.csv"],
        "--resume": [], "--strict": [], "--quiet": [], "--json": [], "--no-augment": [],
    },
    "audit": {
        "--label": ["label", "x"], "--text": ["words", "a"], "--image": ["a"], "--encoder": ["none", "auto", "x"],
        "--flag": NUMBERS, "--max-flagged": NUMBERS, "--fdr": NUMBERS,
        "--noise": NOISES, "--noise-seed": NUMBERS, "--subset": NUMBERS,
        "--model": MODELS, "--seed": NUMBERS, "--out": ["out", "good.csv", "images/out", "full"],
        "--export": ["x.csv", "x.xls", "no/x.csv", "x.jsonl"], "--resume": [], "--json": [], "--quiet": [],
    },
    "compare": {
        "--methods": METHODS, "--noise": NOISES, "--label": ["label"], "--model": MODELS,
        "--format": ["json", "csv", "x"],
        "--engine": ["local", "x"], "--subset": NUMBERS, "--lr": NUMBERS, "--out": ["out", "good.csv"], "--quiet": [],
        "--batch-size": NUMBERS, "--protocol": WORDS,
    },
    "predict": {"--out": ["p.csv", "p.xls", "no/p.csv"], "--which": ["last", "best", "x"], "--model": MODELS},
    "apply": {"--label": ["label", "x"], "--out": ["new.csv", "good.csv", "new.npz", "images/x"], "--in-place": []},
    "list": {"--preset": ["cifar10", "x"], "--json": []},
}  # fmt: skip
LISTS = ["methods", "data", "models", "protocols", "noise", "losses", "divergences", "x", ""]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Good and bad files, by the names that stand in `DATA`."""
    place = tmp_path_factory.mktemp("files")
    draw = np.random.default_rng(0)
    label = np.where(np.arange(60) % 2, "yes", "no")
    table = pd.DataFrame({"a": draw.normal(size=60) + 2 * (label == "yes"), "b": draw.normal(size=60), "label": label})
    table.to_csv(place / "good.csv", index=False)
    table.to_parquet(place / "good.parquet")
    table[:4].to_csv(place / "few.csv", index=False)
    table.assign(label="yes").to_csv(place / "one.csv", index=False)
    table.assign(words="some words here").to_csv(place / "text.csv", index=False)
    (place / "empty.csv").write_text("")
    (place / "twice.csv").write_text("a,label,label\n" + "1,x,x\n2,y,y\n" * 20)
    np.savez(place / "good.npz", X=table[["a", "b"]].to_numpy(), y=label)
    (place / "bad.npz").write_bytes((place / "good.npz").read_bytes()[:-40])
    (place / "bad.parquet").write_bytes((place / "good.parquet").read_bytes()[5:])
    (place / "good.xlsx").write_text("no sheet")
    (place / "full").mkdir()
    (place / "full" / "thesis.txt").write_text("years of work")
    pd.DataFrame({"index": [0], "given_label": ["no"], "decision": ["relabel"], "new_label": ["yes"]}).to_csv(
        place / "decisions.csv", index=False
    )
    for name in ("cat", "dog"):
        (place / "images" / name).mkdir(parents=True)
        for number in range(8):
            pixels = draw.integers(0, 256, size=(9, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / "images" / name / f"{number}.png")
    return place


def command_line(draw: random.Random) -> list[str]:
    command = draw.choice(["train", "train", "train", "audit", "audit", "compare", "predict", "apply", "list"])
    known = OPTIONS[command]
    words = [command]
    if command == "list":
        words += [draw.choice(LISTS)]
    elif command in ("predict", "apply"):
        words += [draw.choice(["decisions.csv", "out", *DATA]), draw.choice(DATA)]
    else:
        words += [draw.choice(DATA)]
    if command in ("train", "audit", "compare"):
        words += ["--epochs", draw.choice(["1", "1", "1", "1", "0", "-1", "9" * 20, "x"])]
    if command == "compare":
        words += ["--seeds", draw.choice(["1", "1", "0", "x"]), "--jobs", "1"]
        words += [] if draw.random() < 0.1 else ["--methods", draw.choice(METHODS)]
    for option in draw.sample(sorted(known), k=min(len(known), draw.choice([0, 1, 1, 1, 2, 4]))):
        words += [option, draw.choice(known[option])] if known[option] else [option]
    if draw.random() < 0.05:
        words.insert(draw.randrange(1, len(words)), draw.choice(WORDS))
    return words


def contents(place: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(place)): path.read_bytes() if path.is_file() else None
        for path in place.rglob("*")
        if "__pycache__" not in path.parts
    }


def check(words: list[str], result: Any, before: dict[str, Any], after: dict[str, Any]) -> None:
    case = f"seed {SEED}: antidote {' '.join(map(repr, words))}"
    error = result.exception
    assert error is None or isinstance(error, SystemExit), f"{case}: {type(error).__name__}: {error}"
    assert result.exit_code in (0, 1, 2), f"{case}: exit code {result.exit_code}"
    assert "\x1b" not in result.stderr, f"{case}: a control character reaches the terminal"
    if result.exit_code == 2:
        assert before == after, f"{case}: left {sorted(set(after) ^ set(before))} behind"
        lines = [line for line in result.stderr.splitlines() if line.startswith("antidote:")]
        assert len(lines) == 1 or "Usage:" in result.stderr, f"{case}: {result.stderr}"
    elif result.exit_code == 1:
        assert "antidote:" in result.stderr, f"{case}: {result.stderr}"


def test_command_lines(files, tmp_path, monkeypatch, capsys):
    def complain(*_: Any) -> None:
        raise AssertionError("it hangs")

    end, done, codes = time.monotonic() + SECONDS, 0, [0, 0, 0]
    monkeypatch.setenv("NO_COLOR", "1")
    before_alarm = signal.signal(signal.SIGALRM, complain)
    while done < FEWEST or time.monotonic() < end:
        draw = random.Random(f"{SEED} {done}")
        place = tmp_path / "case"
        os.system(f"cp -a '{files}' '{place}'")
        monkeypatch.chdir(place)
        words, before = command_line(draw), contents(place)
        signal.alarm(PATIENCE)
        result = CliRunner().invoke(app, words)
        signal.alarm(0)
        check(words, result, before, contents(place))
        codes[result.exit_code] += 1
        monkeypatch.chdir(tmp_path)
        os.system(f"rm -rf '{place}'")
        done += 1
    signal.signal(signal.SIGALRM, before_alarm)
    with capsys.disabled():
        print(f"\n{done} command lines: {codes[0]} answered, {codes[1]} failed, {codes[2]} refused")
