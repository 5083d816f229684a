"""Hooks in the import system: call back after a module has been executed, hide modules, serve stand-ins for others.

All of it wraps two functions: `PathFinder.find_spec`, on the class, so that it is met by a subject which rebuilds
sys.meta_path from the three standard finders and by code that asks PathFinder itself; and the `_find_spec` below the
import statement, so that what other finders find (editable installs) is treated alike. A search executes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]
MakeSpec = Callable[[str], "ModuleSpec | None"]

_bootstrap: Any = sys.modules["_frozen_importlib"]
_find_real: Any = PathFinder.find_spec
_IMPORTLIB: str = _find_real.__code__.co_filename

_callbacks: dict[str, list[Callback]] = {}
_hidden: set[str] = set()
_served: dict[str, tuple[MakeSpec, bool]] = {}
_replaced: dict[str, MakeSpec] = {}


def on_import(name: str, callback: Callback) -> None:
    """Call `callback(module)` right after module `name` has been executed, each time (a reload executes it again).

    At once where the module is loaded already. Built-in and frozen modules are not followed: they are always there.
    """
    _install()
    _callbacks.setdefault(name, []).append(callback)
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        callback(module)


def hide(names: Iterable[str]) -> None:
    """Make modules absent: no spec, ModuleNotFoundError on import. Such as are loaded already are forgotten."""
    _install()
    for name in names:
        _hidden.add(name)
        forget(name)


def hidden() -> frozenset[str]:
    """The names that are hidden now."""
    return frozenset(_hidden)


def serve(name: str, make_spec: MakeSpec, *, instead: bool = False) -> None:
    """Let `make_spec(full_name)` answer for top-level `name` and below where nothing is found, or `instead` of what is.

    For a dotted name make_spec is asked first and may answer None: its parent may be the real package.
    """
    _install()
    _served[name] = make_spec, instead
    _hidden.discard(name)
    if instead:
        forget(name)


def replace(name: str, make_spec: MakeSpec) -> None:
    """Let `make_spec(full_name)` answer for module `name` and all below it, whatever is found there."""
    _install()
    _replaced[name] = make_spec
    forget(name)
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        vars(sys.modules[parent]).pop(last, None)


def installed(name: str) -> bool:
    """Whether the environment itself has a top-level module, hidden or not."""
    spec = _find_real(name)
    return spec is not None and not _is_folder(spec)


def forget(name: str) -> None:
    """Take a module and all below it out of sys.modules."""
    # Only a package is worth a look at all names: in a forked child each of them costs a page of memory.
    if hasattr(sys.modules.pop(name, None), "__path__"):
        for known in [key for key in sys.modules if key.startswith(name + ".")]:
            del sys.modules[known]


def like_importlib(function: Any) -> None:
    """Give a function importlib's file name: tracebacks and warnings then pass over it as over importlib itself."""
    function.__code__ = function.__code__.replace(co_filename=_IMPORTLIB)


class _ThenCallBack:
    """Stands in a loader's own attribute `exec_module`: the loader keeps its type, and all else that it can do."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.exec_module = loader, loader.exec_module

    def __call__(self, module: ModuleType) -> None:
        name = getattr(module.__spec__, "name", module.__name__)
        registered = sys.modules.get(name) is module
        self.exec_module(module)
        if registered:  # some modules put another object in their own place
            module = sys.modules.get(name, module)
        for callback in tuple(_callbacks.get(name, ())):
            callback(module)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as what it stands for, so that they do in a process without this module."""
        plain = object.__new__(type(self.loader))
        plain.__dict__.update({key: value for key, value in vars(self.loader).items() if key != "exec_module"})
        return getattr, (plain, "exec_module")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ThenCallBack)  # the loaders' own fields decide whether two specs are equal

    def __hash__(self) -> int:
        return hash(_ThenCallBack)


like_importlib(_ThenCallBack.__call__)


def _follow(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Have the callbacks run when the module of this spec has been executed."""
    if spec is not None and spec.name in _callbacks:
        loader: Any = spec.loader
        # The loader of built-in and frozen modules is a class that all of them share; a namespace package has none.
        fields = None if isinstance(loader, type) else getattr(loader, "__dict__", None)
        if fields is not None and not isinstance(fields.get("exec_module"), _ThenCallBack):
            loader.exec_module = _ThenCallBack(loader)
    return spec


def _is_folder(spec: ModuleSpec) -> bool:
    """Whether a spec is a namespace package's: a folder without __init__.py."""
    return spec.origin is None and spec.submodule_search_locations is not None


def _replacement(name: str) -> MakeSpec | None:
    """What makes the spec of a module that is replaced, or lies below one that is."""
    above = name if _replaced else ""
    while above:
        if above in _replaced:
            return _replaced[above]
        above = above.rpartition(".")[0]
    return None


def _search(original: Callable[[], ModuleSpec | None], name: str) -> ModuleSpec | None:
    if name in _hidden:
        return None
    if (replacement := _replacement(name)) is not None:
        return _follow(replacement(name))
    top, dot, _ = name.partition(".")
    if top not in _served:
        return _follow(original())
    make_spec, instead = _served[top]
    spec = make_spec(name) if instead or dot else None
    if spec is None:
        spec = original()
        # An installed package wins over a folder of its name somewhere on the path, and so does a stand-in.
        if not dot and (spec is None or _is_folder(spec)):
            spec = make_spec(name) or spec
    return _follow(spec)


def _install() -> None:
    """Wrap both functions, once in a process."""
    if PathFinder.find_spec.__module__ == __name__:
        return
    found, below = _find_real, _bootstrap._find_spec

    def find_spec(cls: type, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Try to find a spec for 'fullname' on sys.path or 'path'."""
        return _search(lambda: found(fullname, path, target), fullname)

    def _find_spec(name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Find a module's spec."""
        if name in _hidden:
            return None
        replacement = _replacement(name)
        return _follow(below(name, path, target) if replacement is None else replacement(name))

    PathFinder.find_spec = classmethod(find_spec)  # type: ignore[method-assign,assignment]
    _bootstrap._find_spec = _find_spec
    util = sys.modules.get("importlib.util")
    if util is not None:  # it holds the function by name
        util._find_spec = _find_spec  # type: ignore[attr-defined]
