"""A review page in a browser, for the tests that look at it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from antidote_learn.auditing.audit_result import Audit
from tests.auditing.pages import Page


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[Audit], Page]]:
    """Opens the page of an audit; the browsers are closed at the end."""
    pages: list[Page] = []

    def open_page(found: Audit) -> Page:
        path = tmp_path / "review.html"
        found.write_review(path)
        pages.append(Page(path, tmp_path / f"browser{len(pages)}"))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()
