"""Packages of platforms that are not there, and the modules that import them as they are imported themselves.

Who catches that ImportError is clean here and need not be where the package is: a report says so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade.machines.owners import ANY
from masquerade.machines.packages import MANAGEMENT
from masquerade.stage import discovery
from masquerade.stage.check import Check, SubjectError
from masquerade.stage.record import Record
from masquerade.stage.sources import parsed
from masquerade.stage.standins import Discover

#: Modules that a sentence names. A package that is meant for one platform has hundreds.
_MOST = 2


@dataclass(frozen=True)
class Place:
    """An import statement in a module of the subject's."""

    module: str
    line: int


@dataclass(frozen=True)
class Unseen:
    """A package that a platform owns and that is not there, and the first modules that import it."""

    package: str
    platform: str
    places: tuple[Place, ...]

    def __str__(self) -> str:
        some = ", ".join(f"{place.module}:{place.line}" for place in self.places[:_MOST])
        return f"{self.package} ({self.platform}), imported by {some}{' and more' * (len(self.places) > _MOST)}"


def unseen(checks: Iterable[Check], records: Iterable[Record], path: Sequence[str], discover: Discover) -> list[Unseen]:
    """The packages of owners that no check has, though modules of theirs import them; `path` is the server's sys.path.

    Modules whose import failed for want of a package are left out. Of a package that the user gives to or takes from a
    machine nothing is said, nor of the machine here. Reads sources, and imports nothing.
    """
    disguised = [check for check in checks if check.machine.platform != "here"]
    owned = dict(_candidates(disguised))
    wanted = sorted(name for name in owned if not any(_has(check, name) for check in disguised))
    failed = {(record.subject, finding.missing) for record in records for finding in record.findings if finding.missing}
    modules = {(check.subject.partition(":")[0], check.path): None for check in disguised} if wanted else {}
    sources = _Sources(wanted)
    naming: dict[str, dict[str, str]] = {}
    for module, own in modules:
        file = discovery.source(module, (*own, *path))
        for package in sources.named(file):
            if (module, package) not in failed:
                naming.setdefault(package, {})[module] = file
    found = {package: tuple(_places(package, naming[package], sources)) for package in sorted(naming)}
    folders = tuple(dict.fromkeys(folder for _, own in modules for folder in own))
    return [
        Unseen(package, owned[package], places)
        for package, places in found.items()
        if places and not _there(package, folders, discover)
    ]


def told(found: Sequence[Unseen]) -> Iterator[str]:
    """A sentence, if there is anything to say."""
    if found:
        shown = f"(--present {','.join(each.package for each in found)} shows it)"
        yield f"not installed here, and what it does not seen: {'; '.join(map(str, found))} {shown}"


def _candidates(checks: Iterable[Check]) -> Iterator[tuple[str, str]]:
    """Packages and their platforms. What only stands for a package's part is left out: the package is there."""
    for owners in {id(check.owners): check.owners for check in checks}.values():
        for platform, names in owners.items():
            known = (name for name in names if "." not in name and name not in MANAGEMENT)
            yield from ((name, platform) for name in known if platform != ANY)


def _has(check: Check, package: str) -> bool:
    """Whether a check has a package, or is not to have it."""
    named = {*check.present, *(check.machine.packages.get("present") or {}), *check.absent}
    return package in named or package in check.stand_ins or f"-{package}" in check.machine.id


def _there(package: str, path: tuple[str, ...], discover: Discover) -> bool:
    try:
        return bool(discover(package, path).modules)
    except SubjectError:
        return False


def _places(package: str, modules: dict[str, str], sources: _Sources) -> Iterator[Place]:
    """The first modules of these whose bodies really import a package: one more than a sentence names."""
    found = 0
    for module, file in modules.items():
        line = sources.imported(file).get(package)
        if line is not None:
            yield Place(module, line)
            found += 1
        if found > _MOST:
            return


class _Sources:
    """What sources say of packages. A source is taken apart only where a line looks so: that costs far more."""

    def __init__(self, packages: Collection[str]) -> None:
        names = "|".join(map(re.escape, packages))
        self._packages = frozenset(packages)
        self._statement = re.compile(rf"\n[ \t]*(?:import|from)[ \t]+(?:[\w., \t]*,[ \t]*)?({names})\b".encode())
        self._imported: dict[str, dict[str, int]] = {}

    def named(self, file: str) -> set[str]:
        """The packages that a source has an import statement for, by the look of its lines."""
        return {match.decode() for match in self._statement.findall(b"\n" + _read(file))}

    def imported(self, file: str) -> dict[str, int]:
        """The packages that the body of a module imports, and the first line of each."""
        if file not in self._imported:
            tree = parsed(_read(file))
            found: dict[str, int] = {}
            for statement in _executed(tree.body if tree is not None else ()):
                for name in _names(statement):
                    found.setdefault(name.partition(".")[0], statement.lineno)
            self._imported[file] = {name: line for name, line in found.items() if name in self._packages}
        return self._imported[file]


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError:
        return b""


def _names(statement: ast.AST) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module or ""] if isinstance(statement, ast.ImportFrom) and not statement.level else []


def _executed(body: Iterable[ast.AST]) -> Iterator[Any]:
    """The statements that a module may execute as it is imported: no function's, and none for type checkers alone."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING":
            yield from _executed(node.orelse)
        elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield node
            yield from _executed(ast.iter_child_nodes(node))
