"""Folders of images that the test writes: layouts, damaged files, colour modes and sizes."""

import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antidote_learn._types import ImageFiles
from antidote_learn.data import image_folders
from antidote_learn.data.image_folders import decode, decode_all, read_folder

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def save(path: Path, colour=RED, size=(10, 8), **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, **options)
    return path


def two_classes(root: Path, **options) -> Path:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        save(root / name, **options)
    return root


def one(image: Image.Image, path: Path, size: int, **options):
    """The image (3, size, size) after a round trip through a file."""
    image.save(path, **options)
    return decode(ImageFiles(path.parent, (path.name,), size), [0])[0]


def gradient(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, np.full_like(x, 128)], axis=2).astype(np.uint8))


# --- layouts ---------------------------------------------------------------------------------------------------------


def test_sub_folders_are_the_classes(tmp_path):
    root = tmp_path / "animals"
    save(root / "dog" / "b.JPG")
    save(root / "dog" / "young" / "a.jpeg")
    save(root / "cat" / "z.webp")
    save(root / "cat" / "a.png")
    save(root / "cat" / ".hidden.png")
    save(root / ".git" / "a.png")
    save(root / "cat" / ".thumbs" / "a.png")
    save(root / "outside.png")
    (root / "dog" / "notes.txt").write_text("no image")
    data = read_folder(root)
    assert data.name == "animals"
    assert data.classes == ("cat", "dog")
    assert data.inputs == ImageFiles(root, ("cat/a.png", "cat/z.webp", "dog/b.JPG", "dog/young/a.jpeg"), 32)
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert data.labels.dtype == np.int64
    assert (data.clean_labels, data.test_inputs, data.test_labels, data.test_is_clean) == (None, None, None, False)
    assert data.notes == ()


@pytest.mark.parametrize(("splits", "expected"), [(["test"], "test"), (["val"], "val"), (["test", "val"], "test")])
def test_splits_are_understood(tmp_path, splits, expected):
    two_classes(tmp_path / "train")
    for split in splits:
        save(tmp_path / split / "dog" / f"{split}.png")
    data = read_folder(tmp_path)
    assert data.inputs.root == tmp_path / "train"
    assert data.labels.tolist() == [0, 0, 1]
    assert data.test_inputs == ImageFiles(tmp_path / expected, (f"dog/{expected}.png",), 32)
    assert data.test_labels.tolist() == [1]


def test_training_folder_alone_has_no_test_set(tmp_path):
    two_classes(tmp_path / "train")
    save(tmp_path / "test" / "without-a-class.png")
    data = read_folder(tmp_path)
    assert (len(data.inputs), data.test_inputs) == (3, None)


def test_a_class_may_be_called_train(tmp_path):
    save(tmp_path / "train" / "1.png")
    save(tmp_path / "tractor" / "1.png")
    assert read_folder(tmp_path).classes == ("tractor", "train")


def test_another_folder_to_test_on(tmp_path):
    two_classes(tmp_path / "a" / "train")
    two_classes(tmp_path / "a" / "test")
    save(tmp_path / "b" / "dog" / "x.png")
    data = read_folder(str(tmp_path / "a"), test=str(tmp_path / "b"))
    assert data.test_inputs == ImageFiles(tmp_path / "b", ("dog/x.png",), 32)
    same = read_folder(tmp_path / "b" / ".." / "a" / "test", test=tmp_path / "a" / "test")
    assert (len(same.inputs), len(same.test_inputs)) == (3, 3)


def test_links_may_be_classes_but_never_lead_back(tmp_path):
    root = two_classes(tmp_path / "data")
    save(tmp_path / "elsewhere" / "1.png")
    (root / "bird").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root)
    (root / "above").symlink_to(tmp_path)
    (root / "cat" / "loop").symlink_to(root / "cat")
    (root / "cat" / "3.png").symlink_to(root / "dog" / "1.png")
    data = read_folder(root)
    assert data.classes == ("bird", "cat", "dog")
    assert data.inputs.names == ("bird/1.png", "cat/1.png", "cat/2.png", "cat/3.png", "dog/1.png")


@pytest.mark.parametrize(
    ("sides", "size"), [((48, 30, 48), 32), ((49, 20, 60), 64), ((96, 96, 500), 64), ((97, 97, 10), 224)]
)
def test_the_default_size_follows_the_median_of_the_shorter_sides(tmp_path, sides, size):
    for number, side in enumerate(sides):
        save(tmp_path / "ab"[number % 2] / f"{number}.png", size=(side, side + 300))
    assert read_folder(tmp_path).inputs.size == size
    assert read_folder(tmp_path, size=17).inputs.size == 17


