"""The README's Python runs as it stands, and its links lead somewhere."""

import re
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
