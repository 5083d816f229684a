"""Reads TOML, and says of a syntax error where it is and what was expected there."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

from .errors import MachineError, Problem

#: What the parser's words leave unsaid, by the words with which they begin.
_EXPECTED = {
    "Invalid value": "expected a text in quotes, a number, true, false, a [list] or a {table}",
    "Invalid statement": "expected a key, a [table] or a comment",
    "Invalid initial character for a key part": "expected a key of letters, digits, '-' and '_', or one in quotes",
    "Expected '=' after a key": "expected '=' after the key",
    "Unterminated string": "expected a closing quote",
    'Expected "\'"': "expected a closing quote",
    "Found invalid character": "expected a closing quote before the end of the line",
    "Illegal character": "expected a closing quote before the end of the line",
    "Unclosed array": "expected ',' or ']' after an element of the list",
    "Unclosed inline table": "expected ',' or '}' after an element of the table",
    "Cannot overwrite a value": "expected a key that this table does not have yet",
    "Cannot declare": "expected a table that was not declared before",
    "Cannot mutate immutable": "expected no more keys in a table that is closed",
    "Duplicate inline table key": "expected a key that this table does not have yet",
    "Expected newline or end of document": "expected the end of the line after the value",
    "Unescaped '\\'": 'expected one of \\n \\t \\" \\\\ \\u after a backslash, or single quotes around the text',
}


def read_toml(text: str, origin: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises MachineError with the line, and what was expected, if it is not TOML."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        tables: dict[str, Any] = toml.loads(text)
        return tables
    except toml.TOMLDecodeError as error:
        raise MachineError([_syntax_problem(str(error), text, origin)]) from None


def _syntax_problem(message: str, text: str, origin: str) -> Problem:
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    words = message[: place.start()] if place else message
    lines = text.split("\n")
    line = int(place[1]) if place and place[1] else max(1, len(lines) - text.endswith("\n"))
    expected = next((hint for start, hint in _EXPECTED.items() if words.startswith(start)), words)
    if words.startswith("Invalid value") and lines[line - 1].rstrip().endswith(("[", "{", ",")):
        expected = "a list or table is not closed: expected a value, ']' or '}'"
    shown = lines[line - 1].strip()
    found = f", found {shown!r}" if shown else ", found the end of the file"
    return Problem(origin, line, f"not TOML: {expected}{found}")
