"""The progress bar: on a terminal only, and a subject's name cannot speak through it."""

from __future__ import annotations

import io
import re
import sys

import pytest

from masquerade.cli.progress import progress
from masquerade.stage.record import Record


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *subjects: str) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress(len(subjects)) as advance:
        for subject in subjects:
            advance(Record("id", subject, "import", "h100", "cuda"))
    return stream.getvalue()


def test_a_terminal_sees_how_far_it_is(monkeypatch) -> None:
    assert "3/3" in shown(monkeypatch, Terminal(), "pkg.a", "pkg.b", "pkg.c")


def test_a_log_sees_nothing(monkeypatch) -> None:
    assert shown(monkeypatch, io.StringIO(), "pkg.a") == ""


def test_markup_and_control_characters_of_a_name_are_text(monkeypatch) -> None:
    text = shown(monkeypatch, Terminal(), "[bold]pkg\x1b]0;title\x07")
    assert "[bold]pkg" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "\x1b]0;" not in text and "\x07" not in text
