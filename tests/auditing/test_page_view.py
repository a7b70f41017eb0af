"""The review page as people see it: what is in sight, figures, values of a table, pictures and their neighbours."""

import numpy as np
import pandas as pd
import pytest

from antidote_learn.auditing.audit_result import cut_again
from antidote_learn.auditing.cuts import Cut
from tests.auditing.pages import made, needs_browser

DIGITS = tuple("0123456789")
HUNDRED = tuple(f"species number {number}" for number in range(100))
LONG = "models that had not seen the rows contradict 830 of 3000 labels; some of these are right and hard to tell. " * 3
WORDS = {"why_wide": LONG, "judges": ["networks", "nearest rows", "linear model"], "look": "Look at the first 700 rows"}
PIXELS = np.random.default_rng(0).integers(0, 256, (600, 3, 16, 16), dtype=np.uint8)
COLUMNS = pd.DataFrame({f"the column number {k}": np.arange(600) % (k + 2) for k in range(40)})
TEXTS = pd.DataFrame({"text": ["a long text of many words, " * 100] * 600})
SEEN = {
    "images": (DIGITS, PIXELS, {}),
    "many classes": (HUNDRED, PIXELS, {}),
    "table": (("No", "Yes"), COLUMNS, {"features": ", ".join(COLUMNS.columns), **WORDS}),
    "texts": (("ham", "spam"), TEXTS, WORDS),
}
BUTTONS = """
return [...document.querySelectorAll(".actions button")].map((button) => {
  const box = button.getBoundingClientRect();
  const inside = box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight;
  const seen = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
  return inside && button.contains(seen) && scrollY === 0;
});
"""


@needs_browser
@pytest.mark.parametrize("kind", SEEN)
def test_the_decision_buttons_are_in_sight_without_scrolling(kind, opened):
    classes, inputs, words = SEEN[kind]
    page = opened(made(600, classes, wrong=0.3, inputs=inputs, name="some/folder/of a long name.csv", **words))
    for width, height, phone in ((1440, 900, False), (390, 844, True)):
        page.resize(width, height, phone=phone)
        assert page.run(BUTTONS) == [True] * 4, width
        page.keys("a")
        assert page.run(BUTTONS) == [True] * 4, width
        page.click("undo")
        assert page.run("return document.documentElement.scrollWidth") == width
    for button, word in enumerate(("accept", "keep", "unsure", "drop")):  # by touch
        page.browser.find_elements("css selector", ".actions button")[button].click()
        assert word in page.text("said")
    assert page.exported()["decision"].tolist() == ["accept", "keep", "unsure", "drop"]
    assert not page.complaints()


@needs_browser
def test_figures_fold_with_the_first_decision_and_stay_as_they_are_then(opened):
    page = opened(made(400, DIGITS, wrong=0.3))
    is_open = "return document.getElementById('figures').open"
    assert page.run(is_open)
    page.keys("a")
    assert not page.run(is_open)
    page.browser.find_element("css selector", "#figures > summary").click()
    page.keys("a")
    assert page.run(is_open)
    page.reload()
    assert page.text("done") == "2 decisions"
    assert not page.run(is_open)


@needs_browser
def test_the_head_says_how_often_each_class_is_wrong_who_judged_and_how_far_to_look(opened):
    found = made(600, DIGITS, wrong=0.3, **WORDS)
    page = opened(found)
    rates = sorted(found.summary["classes"], key=lambda row: -row["error_rate"])
    rows = page.run(
        "return [...document.querySelectorAll('#rates tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert [[int(cell) for cell in row[:3]] for row in rows] == [
        [int(row["label"]), row["estimated_errors"], row["given"]] for row in rates
    ]
    assert [row[3] for row in rows] == [f"{100 * row['error_rate']:.1f} %" for row in rates]
    head = page.run("return document.querySelector('header').innerText")
    assert "Who judged: networks, nearest rows, linear model." in head
    assert "Look at the first 700 rows." in head
    page.browser.find_element("css selector", "#rates tbody button").click()
    given = found.table[found.table["is_label_issue"] & (found.table["given_label"] == rates[0]["label"])]
    assert page.run("return document.querySelector('.item').getAttribute('aria-setsize')") == str(len(given))
    assert LONG.strip() in page.text("why")


@needs_browser
def test_with_many_classes_the_heat_map_scrolls_below_its_names(opened):
    page = opened(made(3000, HUNDRED, wrong=0.3))
    cells = page.run("return [...document.querySelectorAll('#pairs button')].map((one) => Number(one.textContent))")
    found = page.run("return [...document.querySelectorAll('#pairs tbody tr')].length")
    assert found == 100
    assert sum(cells) == int(page.run("return document.querySelector('.item').getAttribute('aria-setsize')"))
    moved = page.run("""
        const map = document.getElementById("pairs"), column = map.querySelector("thead th:nth-child(60)");
        const row = map.querySelector("tbody tr:nth-child(60) th"), top = () => column.getBoundingClientRect().top;
        const left = () => row.getBoundingClientRect().left, before = [top(), left()];
        map.scrollTo(900, 900);
        return [map.scrollTop, map.scrollLeft, top() - before[0], left() - before[1]];
    """)
    assert moved[:2] == [900, 900]
    assert max(map(abs, moved[2:])) <= 1  # the gap between two cells


