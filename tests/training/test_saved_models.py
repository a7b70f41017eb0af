"""A run's model in other hands: loaded in a fresh process, on odd rows, from damaged files."""

import io
import json
import shutil
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from torch import nn

from antidote_learn import load, train
from antidote_learn.training.checkpoint import read_json, write_sealed
from tests.commands import antidote

WORDS = {"good": "great film, loved every minute", "bad": "dull plot and wooden acting", "odd": "strange but charming"}
ODD_ROWS = {
    "an unseen category": {"town": "Atlantis"},
    "no category": {"town": None},
    "an empty text": {"review": ""},
    "no text": {"review": None},
    "an unseen text": {"review": "quux"},
    "no number": {"age": None},
    "nothing": {"age": None, "town": None, "review": None},
}


def reviews(count: int) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    opinion = draw.choice(list(WORDS), count)
    return pd.DataFrame(
        {
            "age": [{"good": 30.0, "bad": 60.0, "odd": 45.0}[name] for name in opinion] + draw.normal(size=count) * 9,
            "town": draw.choice(["Oslo", "Bern", "007"], count),
            "review": [f"{WORDS[name]} {draw.integers(1000)}" for name in opinion],
            "opinion": opinion,
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("table") / "reviews.csv"
    reviews(300).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table):
    """Trained in this process."""
    return train(
        table, label="opinion", text=["review"], method="antidote", noise_rate=0.1, epochs=6, out=table.parent / "run"
    )


def probabilities(table: pd.DataFrame, classes: tuple[str, ...]) -> np.ndarray:
    return table[[f"p:{name}" for name in classes]].to_numpy()


def test_a_fresh_process_predicts_bit_for_bit_the_same(run, table, tmp_path):
    assert run.classes == ("bad", "good", "odd")
    assert run.summary["accuracy"]["last"] > 90
    done = antidote("predict", run.folder, table, "--out", tmp_path / "out.parquet")
    assert done.code == 0, done.err
    written = pd.read_parquet(tmp_path / "out.parquet")
    inputs = pd.read_csv(table).drop(columns="opinion")
    own = run.predict_proba(inputs)
    assert own.dtype == np.float32
    assert np.array_equal(probabilities(written, run.classes), own)
    assert written["label"].tolist() == run.predict(inputs).tolist()
    assert np.array_equal(written["probability"], own.max(axis=1))
    assert np.allclose(own.sum(axis=1), 1.0, atol=1e-6)


def test_predictions_on_stdout_and_in_a_csv_file(run, table, tmp_path):
    printed = antidote("predict", run.folder, table)
    assert printed.code == 0, printed.err
    written = antidote("predict", run.folder, table, "--out", tmp_path / "out.csv")
    assert (written.code, written.out) == (0, "")
    assert "300 predictions" in written.err
    assert (tmp_path / "out.csv").read_text() == printed.out
    found = pd.read_csv(io.StringIO(printed.out))
    assert found.columns.tolist() == ["row", "label", "probability", "p:bad", "p:good", "p:odd"]
    assert found["row"].tolist() == list(range(300))


@pytest.mark.parametrize("change", ODD_ROWS.values(), ids=ODD_ROWS)
def test_odd_rows_get_a_prediction(run, change):
    row = {"age": 60.0, "town": "Oslo", "review": WORDS["bad"]}
    probs = run.predict_proba(pd.DataFrame([row, {**row, **change}]))
    assert np.isfinite(probs).all()
    assert run.classes[probs[0].argmax()] == "bad"


def test_odd_rows_of_a_file(run, tmp_path):
    rows = [{"age": 60.0, "town": "Oslo", "review": WORDS["bad"], **change} for change in ODD_ROWS.values()]
    pd.DataFrame(rows).to_csv(tmp_path / "odd.csv", index=False)
    done = antidote("predict", run.folder, tmp_path / "odd.csv")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 1 + len(rows)


def test_a_table_without_a_column_of_training_is_refused(run, table, tmp_path):
    pd.read_csv(table).drop(columns="town").to_csv(tmp_path / "less.csv", index=False)
    done = antidote("predict", run.folder, tmp_path / "less.csv", "--out", tmp_path / "out.csv")
    assert done.code == 2
    assert "town" in done.complaint
    assert not (tmp_path / "out.csv").exists()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def newer(path: Path) -> None:
    write_sealed(path, {**read_json(path), "format": 2})


@pytest.mark.parametrize(
    ("name", "damage", "error", "says"),
    [
        ("model/last.safetensors", flip, ValueError, "changed or cut short"),
        ("model/last.safetensors", cut, ValueError, "changed or cut short"),
        ("model/last.safetensors", Path.unlink, FileNotFoundError, "is missing"),
        ("model/preprocessing.safetensors", flip, ValueError, "changed or cut short"),
        ("model/preprocessing.safetensors", Path.unlink, FileNotFoundError, "is missing"),
        ("model/model.json", cut, ValueError, "is not JSON"),
        ("model/model.json", newer, ValueError, "has format 2, known is 1"),
        ("model/model.json", Path.unlink, FileNotFoundError, "is missing"),
        ("spec.json", newer, ValueError, "is no spec of format 1"),
        ("spec.json", Path.unlink, FileNotFoundError, "is no run's folder"),
        ("summary.json", Path.unlink, FileNotFoundError, "summary.json"),
        ("done", Path.unlink, ValueError, "not finished"),
    ],
)
def test_a_damaged_model_is_refused(run, name, damage, error, says, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    damage(folder / name)
    with pytest.raises(error, match=says) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_the_command_line_refuses_a_damaged_model(run, table, damage, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    damage(tmp_path / "run" / "model" / "last.safetensors")
    done = antidote("predict", tmp_path / "run", table, "--out", tmp_path / "out.csv")
    assert done.code == 2
    assert "last.safetensors" in done.complaint
    assert not (tmp_path / "out.csv").exists()


def test_a_damaged_best_model_does_not_matter_to_the_last(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    flip(tmp_path / "run" / "model" / "best.safetensors")
    assert load(tmp_path / "run").classes == run.classes
    with pytest.raises(ValueError, match=r"best\.safetensors was changed"):
        load(tmp_path / "run", which="best")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere", "TABLE"], "no run's folder"),
        (["RUN", "nowhere.csv"], "nowhere.csv"),
        (["RUN", "TABLE", "--out", "out.xlsx"], "'out.xlsx'"),
        (["RUN", "TABLE", "--out", "no/folder/out.csv"], "no/folder/out.csv"),
        (["RUN", "TABLE", "--which", "first"], "last, best"),
    ],
)
def test_predict_says_what_is_wrong(run, table, args, says, tmp_path):
    known = {"RUN": run.folder, "TABLE": table}
    done = antidote("predict", *(known.get(arg, arg) for arg in args), cwd=tmp_path)
    assert done.code == 2
    assert says in done.complaint
    assert not list(tmp_path.iterdir())


def test_the_best_epoch_has_a_model_of_its_own(tmp_path):
    """Noise so strong and a network so free that the last epoch is not the best one."""
    run = train("digits", method="ce", noise="symmetric:0.6", epochs=8, out=tmp_path / "run")
    accuracy = run.summary["accuracy"]
    assert accuracy["best"] > accuracy["last"]
    assert run.metrics["top1"].max() == accuracy["best"]
    assert run.metrics["epoch"][run.metrics["top1"].idxmax()] == accuracy["best_epoch"]
    written = antidote("predict", run.folder, "digits", "--which", "best", "--out", tmp_path / "best.parquet")
    assert written.code == 0, written.err
    labels = pd.read_parquet(tmp_path / "best.parquet")["label"].to_numpy()
    truth = digits_of_the_test_part()
    assert 100 * (labels == truth).mean() == pytest.approx(accuracy["best"])
    last = antidote("predict", run.folder, "digits").out
    assert 100 * (pd.read_csv(io.StringIO(last), dtype=str)["label"] == truth).mean() == pytest.approx(accuracy["last"])


def digits_of_the_test_part() -> np.ndarray:
    from antidote_learn.data.builtin import load_named

    arrays = load_named("digits")
    return np.array(arrays.classes)[arrays.test_labels]


FACTORY = """
    from torch import nn

    def network(shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(shape[1] * shape[2], 32), nn.ReLU(), nn.Linear(32, classes))
"""


def test_a_network_of_the_user_s_own_from_the_current_directory(tmp_path):
    (tmp_path / "mynets.py").write_text(textwrap.dedent(FACTORY))
    args = ("train", "digits", "--method", "ce", "--model", "mynets:network", "--epochs", 5, "--out", "run", "--json")
    trained = antidote(*args, cwd=tmp_path)
    assert trained.code == 0, trained.err
    accuracy = json.loads(trained.out)["accuracy"]["last"]
    assert accuracy > 80
    named = ("--model", "mynets:network")
    assert antidote("predict", "run", "digits", *named, "--out", "out.csv", cwd=tmp_path).code == 0
    labels = pd.read_csv(tmp_path / "out.csv", dtype=str)["label"].to_numpy()
    assert 100 * (labels == digits_of_the_test_part()).mean() == pytest.approx(accuracy)
    assert antidote(*args, "--resume", cwd=tmp_path).out == trained.out
    elsewhere = antidote("predict", tmp_path / "run", "digits", *named)
    assert elsewhere.code == 2
    assert "cannot import 'mynets'" in elsewhere.complaint


PLANT = "import pathlib\npathlib.Path('executed').touch()\n\ndef load(**given):\n    raise SystemExit\n"


@pytest.mark.parametrize(
    "named", ["weights:load", "os:getcwd", "nets.weights:load", "Sequential object", 5, None, "x" * 9]
)
def test_what_a_run_s_folder_names_is_never_executed(run, table, named, tmp_path, monkeypatch):
    """Neither by `load`, nor by `predict`, nor by `train --resume`, though the module lies in the current directory."""
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    for place in (tmp_path, tmp_path / "nets"):
        place.mkdir(exist_ok=True)
        (place / "weights.py").write_text(PLANT)
    card = folder / "model" / "model.json"
    write_sealed(card, {**read_json(card), "model": named})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError, match="damaged" if not isinstance(named, str) else "hand the network over as `model`"
    ):
        load(folder)
    predicted = antidote("predict", folder, table, cwd=tmp_path)
    assert predicted.code == 2, predicted.err
    assert "--model" in predicted.complaint or "damaged" in predicted.complaint
    again = ("--label", "opinion", "--text", "review", "--noise-rate", 0.1, "--epochs", 6, "--out", folder, "--resume")
    resumed = antidote("train", table, *again, cwd=tmp_path)
    assert resumed.code == (0 if isinstance(named, str) else 2), (
        resumed.err
    )  # the caller's network is the one that counts
    assert not (tmp_path / "executed").exists()


def test_a_network_object_from_python(tmp_path):
    X = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
    y = np.where(X[:, 0] > 0, "yes", "no")
    net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
    before = [weight.clone() for weight in net.parameters()]
    run = train((X, y), model=net, noise_rate=0.1, epochs=10, out=tmp_path)
    assert all((a == b).all() for a, b in zip(before, net.parameters(), strict=True))
    assert (run.predict(X) == y).mean() > 0.9
    with pytest.raises(ValueError, match=r"Sequential object.*hand the network over as `model`"):
        load(tmp_path)
    again = load(tmp_path, model=nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2)))
    assert np.array_equal(again.predict_proba(X), run.predict_proba(X))
    with pytest.raises(ValueError, match="does not fit the network"):
        load(tmp_path, model=nn.Linear(5, 2))


