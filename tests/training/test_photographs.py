"""A run under a protocol whose network reads a part of every image: training, evaluation and prediction agree."""

import numpy as np
import pytest

from antidote_learn import load, train
from antidote_learn.data.builtin import load_named
from tests.webvision import tree

SETTINGS = {"method": "ce", "model": "mlp:hidden=[4]", "lr": 0.01, "epochs": 2, "workers": 1}


def test_webvision_is_evaluated_as_it_is_predicted_later(tmp_path):
    tree(tmp_path, side=40)
    run = train("mini-webvision", data_root=tmp_path, out=tmp_path / "run", **SETTINGS)
    assert run.summary["accuracy"]["against"] == "clean"
    assert run.summary["noise"]["realised"] is None
    data, again = load_named("mini-webvision", root=tmp_path), load(tmp_path / "run")
    found = again.predict(data.test_inputs)
    right = found == np.array(data.classes)[data.test_labels]
    assert 100 * right.mean() == pytest.approx(run.summary["accuracy"]["last"])
    probability = again.predict_proba(data.inputs)[np.arange(100), data.labels]
    np.testing.assert_allclose(run.samples["probability"], probability, rtol=1e-5)


def test_an_image_that_cannot_be_decoded_is_named(tmp_path):
    (tree(tmp_path) / "google" / "q0001" / "0.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"q0001/0\.jpg cannot be read \(not an image\): restore it, or leave it out"):
        train("mini-webvision", data_root=tmp_path, out=tmp_path / "run", **SETTINGS)
