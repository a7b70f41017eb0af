"""The review page in Chromium, from file://: scrolling, keys, undo, bulk, reload, export, and hostile data."""

import base64
import io
import json
import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from antidote_learn import apply_decisions, audit, inject
from antidote_learn._types import ImageFiles
from antidote_learn.auditing.decisions import match_decisions, read_decisions
from antidote_learn.auditing.page_samples import PICTURE_BYTES, PICTURES, collect_samples
from tests.auditing.pages import Page, made, needs_browser

CLASSES = tuple("abcdefghij")
SCROLL = """
const done = arguments[0], list = document.getElementById("list"), times = [];
let last = performance.now(), most = 0;
function frame(now) {
  times.push(now - last);
  last = now;
  list.scrollTop += 1700;
  most = Math.max(most, list.querySelectorAll(".item").length);
  if (times.length < 150) requestAnimationFrame(frame);
  else done({ times: times.slice(5), most, top: list.scrollTop });
}
requestAnimationFrame(frame);
"""


@pytest.fixture
def opened(tmp_path):
    pages = []

    def open_page(found):
        path = tmp_path / "review.html"
        found.write_review(path)
        pages.append(Page(path, tmp_path / f"browser{len(pages)}"))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


@needs_browser
def test_a_hundred_thousand_suspects_scroll_smoothly(opened):
    found = made(250_000, CLASSES, wrong=0.6, inputs=np.zeros((250_000, 3), dtype=np.float32))
    assert found.summary["flagged"] > 100_000
    page = opened(found)
    assert page.run("return document.getElementById('rows').offsetHeight") == 100_000 * 64
    told = page.browser.execute_async_script(SCROLL)
    assert np.median(told["times"]) < 50
    assert told["top"] > 100 * 1700
    assert told["most"] < 100
    page.keys("\ue010")  # End
    assert "the worst 100,000 are listed" in page.text("counts")
    assert page.run("return document.querySelector('[aria-selected=true]').getAttribute('aria-posinset')") == "100000"
    page.click("bulk")
    assert page.text("done") == "100,000 decisions"
    page.reload()
    assert page.text("done") == "100,000 decisions"


@needs_browser
def test_a_review_by_keyboard_alone(opened):
    found = made(600, CLASSES, wrong=0.2, inputs=pd.DataFrame({"words": ["some text"] * 600, "x": 1.5}))
    flagged = found.table[found.table["is_label_issue"]].reset_index(drop=True)
    page = opened(found)
    likeliest = found.posterior.beliefs.classes[flagged["index"]]
    shares = page.run("return [...document.querySelectorAll('.quality, .share')].map((one) => one.textContent)")
    assert "<1 %" in shares
    assert not {"0 %", "100 %"} & set(shares)  # nothing is sure

    page.keys("a", "\ue007", "k", "3", "d", "1", "\ue015", "a", "2", "k", "d")  # Enter, an arrow down among them
    rows = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]
    given = [flagged["given_label"][row] for row in rows]
    new = [CLASSES[likeliest[row, at]] for row, at in zip(rows, (0, 0, 0, 2, 0, 0, 0, 1, 0, 0), strict=True)]
    words = ["accept", "accept", "keep", "relabel", "drop", "accept", "accept", "relabel", "keep", "drop"]
    new = [{"keep": own, "drop": ""}.get(word, label) for word, own, label in zip(words, given, new, strict=True)]
    words = ["keep" if label == own else word for word, own, label in zip(words, given, new, strict=True)]
    expected = pd.DataFrame(
        {"index": flagged["index"][rows].astype(str), "given_label": given, "decision": words, "new_label": new}
    ).reset_index(drop=True)
    pd.testing.assert_frame_equal(page.exported(), expected, check_dtype=False)

    page.keys("z", "z", "z", control=True)
    pd.testing.assert_frame_equal(page.exported(), expected[:7], check_dtype=False)
    page.keys("Z", control=True, shift=True)
    pd.testing.assert_frame_equal(page.exported(), expected[:8], check_dtype=False)
    page.reload()
    pd.testing.assert_frame_equal(page.exported(), expected[:8], check_dtype=False)
    assert not page.complaints()


