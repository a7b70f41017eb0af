"""The review page in Chromium, from file://: scrolling, keys, undo, bulk, reload, export, and hostile data."""

import json
import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pandas as pd
import pytest

from antidote_learn import apply_decisions, audit, inject
from antidote_learn._types import ImageFiles
from antidote_learn.auditing.audit_result import cut_again
from antidote_learn.auditing.cuts import Cut
from antidote_learn.auditing.decisions import match_decisions, read_decisions
from tests.auditing.pages import made, needs_browser

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


def suggestions(found):
    """The flagged rows of an audit, with the numbers of the given and the likeliest class."""
    flagged = found.table[found.table["is_label_issue"]].reset_index(drop=True)
    beliefs, labels = found.posterior.beliefs, found.posterior.labels
    return flagged, labels[flagged["index"]], beliefs.classes[flagged["index"], 0]


@needs_browser
def test_a_review_by_keyboard_alone(opened):
    nine = CLASSES[:9]
    found = made(600, nine, wrong=0.2, inputs=pd.DataFrame({"words": ["some text"] * 600, "x": 1.5}))
    flagged, labels, likeliest = suggestions(found)
    page = opened(found)
    shares = page.run("return [...document.querySelectorAll('.quality, .share')].map((one) => one.textContent)")
    assert "<1 %" in shares
    assert not {"0 %", "100 %"} & set(shares)  # nothing is sure

    page.keys("a", "\ue007", "k", "3", "d", "1", "\ue015", "u", "9", "k", "d")  # Enter, an arrow down among them
    rows = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]
    own, best = [nine[labels[row]] for row in rows], [nine[likeliest[row]] for row in rows]
    new = [best[0], best[1], own[2], "c", "", "a", own[6], "i", own[8], ""]  # a digit is the same class on every row
    words = ["accept", "accept", "keep", "relabel", "drop", "relabel", "unsure", "relabel", "keep", "drop"]
    for at in (3, 5, 7):
        words[at] = "keep" if new[at] == own[at] else "accept" if new[at] == best[at] else "relabel"
    expected = pd.DataFrame(
        {"index": flagged["index"][rows].astype(str), "given_label": own, "decision": words, "new_label": new}
    ).reset_index(drop=True)
    pd.testing.assert_frame_equal(page.exported(), expected, check_dtype=False)

    page.keys("z", "z", "z", control=True)
    pd.testing.assert_frame_equal(page.exported(), expected[:7], check_dtype=False)
    page.keys("Z", control=True, shift=True)
    pd.testing.assert_frame_equal(page.exported(), expected[:8], check_dtype=False)
    page.reload()
    pd.testing.assert_frame_equal(page.exported(), expected[:8], check_dtype=False)
    back = match_decisions(page.exported(), [nine[label] for label in found.posterior.labels], nine)
    assert [change.index for change in back.unsure] == [flagged["index"][7]]
    assert not page.complaints()


@needs_browser
def test_a_class_that_is_a_digit_has_it_as_its_key(opened):
    digits = tuple("0123456789")
    found = made(600, digits, wrong=0.2)
    _, labels, likeliest = suggestions(found)
    page = opened(found)
    keys = page.run("return [...document.querySelectorAll('.choices li')].map((one) => one.textContent.slice(0, 2))")
    assert keys == [2 * digit for digit in digits]
    page.keys(*digits)
    exported = page.exported()
    assert exported["new_label"].tolist() == list(digits)
    for at, word in enumerate(exported["decision"]):
        assert word == ("keep" if at == labels[at] else "accept" if at == likeliest[at] else "relabel")
    page.keys("7")
    assert page.exported()["new_label"][10] == "7"


MANY = (*(f"class {number}" for number in range(10)), "Bear", "bear cub", "polar bear", "10", "1", "user's <b>")


