"""Packages that keep to themselves: what one's own code does touches nothing else, so that it may come a little later.

In a natural order a package comes before the imports of its modules. Where many small packages lie side by side, each
with a module that imports the same large things, the large things would be imported once a package. A package that was
seen to execute itself alone and to change nothing but itself is therefore executed behind an import that its modules
share, and must then look as it looked before.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable
from itertools import islice
from types import MappingProxyType, ModuleType
from typing import Any

Snapshot = dict[str, dict[str, Any]]

#: What every import changes, and what a fork makes anew in its child.
_ALWAYS = {"sys": ("modules", "path_importer_cache"), "threading": ("_shutdown_locks", "_shutdown_locks_lock",
           "_active_limbo_lock", "_main_thread")}  # fmt: skip

#: So many things in a container are looked at.
_MOST = 300

_CONTAINERS = (list, dict, set, deque)
_PLAIN = (str, int, float, bool, bytes, type(None))


def snapshot() -> Snapshot:
    """What can be seen of the process at a glance: the names of every module, and how much lies in their containers."""
    out: Snapshot = {"": {"environ": dict(os.environ), "path": list(sys.path), "finders": list(sys.meta_path)}}
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType) and name.partition(".")[0] != "masquerade":
            skipped = _ALWAYS.get(name, ())
            out[name] = {key: _glance(value) for key, value in list(vars(module).items()) if key not in skipped}
    return out


def _glance(value: Any) -> Any:
    """What is looked at of a value: which one it is, what a container holds, and what a class or an object has.

    Nothing of the subject's is called: an object may answer for its own class.
    """
    kind = type(value)
    if kind in _CONTAINERS:
        return id(value), len(value), _held(value.values() if kind is dict else value)
    if kind in _PLAIN or issubclass(kind, ModuleType):
        return id(value)
    look = type.__getattribute__ if issubclass(kind, type) else object.__getattribute__
    try:
        space: Any = look(value, "__dict__")
    except Exception:  # it has none
        return id(value)
    return (id(value), _held(space.values())) if type(space) in (dict, MappingProxyType) else id(value)


def _held(values: Iterable[Any]) -> int:
    """A sum of what is held, in order, of the first few hundred."""
    return hash(tuple(map(id, islice(values, _MOST))))


def changed_only(package: str, before: Snapshot) -> bool:
    """Whether nothing differs from `before` but the package, and its name in the package above it."""
    parent, _, last = package.rpartition(".")
    now = snapshot()
    if now.keys() - before.keys() - {package}:
        return False
    for name, names in before.items():
        seen = now.get(name)
        if name == parent and seen is not None:
            seen.pop(last, None)
            names = {key: value for key, value in names.items() if key != last}
        if seen != names:
            return False
    return True


def look(package: str) -> str:
    """How an executed package looks: its names with plain values."""
    module = sys.modules.get(package)
    names = sorted(vars(module).items()) if module is not None else []
    return "\n".join(f"{key} = {value!r:.200}" for key, value in names if type(value) in _PLAIN)
