"""What a test in disguise must not find loaded already, and which file of the test run loaded it."""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from masquerade.pytest_plugin.machine_mark import Plan
from masquerade.stage.places import where_things_lie
from masquerade.stage.sources import imported, parsed

#: They look at the machine as they are imported, or stand for its driver.
ALWAYS = ("torch", "triton", "pynvml", "amdsmi")

#: Packages that torch's own modules import, where its build is for the platform that has them.
_TORCHS = ("cuda.bindings", "cuda.core")

#: What runs the tests; it may lie in any folder, as on a PYTHONPATH.
_RUNNING = ("masquerade", "pytest", "_pytest", "pluggy", "xdist", "execnet")


class Import(NamedTuple):
    """An import statement that is executed as its file is."""

    file: str
    line: int
    code: str


def complaint(item: pytest.Item, plan: Plan) -> str:
    """Why a test cannot be disguised in this process: modules that decided already where they are; "" if it can."""
    owned = {name for names in plan.owners.values() for name in names}
    configured = item.config.getini("masquerade_packages")
    names = [*ALWAYS, *sorted(owned), *plan.packages, *configured, *_under_test(item)]
    loaded = [name for name in dict.fromkeys(names) if name in sys.modules]
    if "torch" in loaded:  # what it brings along because it is built for one platform has the same cause
        loaded = [name for name in loaded if name not in _TORCHS]
    return "\n".join(_told(item, name) for name in loaded)


def _told(item: pytest.Item, name: str) -> str:
    way = list(_way(item, name))
    told = f"{name} was imported by the pytest process, so that it cannot be disguised for this test"
    rows = [f"  {step.file}:{step.line}\n    | {step.code}" for step in way]
    if not way:
        rows = [
            f"  no file of this run that can be read imports {name}: a plugin or an installed package may, "
            "see `python -X importtime -m pytest`"
        ]
    return "\n".join([told, *rows, f"  import {name} within the test or in a fixture"])


def _under_test(item: pytest.Item) -> Iterator[str]:
    """Packages that the test uses and that are neither installed nor part of the tests: the project's own code."""
    function = getattr(item, "function", None)
    if function is None:
        return
    with_tests = {os.path.dirname(str(other.path)) for other in item.session.items}
    for name in _imported_in(function):
        if _is_own(sys.modules.get(name)):
            yield name
    code = inspect.unwrap(function).__code__
    for used in code.co_names:
        value = getattr(function, "__globals__", {}).get(used)
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        top = str(module).partition(".")[0]
        loaded = sys.modules.get(top)
        # Helpers of the tests lie beside them.
        if _is_own(loaded) and _folder(loaded) not in with_tests:
            yield top


def _folder(module: ModuleType | None) -> str:
    return os.path.dirname(getattr(module, "__file__", None) or "")


def _is_own(module: ModuleType | None) -> bool:
    """Whether a module is neither installed nor the standard library's nor masquerade's."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or getattr(module, "__name__", "").partition(".")[0] in _RUNNING:
        return False
    stdlib = tuple(folder + os.sep for folder in _stdlib())
    return not any(part in file for part in ("site-packages", "dist-packages")) and not file.startswith(stdlib)


@cache
def _stdlib() -> tuple[str, ...]:
    return tuple(where_things_lie()["stdlib"])


def _imported_in(function: object) -> Iterator[str]:
    """The top-level names that the body of a test imports."""
    try:
        tree = parsed(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return
    for node in ast.walk(tree) if tree else ():
        yield from _names(node)


def _names(node: ast.AST) -> Iterator[str]:
    yield from (name.partition(".")[0] for name in imported(node))


def _way(item: pytest.Item, name: str) -> Iterator[Import]:
    """The imports that led to `name`, its own first, up to a test module or a conftest."""
    seen: set[str] = set()
    for _ in range(20):
        found = _importer(item, name, seen)
        if found is None:
            return
        module, step = found
        yield step
        if module in _starts(item):
            return
        seen.add(module)
        name = module.partition(".")[0]


def _starts(item: pytest.Item) -> dict[str, str]:
    """Name -> file of what pytest itself imports: conftests first, then the modules of the collected tests."""
    manager = item.config.pluginmanager
    conftests = [plugin for plugin in manager.get_plugins() if isinstance(plugin, ModuleType)]
    modules = [getattr(other, "module", None) for other in item.session.items]
    found: dict[str, str] = {}
    for module in (*(m for m in conftests if m.__name__.rpartition(".")[2] == "conftest"), *modules):
        if isinstance(module, ModuleType) and module.__file__:
            found.setdefault(module.__name__, module.__file__)
    return found


def _importer(item: pytest.Item, name: str, seen: Iterable[str]) -> tuple[str, Import] | None:
    """A module whose import statement names `name`, and that statement; those that pytest imports come first."""
    files = _starts(item)
    for other, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and other.partition(".")[0] != name:
            files.setdefault(other, file)
    for other, file in files.items():
        if other not in seen and file.endswith(".py") and (step := _statement(file, name)):
            return other, step
    return None


@cache
def _statements(file: str) -> dict[str, tuple[int, str]]:
    """Top-level names that a file imports as it is executed -> where it first does."""
    try:
        source = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    tree = parsed(source)
    lines = source.splitlines()
    found: dict[str, tuple[int, str]] = {}
    waiting: list[ast.AST] = list(reversed(tree.body)) if tree else []
    while waiting:
        node = waiting.pop()
        for name in _names(node):
            found.setdefault(name, (node.lineno, lines[node.lineno - 1].strip()))  # type: ignore[attr-defined]
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += reversed(list(ast.iter_child_nodes(node)))
    return found


def _statement(file: str, name: str) -> Import | None:
    found = _statements(file).get(name)
    return Import(os.path.relpath(file), *found) if found else None
