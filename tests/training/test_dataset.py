"""A run that remembers its samples: what it was told, what it kept, and the weights it writes down."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from antidote_learn import delta_from_rate, relax, train

EPOCHS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """1297 samples in batches of 100: 13 steps an epoch."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    given = {"noise": "pair:0.4", "method": "antidote-dataset", "noise_rate": 0.4}
    train("digits", **given, epochs=EPOCHS, batch_size=100, out=folder)
    return folder


@pytest.fixture(scope="module")
def samples(run):
    return pd.read_parquet(run / "samples.parquet")


def test_it_is_told_before_every_step_how_far_the_training_is(run):
    state = load_file(run / "checkpoint" / "training.safetensors")
    assert float(state["method._extra_state"][0]) == pytest.approx((EPOCHS - 1 + 12 / 13) / EPOCHS)
    first, second, _ = pd.read_json(run / "metrics.jsonl", lines=True)["forgotten"]
    assert first < 0.5 * second  # the budget grows from nothing


def test_every_sample_is_remembered_in_every_epoch_with_the_label_it_was_given(run, samples):
    state = load_file(run / "checkpoint" / "training.safetensors")
    assert state["method.visits"].tolist() == [EPOCHS] * len(samples)
    assert state["method.labels"].tolist() == samples["given_label"].astype(int).tolist()
    losses = samples["loss"].to_numpy()
    assert np.corrcoef(state["method.scores"].numpy(), losses)[0, 1] > 0.8


def test_weights_of_the_samples_keep_the_mass_of_every_given_class(samples):
    assert samples.groupby("given_label")["weight"].mean().to_numpy() == pytest.approx(1, abs=1e-5)
    groups = torch.tensor(samples["given_label"].astype(int).to_numpy())
    solved = relax(torch.tensor(samples["loss"].to_numpy()), delta_from_rate(0.4), kappa=0.05, groups=groups)
    np.testing.assert_allclose(samples["weight"].to_numpy(), solved.weights.numpy(), rtol=1e-6)
    assert samples["forgotten"].to_numpy().mean() == pytest.approx(float(solved.forgotten), abs=1e-6)
