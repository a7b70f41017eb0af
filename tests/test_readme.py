"""The README's Python runs as it stands, its links lead somewhere, and generated pages are up to date."""

import re
import runpy
from pathlib import Path

import pytest

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


def test_the_page_of_losses_is_what_the_code_says():
    generated = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    page = (ROOT / "docs" / "losses.md").read_text(encoding="utf-8")
    assert page == generated["page"]()  # else: python docs/generate.py
    (block,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    exec(compile(block, "losses.md", "exec"), {"__name__": "page"})