@needs_browser
def test_a_row_of_a_table_has_its_name_and_all_its_columns(opened):
    table = COLUMNS.assign(**{"Passenger Id": np.arange(600) * 7})
    page = opened(made(600, ("No", "Yes"), wrong=0.3, inputs=table))
    row = int(page.run("return document.querySelector('.item').id.slice(5)"))
    index = int(page.run("return document.querySelector('#detail h2').textContent.match(/Row ([0-9]+)/)[1]"))
    assert row == 0
    assert f"Row {index} · Passenger Id {7 * index}" in page.run(
        "return document.querySelector('#detail h2').textContent"
    )
    caption = page.run("return document.querySelector('.caption').textContent")
    assert caption.startswith(f"Passenger Id {7 * index} · the column number 0 {index % 2} · ")
    shown = "[...document.querySelectorAll('dt')].filter((one) => one.checkVisibility())"
    names = f"return {shown}.map((one) => one.textContent)"
    assert page.run(names) == ["Passenger Id", *COLUMNS.columns[:11]]
    page.browser.find_element("css selector", ".values summary").click()
    assert page.run(names) == ["Passenger Id", *COLUMNS.columns]
    page.keys("\ue015")
    assert page.run(names) == ["Passenger Id", *COLUMNS.columns]  # unfolded on the next row, too
    values = page.run("return [...document.querySelectorAll('dd')].map((one) => one.textContent)")
    assert values == [str(value) for value in table.iloc[int(values[0]) // 7][["Passenger Id", *COLUMNS.columns]]]
    page.browser.find_element("id", "find").send_keys(str(7 * index))
    assert f"Row {index} " in page.run("return document.querySelector('#detail h2').textContent")


@needs_browser
@pytest.mark.parametrize(
    ("columns", "caption"),
    [
        ({"word": [f"word{k}" for k in range(600)]}, "word{0}"),
        ({"code": [f"c{k}" for k in range(600)], "text": ["a text of some words, " * 3] * 600}, "c{0} · a text of"),
        ({"x": [1.5] * 600, "flag": ["", "no"] * 300}, "x 1.5 · flag {1}"),
    ],
)
def test_a_row_of_the_list_is_called_by_what_tells_most(columns, caption, opened):
    found = made(600, ("No", "Yes"), wrong=0.3, inputs=pd.DataFrame(columns))
    shown = opened(found).run("return document.querySelector('.caption').textContent")
    row = int(found.table["index"][0])
    expected = caption.format(row, "no" if row % 2 else "–")
    assert shown.startswith(expected) if "text" in columns else shown == expected


@needs_browser
def test_pictures_are_enlarged_and_neighbours_shown(opened):
    found = made(600, DIGITS, wrong=0.3, inputs=PIXELS)
    worst = found.table["index"].tolist()
    page = opened(found)
    near = "return [...document.querySelectorAll('.near-pictures li')].map((one) => one.textContent)"
    assert page.run(near) == [DIGITS[found.posterior.labels[row]] for row in found.around[worst[0], :6]]
    large = "const zoom = document.getElementById('zoom'); return [zoom.open, zoom.querySelector('p').textContent]"
    page.keys("z")
    is_open, words = page.run(large)
    assert is_open
    assert words.startswith(f"row {worst[0]}: given")
    assert page.run("return document.querySelector('#zoom img').getBoundingClientRect().width") > 400
    page.keys("\ue015")  # the next row, enlarged
    assert page.run(large)[1].startswith(f"row {worst[1]}: given")
    page.keys("u")  # decided on while it is large
    assert page.run(large)[1].startswith(f"row {worst[2]}: given")
    page.keys("\ue00c")  # Escape
    assert not page.run(large)[0]
    assert page.text("done") == "1 decision"
    page.browser.find_elements("css selector", ".near-pictures button")[1].click()
    other = found.around[worst[2], 1]
    assert page.run(large) == [True, f"row {other}, labelled {DIGITS[found.posterior.labels[other]]}"]
    page.browser.find_element("css selector", "#zoom button").click()
    assert not page.run(large)[0]
    page.browser.find_element("css selector", ".own").click()
    assert page.run(large)[1].startswith(f"row {worst[2]}: given")
    page.keys("z")
    assert not page.run(large)[0]
    assert not page.complaints()


@needs_browser
def test_where_no_row_is_flagged_all_that_are_listed_are_shown(opened):
    found = cut_again(made(400, DIGITS, wrong=0.3), Cut(max_flagged=0))
    page = opened(found)
    count = found.summary["interval"][1]
    assert page.run("return document.querySelector('.item').getAttribute('aria-setsize')") == str(count)
    page.keys("k", "u")
    page.browser.find_element("css selector", "#which [value=unsure]").click()
    assert page.run("return document.querySelectorAll('.item').length") == 1