def test_a_folder_of_images(tmp_path):
    draw = np.random.default_rng(0)
    for number in range(60):
        colour, name = [((200, 30, 30), "red"), ((30, 30, 200), "blue")][number % 2]
        pixels = np.clip(np.array(colour) + draw.integers(-30, 30, size=(12, 12, 3)), 0, 255).astype(np.uint8)
        (tmp_path / "images" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number:02}.png")
    args = ("--method", "ce", "--epochs", 8, "--out", tmp_path / "run")
    trained = antidote("train", tmp_path / "images", *args)
    assert trained.code == 0, trained.err
    done = antidote("predict", tmp_path / "run", tmp_path / "images")
    assert done.code == 0, done.err
    found = pd.read_csv(io.StringIO(done.out))
    assert len(found) == 60
    assert (found["row"].str.split("/").str[0] == found["label"]).mean() > 0.9


def test_npz_with_images_and_a_test_part(tmp_path):
    draw = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = (draw.integers(0, 100, size=(200, 8, 8)) + 120 * y[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "data.npz", X=X[:150], y=y[:150], X_test=X[150:], y_test=y[150:])
    np.savez(tmp_path / "new.npz", X=X[150:])
    trained = antidote("train", "data.npz", "--noise", "symmetric:0.2", "--epochs", 5, "--out", "run", cwd=tmp_path)
    assert trained.code == 0, trained.err
    done = antidote("predict", "run", "new.npz", cwd=tmp_path)
    assert done.code == 0, done.err
    assert (pd.read_csv(io.StringIO(done.out))["label"] == y[150:]).mean() > 0.9