@needs_browser
def test_it_fits_a_phone_and_is_dark_where_that_is_wished(opened):
    long = tuple(f"{name * 12} a long name of a class, {name}" for name in CLASSES)
    page = opened(made(400, long, wrong=0.2, inputs=pd.DataFrame({"words": ["some text, " * 30] * 400})))
    light = page.run("return getComputedStyle(document.body).backgroundColor")
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    page.reload()
    assert page.run("return document.documentElement.scrollWidth") == 360
    assert page.run("return getComputedStyle(document.body).backgroundColor") != light


@needs_browser
def test_a_pair_of_classes_is_filtered_and_accepted_at_once(opened):
    found = made(600, CLASSES, wrong=0.3)
    flagged = found.table[found.table["is_label_issue"]]
    page = opened(found)
    cell = page.browser.find_element("css selector", "#pairs button:not(:disabled)")
    given, suggested = (CLASSES[int(number)] for number in cell.get_attribute("data-pair").split(","))
    number = int(cell.text)
    own = flagged[(flagged["given_label"] == given) & (flagged["predicted_label"] == suggested)]
    assert number == len(own)
    cell.click()
    assert page.run("return document.querySelector('.item').getAttribute('aria-setsize')") == str(number)
    page.keys("k")  # what is decided already stays
    page.click("bulk")
    decisions = page.exported()
    assert decisions["index"].tolist() == own["index"].astype(str).tolist()
    assert decisions["decision"].tolist() == ["keep"] + ["accept"] * (number - 1)
    page.reload()
    assert len(page.exported()) == number
    page.click("bulk")  # of all pairs now
    assert len(page.exported()) == len(flagged)
    page.click("undo")
    assert len(page.exported()) == number


STORED = (
    "null", "{}", "5", "[1]", "true", '"text"', "[null]", "[[]]", "[[0]]", "[{}]", '{"length": 2}', "no JSON {", "",
    "[[0, 9, 0]]", "[[0, 0, 0]]", "[[0, 1, 99]]", "[[0, 3, -1]]", '[["0", 1, 0]]', "[[0, 1, 0.5]]", "[[-1, 1, 0]]",
    "[[0, 4, 2]]", "[[0, 1, 0, 0]]", "[[0, 1, null]]", '[[0, "1", 0]]', '[{"0": 0, "1": 1, "2": 0, "length": 3}]',
    "[" * 5000 + "]" * 5000,
)  # fmt: skip


@needs_browser
def test_whatever_lies_in_the_storage_the_page_works(opened):
    page = opened(made(300, CLASSES, wrong=0.3))
    page.keys("a")
    assert page.text("done") == "1 decision"
    page.reload()
    [key] = page.run("return Object.keys(localStorage)")
    put = "localStorage.setItem(arguments[0], arguments[1])"
    # The page writes what it has when it is left: the storage is filled in its place.
    filled = "addEventListener('pagehide', () => { " + put.replace("arguments", "window.filled") + " })"
    for content in STORED:
        page.browser.execute_script(f"window.filled = [arguments[0], arguments[1]]; {filled}", key, content)
        page.reload()
        assert page.text("done") == "0 decisions", content
        assert page.run("return document.querySelectorAll('.item').length") > 0, content
        page.keys("a", "d")
        assert page.text("done") == "2 decisions", content
        assert len(page.exported()) == 2
    assert not page.complaints()


@needs_browser
def test_decisions_of_other_data_are_not_taken_over(opened):
    options = {"wrong": 0.3, "content_hash": "a" * 64}
    page = opened(made(300, CLASSES, **options))
    page.keys("a", "a")
    page.browser.get(page.browser.current_url)
    path = Path(url2pathname(urlsplit(page.browser.current_url).path))
    for others, decided in (
        (made(300, CLASSES, **options), "2 decisions"),
        (made(300, CLASSES, **{**options, "content_hash": "b" * 64}), "0 decisions"),
        (made(300, CLASSES[::-1], **options), "0 decisions"),
    ):
        others.write_review(path)
        page.reload()
        assert page.text("done") == decided


