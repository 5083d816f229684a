"""The golden tables of a codegen contract: one for each release of Triton, and what a new one changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from masquerade.contracts import golden, kinds
from masquerade.contracts.codegen_cells import KEYS
from masquerade.contracts.codegen_words import changed
from masquerade.contracts.contract import Discover
from masquerade.contracts.golden import Answers, Change, Table
from masquerade.contracts.golden.cells import MISSING, Same
from masquerade.contracts.settings import Place, WrongError
from masquerade.stage.check import SubjectError

VERSION = "{triton}"

#: Lines that are told of a new release.
_MOST = 40

Tables = Mapping[str, tuple[Table, Answers]]


def template(value: Any, place: Place) -> str:
    """The file of a golden table, with `{triton}` in its name."""
    file = kinds.file(value, place)
    if os.path.basename(file).count(VERSION) != 1 or VERSION in os.path.dirname(file):
        raise WrongError(f"{value!r} must have {VERSION} once in the file's name: each release has a table of its own")
    return file


def read(file: str) -> dict[str, tuple[Table, Answers]]:
    """All tables of a template, by release. Raises ConfigurationError for a bad file."""
    before, _, after = os.path.basename(file).partition(VERSION)
    pattern = re.compile(rf"{re.escape(before)}(\d+(?:\.\d+)*){re.escape(after)}")
    out = {}
    for each in sorted(Path(file).parent.iterdir()):
        named = pattern.fullmatch(each.name)
        if named and (table := golden.read(each, KEYS)) is not None:
            out[named[1]] = table, golden.read_reasons(each)
    return out


def installed(discover: Discover, path: tuple[str, ...]) -> str:
    """The release of Triton that the subject finds: 3.9.0. Nothing is imported. "" where there is none, or no release.

    Source: `__version__` in triton/__init__.py, of upstream's wheels and of Intel's.
    """
    try:
        root = discover("triton", path).root
        text = Path(root, "triton", "__init__.py").read_text(encoding="utf-8", errors="replace")
    except (SubjectError, OSError):
        return ""
    found = re.search(r"^__version__ *= *[\"'](\d+(?:\.\d+)*)", text, re.MULTILINE)
    return found[1] if found else ""


def before(tables: Tables, release: str) -> str:
    """The newest release with a table that is older than this one; else the oldest of the newer ones, or ""."""
    known = sorted(tables, key=_numbers)
    older = [each for each in known if _numbers(each) < _numbers(release)]
    return (older[-1:] or known[:1] or [""])[0]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def differences(table: Table, answers: Answers, same: Same) -> list[str]:
    """How these answers differ from another release's table, as sentences: instructions first, then numbers."""
    lacking = [key for key in answers if table.row(key) is None]
    known = {key: row for key, row in answers.items() if key not in lacking}
    changes = [c for c in golden.compare(table, {}, known, same) if c.old != MISSING]
    told = [*_instructions(changes), *_numbers_moved(changes)]
    if lacking:
        told.append(f"{len(lacking)} rows are new: {', '.join(lacking[:3])}{', ...' if len(lacking) > 3 else ''}")
    return told[:_MOST] + ([f"and {len(told) - _MOST} more"] if len(told) > _MOST else [])


def sentence(change: Change) -> str:
    """What one change of a table means."""
    configuration, kernel, machine, arch = change.machine.split(" ")
    if change.problem == "instructions" and change.old != MISSING:
        return changed(arch, kernel, change.old, change.new)
    if change.old == MISSING:
        return f"{kernel} of {configuration} on {machine} ({arch}) has no row yet: it has {change.new}"
    return f"{kernel} of {configuration} on {machine} ({arch}) has {change.problem} {change.new}, and had {change.old}"


def _instructions(changes: list[Change]) -> Iterator[str]:
    alike: dict[tuple[str, str, str], dict[str, None]] = {}
    for change in changes:
        _, kernel, _, arch = change.machine.split(" ")
        if change.problem == "instructions":
            alike.setdefault((kernel, change.old, change.new), {})[arch] = None
    for (kernel, old, new), archs in alike.items():
        yield changed(", ".join(archs), kernel, old, new)


def _numbers_moved(changes: list[Change]) -> Iterator[str]:
    rows: dict[str, list[str]] = {}
    for change in changes:
        if change.problem != "instructions":
            rows.setdefault(change.machine, []).append(f"{change.problem} {change.old} -> {change.new}")
    alike: dict[tuple[str, str, str], dict[str, None]] = {}
    for key, moved in rows.items():
        configuration, kernel, _, arch = key.split(" ")
        alike.setdefault((configuration, kernel, ", ".join(moved)), {})[arch] = None
    for (configuration, kernel, moved_alike), archs in alike.items():
        yield f"{', '.join(archs)}: {kernel} of {configuration} has {moved_alike}"