@needs_browser
def test_one_of_many_classes_is_chosen_by_the_beginning_of_its_name(opened):
    found = made(600, MANY, wrong=0.3)
    _, labels, likeliest = suggestions(found)
    page = opened(found)
    chosen = []

    def offered():
        return page.run("return [...document.querySelectorAll('.choices .name')].map((one) => one.textContent)")

    assert len(offered()) == 10
    assert not page.run("return document.querySelector('.choices kbd')")  # no digit means a class of a row only
    for keys, names, taken in (
        ("cbear", ["Bear", "bear cub", "polar bear"], "Bear"),
        ("cBEAR ", ["Bear", "bear cub", "polar bear"], "Bear"),
        ("cpo", ["polar bear"], "polar bear"),
        ("cclass 3", ["class 3"], "class 3"),
        ("1", ["1", "10", "class 1"], "1"),  # a digit begins a name
        ("10", ["10"], "10"),
        ("cuser", ["user's <b>"], "user's <b>"),
    ):
        page.keys(*keys)
        assert offered() == names
        assert page.run("return document.activeElement.id") == "class"
        page.keys("\ue007")
        chosen.append(taken)
        assert page.run("return document.activeElement.id") == "list"
    exported = page.exported()
    assert exported["new_label"].tolist() == chosen
    for at, word in enumerate(exported["decision"]):
        name = chosen[at]
        kinds = {MANY[likeliest[at]]: "accept", MANY[labels[at]]: "keep"}
        assert word == kinds.get(name, "relabel")
    page.keys("c", "z", "z", "z", "\ue007")  # no name has that
    assert "No class is called so." in page.text("said")
    page.keys("\ue00c")  # Escape
    assert page.run("return document.activeElement.id") == "list"
    assert len(offered()) == 10
    assert len(page.exported()) == len(chosen)
    page.keys("a")  # keys mean what they did
    assert len(page.exported()) == len(chosen) + 1
    assert not page.complaints()


@needs_browser
def test_no_flagged_row_suggests_its_own_label(opened):
    found = cut_again(made(400, CLASSES, wrong=0.2), Cut(fdr=0.7))  # more rows than look wrong
    flagged, labels, likeliest = suggestions(found)
    assert (labels == likeliest).sum() > 50
    page = opened(found)
    page.click("bulk")
    exported = page.exported()
    second = found.posterior.beliefs.classes[flagged["index"], 1]
    expected = [CLASSES[k] for k in np.where(labels == likeliest, second, likeliest)]
    assert exported["index"].tolist() == flagged["index"].astype(str).tolist()
    assert exported["decision"].tolist() == ["accept"] * len(flagged)
    assert exported["new_label"].tolist() == expected
    assert not (exported["new_label"] == exported["given_label"]).any()


@needs_browser
def test_decisions_of_an_earlier_page_are_found(opened):
    found = cut_again(made(400, CLASSES, wrong=0.2), Cut(fdr=0.7))
    flagged, labels, likeliest = suggestions(found)
    own = int(np.flatnonzero(labels == likeliest)[0])  # whose suggestion once was its own label
    index = flagged["index"].tolist()
    entries = [[index[0], 1, int(likeliest[0])], [index[1], 2, int(labels[1])], [index[2], 3, 9], [index[3], 4, -1]]
    entries.append([index[own], 1, int(labels[own])])
    page = opened(found)
    page.keys("a")
    page.reload()
    [key] = page.run("return Object.keys(localStorage)")
    keep = "addEventListener('pagehide', () => localStorage.setItem(...window.filled))"
    page.browser.execute_script(f"window.filled = [...arguments]; {keep}", key, json.dumps(entries))
    page.reload()
    exported = page.exported()
    assert exported["index"].tolist() == [str(entry[0]) for entry in entries]
    third = "keep" if labels[2] == 9 else "accept" if likeliest[2] == 9 else "relabel"
    assert exported["decision"].tolist() == ["accept", "keep", third, "drop", "keep"]
    names = [CLASSES[likeliest[0]], CLASSES[labels[1]], "j", "", CLASSES[labels[own]]]
    assert exported["new_label"].tolist() == names


@needs_browser
def test_it_fits_a_phone_and_is_dark_where_that_is_wished(opened):
    long = tuple(f"{name * 12} a long name of a class, {name}" for name in CLASSES)
    page = opened(made(400, long, wrong=0.2, inputs=pd.DataFrame({"words": ["some text, " * 30] * 400})))
    light = page.run("return getComputedStyle(document.body).backgroundColor")
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    page.resize(360, 740, phone=True)
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
    "[[0, 5, 99]]", "[[0, 5, -1]]", "[[0, 6, 0]]", "[[0, 4, 2]]", "[[0, 1, 0, 0]]",
    "[[0, 1, null]]", '[[0, "1", 0]]', '[{"0": 0, "1": 1, "2": 0, "length": 3}]',
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
