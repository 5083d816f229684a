"""The page on what is trusted: each sentence names a test, and each of these is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "threats.md"
TESTS = ROOT / "harness" / "tests"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="not run from the repository")

_NAMED = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")


def missing(page: str) -> list[str]:
    """The tests that a page names and that are not there."""
    out = []
    for file, name in _NAMED.findall(page):
        text = (TESTS / file).read_text() if (TESTS / file).is_file() else ""
        if not text or (name and not re.search(rf"^def {name}\(", text, re.M)):
            out.append(f"{file}::{name}")
    return out


def test_every_test_that_it_names_is_there() -> None:
    assert len(_NAMED.findall(PAGE.read_text())) > 30
    assert missing(PAGE.read_text()) == []


def test_one_that_is_not_there_is_seen() -> None:
    assert missing("`test_hostile.py::test_nothing` `nothing.py` `test_hostile.py::test_hostile`") == [
        "test_hostile.py::test_nothing",
        "nothing.py::",
    ]


def test_the_number_of_hostile_subjects_is_right() -> None:
    subjects = [path for path in (ROOT / "fixtures" / "hostile").iterdir() if (path / "expect.json").exists()]
    assert f"{len(subjects)} small packages" in PAGE.read_text()
