"""ImageNet's validation images of mini-WebVision's classes, on small trees with the layouts they have."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from antidote_learn.data import imagenet, webvision
from antidote_learn.data.imagenet import read_imagenet_validation
from tests.webvision import IN_CLASS, imagenet_tree, tree

LAYOUTS = ("ILSVRC2012_img_val", "val", "by class")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root with WebVision, for trees of ImageNet with two images of a class."""
    monkeypatch.setattr(imagenet, "IN_CLASS", IN_CLASS)
    tree(tmp_path)
    return tmp_path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_and_labels_are_those_of_the_classes(root, layout):
    truth = imagenet_tree(root, layout)
    files, labels = read_imagenet_validation(root)
    assert files.root == root / "imagenet"
    assert dict(zip(files.names, labels.tolist(), strict=True)) == truth
    assert np.bincount(labels).tolist() == [IN_CLASS] * 50
    colours = [Image.open(files.root / name).getpixel((4, 4))[0] for name in files.names]
    assert [round(red / 5) for red in colours] == labels.tolist()


def test_all_layouts_give_the_same_labels_in_the_same_order(root):
    found = []
    for layout in LAYOUTS:
        imagenet_tree(root, layout)
        files, labels = read_imagenet_validation(root)
        found.append(([os.path.basename(name) for name in files.names], labels.tolist()))
        shutil.rmtree(root / "imagenet")
    assert found[0] == found[1] == found[2]
    assert found[0][0] == sorted(found[0][0])


def test_labels_follow_the_lines_of_synsets_and_not_the_order_of_numbers(root):
    truth = imagenet_tree(root, "by class")
    lines = [f"n{k:08} word {k}" for k in (*range(49, -1, -1), *range(50, 1000))]
    (root / "webvision" / webvision.NAMES).write_text("\n".join(lines))
    files, labels = read_imagenet_validation(root)
    assert dict(zip(files.names, labels.tolist(), strict=True)) == {name: 49 - label for name, label in truth.items()}


def test_files_that_are_no_images_of_the_set_are_left_out(root):
    imagenet_tree(root, "by class")
    for name in ("._ILSVRC2012_val_00000001.JPEG", "readme.txt"):
        (root / "imagenet" / "val" / "n00000003" / name).write_bytes(b"")
    assert len(read_imagenet_validation(root)[1]) == 50 * IN_CLASS


LOST = {
    "everything": ("ILSVRC2012_img_val", "", r"imagenet/ILSVRC2012_img_val is missing: unpack ILSVRC2012_img_val\.tar"),
    "the images": ("val", "val", "ILSVRC2012_img_val is missing: unpack"),
    "the ground truth": ("val", imagenet.GROUND_TRUTH, r"validation_ground_truth\.txt is missing: unpack"),
    "the table of classes": ("ILSVRC2012_img_val", imagenet.SYNSETS, r"data/meta\.mat is missing: unpack"),
    "a class": ("by class", "val/n00000007", r"val/n00000007/\*\.JPEG is missing \(2 of 2 images are\): unpack"),
}


@pytest.mark.parametrize(("layout", "path", "message"), LOST.values(), ids=LOST)
def test_what_is_missing_is_named_with_what_to_put_where(root, layout, path, message):
    imagenet_tree(root, layout)
    os.replace(root / "imagenet" / path, root / "away")
    with pytest.raises(FileNotFoundError, match=message) as caught:
        read_imagenet_validation(root)
    for words in (
        f"in {root}/imagenet/ILSVRC2012_img_val and ILSVRC2012_devkit_t12.tar.gz in {root}/imagenet, ",
        f"by class into {root}/imagenet/val/n01440764",
        "image-net.org/challenges/LSVRC/2012",
        "`data_root` or ANTIDOTE_DATA",
        "`download=True` does not",
    ):
        assert words in str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_missing_image_is_told(root, layout):
    name = list(imagenet_tree(root, layout))[17]
    (root / "imagenet" / name).unlink()
    told = r"\*\.JPEG is missing \(1 of 2 images are\)" if layout == "by class" else rf"{name} is missing \(1 of 100 "
    with pytest.raises(FileNotFoundError, match=told):
        read_imagenet_validation(root)


def test_without_the_names_of_webvision_there_are_no_classes(root):
    imagenet_tree(root, "by class")
    (root / "webvision" / webvision.NAMES).unlink()
    with pytest.raises(FileNotFoundError, match=r"webvision/info/synsets\.txt is missing: unpack info\.tar"):
        read_imagenet_validation(root)


def test_another_number_of_images_than_the_official_one_is_refused(root, monkeypatch):
    imagenet_tree(root, "by class")
    Image.new("RGB", (8, 8)).save(root / "imagenet" / "val" / "n00000003" / "mine.JPEG")
    with pytest.raises(ValueError, match="n00000003 holds 3 images, the official set 2 of a class; remove"):
        read_imagenet_validation(root)
    shutil.rmtree(root / "imagenet")
    imagenet_tree(root, "val")
    monkeypatch.setattr(imagenet, "IN_CLASS", 3)
    with pytest.raises(ValueError, match=r"ground_truth\.txt has 2 images of the class n00000000, the official one 3"):
        read_imagenet_validation(root)


BROKEN = {
    "a word": (imagenet.GROUND_TRUTH, b"3\ntench\n", r"ground_truth\.txt, line 2: 'tench' is no number of a class"),
    "no class": (imagenet.GROUND_TRUTH, b"3\n4\n2000\n", r"ground_truth\.txt, line 3: '2000' is no number of a class"),
    "no table": (imagenet.SYNSETS, b"no table of MATLAB", r"meta\.mat cannot be understood .*restore the official"),
    "an empty table": (imagenet.SYNSETS, b"", r"meta\.mat cannot be understood .*restore the official"),
    "a folder for a number": (
        f"../webvision/{webvision.NAMES}",
        b"".join(b"../mine%d word %d\n" % (k, k) for k in range(50)),
        r"synsets\.txt must begin with 50 lines of an ImageNet number of its own, such as n01440764",
    ),
}


@pytest.mark.parametrize(("path", "content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_list_is_refused(root, path, content, message):
    imagenet_tree(root, "val")
    (root / "imagenet" / path).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_imagenet_validation(root)
    assert "\n" not in str(caught.value)


def test_a_table_of_other_things_is_refused(root):
    imagenet_tree(root, "val")
    savemat(root / "imagenet" / imagenet.SYNSETS, {"synsets": np.arange(3.0)})
    with pytest.raises(ValueError, match=r"meta\.mat cannot be understood"):
        read_imagenet_validation(root)
