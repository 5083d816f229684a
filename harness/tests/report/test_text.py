"""What a subject wrote does nothing to the reader's terminal or log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.report.text import clean, clip, first_line, last_lines, plural


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b]8;;http://x\x07", r"\x1b]8;;http://x\x07"),
        ("a\r\nb", r"a\r\nb"),
        ("tab\there", "tab    here"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("lone \udc80", r"lone \udc80"),
        ("Größe 模块", "Größe 模块"),
        ("##[add-mask]x", "# #[add-mask]x"),
    ],
)
def test_what_a_terminal_obeys_is_written_out(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text())
def test_clean_text_is_one_printable_line_that_any_encoder_takes(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert len(cleaned.splitlines()) <= 1
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in cleaned)
    assert clean(cleaned) == cleaned


def test_a_cut_says_that_it_cut() -> None:
    assert clip("x" * 300, 20) == "x" * 16 + " ..."
    assert clip("short", 20) == "short"


def test_first_line_skips_empty_ones_and_last_lines_are_the_last_words() -> None:
    assert first_line("\n  \n one \ntwo") == "one"
    assert first_line("\n \n") == ""
    assert last_lines("a\n\nb\nc\n", 2) == ["b", "c"]
    assert last_lines("x" * 10_000_000, 1)[0].endswith(" ...")


def test_plural() -> None:
    assert [plural(n, "copy") for n in (0, 1, 2)] == ["0 copies", "1 copy", "2 copies"]
