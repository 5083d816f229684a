"""What a process of a tree has done for all checks that go on from it: its steps, and what they did.

A step is an import. Its events are kept, and written into the log of each check that shares it, with the line of that
check's own module.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from mmap import mmap
from typing import Any, NamedTuple

from masquerade.fakes import lives
from masquerade.stage import child, supervise
from masquerade.stage.apart import look
from masquerade.stage.branch import descriptors, flush, native_threads, shared_memory
from masquerade.stage.dressed import Dressed, nobody
from masquerade.stage.finders import Finders
from masquerade.stage.integrity import seal
from masquerade.stage.steps import FILE, Step, code, is_of, rows_of_an_import
from masquerade.stage.units import NOTHING, Source, source_of
from masquerade.watch.recorder import encoder, recorder

_bootstrap: Any = sys.modules["_frozen_importlib"]

#: Bytes kept of what a shared import printed.
PRINTED = 16_384


class History(NamedTuple):
    """What a shared step did: its events, and what it printed."""

    step: Step
    events: tuple[bytes, ...]
    output: str


class Grown(Dressed):
    """A process that made steps, and goes on to make checks or further steps."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        child.take_signals()
        self.history: list[History] = []
        self._sources: dict[str, Source] = {}
        self._finders = Finders()
        self._looked_up: set[str] = set()
        #: Packages that keep to themselves, and how each looks; "" for one that does not.
        self._apart: dict[str, str] = {}
        self._forking = False
        self._threads = native_threads()
        self._prefix = encoder()(rows_of_an_import(recorder(lambda text: True, {"now": "import"}).here))[1:-1].encode()
        self._hook()
        self._intact = seal()

    @property
    def printed(self) -> str:
        """What all steps printed."""
        return "".join(shared.output for shared in self.history)

    def _grow(self, step: Step) -> bool:
        """Make `step` here. False where this process is not what a check could go on from."""
        events: list[bytes] = []
        kept = events.append
        self._current["now"] = recorder(lambda text: kept(text) is None, {"now": "import"}, self._origins)
        self._looked_up.clear()
        held, maps = descriptors(), shared_memory()
        output = os.memfd_create("masquerade-output")
        flush()
        streams = [os.dup(fd) for fd in (1, 2)]
        try:
            os.dup2(output, 1)
            os.dup2(output, 2)
            if step[0] == "package":
                importlib.import_module(step[1])
            else:
                exec(code(step), {"__name__": FILE, "__builtins__": __builtins__})
        except BaseException:
            return False
        finally:
            flush()
            for fd, stream in enumerate(streams, start=1):
                os.dup2(stream, fd)
                os.close(stream)
        size = os.lseek(output, 0, os.SEEK_END)
        printed = os.pread(output, PRINTED, max(0, size - PRINTED)).decode("utf-8", "replace")
        os.close(output)
        self._current["now"] = nobody(self._origins)
        if step[0] == "package" and self._apart.get(step[1]) not in (None, "", look(step[1])):
            return False
        threads = self._alive() > 0 or (native_threads() > self._threads and self._outlast_a_fork())
        if threads or descriptors() - held or supervise._children() or not self._intact() or shared_memory() - maps:
            return False
        if not self.faked and any(b'"kind":"touch"' in event for event in events):
            return False  # a real driver does not outlive a fork
        self.history.append(History(step, tuple(events), printed))
        gc.collect()
        gc.freeze()
        return True

    def _outlast_a_fork(self) -> bool:
        """Whether threads of C libraries go on. Those of a library that expects forks end at one, as OpenBLAS's do."""
        pid = self.fork()
        if not pid:
            child._leave(0)
        os.waitpid(pid, 0)
        return native_threads() > self._threads

    def _hook(self) -> None:
        """See which modules are asked for, and keep the tree's own forks from who asks to be told of forks."""
        search, register = _bootstrap._find_spec, os.register_at_fork
        looked_up = self._looked_up

        def _find_spec(name: str, path: Any, target: Any = None) -> Any:
            looked_up.add(name)
            return search(name, path, target)

        def quiet(function: Any) -> Any:
            return function if not callable(function) else lambda: None if self._forking else function()

        def register_at_fork(**functions: Any) -> None:
            register(**{when: quiet(function) for when, function in functions.items()})

        _bootstrap._find_spec = _find_spec
        os.register_at_fork = register_at_fork

    def fork(self) -> int:
        self._forking = True
        pid = os.fork()
        self._forking = False
        return pid

    # -- sources -----------------------------------------------------------------------------------------------------

    def _source(self, module: str) -> Source:
        source = self._sources.get(module)
        if source is None:
            source = self._sources[module] = source_of(module)
        return NOTHING if self._finders.answer_for(module) else source

    # -- events ----------------------------------------------------------------------------------------------------

    def _replayed(self, module: str) -> list[bytes]:
        """The events of all shared steps, as they are where `module` makes them itself."""
        encode = encoder()
        placeholder = encode([FILE, 1, "<module>", FILE]).encode()
        source = self._sources.get(module, NOTHING)
        out = []
        for shared in self.history:
            line = next((unit.line for unit in source.units if is_of(unit, shared.step)), 0)
            row = encode([source.file, line, "<module>", module]).encode()
            whole = self._prefix + b"," + row if self._prefix else row
            out += [event.replace(placeholder, whole) for event in shared.events]
        return out

    def enter(self, request: dict[str, Any]) -> None:
        """The path is the tree's."""

    def begin(self, append: child.Append, request: dict[str, Any]) -> None:
        for event in self._replayed(request["module"]):
            append(event)

    def leaf(self, request: dict[str, Any], memory: mmap) -> None:
        lives.move(os.getppid(), os.getpid())
        super().leaf(request, memory)