def test_progress_counts_training_and_test_images(tmp_path):
    for number in range(40):
        save(tmp_path / "train" / "ab"[number % 2] / f"{number}.png", size=(2, 2))
    save(tmp_path / "val" / "a" / "1.png")
    calls = []
    read_folder(tmp_path, progress=lambda *call: calls.append(call))
    assert calls[-1] == (41, 41)
    assert len(calls) > 1
    assert calls == sorted(set(calls))


# --- what cannot be read ---------------------------------------------------------------------------------------------


def bomb(side: int) -> bytes:
    """A grey PNG that claims a size and holds next to nothing."""
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(1000))))
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def photo(path: Path, **options) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, **options)
    return path.read_bytes()


def broken_png(path: Path) -> bytes:
    content = bytearray(photo(path))
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


DAMAGED = {
    "empty": ("x.png", lambda path: b"", "not an image"),
    "text": ("x.jpg", lambda path: b"<html>404</html>", "not an image"),
    "truncated JPEG": ("x.jpg", lambda path: photo(path)[:-500], "truncated"),
    "truncated PNG": ("x.png", lambda path: photo(path)[:-500], "truncated"),
    "truncated WebP": ("x.webp", lambda path: photo(path)[:-500], ""),
    "changed PNG": ("x.png", broken_png, ""),
    "bomb": ("x.png", lambda path: bomb(10_000), "10000 x 10000 pixels, at most 89478485 are accepted"),
    "larger bomb": ("x.png", lambda path: bomb(60_000), "decompression bomb"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(("name", "content", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_what_cannot_be_read_is_left_out_and_named(tmp_path, name, content, reason):
    root = two_classes(tmp_path / "data")
    (root / "cat" / name).write_bytes(content(root / "cat" / name))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = read_folder(root)
    assert not said
    assert data.inputs.names == ("cat/1.png", "cat/2.png", "dog/1.png")
    assert len(data.labels) == 3
    (note,) = data.notes
    assert note.startswith(f"1 of 4 images cannot be read and were left out: {root / 'cat' / name} (")
    assert reason in note
    with pytest.raises(ValueError, match=r"^1 of 4 images cannot be read: .*; repair or remove them$") as caught:
        read_folder(root, strict=True)
    assert str(root / "cat" / name) in str(caught.value)
    with pytest.raises(ValueError, match=f"{name} cannot be read"):
        decode(ImageFiles(root, (f"cat/{name}",), 8), [0])


def test_pillow_users_may_move_the_limit(tmp_path, monkeypatch):
    root = two_classes(tmp_path, size=(30, 30))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 899)
    with pytest.raises(ValueError, match="found none"):
        read_folder(root)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert len(read_folder(root).inputs) == 3


def test_a_link_to_nothing_is_named(tmp_path):
    root = two_classes(tmp_path)
    (root / "cat" / "gone.png").symlink_to(root / "nowhere.png")
    (note,) = read_folder(root).notes
    assert "gone.png" in note


def test_only_the_first_few_are_named_but_all_are_counted(tmp_path):
    root = two_classes(tmp_path)
    for number in range(30):
        (root / "dog" / f"bad{number:02d}.png").write_bytes(b"bad")
    (note,) = read_folder(root).notes
    assert note.startswith("30 of 33 images cannot be read")
    assert [f"bad{number:02d}" in note for number in (0, 4, 5, 29)] == [True, True, False, False]
    assert note.endswith(", and 25 more")


def test_unreadable_test_images_are_left_out_too(tmp_path):
    two_classes(tmp_path / "train")
    two_classes(tmp_path / "test")
    (tmp_path / "test" / "cat" / "1.png").write_bytes(b"bad")
    data = read_folder(tmp_path)
    assert data.test_inputs.names == ("cat/2.png", "dog/1.png")
    assert data.test_labels.tolist() == [0, 1]
    assert str(tmp_path / "test" / "cat" / "1.png") in data.notes[0]


def test_a_folder_without_readable_images_is_no_class_and_is_named(tmp_path):
    root = two_classes(tmp_path)
    save(root / "eel" / "1.png")
    (root / "cow").mkdir()
    (root / "ant").mkdir()
    (root / "ant" / "1.png").write_bytes(b"bad")
    data = read_folder(root)
    assert data.classes == ("cat", "dog", "eel")
    assert data.labels.tolist() == [0, 0, 1, 2]
    assert data.notes[1] == "no class was made of folders without readable images: ant, cow"


def test_a_folder_with_fewer_than_two_classes_is_refused(tmp_path):
    save(tmp_path / "one" / "cat" / "1.png")
    save(tmp_path / "flat" / "1.png")
    with pytest.raises(ValueError, match=r"at least two classes, found one, 'cat'; put images into FOLDER/CLASS/"):
        read_folder(tmp_path / "one")
    with pytest.raises(ValueError, match=r"at least two classes, found none; put images into FOLDER/CLASS/"):
        read_folder(tmp_path / "flat")


def test_bad_arguments_are_refused(tmp_path):
    root = two_classes(tmp_path / "a")
    save(tmp_path / "b" / "bird" / "1.png")
    (tmp_path / "c").mkdir()
    with pytest.raises(FileNotFoundError, match="nowhere does not exist: expected a folder of images by class"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"1\.png is a file: expected a folder"):
        read_folder(root / "cat" / "1.png")
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        read_folder(root, test=tmp_path / "nowhere")
    with pytest.raises(ValueError, match="b has classes that training does not have, bird: rename"):
        read_folder(root, test=tmp_path / "b")
    with pytest.raises(ValueError, match="c holds no readable images by class to test on"):
        read_folder(root, test=tmp_path / "c")
    with pytest.raises(ValueError, match=r"size must be .*at least 1; received 0"):
        read_folder(root, size=0)


# --- pixels ----------------------------------------------------------------------------------------------------------


def test_a_square_of_the_right_size_is_the_file_itself(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 12), dtype=np.uint8)
    image = Image.fromarray(pixels.transpose(1, 2, 0))
    np.testing.assert_array_equal(one(image, tmp_path / "x.png", 12), pixels)


@pytest.mark.parametrize("shape", [(90, 60), (60, 90), (37, 200), (20, 20)])
@pytest.mark.parametrize("size", [16, 48])
def test_the_shorter_side_is_resized_and_the_centre_kept(tmp_path, shape, size):
    """Against resizing the whole image and cropping afterwards, whose rounding differs by less than a pixel."""
    image = gradient(*shape)
    scale = size / min(shape)
    whole = image.resize((round(shape[0] * scale), round(shape[1] * scale)), Image.Resampling.BILINEAR)
    left, top = (whole.width - size) // 2, (whole.height - size) // 2
    expected = np.asarray(whole.crop((left, top, left + size, top + size))).transpose(2, 0, 1).astype(int)
    assert np.abs(one(image, tmp_path / "x.png", size) - expected).max() <= 255 / min(shape) + 2


def test_downsizing_averages_instead_of_skipping(tmp_path):
    checkers = np.indices((64, 64)).sum(axis=0) % 2 * 255
    pixels = one(Image.fromarray(checkers.astype(np.uint8)), tmp_path / "x.png", 8)
    assert np.abs(pixels.astype(int) - 127).max() <= 3


def test_a_long_thin_image_costs_no_memory(tmp_path):
    assert one(Image.new("RGB", (40_000, 1), GREEN), tmp_path / "x.png", 64)[:, 5, 5].tolist() == [0, 255, 0]


def test_a_large_jpeg_is_what_a_full_decode_gives(tmp_path):
    image = gradient(900, 700)
    full = image.crop((100, 0, 800, 700)).resize((32, 32), Image.Resampling.BILINEAR)
    found = one(image, tmp_path / "x.jpg", 32, quality=95)
    assert np.abs(found - np.asarray(full).transpose(2, 0, 1).astype(int)).max() <= 5


def test_orientation_is_applied(tmp_path):
    """Every EXIF orientation of one picture, stored as that orientation demands, decodes to the same pixels."""
    upright = gradient(24, 24)
    expected = one(upright, tmp_path / "upright.png", 24).astype(int)
    stored = {
        1: [], 2: [Image.Transpose.FLIP_LEFT_RIGHT], 3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM], 6: [Image.Transpose.ROTATE_90], 8: [Image.Transpose.ROTATE_270],
    }  # fmt: skip
    for orientation, moves in stored.items():
        image = upright
        for move in moves:
            image = image.transpose(move)
        exif = Image.Exif()
        exif[0x0112] = orientation
        found = one(image, tmp_path / f"{orientation}.jpg", 24, exif=exif, quality=100, subsampling=0)
        assert np.abs(found - expected).max() <= 4, orientation


def rgba(alpha: int) -> Image.Image:
    return Image.new("RGBA", (6, 6), (*RED, alpha))


def palette() -> Image.Image:
    image = Image.new("P", (6, 6), 1)
    image.putpalette([*BLACK, *GREEN, *BLUE])
    return image


def deep(value: int) -> Image.Image:
    return Image.fromarray(np.full((6, 6), value, np.uint16))


MODES = {
    "grey": (Image.new("L", (6, 6), 77), "x.png", {}, (77, 77, 77)),
    "black and white": (Image.new("1", (6, 6), 1), "x.png", {}, WHITE),
    "opaque": (rgba(255), "x.png", {}, RED),
    "transparent": (rgba(0), "x.png", {}, WHITE),
    "half transparent": (rgba(128), "x.png", {}, (255, 127, 127)),
    "grey with alpha": (Image.new("LA", (6, 6), (0, 0)), "x.png", {}, WHITE),
    "palette": (palette(), "x.png", {}, GREEN),
    "palette, transparent": (palette(), "x.png", {"transparency": 1}, WHITE),
    "palette, other colour transparent": (palette(), "x.png", {"transparency": 0}, GREEN),
    "animation": (palette(), "x.gif", {"save_all": True, "append_images": [Image.new("P", (6, 6), 2)]}, GREEN),
    "RGB with a transparent colour": (Image.new("RGB", (6, 6), RED), "x.png", {"transparency": RED}, WHITE),
    "CMYK": (Image.new("CMYK", (6, 6), (0, 255, 255, 0)), "x.tif", {}, RED),
    "16 bits PNG": (deep(0x8040), "x.png", {}, (0x80, 0x80, 0x80)),
    "16 bits TIFF": (deep(0xFFFF), "x.tif", {}, WHITE),
    "16 bits PGM": (deep(0x1234), "x.pgm", {}, (0x12, 0x12, 0x12)),
}


@pytest.mark.parametrize(("image", "name", "options", "colour"), MODES.values(), ids=MODES.keys())
def test_every_colour_mode_becomes_rgb(tmp_path, image, name, options, colour):
    pixels = one(image, tmp_path / name, 4, **options)
    assert pixels.shape == (3, 4, 4)
    np.testing.assert_array_equal(pixels, np.broadcast_to(np.reshape(colour, (3, 1, 1)), (3, 4, 4)))


def test_a_cmyk_jpeg_is_close_to_its_colour(tmp_path):
    pixels = one(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), tmp_path / "x.jpg", 8)
    assert np.abs(pixels[:, 4, 4].astype(int) - RED).max() <= 8