@needs_browser
def test_decisions_say_of_which_data_and_files_they_are(tmp_path, opened):
    names = tuple(f'{"-=" * (at % 2)}c{at % 2}/{at}, "x".png' for at in range(200))
    files = ImageFiles(tmp_path, names, 32)
    found = made(200, CLASSES, wrong=0.3, inputs=files, content_hash="a" * 64)
    page = opened(found)
    page.click("bulk")
    exported = read_decisions(page.exported_file())
    assert {*exported["data_hash"]} == {"a" * 64}
    assert [cell.removeprefix("'") for cell in exported["file"]] == [names[int(row)] for row in exported["index"]]
    labels = [CLASSES[k] for k in found.posterior.labels]
    assert match_decisions(exported, labels, CLASSES, names).changes
    with pytest.raises(ValueError, match="of other data: row"):
        match_decisions(exported, labels, CLASSES, names[::-1])


HOSTILE = (
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "=cmd|' /C calc'!A0",
    "'=1+1",
    "-1",
    'a "quoted", name\nwith a line',
    "+é漢",
)


@needs_browser
def test_a_hostile_data_set_runs_no_script(opened):
    texts = pd.DataFrame({f"{HOSTILE[2]}": [HOSTILE[i % 3] + "]]><!--" for i in range(400)]})
    found = made(400, HOSTILE, wrong=0.4, inputs=texts, name=HOSTILE[1])
    page = opened(found)
    page.keys(*["\ue015"] * 20)
    page.click("bulk")
    assert page.run("return window.hacked === undefined")
    assert page.run("return document.querySelectorAll('script').length") == 2
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert not page.complaints()
    assert HOSTILE[1] in page.text("title")
    shown = page.run("return [...document.querySelectorAll('#detail dd')].map(node => node.textContent)")
    assert shown[0].startswith("<")
    file = page.exported_file()
    cells = re.split(r'[,\r\n"]', file.read_text())
    assert not [text for text in cells if re.match(r"[=+\-@\t]", text)]
    flagged = found.table[found.table["is_label_issue"]].set_index("index")
    back = match_decisions(read_decisions(file), [HOSTILE[k] for k in found.posterior.labels], HOSTILE)
    for change in back.changes:
        assert change.new_label == flagged["predicted_label"][change.index]
    assert len(back.changes) + back.kept == len(flagged)


def test_pictures_stay_within_their_bounds(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    (tmp_path / "broken.png").write_text("no image")
    names = ("noise.png", "broken.png") * 1100
    files = collect_samples(ImageFiles(tmp_path, names[:6], 32), range(6))
    assert all(len(text) <= 4 * PICTURE_BYTES / 3 + 4 for text in files.pictures)
    assert files.pictures[0]
    assert not files.pictures[1]
    many = collect_samples(np.zeros((2500, 1, 8, 8), dtype=np.uint8), range(2500))
    assert len(many.pictures) == PICTURES
    assert PICTURES * (4 * PICTURE_BYTES / 3 + 4) < 25.1e6


def test_pixels_are_shown_as_they_are():
    pixels = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 8), dtype=np.uint8)
    [text] = collect_samples(pixels, [0]).pictures
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))
    np.testing.assert_array_equal(image.transpose(2, 0, 1), pixels[0])


def test_the_page_is_one_file_that_asks_for_nothing(tmp_path):
    made(300, CLASSES, wrong=0.2).write_review(tmp_path / "review.html")
    text = (tmp_path / "review.html").read_text()
    assert not re.findall(r"<[^>]*(?:src|href)=|@import|url\(|fetch\(", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert sum(data["bins"]) == 300
    assert sum(data["flagged_bins"]) == data["flagged"]


@needs_browser
def test_round_trip_fewer_errors_are_found(tmp_path, opened):
    from sklearn.datasets import load_digits

    images, truth = load_digits(return_X_y=True)
    noisy = inject(truth[:600], "symmetric:0.2", seed=0)
    data = tmp_path / "digits.npz"
    np.savez(data, X=images[:600].astype(np.float32), y=noisy.labels)
    first = audit(data)
    page = opened(first)
    page.click("bulk")
    done = apply_decisions(page.exported_file(), data)
    with np.load(done.out) as corrected:
        left = int((corrected["y"] != truth[:600]).sum())
    again = audit(done.out)
    assert left < 0.3 * noisy.mask.sum()
    assert again.estimated_errors < 0.3 * first.estimated_errors
