"""The README's Python runs as it stands, its links lead somewhere, and generated pages are up to date."""

import json
import re
import runpy
from pathlib import Path

import pytest

from antidote_learn.registry import check_method
from antidote_learn.training.resolve import Request, method_for

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
LINKS = re.findall(r"\]\(([^)#]+)\)", TEXT)


def test_there_are_examples():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0])
def test_example_runs_as_is(block):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("link", [link for link in LINKS if "://" not in link])
def test_link_leads_to_a_file(link):
    assert (ROOT / link).exists()


@pytest.fixture(scope="module")
def generated():
    return runpy.run_path(str(ROOT / "docs" / "generate.py"))


@pytest.mark.parametrize("name", ["losses", "methods"])
def test_a_page_is_what_the_code_says(generated, name):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert page == generated[f"{name}_page"]()  # else: python docs/generate.py
    (block,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    exec(compile(block, f"{name}.md", "exec"), {"__name__": "page"})


def commands_on_digits() -> dict[str, dict[str, str]]:
    """The options of every command of the page of methods that trains on digits."""
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    lines = re.findall(r"^antidote train digits (.*)$", page, flags=re.MULTILINE)
    return {line: dict(zip(line.split()[::2], line.split()[1::2], strict=True)) for line in lines}


@pytest.mark.parametrize("options", commands_on_digits().values(), ids=commands_on_digits())
def test_a_command_of_the_page_of_methods_is_accepted(options):
    numbers = {"noise_rate": float, "delta": float, "epochs": int}
    words = {flag.removeprefix("--").replace("-", "_"): value for flag, value in options.items()}
    asked = Request("digits", **{name: numbers.get(name, str)(value) for name, value in words.items()})
    check_method(method_for(asked), epochs=asked.epochs or 30)


def test_every_method_has_an_example_of_its_own(generated):
    assert list(generated["EXAMPLES"]) == list(generated["METHODS"])
    for name, options in generated["EXAMPLES"].items():
        assert re.search(rf"--method {name}(?![\w-])", options)


def test_costs_stand_on_the_page_where_they_are_measured(generated, tmp_path):
    def measured(time: float, megabytes: float) -> dict[str, float]:
        return {"time": time, "megabytes": megabytes}

    costs = {
        "digits": {"elr": measured(1.234, 5.4), "mixup": measured(1, 0)},
        "images": {"elr": measured(0.996, -3)},
    }
    record = tmp_path / "costs.json"
    record.write_text(json.dumps({"costs": costs}))
    make_page = generated["methods_page"]
    make_page.__globals__["COSTS"], usual = record, make_page.__globals__["COSTS"]
    try:
        page = make_page()
    finally:
        make_page.__globals__["COSTS"] = usual
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| [`")}
    assert list(rows) == list(generated["METHODS"])
    assert rows["elr"].endswith("| 1.23 and 1.00 | +5 MB and −3 MB |")
    assert rows["mixup"].endswith("| not measured | not measured |")
    assert "- **Cost:** 1.23 and 1.00 times the time of cross-entropy, +5 MB and −3 MB of memory." in page
