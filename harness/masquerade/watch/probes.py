"""Counts the calls of named functions: a probe hoisted out of its condition answers the same and costs more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import FunctionType
from typing import Any

from masquerade.watch.intercept import intercept
from masquerade.watch.recorder import Note

#: Calls of one probe whose stack is noted; all are counted.
NOTED = 20


def count(names: Iterable[str], note: Note) -> Callable[[], dict[str, int]]:
    """Count the calls of each `pkg.mod:func` from now on; gives a function that tells the numbers.

    A function is the same one under all its names: a copy imported by name, a method, an entry of a table. Of a cached
    function the executions count. A module that is not loaded yet is imported.
    Raises ImportError or AttributeError for what is not there, TypeError for what is no Python function.
    """
    counts = dict.fromkeys(names, 0)

    def caller(name: str) -> Callable[[], None]:
        def called() -> None:
            counts[name] += 1
            if counts[name] <= NOTED:
                note("probe", name)

        return called

    for name, function in [(name, _function(name)) for name in counts]:
        intercept(function, caller(name))
    return lambda: dict(counts)


def _function(name: str) -> FunctionType:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module) or import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    # A method, a cached function, a property, a cached property: each holds the function in a place of its own.
    for place in ("__func__", "__wrapped__", "fget", "func"):
        if not isinstance(found, FunctionType):
            found = getattr(found, place, found)
    if not isinstance(found, FunctionType):
        raise TypeError(f"{name} is a {type(found).__name__}; only the calls of Python functions can be counted")
    return found
