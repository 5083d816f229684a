"""The import statements that a module begins with: what it does before its own code can matter."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from masquerade.stage.sources import parsed

#: Larger sources are not looked into.
_LARGEST = 4 << 20

#: A line that begins a statement of another kind. What stands above is parsed alone, since whole files take long.
_OTHER = re.compile(r"^(?:@|(?:class|def|if|try|for|while|with|async|match|raise|assert|del)\b)", re.MULTILINE)


class Unit(NamedTuple):
    """`import module`, or `from module import names`, on a line of the source. `module` is absolute."""

    module: str
    names: tuple[str, ...]
    line: int


class Source(NamedTuple):
    """A module's file, and the imports that stand before everything else in it."""

    file: str
    units: tuple[Unit, ...]


NOTHING = Source("", ())


def source_of(name: str) -> Source:
    """The imports at the head of module `name`, whose parent package is loaded, or that one's parent. Executes nothing.

    Empty for what is no plain source file found in the folders of its package or of sys.path.
    """
    parent, _, _ = name.rpartition(".")
    try:
        path = _path_of(parent) if parent else None
        if parent and path is None:
            return NOTHING
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or not spec.origin:
            return NOTHING
        if os.path.getsize(spec.origin) > _LARGEST:
            return NOTHING
        with open(spec.origin, "rb") as file:
            text = importlib.util.decode_source(file.read())
    except Exception:  # a finder of the subject's, an encoding that there is not
        return NOTHING
    package = name if spec.submodule_search_locations is not None else parent
    return Source(spec.origin, tuple(units(text, package)))


def _path_of(package: str) -> Sequence[str] | None:
    """Where the modules of a package lie, which is loaded or whose parent is."""
    if package in sys.modules:
        return getattr(sys.modules[package], "__path__", None)
    above, _, _ = package.rpartition(".")
    spec = importlib.machinery.PathFinder.find_spec(package, _path_of(above) if above else None)
    return spec.submodule_search_locations if spec is not None else None


def units(text: str, package: str) -> Iterator[Unit]:
    """The imports at the head of a source. `package` is what relative ones are relative to.

    A docstring, imports from __future__ and names for constants may stand between them.
    """
    for statement in _head(text):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield Unit(alias.name, (), statement.lineno)
        elif isinstance(statement, ast.ImportFrom):
            if statement.module == "__future__" and not statement.level:
                continue
            module = _absolute(statement, package)
            names = tuple(alias.name for alias in statement.names)
            if not module or names == ("*",):
                return
            yield Unit(module, names, statement.lineno)
        elif not _constant(statement):
            return


def _head(text: str) -> Sequence[ast.stmt]:
    other = _OTHER.search(text)
    for part in (text[: other.start()] if other else text, text):
        if (tree := parsed(part)) is not None:  # else the cut went through a docstring or a bracket
            return tree.body
    return ()


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    if not statement.level:
        return statement.module or ""
    above = package.split(".")
    if not package or statement.level > len(above):
        return ""
    base = above[: len(above) - statement.level + 1]
    return ".".join([*base, statement.module] if statement.module else base)


def _constant(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        names = all(isinstance(target, ast.Name) for target in statement.targets)
        return names and isinstance(statement.value, ast.Constant)
    return False
