"""Packages of platforms that are not there, and the modules that import them as they are imported themselves.

Who catches that ImportError is clean here and need not be where the package is: a report says so.
"""

from __future__ import annotations

import ast
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from masquerade.machines.owners import ANY
from masquerade.machines.packages import MANAGEMENT
from masquerade.stage import discovery
from masquerade.stage.check import Check, Discovery, SubjectError
from masquerade.stage.record import Record
from masquerade.stage.sources import imported, parsed
from masquerade.stage.standins import Discover
from masquerade.stage.trace.reach import with_above

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


def unseen(checks: Iterable[Check], records: Iterable[Record], discover: Discover) -> list[Unseen]:
    """The packages of owners that no check has, though modules of theirs import them.

    Modules whose import failed for want of a package are left out. Of a package that the user gives to or takes from a
    machine nothing is said, nor of the machine here. Reads sources, and imports nothing.
    """
    disguised = [check for check in checks if check.machine.platform != "here"]
    owned = dict(_candidates(disguised))
    wanted = sorted(name for name in owned if not any(_has(check, name) for check in disguised))
    failed = {
        (record.subject.partition(":")[0], finding.missing)
        for record in records
        for finding in record.findings
        if finding.missing
    }
    modules = {(check.subject.partition(":")[0], check.path): None for check in disguised} if wanted else {}

    @cache
    def found(name: str, path: tuple[str, ...]) -> Discovery | None:
        try:
            return discover(name, path)
        except SubjectError:
            return None

    sources = _Sources(wanted)
    naming: dict[str, dict[str, str]] = {}
    for module, path in modules:
        top = found(module.partition(".")[0], path)
        file = discovery.source(module, [top.root]) if top is not None else ""
        for package in sources.named(file):
            if (module, package) not in failed:
                naming.setdefault(package, {})[module] = file
    folders = tuple(dict.fromkeys(folder for _, path in modules for folder in path))
    missing = [package for package in sorted(naming) if found(package, folders) is None]
    rows = [Unseen(package, owned[package], tuple(_places(package, naming[package], sources))) for package in missing]
    return [row for row in rows if row.places]


def told(found: Sequence[Unseen]) -> Iterator[str]:
    """A sentence, if there is anything to say."""
    if found:
        shown = f"--present {','.join(each.package for each in found)} shows it"
        yield f"not installed, so that what it does there was not seen ({shown}): {'; '.join(map(str, found))}"


def _candidates(checks: Iterable[Check]) -> Iterator[tuple[str, str]]:
    """Packages, or parts of them, and their platforms."""
    for owners in {id(check.owners): check.owners for check in checks}.values():
        for platform, names in owners.items():
            yield from ((name, platform) for name in names if platform != ANY and name not in MANAGEMENT)


def _has(check: Check, package: str) -> bool:
    """Whether a check has a package, or is not to have it."""
    packages: Mapping[str, Collection[str]] = check.machine.packages
    return any(package in named for named in (
        check.present, check.absent, check.stand_ins, packages.get("present") or (), packages.get("absent") or (),
    ))  # fmt: skip


def _places(package: str, modules: Mapping[str, str], sources: _Sources) -> Iterator[Place]:
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
    """What sources say of packages. One is taken apart only where a line looks so: that costs far more."""

    _STATEMENT = re.compile(rb"(?:[\n;:])[ \t]*(?:import|from)[ \t]([^\n;#]*)")

    def __init__(self, packages: Collection[str]) -> None:
        self._name = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, packages))})\b".encode())
        self._packages = frozenset(packages)
        self._imported: dict[str, dict[str, int]] = {}

    def named(self, file: str) -> set[str]:
        """The packages that stand in an import statement of a source, by the look of its lines."""
        text = b"\n" + _read(file).removeprefix(BOM_UTF8)
        return {name.decode() for words in self._STATEMENT.findall(text) for name in self._name.findall(words)}

    def imported(self, file: str) -> dict[str, int]:
        """The packages that the body of a module imports, and the first line of each."""
        if file not in self._imported:
            tree = parsed(_read(file))
            found: dict[str, int] = {}
            for statement in _executed(tree) if tree is not None else ():
                for name in imported(statement):
                    for package in self._packages.intersection(with_above(name)):
                        found[package] = min(statement.lineno, found.get(package, statement.lineno))
            self._imported[file] = found
        return self._imported[file]


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError:
        return b""


def _executed(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that a module may execute as it is imported: none of its functions'."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and _never(node.test):
            left += node.orelse
        elif isinstance(node, (ast.Module, ast.stmt, ast.excepthandler, ast.match_case)) and not isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef)
        ):
            left += ast.iter_child_nodes(node)


def _never(test: ast.expr) -> bool:
    """Whether a condition is false as a module is imported: for type checkers, for programs, and switched off."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_never, test.values))
    if isinstance(test, ast.Constant):
        return not test.value
    if isinstance(test, ast.Compare):
        return isinstance(test.left, ast.Name) and test.left.id == "__name__" and isinstance(test.ops[0], ast.Eq)
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    return name == "TYPE_CHECKING"
