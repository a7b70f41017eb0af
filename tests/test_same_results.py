"""The results of a dozen runs, audits and fits stay what they were: tests/same_results.json.

To 1e-6 on the kind of processor that they are stored of; on another one it is only compared what there is.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.same_results import cases, processor, results

KEPT = json.loads(Path(__file__).with_name("same_results.json").read_text(encoding="utf-8"))
STORED, IS_SAME_KIND = KEPT["cases"], KEPT["processor"] == processor()


def numbers(value: Any) -> Any:
    """A JSON value without digests, which know no tolerance."""
    if isinstance(value, dict):
        return {key: numbers(part) for key, part in value.items() if key not in ("digest", "hash")}
    return [numbers(part) for part in value] if isinstance(value, list) else value


def assert_close(found: Any, stored: Any, where: str) -> None:
    if isinstance(stored, dict):
        assert found.keys() == stored.keys(), where
        for key, part in stored.items():
            assert_close(found[key], part, f"{where} / {key}")
    elif isinstance(stored, list):
        assert len(found) == len(stored), where
        for number, part in enumerate(stored):
            assert_close(found[number], part, f"{where} / {number}")
    elif not IS_SAME_KIND:
        assert isinstance(found, (int, float)) == isinstance(stored, (int, float)), where
    elif isinstance(stored, float):
        assert found == pytest.approx(stored, rel=1e-6, abs=1e-6, nan_ok=True), where
    else:
        assert found == stored, where


def test_every_case_is_stored():
    assert set(STORED) == set(cases())


@pytest.mark.parametrize("name", STORED)
def test_results_are_what_they_were(name):
    assert_close(numbers(results(name)), numbers(STORED[name]), name)