# --- many images -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_all_images_come_in_order_whatever_the_workers(tmp_path, workers):
    names = tuple(f"{number}.png" for number in range(45))
    for number, name in enumerate(names):
        save(tmp_path / name, (number, 2 * number, 255 - number))
    files, calls = ImageFiles(tmp_path, names, 4), []
    pixels = decode_all(files, workers=workers, progress=lambda *call: calls.append(call))
    assert (pixels.shape, pixels.dtype) == ((45, 3, 4, 4), np.uint8)
    expected = np.array([(number, 2 * number, 255 - number) for number in range(45)])
    np.testing.assert_array_equal(pixels, np.broadcast_to(expected[:, :, None, None], pixels.shape))
    assert calls[-1] == (45, 45)
    order = [44, 0, 7, 7]
    np.testing.assert_array_equal(decode(files, np.array(order)), pixels[order])
    assert decode(files, []).shape == (0, 3, 4, 4)
    assert decode_all(ImageFiles(tmp_path, (), 4), workers=workers).shape == (0, 3, 4, 4)


def test_a_file_that_went_away_is_named(tmp_path):
    save(tmp_path / "a.png")
    files = ImageFiles(tmp_path, ("a.png", "b.png"), 4)
    with pytest.raises(ValueError, match=r"b\.png cannot be read \(there is no such file\): restore it"):
        decode_all(files, workers=2)


def test_an_interrupt_does_not_wait_for_the_rest(tmp_path, monkeypatch):
    save(tmp_path / "a.png")
    decoded = []
    monkeypatch.setattr(image_folders, "decode", lambda files, rows: decoded.append(len(rows)) or 0)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decode_all(ImageFiles(tmp_path, ("a.png",) * 100_000, 1), workers=1, progress=interrupt)
    assert sum(decoded) < 100_000


def test_checking_is_spread_over_the_processors(tmp_path, monkeypatch):
    seen = []
    pool = image_folders.ThreadPoolExecutor
    monkeypatch.setattr(image_folders, "ThreadPoolExecutor", lambda workers: seen.append(workers) or pool(workers))
    read_folder(two_classes(tmp_path))
    assert seen == [os.cpu_count()]
