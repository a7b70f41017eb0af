"""mini-WebVision on a small tree with the official layout."""

import os

import pytest
from PIL import Image

from antidote_learn._types import ImageFiles
from antidote_learn.data import webvision
from antidote_learn.data.builtin import load_named
from antidote_learn.data.load import open_data, open_inputs
from tests.webvision import tree


def colour_labels(files: ImageFiles) -> list[int]:
    """The class of each image, from its pixels."""
    return [round(Image.open(files.root / name).getpixel((4, 4))[0] / 5) for name in files.names]


def test_images_and_labels_are_those_of_the_lists(tmp_path):
    folder = tree(tmp_path)
    data = load_named("mini-webvision", root=tmp_path)
    assert data.name == "mini-webvision"
    assert (data.inputs.root, data.test_inputs.root) == (folder, folder / "val_images_256")
    assert (len(data.inputs), len(data.test_inputs)) == (100, 50)
    assert data.labels.tolist() == colour_labels(data.inputs)
    assert data.test_labels.tolist() == colour_labels(data.test_inputs)
    assert data.clean_labels is None
    assert data.test_is_clean
    assert data.classes[:2] == ("word 0, another", "word 1, another")
    assert len(data.classes) == 50


def test_without_synsets_the_classes_have_numbers(tmp_path):
    tree(tmp_path, synsets=False)
    assert open_data("mini-webvision", root=tmp_path).classes == tuple(map(str, range(50)))


def test_another_number_of_images_than_the_official_one_is_said(tmp_path, monkeypatch):
    tree(tmp_path)
    assert load_named("mini-webvision", root=tmp_path).notes == (
        "info/train_filelist_google.txt lists 100 images of the first 50 classes, the official one 65,944",
        "info/val_filelist.txt lists 50 images of the first 50 classes, the official one 2,500",
    )
    monkeypatch.setattr(webvision, "OFFICIAL", {webvision.TRAIN: 100, webvision.TEST: 50})
    assert load_named("mini-webvision", root=tmp_path).notes == ()


def test_to_predict_means_the_test_images(tmp_path):
    tree(tmp_path)
    inputs, names = open_inputs("mini-webvision", root=tmp_path)
    assert inputs == load_named("mini-webvision", root=tmp_path).test_inputs
    assert names == list(inputs.names)


LOST = {
    "everything": (
        "",
        r"webvision/info/train_filelist_google\.txt is missing: unpack info\.tar, google_resized_256\.tar",
    ),
    "the test list": ("info/val_filelist.txt", r"webvision/info/val_filelist\.txt is missing"),
    "an image": ("google/q0008/7.jpg", r"google/q0008/7\.jpg is missing \(1 of 100 images are\): unpack"),
    "a folder": ("google/q0003", r"google/q0003/\d+\.jpg is missing \(2 of 100 images are\): unpack"),
    "the test images": ("val_images_256", r"val_images_256/val\d+\.jpg is missing \(50 of 50 images are\): unpack"),
}


@pytest.mark.parametrize(("path", "message"), LOST.values(), ids=LOST)
def test_what_is_missing_is_named_with_what_to_put_where(tmp_path, path, message):
    tree(tmp_path / "whole").rename(tmp_path / "webvision")
    os.replace(tmp_path / "webvision" / path, tmp_path / "away")
    with pytest.raises(FileNotFoundError, match=message) as caught:
        open_data("mini-webvision", root=tmp_path, download=True)
    for words in (
        f" in {tmp_path}/webvision, ",
        "dataset2017.html",
        "`data_root` or ANTIDOTE_DATA",
        "`download=True` does not",
    ):
        assert words in str(caught.value)


BROKEN = {
    "no label": (
        webvision.TRAIN,
        "google/q0001/0.jpg\n",
        r"filelist_google\.txt, line 1: 'google/q0001/0.jpg' is no path",
    ),
    "a word for a label": (
        webvision.TEST,
        "val000000.jpg 3\nval000001.jpg three\n",
        r"val_filelist\.txt, line 2: .*three",
    ),
    "no image": (webvision.TEST, "val000000.jpg 633\n", r"lists no image of the labels 0 \.\.\. 49"),
    "few names": (webvision.NAMES, "n01440764 tench\n", "must begin with 50 lines of an ImageNet number"),
    "names without words": (webvision.NAMES, "n01440764\n" * 50, "must begin with 50 lines of an ImageNet number"),
}


@pytest.mark.parametrize(("path", "content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_list_is_refused(tmp_path, path, content, message):
    (tree(tmp_path) / path).write_text(content)
    with pytest.raises(ValueError, match=message):
        load_named("mini-webvision", root=tmp_path)


def test_images_are_not_decoded_before_they_are_read(tmp_path, monkeypatch):
    folder = tree(tmp_path)
    (folder / "google" / "q0001" / "0.jpg").write_bytes(b"no image")
    monkeypatch.setattr(Image, "open", lambda *_: pytest.fail("an image was opened"))
    assert len(load_named("mini-webvision", root=tmp_path).labels) == 100
