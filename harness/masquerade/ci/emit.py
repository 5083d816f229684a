"""YAML that people read and that every version of YAML reads alike: what could be anything but a text is quoted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH = 110

#: A text that stands without quotes: it begins with a letter, and nothing in it is a sign of YAML.
_PLAIN = re.compile(r"[A-Za-z_./][\w./@=+-]*( [\w./@=+-]+)*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "~", ".", "=", "inf", "nan"})
_NUMBER = re.compile(r"[-+.\d][\d_.eExX:+-]*|\.(inf|nan)", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """A value with a comment behind it."""

    value: str
    comment: str


def dump(document: Mapping[str, Any], head: Sequence[str] = ()) -> str:
    """A document, below comment lines."""
    comments = [f"# {line}".rstrip() for line in head]
    return "\n".join([*comments, *_mapping(document, "")]) + "\n"


def _mapping(table: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in table.items():
        name = f"{indent}{_scalar(key) if key != 'on' else key}:"
        inline = _inline(value)
        if inline is not None and (isinstance(value, str) or len(name) + len(inline) < _WIDTH):
            yield f"{name} {inline}"
        else:
            yield name
            yield from _block(value, f"{indent}  ")


def _block(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _mapping(value, indent)
        return
    for item in value:
        inline = _inline(item)
        first, *rest = [inline] if inline is not None else _block(item, f"{indent}  ")
        yield f"{indent}- {first.lstrip()}"
        yield from rest


def _inline(value: Any) -> str | None:
    """A value on one line, where that reads well."""
    if isinstance(value, Mapping):
        return "{}" if not value else None
    if isinstance(value, (list, tuple)):
        simple = all(isinstance(item, (str, int)) for item in value)
        return f"[{', '.join(map(_scalar, value))}]" if simple else None
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, Said):
        return f"{_scalar(value.value)} # {value.comment}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS and not _NUMBER.fullmatch(text)
    if plain:
        return text
    single = '"' in text and "'" not in text and text.isprintable()
    return f"'{text}'" if single else f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    """Source: YAML 1.1 and 1.2, escapes of double-quoted scalars."""
    if char in '\\"':
        return f"\\{char}"
    if char == "\n":
        return "\\n"
    return char if char.isascii() and char.isprintable() else f"\\U{ord(char):08x}"
