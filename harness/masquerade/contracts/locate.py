"""Where a project keeps its configuration: masquerade.toml, or [tool.masquerade] of pyproject.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from masquerade.contracts.errors import ConfigurationError, Problem, shown
from masquerade.contracts.settings import Document
from masquerade.machines.errors import MachineError
from masquerade.machines.lines import key_lines
from masquerade.machines.reading import read_toml

OWN, SHARED = "masquerade.toml", "pyproject.toml"

#: Where the settings hang in a file that other tools share.
TOOL = ("tool", "masquerade")

Found = tuple[Path, tuple[str, ...]]
"""A file, and the keys that lead to the settings in it."""


def nearest(start: Path) -> Found:
    """The nearest configuration in `start` or above it. Raises ConfigurationError where there is none, or two."""
    found = looked_for(start)
    if found is None:
        says = f"no {OWN} and no {SHARED} with a [tool.masquerade] table in this folder or above; make one, or name it"
        raise ConfigurationError([Problem(shown(start.absolute()), 0, "", says)])
    return found


def looked_for(start: Path) -> Found | None:
    """The nearest configuration, if there is one. Raises ConfigurationError where there are two."""
    start = start.absolute()
    for folder in (start, *start.parents):
        own, shared = folder / OWN, folder / SHARED
        has_own, has_shared = own.is_file(), shared.is_file() and _speaks_of_us(shared)
        if has_own and has_shared:
            says = f"[tool.masquerade] and {OWN} beside it both hold a configuration; keep one of them"
            raise ConfigurationError([Problem(shown(shared), 0, "", says)])
        if has_own or has_shared:
            return (own, ()) if has_own else (shared, TOOL)
    return None


def named(file: Path) -> Found:
    """A file that the user named. Raises ConfigurationError if it is none."""
    if not file.is_file():
        raise ConfigurationError([Problem(shown(file), 0, "", "there is no such file")])
    if file.name != SHARED:
        return file, ()
    if not _speaks_of_us(file):
        raise ConfigurationError([Problem(shown(file), 0, "", "it has no [tool.masquerade] table")])
    return file, TOOL


def opened(found: Found) -> tuple[Document, Any]:
    """The document of a file, and what our settings are in it: a table, if nothing is wrong with it.

    Raises ConfigurationError for what is no TOML.
    """
    file, top = found
    text, settings = parsed(file)
    for key in top:
        settings = settings.get(key, {}) if isinstance(settings, Mapping) else {}
    return Document(file.absolute(), key_lines(text), top), settings


def parsed(file: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and its tables. Raises ConfigurationError with the line of what is no TOML."""
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigurationError([Problem(shown(file), 0, "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigurationError([Problem(shown(file), line, "", "not TOML: expected UTF-8 text")]) from None
    try:
        tables = read_toml(text, shown(file))
    except MachineError as error:
        problems = [Problem(problem.origin, problem.line, "", problem.message) for problem in error.problems]
        raise ConfigurationError(problems) from None
    if file.name != SHARED and "masquerade" in _table(tables.get("tool")):
        says = f"in {file.name} the settings stand at the top: leave tool.masquerade out of the headers"
        raise ConfigurationError([Problem(shown(file), _line_of_tool(text), "tool.masquerade", says)])
    return text, tables


def _speaks_of_us(file: Path) -> bool:
    """Whether a shared file holds settings of ours. One that is no TOML, and names us, is read and so reported."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    if "masquerade" not in text:
        return False
    try:
        return "masquerade" in _table(read_toml(text, str(file)).get("tool"))
    except MachineError:
        return True


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _line_of_tool(text: str) -> int:
    return next((n for n, line in enumerate(text.splitlines(), 1) if "masquerade" in line and "tool" in line), 0)
