"""One file of the zoo, checked: which values it states, from which source, and what it builds upon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import MachineError, Problem, nearest
from .lines import Path, key_lines, line_of
from .reading import read_toml
from .schema import STATED, UNKNOWN, field_of, is_section


@dataclass(frozen=True)
class Fact:
    """A value, where it was read, and the line that states it. None: the thing does not exist there."""

    value: Any
    source: str
    origin: str = ""
    line: int = 0


@dataclass(frozen=True)
class Sheet:
    """What one file says by itself, before the files that it extends are added."""

    id: str
    origin: str
    summary: str = ""
    aliases: tuple[str, ...] = ()
    extends: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    count: int | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    lines: Mapping[Path, int] = field(default_factory=dict)

    def problem(self, message: str, *path: str | int) -> Problem:
        """A problem at the line where this file has the key `path`."""
        return Problem(self.origin, line_of(dict(self.lines), path), message)


def read_sheet(text: str, origin: str, id: str) -> Sheet:
    """The sheet in a TOML text; `id` unless it names another. Raises MachineError that lists every bad field."""
    return check_sheet(read_toml(text, origin), origin, id, key_lines(text))


def check_sheet(data: Mapping[str, Any], origin: str, id: str, lines: Mapping[Path, int] | None = None) -> Sheet:
    """The sheet in a table that was read already. Raises MachineError that lists every bad field."""
    reader = _Reader(origin, dict(lines or {}))
    sheet = reader.read(data, id)
    if reader.problems:
        raise MachineError(reader.problems)
    return sheet


class _Reader:
    """Collects the problems of one file instead of stopping at the first."""

    _KEYS = ("id", "summary", "aliases", "extends", "others", "count", "facts")

    def __init__(self, origin: str, lines: dict[Path, int]) -> None:
        self.origin = origin
        self.lines = lines
        self.problems: list[Problem] = []
        self.facts: dict[str, Fact] = {}

    def report(self, message: str, *path: str | int) -> None:
        self.problems.append(Problem(self.origin, line_of(self.lines, path), message))

    def read(self, data: Mapping[str, Any], id: str) -> Sheet:
        for key in data:
            if key not in self._KEYS:
                self.report(_no_such(str(key), (*self._KEYS, *STATED)), key)
        blocks = data.get("facts", [])
        if isinstance(blocks, list) and all(isinstance(block, Mapping) for block in blocks):
            for index, block in enumerate(blocks):
                self.read_block(block, index)
        else:
            self.report("facts: expected tables headed [[facts]], each with a source", "facts")
        count = data.get("count")
        if count is not None and (type(count) is not int or count < 0):
            self.report(f"count: expected a whole number of devices, not {count!r}", "count")
        return Sheet(
            id=self.text(data, "id", id),
            origin=self.origin,
            summary=self.text(data, "summary", ""),
            aliases=self.texts(data, "aliases"),
            extends=self.texts(data, "extends"),
            others=self.texts(data, "others"),
            count=count,
            facts=self.facts,
            lines=self.lines,
        )

    def text(self, data: Mapping[str, Any], key: str, default: str) -> str:
        value = data.get(key, default)
        if not isinstance(value, str) or (key in data and not value.strip()):
            self.report(f"{key}: expected a text in quotes, not {value!r}", key)
            return default
        return value

    def texts(self, data: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = data.get(key, [])
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self.report(f"{key}: expected a list of texts, not {value!r}", key)
            return ()
        return tuple(value)

    def read_block(self, block: Mapping[str, Any], index: int) -> None:
        source = block.get("source")
        if not isinstance(source, str) or not source.strip():
            wrong = "no source" if source is None else f"source: expected a text in quotes, not {source!r}"
            self.report(f'facts: {wrong}; say where these values were read: source = "..."', "facts", index, "source")
            source = ""
        for path, value in _leaves({key: value for key, value in block.items() if key not in ("source", "none")}):
            self.read_fact(path, value, source, index)
        none = block.get("none", [])
        if not isinstance(none, list) or not all(isinstance(key, str) for key in none):
            self.report(f"none: expected a list of keys, not {none!r}", "facts", index, "none")
            return
        for key in none:
            field = field_of(key)
            if field is None:
                self.report("none: " + _no_such(key, STATED), "facts", index, "none")
            elif not field.nullable:
                self.report(f"none: {key} always has a value; leave it out if it is unknown", "facts", index, "none")
            else:
                self.state(key, None, source, index, ("none",))

    def read_fact(self, path: tuple[str, ...], value: Any, source: str, index: int) -> None:
        key = ".".join(path)
        field = field_of(key)
        if field is None:
            if is_section(key):
                self.report(f"{key}: expected a table of values, not {value!r}", "facts", index, *path)
            else:
                self.report(_no_such(key, STATED), "facts", index, *path)
            return
        if value != UNKNOWN:
            parsed = field.kind.parse(value)
            if parsed is None:
                self.report(f"{key}: expected {field.kind.expected}, not {value!r}", "facts", index, *path)
                return
            value = parsed
        self.state(key, value, source, index, path)

    def state(self, key: str, value: Any, source: str, index: int, path: tuple[str, ...]) -> None:
        line = line_of(self.lines, ("facts", index, *path))
        if key in self.facts:
            also = f" (also in line {self.facts[key].line})" if self.facts[key].line else ""
            self.report(f"{key}: stated twice{also}; keep one", "facts", index, *path)
            return
        self.facts[key] = Fact(value, source, self.origin, line)


def _leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        here = (*path, str(name))
        if isinstance(value, Mapping) and field_of(".".join(here)) is None and value:
            yield from _leaves(value, here)
        else:
            yield here, value


def _no_such(key: str, known: Any) -> str:
    close = nearest(key, known, 1)
    return f"{key}: no such key" + (f"; nearest: {close[0]}" if close else "")
