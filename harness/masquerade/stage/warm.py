"""A server that is a machine: it wears the disguise itself, keeps modules that proved clean, and forks for each check.

Import work that modules share is paid once. A module that a check executed without any event is executed once more here
and kept: the module, what its own execution needed, and what it changed in the namespaces of other modules. In later
checks sys.modules starts as bare as in a fresh fork; a kept module that the subject imports is put back instead of
being executed, with all that its execution would have loaded, in its place in the order of imports. So what a check
finds loaded, and which imports it really makes, is what a fresh fork would see. A module with an event is never kept:
it is executed in each check that imports it.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import os
import sys
import threading
from collections.abc import Iterable
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from masquerade.stage.dressed import Dressed
from masquerade.stage.places import where_things_lie
from masquerade.watch.recorder import HERE

_MISSING = object()
_bootstrap: Any = sys.modules["_frozen_importlib"]

#: Kinds that are nobody's fault where torch's own code acts, or the standard library for an innocent question.
_RUNTIMES_OWN = frozenset({"env-mutation", "subprocess", "thread", "native-load"})
_STDLIB_HANDS = ("os.py", "subprocess.py", "threading.py", "multiprocessing", "concurrent", "_collections_abc.py")
_INNOCENT = ("platform", "ctypes.util", "uuid", "sysconfig")


class Kept(NamedTuple):
    """A module that proved clean, and how to put it back.

    needs: modules that its execution loads. own: its namespace afterwards. changes: (module, name, value) that it set
    in other kept modules. extra: (name, object, namespace or None) that came into sys.modules with it and cannot come
    alone. queries: management libraries that it asked.
    """

    module: ModuleType
    needs: tuple[str, ...]
    own: dict[str, Any]
    changes: tuple[tuple[str, str, Any], ...]
    extra: tuple[tuple[str, Any, dict[str, Any] | None], ...]
    queries: tuple[str, ...]


class _NotAlone(BaseException):
    """A module that is to be kept needs another one that is not."""


class _PutBack:
    """The loader of a kept module."""

    def __init__(self, warm: Warm, name: str) -> None:
        self.warm, self.name = warm, name

    def create_module(self, spec: Any) -> ModuleType:
        return self.warm.kept[self.name].module

    def exec_module(self, module: ModuleType) -> None:
        self.warm.put_back(self.name)


class Warm(Dressed):
    """The state of one warm server."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.kept: dict[str, Kept] = {}
        self.refused: set[str] = set(request.get("refused", ()))
        #: Modules that can only be loaded as a part of another one: a cycle that was entered elsewhere.
        self.parts: set[str] = set()
        self.executing: list[str] = []
        #: Modules that asked for one that was still being executed, or lie between the two: they come with that one.
        self.dependent: set[str] = set()
        #: For each module that is being executed, what was executed below it.
        self.inside: list[list[str]] = []
        #: Modules that can be kept, with what was executed below them, in the order in which they were done.
        self.executed: list[tuple[str, list[str]]] = []
        #: The modules that are being learnt, with what was executed below them.
        self.order: tuple[tuple[str, tuple[str, ...]], ...] = ()
        #: What may be executed while a module is kept; None outside that.
        self.allowed: frozenset[str] | None = None
        self.dirty: set[str] = set()
        self.queries: list[str] = []
        self.flat, self.started = False, 0
        self._shadows: dict[str, dict[str, Any]] | None = None
        self.tainted = False
        where = where_things_lie()
        self._torch = where["torch_folder"] + os.sep if where["torch_folder"] else ""
        self._beside = (*HERE, *(f"{folder}{os.sep}{name}" for folder in where["stdlib"] for name in _STDLIB_HANDS))
        super().__init__(request)
        self._base = frozenset(sys.modules)
        self._hook_imports()
        self._threads = _native_threads()

    # -- events ----------------------------------------------------------------------------------------------------

    def noted(self, kind: str, what: str, more: dict[str, Any]) -> None:
        if kind == "touch" and more.get("level") == "queried":
            self.queries.append(what)
        elif not (kind in _RUNTIMES_OWN and self._runtime_acts()):
            self.tainted = True
            self.dirty.update(self.executing or [name for name, _ in self.executed])

    def _runtime_acts(self) -> bool:
        """Whether the innermost frame that is neither masquerade's nor the standard library's is torch's."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if frame.f_globals.get("__name__") in _INNOCENT:
                return True
            if not file.startswith(self._beside) and not file.startswith("<frozen"):
                return bool(self._torch) and file.startswith(self._torch)
            frame = frame.f_back
        return False

    # -- imports ---------------------------------------------------------------------------------------------------

    def _hook_imports(self) -> None:
        """Serve kept modules below the import statement, and follow what is executed."""
        search, load = _bootstrap._find_spec, _bootstrap._load_unlocked

        def _find_spec(name: str, path: Any, target: Any = None) -> Any:
            if name in self.kept:
                return importlib.machinery.ModuleSpec(name, _PutBack(self, name))  # type: ignore[arg-type]
            if name in self.parts:
                self.flat = True
            return search(name, path, target)

        def _load_unlocked(spec: Any) -> Any:
            if isinstance(spec.loader, _PutBack):
                return load(spec)
            name = spec.name
            if self.allowed is not None and name not in self.allowed:
                raise _NotAlone(name)
            for place, running in enumerate(self.executing):
                if name.startswith(running + "."):
                    # Its package is being executed and is always first: this one, and who asks for it, come with that.
                    self.dependent.update(self.executing[place + 1 :], [name])
                    break
            self.started += 1
            self.executing.append(name)
            self.inside.append([])
            threads = _native_threads() if isinstance(spec.loader, importlib.machinery.ExtensionFileLoader) else 0
            try:
                module = load(spec)
            except BaseException:
                tried = self.inside.pop()
                self.executing.pop()
                if self.inside:
                    self.inside[-1] += [*tried, name]  # the import of an optional module: it will be tried again
                raise
            if threads and _native_threads() > threads:
                self.dirty.update(self.executing)  # a library with threads of its own does not outlive a fork
            below = self.inside.pop()
            self.executing.pop()
            if name not in self.dependent:
                self.executed.append((name, below))
            if self.inside:
                self.inside[-1] += [*below, name]
            return module

        wait_for = _bootstrap._lock_unlock_module

        def _lock_unlock_module(name: str) -> None:
            # Called for an import of a module that is still being executed: a cycle.
            if name in self.executing:
                self.dependent.update(self.executing[self.executing.index(name) + 1 :])
            wait_for(name)

        _bootstrap._find_spec, _bootstrap._load_unlocked = _find_spec, _load_unlocked
        _bootstrap._lock_unlock_module = _lock_unlock_module

    def _loaded(self) -> Iterable[str]:
        """Names in sys.modules that a fresh fork would not hold. torch and the standard library stay once loaded."""
        for name in list(sys.modules):
            if name not in self._base and self._strippable(name):
                yield name

    def _strippable(self, name: str) -> bool:
        top = name.partition(".")[0]
        return top not in sys.stdlib_module_names and top not in ("torch", "masquerade")

    def strip(self) -> None:
        """Make sys.modules what it is in a fresh fork."""
        for name in list(self._loaded()):
            del sys.modules[name]

    def put_back(self, name: str) -> None:
        """Load a kept module and all that its execution loads."""
        kept = self.kept[name]
        for needed in kept.needs:
            if needed not in sys.modules:
                importlib.import_module(needed)
        for extra, thing, namespace in kept.extra:
            if extra not in sys.modules:
                sys.modules[extra] = thing
                if namespace is not None:
                    self._reset(extra, thing, namespace)
        self._reset(name, kept.module, kept.own)
        for other, key, value in kept.changes:
            self._set(other, key, value)
        parent, _, last = name.rpartition(".")
        if parent in self.kept:
            # The import system binds it too, but only after this, and a later change would be taken for somebody's.
            self._set(parent, last, kept.module)
        for what in kept.queries:
            self._current["now"].note("touch", what, level="queried")

    def _reset(self, name: str, module: Any, own: dict[str, Any]) -> None:
        namespace = vars(module)
        namespace.clear()
        namespace.update(own)
        if self._shadows is not None:
            self._shadows[name] = dict(own)

    def _set(self, other: str, key: str, value: Any) -> None:
        spaces = [vars(self.kept[other].module)]
        if self._shadows is not None and other in self._shadows:
            spaces.append(self._shadows[other])
        for space in spaces:
            if value is _MISSING:
                space.pop(key, None)
            else:
                space[key] = value

    # -- keeping ---------------------------------------------------------------------------------------------------

    def keep(self, name: str, below: Iterable[str]) -> bool:
        """Execute a module that proved clean, and what comes with it, and keep it. False if that spoilt this process.

        A module that needs one which could not be kept is not kept either, and not executed.
        """
        alone = {each for each, _ in self.order}
        missing = [each for each in below if each in alone and each not in self.kept and self._strippable(each)]
        if missing:
            self.refused.add(name)
            return True
        self.clear()
        self.tainted, self.flat, self._shadows = False, False, {}
        self.allowed = frozenset([name, *below])
        try:
            importlib.import_module(name)
        except _NotAlone:
            # Where nothing but the beginning of this module was executed, nothing is spoilt.
            self.refused.add(name)
            return self.started <= 1 and not self.tainted
        except BaseException:
            return False
        finally:
            self.allowed = None
        after = [loaded for loaded in self._loaded() if loaded != name]
        if self.tainted or self.flat or name not in sys.modules or name in self.kept:
            return False
        module = sys.modules[name]
        if not isinstance(module, ModuleType) or _native_threads() > self._threads:
            return False
        changes: list[tuple[str, str, Any]] = []
        for other, shadow in self._shadows.items():
            if other not in self.kept:
                continue
            namespace = vars(self.kept[other].module)
            changes += [(other, k, v) for k, v in namespace.items() if shadow.get(k, _MISSING) is not v]
            changes += [(other, k, _MISSING) for k in shadow if k not in namespace]
        extra = []
        for loaded in after:
            if loaded in self.kept:
                continue
            thing = sys.modules[loaded]
            extra.append((loaded, thing, dict(vars(thing)) if isinstance(thing, ModuleType) else None))
            if not loaded.startswith(name + "."):
                self.parts.add(loaded)  # with its package put back, a module below it is there before anybody asks
        needs = tuple(loaded for loaded in after if loaded in self.kept)
        own = dict(vars(module))
        self.kept[name] = Kept(module, needs, own, tuple(changes), tuple(extra), tuple(dict.fromkeys(self.queries)))
        self.parts.discard(name)
        self._shadows = None
        return True

    def clear(self) -> None:
        """Forget what was executed so far."""
        for state in (self.executing, self.inside, self.executed, self.queries):
            state.clear()
        self.dependent.clear()
        self.dirty.clear()
        self.flat, self.started = False, 0

    def load(self, name: str) -> bool:
        """Execute a module of torch or of the standard library, which stays loaded. False where that makes an event."""
        self.clear()
        self.tainted = False
        try:
            importlib.import_module(name)
        except BaseException:
            self.refused.add(name)
        return not self.tainted and _native_threads() <= self._threads

    def learn(self, executed: Iterable[tuple[str, list[str]]], dirty: Iterable[str], root: str) -> str:
        """Keep what a check executed below its own module. Gives the module that spoilt this process, or ""."""
        bad = set(dirty)
        self.order = tuple((name, tuple(below)) for name, below in executed)
        for name, below in self.order:
            if name == root or name in bad or name in self.kept or name in self.refused or name in self.parts:
                continue
            if not self._strippable(name):
                if name not in sys.modules and not self.load(name):
                    return name
                continue
            self.strip()
            if not self.keep(name, below):
                return name
        self.strip()
        gc.freeze()
        return ""

    # -- checks ----------------------------------------------------------------------------------------------------

    def enter(self, request: dict[str, Any]) -> None:
        """The path is the server's too: kept modules come from it."""
        self.clear()

    def also(self) -> dict[str, Any]:
        return {"executed": list(self.executed), "dirty": sorted(self.dirty), "flat": self.flat}


def _native_threads() -> int:
    """Threads of this process: a fork copies one alone."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()
