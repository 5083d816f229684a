"""Which modules a body asks for, and which bodies are executed."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
import time
from _thread import get_ident
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from masquerade.stage.trace.attributes import maker, space_of
from masquerade.stage.trace.failures import Failure, told
from masquerade.stage.trace.ops import Body, Op
from masquerade.stage.trace.reach import with_above
from masquerade.stage.trace.tracer import Tracer

_bootstrap: Any = sys.modules["_frozen_importlib"]


class Imports:
    """Hooks in the import system. `switched(left, entered)` is called where another body goes on."""

    def __init__(self, tracer: Tracer, switched: Callable[[Body | None, Body | None], None]) -> None:
        self.tracer = tracer
        self._switched = switched
        #: Modules that were here before: everybody has them.
        self._before = frozenset(sys.modules)
        self._seen, self._count = set(sys.modules), len(sys.modules)
        #: Modules that somebody put there, without an import.
        self._put: set[str] = set()
        #: Where packages look for what is below them, as they themselves say.
        self._folders: dict[str, frozenset[str]] = {}
        self._path, self._added = set(map(str, sys.path)), set[str]()
        #: How modules failed when they were first executed; None where that cannot be kept.
        self._failures: dict[str, Failure | None] = {}
        #: Which of them have failed since the last `begin`.
        self._failed: set[str] = set()

    def begin(self) -> None:
        """What follows is another process's doing: it finds nothing that was left by what failed."""
        self._failed.clear()

    def install(self) -> None:
        """Hang them in."""
        load, find, ask = _bootstrap._load_unlocked, _bootstrap._find_and_load, builtins.__import__
        stacks, modules, getframe = self.tracer.stacks, sys.modules, sys._getframe
        spec_of = importlib.util.find_spec
        package_of, resolved = _bootstrap._calc___package__, _bootstrap._resolve_name

        def _load_unlocked(spec: Any) -> Any:
            stack = stacks.setdefault(get_ident(), [])
            if any(body.name == spec.name for body in stack):  # a module that loads itself once more
                return load(spec)
            return executed(spec, stack)

        def executed(spec: Any, stack: list[Body]) -> Any:
            outer, body = stack[-1] if stack else None, self.tracer.trace.begun(str(spec.name))
            self._found_by(spec)
            if outer is not None:
                outer.at = self.tracer.line()
            self._switched(outer, body)
            self._seen.add(body.name)
            started = time.perf_counter()
            stack.append(body)
            try:
                return load(spec)
            except BaseException as error:
                first = self._fails(body, error)
                if first is None:
                    raise
            finally:
                self._look_around(body)
                with suppress(Exception):
                    self._folders[body.name] = frozenset(sys.modules[body.name].__path__)
                del stack[stack.index(body) :]
                took = time.perf_counter() - started
                body.seconds += took
                if outer is not None:
                    outer.seconds -= took
                self._switched(body, outer)
                self.tracer.trace.ended(body)
            # What the first time left may end it elsewhere now: in a process of its own, this is the first time.
            try:
                raise first
            finally:
                del first  # which holds this frame

        def _find_and_load(name: str, import_: Any) -> Any:
            self._asks(name, getframe(1))
            try:
                self._without_what_failed(name, find)
                return find(name, import_)
            except BaseException as error:
                self._in_vain(name, error)
                raise

        def find_spec(name: str, package: str | None = None) -> Any:
            whole = ""
            with suppress(Exception):  # what the real one will raise
                whole = importlib.util.resolve_name(name, package)
                above = whole.rpartition(".")[0]
                if above and stacks.get(get_ident()):
                    self._asks(above, getframe(1))
            try:
                self._without_what_failed(whole, find)
            except BaseException as error:
                self._in_vain(whole.rpartition(".")[0], error)
                raise
            return spec_of(name, package)

        def __import__(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
            stack = stacks.get(get_ident())
            if not stack and self.tracer.starter() is None:
                return ask(name, globals, locals, fromlist, level)
            try:
                whole = name if not level else resolved(name, package_of(globals or {}), level)
                names = tuple(fromlist or ())
                if not stack:
                    self._asks(whole, getframe(1), names)
                    return ask(name, globals, locals, fromlist, level)
                known = (whole, names) in stack[-1].asked and whole in modules
            except Exception:  # what ask will raise
                return ask(name, globals, locals, fromlist, level)
            if known:
                return ask(name, globals, locals, fromlist, level)
            stack[-1].asked[whole, names] = None
            self._executes(stack[-1], getframe(1).f_code)
            self._asks(whole, getframe(1), names)
            try:
                self._without_what_failed(whole, find)
            except BaseException as error:
                self._in_vain(whole, error)
                raise
            if not names:
                return ask(name, globals, locals, fromlist, level)
            if whole not in modules:
                ask(name, globals, locals, ("__name__",), level)
            return self._from(whole, names, getframe(1), lambda: ask(name, globals, locals, fromlist, level))

        self.tracer.marker = executed.__code__
        _bootstrap._load_unlocked, _bootstrap._find_and_load = _load_unlocked, _find_and_load
        builtins.__import__, importlib.util.find_spec = __import__, find_spec

    def _fails(self, body: Body, error: BaseException) -> BaseException | None:
        """A body fails with `error`. Gives how it failed first, where that was in another way: others get this."""
        name, failure = body.name, None
        with suppress(BaseException):  # a class whose errors cannot be made
            failure = Failure(error)
        body.failed = failure.told if failure is not None else told(error)
        self._failed.add(name)
        if name not in self._failures:
            self._failures[name] = failure
            return None
        first = self._failures[name]
        if first is None or failure is None:
            self.tracer.trace.unsteady.setdefault(name, "how it failed first cannot be told again")
            return None
        return first.again(error) if first.told != failure.told else None

    def _without_what_failed(self, name: str, find: Callable[[str, Any], Any]) -> None:
        """A module that was left by a package which failed is not there for others: they execute the package first."""
        if name in sys.modules:
            for above in with_above(name)[:-1]:
                if above in self._failures and above not in self._failed and above not in sys.modules:
                    find(above, _bootstrap._gcd_import)

    def _in_vain(self, name: str, error: BaseException) -> None:
        """A body asked for a module and did not get it."""
        body = self.tracer.body()
        op = body.asked.get(name) if body is not None else None
        if body is not None and op is not None:
            op.failed = True
            op.missing = isinstance(error, ModuleNotFoundError) and error.name == name
            above = with_above(name)[:-1]
            op.above = next((one for one in above if one in self._failed and one not in sys.modules), "")
            for one in above if op.above else ():  # what was asked for on the way to it
                later = body.asked.get(one)
                if later is not None and later in body.ops[body.ops.index(op) :]:
                    later.what = later.above = ""
                    del body.asked[one]

    @staticmethod
    def _executes(body: Body, code: CodeType) -> None:
        if body.code is None and code.co_name == "<module>":
            body.code = code

    def _found_by(self, spec: Any) -> None:
        """A module that is found in a folder which somebody has added to a path is found by that."""
        origin = getattr(spec, "origin", None)
        if not isinstance(origin, str):
            return
        folder = os.path.dirname(origin)
        folder = os.path.dirname(folder) if spec.submodule_search_locations is not None else folder
        package = spec.name.rpartition(".")[0]
        if not package and folder in self._added:
            self.tracer.trace.by_path.add(spec.name)
            self.tracer.state("get", ("path", folder), 1, sys._getframe(2))
        elif folder in _path_of(package) and folder not in self._folders.get(package, (folder,)):
            self.tracer.trace.unsteady.setdefault(spec.name, f"somebody has added its folder to the path of {package}")

    def _asks(self, name: str, frame: FrameType, names: tuple[str, ...] = ()) -> None:
        """A body asks for module `name`, and wants `names` of it."""
        if name in self._before:
            return
        body = self.tracer.body()
        if body is not None and name in body.asked:
            known = body.asked[name]
            if known is not None:
                known.names += names
            if known is None or not known.failed or not (known.above or name in self._failures):
                return
        if body is not None:
            self._look_around(body)
        found, rows, chain = self.tracer.where(frame, follow=True)
        op = Op("import", name, rows, chain)
        started = self.tracer.starter()
        if found is None and started is not None:
            (found, op.origin), op.chain = started, ()
        if found is None or found.name == name:
            return
        found.asked[name], op.names = op, names
        if rows and rows[-1] != 0:
            op.rows = [*rows, 0]
        bodies = (other for stack in self.tracer.stacks.values() for other in stack)
        op.state = next((other.at for other in bodies if other.name == name), None)
        found.half |= op.state is not None
        self.tracer.trace.took(found, op)
        for above in with_above(name):
            if above in self._put:
                self.tracer.state("get", ("module", above), 1, frame)

    def _from(self, whole: str, names: tuple[str, ...], frame: FrameType, go: Callable[[], Any]) -> Any:
        """`from whole import names`: also submodules, and what the module makes when it is first asked."""
        modules, blocks = sys.modules, self.tracer.trace.blocks
        module = modules.get(whole)
        space = space_of(module)
        if "*" in names:
            names = tuple(str(name) for name in space.get("__all__", ()))
        for name in names:
            if name in space and (key := maker(self.tracer, module, name)) and key in blocks:
                self.tracer.called(key, frame)
        found = go()
        for name in names:
            if f"{whole}.{name}" in modules:
                self._asks(f"{whole}.{name}", frame)
        return found

    def _look_around(self, body: Body) -> None:
        """What the body has put by itself where others find it: folders of the path, and modules."""
        for entry in sys.path:
            if entry not in self._path and isinstance(entry, str):
                self._path.add(entry)
                self._added.add(entry)
                self.tracer.trace.took(body, Op("set", (("path", entry), 1), []))
        if len(sys.modules) == self._count:
            return
        self._count = len(sys.modules)
        for name in sys.modules.keys() - self._seen:
            self._seen.add(name)
            self._put.add(name)
            self.tracer.trace.took(body, Op("set", (("module", name), 1), []))


def _path_of(package: str) -> list[str]:
    """Where a package looks now."""
    with suppress(Exception):
        return list(sys.modules[package].__path__)
    return []
