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
from collections.abc import Callable, Iterable
from itertools import islice
from types import GetSetDescriptorType, ModuleType
from typing import Any, NamedTuple


class Snapshot(NamedTuple):
    """What can be seen of the process at a glance; objects are told by their addresses."""

    #: Environment, path and finders.
    process: tuple[Any, ...]
    #: Module -> its names -> what they stand for.
    names: dict[str, dict[str, int]]
    #: A container, class or object that a module names -> what lies in it. Each is looked at once.
    inside: dict[int, Any]


#: What every import changes, and what a fork makes anew in its child.
_ALWAYS = {"sys": ("modules", "path_importer_cache"), "threading": ("_shutdown_locks", "_shutdown_locks_lock",
           "_active_limbo_lock", "_main_thread")}  # fmt: skip

#: So many things in a container are looked at.
_MOST = 300

_CONTAINERS = (list, dict, set, deque)
_PLAIN = (str, int, float, bool, bytes, type(None))

#: The address of an object, turned round; `id` would tell every audit hook.
_address: Any = object.__hash__

#: Gives the attributes of a value.
_Getter = Callable[[Any], Any]

_space_of_type: Any = type.__dict__["__dict__"].__get__
_bases_of_type: Any = type.__dict__["__mro__"].__get__


def snapshot() -> Snapshot:
    """How the process looks now."""
    names: dict[str, dict[str, int]] = {}
    values: dict[int, Any] = {}
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType) and name.partition(".")[0] != "masquerade":
            skipped = _ALWAYS.get(name, ())
            space = {key: value for key, value in vars(module).items() if key not in skipped}
            ids = list(map(_address, space.values()))
            names[name] = dict(zip(space, ids, strict=True))
            values.update(zip(ids, space.values(), strict=True))
    getters: dict[type, _Getter | None] = {}
    inside = {key: found for key, value in values.items() if (found := _inside(value, getters)) is not None}
    return Snapshot((dict(os.environ), list(sys.path), list(sys.meta_path)), names, inside)


def _inside(value: Any, getters: dict[type, _Getter | None]) -> Any:
    """What a container holds, or what a class or an object has; None where nothing can be looked at.

    Nothing of the subject's is called: an object may answer for its own class.
    """
    kind = type(value)
    if kind in _CONTAINERS:
        return len(value), _held(value.values() if kind is dict else value)
    try:
        get = getters[kind]
    except KeyError:
        get = getters[kind] = _getter(kind)
    if get is None:
        return None
    space = get(value)
    return _held(space.values()) if space else 0


def _getter(kind: type) -> _Getter | None:
    """What gives the attributes of values of `kind`; None for plain values, modules, and what has none."""
    if kind in _PLAIN or issubclass(kind, ModuleType):
        return None
    if issubclass(kind, type):
        return _space_of_type  # type: ignore[no-any-return]
    for base in _bases_of_type(kind):
        found = _space_of_type(base).get("__dict__")
        if type(found) is GetSetDescriptorType:
            return found.__get__
    return None


def _held(values: Iterable[Any]) -> int:
    """What stands for the first few hundred of what is held, in order."""
    return hash(tuple(map(_address, islice(values, _MOST))))


def changed_only(package: str, before: Snapshot) -> bool:
    """Whether nothing differs from `before` but the package, and its name in the package above it."""
    parent, _, last = package.rpartition(".")
    now = snapshot()
    if now.process != before.process or now.names.keys() - before.names.keys() - {package}:
        return False
    for name, names in before.names.items():
        seen = now.names.get(name)
        if name == parent and seen is not None:
            seen.pop(last, None)
            names = {key: value for key, value in names.items() if key != last}
        if seen != names:
            return False
    return all(now.inside.get(key) == found for key, found in before.inside.items())


def look(package: str) -> str:
    """How an executed package looks: its names with plain values."""
    module = sys.modules.get(package)
    names = sorted(vars(module).items()) if module is not None else []
    return "\n".join(f"{key} = {value!r:.200}" for key, value in names if type(value) in _PLAIN)
