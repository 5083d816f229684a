"""Counts the calls of named functions: a probe hoisted out of its condition answers the same and costs more."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.machinery import PathFinder
from types import FunctionType, ModuleType
from typing import Any

from masquerade.watch.intercept import intercept
from masquerade.watch.lookup import attribute
from masquerade.watch.recorder import Note

#: Calls of one probe whose stack is noted; all are counted.
NOTED = 20


OnImport = Callable[[str, Callable[[ModuleType], None]], None]


def count(names: Iterable[str], note: Note, on_import: OnImport) -> Callable[[], dict[str, int]]:
    """Count the calls of each `pkg.mod:func` from now on; gives a function that tells the numbers.

    A function is the same one under all its names: a copy imported by name, a method, an entry of a table. Of a cached
    function the executions count. A module that is not loaded yet, and whose source defines the function, is waited
    for: to import it may be another platform's business. Any other is imported.
    Raises ImportError or AttributeError for what is not there, TypeError for what is no Python function.
    """
    counts = dict.fromkeys(names, 0)

    def caller(name: str) -> Callable[[], None]:
        def called() -> None:
            counts[name] += 1
            if counts[name] <= NOTED:
                note("probe", name)

        return called

    later = [name for name in counts if _defined_in_source(name)]
    for name, function in [(name, _function(name)) for name in counts if name not in later]:
        intercept(function, caller(name))
    for name in later:
        on_import(name.partition(":")[0], _once_there(name, caller(name)))
    return lambda: dict(counts)


def _once_there(name: str, called: Callable[[], None]) -> Callable[[ModuleType], None]:
    return lambda module: intercept(_function(name), called)


def _defined_in_source(name: str) -> bool:
    """Whether the function's module is not loaded, and has a source file with that definition. Executes nothing."""
    module, _, path = name.partition(":")
    if module in sys.modules:
        return False
    try:
        folders, spec = None, None
        for part in _packages(module):
            spec = PathFinder.find_spec(part, folders)
            folders = spec.submodule_search_locations if spec is not None else []
        loader: Any = spec.loader if spec is not None else None
        body: Any = ast.parse(loader.get_source(module)).body
        for wanted in path.split("."):
            found = [each for each in body if getattr(each, "name", None) == wanted]
            body = found[-1].body
    except Exception:  # no such module, no such definition, no source: an import tells what is wrong
        return False
    return True


def _packages(module: str) -> Iterable[str]:
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _function(name: str) -> FunctionType:
    module, _, path = name.partition(":")
    found = attribute(sys.modules.get(module) or import_module(module), path)
    # A method, a cached function, a property, a cached property: each holds the function in a place of its own.
    for place in ("__func__", "__wrapped__", "fget", "func"):
        if not isinstance(found, FunctionType):
            found = getattr(found, place, found)
    if not isinstance(found, FunctionType):
        raise TypeError(f"{name} is a {type(found).__name__}; only the calls of Python functions can be counted")
    return found
