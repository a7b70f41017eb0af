"""Training on what an audit believes: soft targets, likeliest classes, and when neither is done."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from antidote_learn import train
from antidote_learn.auditing.audit_result import write_posterior
from antidote_learn.core.beliefs import Beliefs
from antidote_learn.data.load import open_data
from antidote_learn.data.noise import inject
from antidote_learn.data.posterior import Posterior
from antidote_learn.training.relabel import read_posterior
from tests.commands import antidote

CLASSES = ("setosa", "versicolor", "virginica")


def posterior_of(probs, labels, index=None):
    index = np.arange(len(labels)) if index is None else index
    beliefs = Beliefs.blank(len(labels), probs.shape[1])
    beliefs.put(slice(0, len(labels)), probs, labels)
    return Posterior(beliefs, index, labels, CLASSES)


def written(folder, posterior):
    folder.mkdir()
    write_posterior(folder, posterior)
    (folder / "done").write_text("now\n")
    return folder


@pytest.fixture
def data(tmp_path):
    """Iris with 40 % wrong labels as a file, and an audit that knows the truth, all but for sure."""
    arrays = open_data("iris")
    noisy = inject(arrays.labels, "symmetric:0.4", seed=1)
    path = tmp_path / "iris.npz"
    np.savez(
        path,
        X=arrays.inputs,
        y=np.array(CLASSES)[noisy.labels],
        X_test=arrays.inputs,
        y_test=np.array(CLASSES)[arrays.labels],
    )
    truth = np.full((len(noisy.labels), 3), 0.05)
    truth[np.arange(len(truth)), arrays.labels] = 0.9
    return path, posterior_of(truth, noisy.labels)


def test_beliefs_are_trained_on_with_plain_cross_entropy(tmp_path, data):
    path, posterior = data
    told = train(path, labels=written(tmp_path / "audit", posterior), epochs=30, out=tmp_path / "run")
    plain = train(path, method="ce", epochs=30, out=tmp_path / "plain")
    assert told.summary["method"] == "ce"
    assert told.summary["noise_rate"] is None
    assert told.summary["accuracy"]["last"] > 90 > plain.summary["accuracy"]["last"]


def test_the_loss_is_that_of_the_probabilities(tmp_path, data):
    """One step at a learning rate of 0 shows the loss of the first batch; torch says what it should be."""
    path, posterior = data
    rows = len(posterior.labels)
    folder = written(tmp_path / "audit", posterior)
    run = train(path, labels=folder, epochs=1, lr=1e-12, batch_size=rows, out=tmp_path / "run", model="mlp:hidden=[]")
    logits = torch.from_numpy(np.log(run.predict_proba(np.load(path)["X"])))
    expected = F.cross_entropy(logits.double(), torch.from_numpy(posterior.beliefs.dense(slice(0, rows))))
    assert run.metrics["loss"].iloc[0] == pytest.approx(expected.item(), rel=1e-3)


def test_with_a_method_the_likeliest_classes_are_the_labels(tmp_path, data):
    path, posterior = data
    run = train(path, labels=written(tmp_path / "audit", posterior), method="gce", epochs=30, out=tmp_path / "run")
    assert run.summary["method"] == "gce"
    likeliest = np.array(CLASSES)[posterior.beliefs.classes[:, 0]]
    assert run.samples["given_label"].tolist() == likeliest.tolist()


def test_beliefs_that_are_not_sure_are_not_trained_on(tmp_path, data):
    path, posterior = data
    vague = posterior_of(np.full((len(posterior.labels), 3), 1 / 3), posterior.labels)
    folder = written(tmp_path / "audit", vague)
    done = antidote("train", path, "--labels", folder, "--epochs", 2, "--out", tmp_path / "run", "--json")
    assert "the audit is not sure enough of this data to train on it" in done.err
    assert json.loads(done.out)["method"].startswith("antidote-dataset")


def test_where_no_error_was_found_training_is_what_it_is_without_the_audit(tmp_path):
    arrays = open_data("iris")
    probs = np.where(np.arange(3) == arrays.labels[:, None], 0.7, 0.15)
    folder = written(tmp_path / "audit", posterior_of(probs, arrays.labels))
    options = ("--epochs", 3, "--json")
    done = antidote("train", "iris", "--labels", folder, "--out", tmp_path / "run", *options)
    antidote("train", "iris", "--method", "ce", "--out", tmp_path / "plain", *options)
    assert (
        "note: the audit found no wrong label among the rows to train on: they are trained on as they are" in done.err
    )
    metrics = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("run", "plain")]
    told, plain = ([json.loads(line)["loss"] for line in lines] for lines in metrics)
    assert told == plain


def test_a_hold_out_takes_its_part_of_the_beliefs(tmp_path):
    arrays = open_data("iris")
    truth = np.eye(3)[arrays.labels]
    shuffled = np.random.default_rng(0).permutation(len(truth))  # an audit's rows need not be in order
    posterior = posterior_of(truth[shuffled], arrays.labels[shuffled], shuffled)
    run = train("iris", labels=written(tmp_path / "audit", posterior), epochs=30, out=tmp_path / "run")
    assert run.summary["accuracy"]["last"] > 85


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"classes": ("a", "b", "c")}, "the audit is of other data: its classes are ('a', 'b', 'c')"),
        ({"labels": np.zeros(105, dtype=np.int64)}, "the audit is of other labels: 69 of 105 differ"),
        ({"index": np.arange(1, 106)}, "the audit is of other data: it lacks 1 of 105 training rows"),
    ],
)
def test_an_audit_of_other_data_is_refused(tmp_path, data, change, says):
    path, posterior = data
    folder = written(tmp_path / "audit", replace(posterior, **change))
    with pytest.raises(ValueError, match=re.escape(says)):
        train(path, labels=folder, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_audit_is_refused(tmp_path):
    done = antidote("train", "iris", "--labels", tmp_path / "nothing", "--out", tmp_path / "run")
    assert done.code == 2
    assert "holds no finished audit: audit the data with --out" in done.complaint


def test_another_audit_is_another_run(tmp_path, data):
    path, posterior = data
    first = written(tmp_path / "first", posterior)
    second = written(tmp_path / "second", posterior_of(np.eye(3)[posterior.labels], posterior.labels))
    train(path, labels=first, epochs=1, out=tmp_path / "run")
    with pytest.raises(ValueError, match="labels is"):
        train(path, labels=second, epochs=1, out=tmp_path / "run", resume=True)


def test_what_is_written_reads_back(tmp_path, data):
    posterior = data[1]
    again = read_posterior(written(tmp_path / "audit", posterior))
    assert again.classes == posterior.classes
    for name in ("index", "labels"):
        np.testing.assert_array_equal(getattr(again, name), getattr(posterior, name))
    np.testing.assert_array_equal(again.beliefs.probs, posterior.beliefs.probs)
