"""Text that a subject supplied, made safe to print: names, messages, source lines and output are never trusted."""

from __future__ import annotations

import re
import unicodedata

#: Longest piece of a subject's text that a report for people shows, in characters. The JSON report keeps all of it.
CLIP = 200

# Control and format characters (the latter turn text round or hide it), lone surrogates, line and paragraph separators.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# GitHub's runner obeys "##[command]" anywhere in a line of a log.
_RUNNER_COMMAND = re.compile(r"##(?=\[)")


def clean(text: str) -> str:
    r"""`text` on one line, with everything that a terminal or a CI log would obey written out (`\x1b`, `\u202e`)."""
    if not text.isascii() or not text.isprintable():
        text = "".join(_visible(char) for char in text)
    return _RUNNER_COMMAND.sub("# #", text)


def _visible(char: str) -> str:
    if char == "\t":
        return "    "
    if unicodedata.category(char) not in _UNPRINTABLE:
        return char
    return char.encode("unicode_escape").decode("ascii")


def clip(text: str, limit: int = CLIP) -> str:
    """`text` cut to `limit` characters, and saying so."""
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def first_line(text: str) -> str:
    """The first line of `text` that says anything, clean and clipped."""
    return next((clip(clean(line.strip())) for line in text[: 50 * CLIP].splitlines() if line.strip()), "")


def last_lines(text: str, count: int) -> list[str]:
    """The last `count` lines of `text` that say anything, clean and clipped: a subject's last words."""
    lines = [line.rstrip() for line in text[-50 * CLIP :].splitlines() if line.strip()]
    return [clip(clean(line)) for line in lines[-count:]]


def plural(count: int, noun: str) -> str:
    """`1 module`, `2 modules`, `3 checks`, `2 copies`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
