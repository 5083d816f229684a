"""Where each key of a TOML file stands. tomllib gives the values, and this the lines for messages about them."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=\s*")
_TOKEN = re.compile(r"""\"{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|[\[\]{},]|\#.*|\\.|[^\s\[\]{},\#"'\\]+""")


def _split(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, dotted)]


class _Value:
    """Follows a value over its lines until its brackets and its multi-line string are closed.

    Writes into `lines` where the elements of a list begin.
    """

    def __init__(self, path: Path, lines: dict[Path, int]) -> None:
        self.path, self.lines = path, lines
        self.brackets = self.quote = ""
        self.index, self.begins = 0, True

    def feed(self, text: str, number: int) -> None:
        position = 0
        while position < len(text):
            if self.quote:
                end = text.find(self.quote, position)
                if end < 0:
                    return
                position = end + 3
                self.quote = ""
                continue
            token = _TOKEN.search(text, position)
            if token is None:
                return
            position = token.end()
            if not token[0].startswith("#"):
                self._take(token[0], number)

    def _take(self, token: str, number: int) -> None:
        if self.brackets == "[" and token == ",":
            self.index, self.begins = self.index + 1, True
        elif self.brackets == "[" and token != "]" and self.begins:
            self.lines.setdefault((*self.path, self.index), number)
            self.begins = False
        if token in ('"""', "'''"):
            self.quote = token
        elif token in "[{":
            self.brackets += token
        elif token in "]}":
            self.brackets = self.brackets[:-1]

    @property
    def open(self) -> bool:
        return bool(self.quote or self.brackets)


def key_lines(text: str) -> dict[Path, int]:
    """The line (from 1) of each key, table header and element of a list. Elements count from 0: `("facts", 0)`."""
    lines: dict[Path, int] = {}
    elements: dict[Path, int] = {}
    table: Path = ()
    value = _Value((), lines)
    for number, line in enumerate(text.splitlines(), 1):
        if value.open:
            value.feed(line, number)
        elif header := _HEADER.fullmatch(line):
            table = _enter(_split(header[2]), header[1] == "[[", elements)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            path = table + tuple(_split(key[1]))
            for length in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:length], number)
            value = _Value(path, lines)
            value.feed(line[key.end() :], number)
    return lines


def _enter(parts: list[str], array: bool, elements: dict[Path, int]) -> Path:
    table: Path = ()
    for position, part in enumerate(parts):
        table += (part,)
        if array and position == len(parts) - 1:
            elements[table] = elements.get(table, -1) + 1
        if table in elements:
            table += (elements[table],)
    return table


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of the key, or of the nearest table around it; 0 if there is none."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)
