"""The page of findings names every kind, in their order, with its level."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from masquerade.cli import main
from masquerade.stage.record import SEVERITY, WARN_BY_DEFAULT, default_levels

PAGE = Path(__file__).resolve().parents[3] / "docs" / "findings.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="not run from the repository")


def test_the_table_holds_every_kind_with_its_level_the_worst_first() -> None:
    rows = re.findall(r"^\| \[`([\w-]+)`\]\(#([\w-]+)\) \| (\w+) \|", PAGE.read_text(), re.M)
    words = {"error": "error", "warn": "warning"}
    assert rows == [(kind, kind, words[default_levels()[kind]]) for kind in SEVERITY]


def test_every_kind_has_its_section_in_that_order() -> None:
    assert re.findall(r"^## ([\w-]+)$", PAGE.read_text(), re.M) == list(SEVERITY)


def test_the_help_names_what_is_a_warning() -> None:
    shown = " ".join(CliRunner().invoke(main, ["scan", "--help"]).output.split()).replace("- ", "-")
    [warnings] = re.findall(r"Warnings, if nothing is said, are ([\w, -]+);", shown)
    assert set(re.split(r", | and ", warnings)) == WARN_BY_DEFAULT
