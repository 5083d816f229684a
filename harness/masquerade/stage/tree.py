"""Many modules on one machine, where imports that they share are made once: a tree of processes.

A module's import begins with its packages and with the import statements at its head. Modules that begin alike share
that beginning: a process makes it once, and forks for each of them. So what a check finds in its process is what a fork
of its own would find there, to the order in which modules were loaded and to what they did to each other. The events of
the shared part are written into each check's log, with the line of its own module.

Where a beginning cannot be shared, each check makes it itself: it fails, leaves threads, processes or open files
behind, imports the module that is to be checked, or changes what this process itself does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from mmap import mmap
from typing import Any, NamedTuple

from masquerade.fakes import lives
from masquerade.stage import child, supervise, wire
from masquerade.stage.apart import Snapshot, changed_only, look, snapshot
from masquerade.stage.branch import descriptors, ended, flush, native_threads, shared_memory
from masquerade.stage.dressed import Dressed, nobody
from masquerade.stage.finders import Finders
from masquerade.stage.integrity import seal
from masquerade.stage.steps import FILE, Step, code, has, is_of, loaded
from masquerade.stage.units import NOTHING, Source, source_of
from masquerade.watch.reads import packed
from masquerade.watch.recorder import encoder, recorder

_bootstrap: Any = sys.modules["_frozen_importlib"]

#: So many packages side by side are worth a look whether they keep to themselves.
_SIDE_BY_SIDE = 4

#: Seconds that the beginning of an import may take, of those that a check has.
_SHARE = 0.5

#: Bytes kept of what a shared import printed.
_PRINTED = 16_384

Answer = Callable[[dict[str, Any], Any], dict[str, Any]]


class Item(NamedTuple):
    """A check that is still to be made."""

    id: str
    module: str
    request: dict[str, Any]


class History(NamedTuple):
    """What a shared step did: its events, and what it printed."""

    step: Step
    events: tuple[bytes, ...]
    output: str


class Tree(Dressed):
    """One process of the tree. `answer(request, self)` runs a check in a fork of it; `control` is where replies go."""

    def __init__(self, request: dict[str, Any], control: socket.socket, answer: Answer) -> None:
        super().__init__(request)
        child.take_signals()
        self.control, self._answer = control, answer
        self.timeout = float(request.get("timeout", 60.0)) * _SHARE
        self.history: list[History] = []
        self._sources: dict[str, Source] = {}
        self._looked_up: set[str] = set()
        self._finders = Finders()
        #: Packages that keep to themselves, and how each looks; "" for one that does not.
        self._apart: dict[str, str] = {}
        self._forking = False
        #: What the steps so far read is told once, under this name; each check tells what it read beyond that.
        self._base, self._branches, self._telling = "", 0, bool(request.get("reads"))
        self._threads = native_threads()
        self._prefix = self._rows_of_an_import()
        self._hook()
        self._intact = seal()

    # -- the tree --------------------------------------------------------------------------------------------------

    def visit(self, items: list[Item]) -> list[Item]:
        """Make all checks of `items`. Gives those that must be made before the last step."""
        back: list[Item] = []
        # A package's import may load the module, as it does before any import of that module. An import statement of
        # the module's own that comes back to it finds it half made.
        round_about = self._looked_up if self.history and self.history[-1].step[0] != "package" else ()
        self._finders.ask([*self._sources, *(item.module for item in items)], self._in_a_fork)
        groups: dict[Step | None, list[Item]] = defaultdict(list)
        for item in items:
            if item.module in round_about:
                back.append(item)
            else:
                groups[self._next(item)].append(item)
        for step, group in self._with_packages_later(groups).items():
            later = step is not None and step[0] == "package" and self._apart.get(step[1], "") != ""
            left = group if step is None or (len(group) < 2 and not later) else self._branch(step, group)
            for item in left:
                if later:
                    wire.send(self.control, {"flat": item.id})
                else:
                    self._check(item)
        return back

    def _with_packages_later(self, groups: Mapping[Step | None, list[Item]]) -> Mapping[Step | None, list[Item]]:
        """`groups`, where packages side by side that keep to themselves come behind the imports that they share."""
        packages = [step[1] for step in groups if step is not None and step[0] == "package"]
        if len(packages) < _SIDE_BY_SIDE:
            return groups
        before = None
        for package in packages:
            if package not in self._apart:
                before = before or snapshot()
                self._apart[package] = self._try_apart(package, before)
        out: dict[Step | None, list[Item]] = defaultdict(list)
        for step, group in groups.items():
            for item in group:
                out[self._next(item) if step is not None and step[0] == "package" else step].append(item)
        for step, group in list(out.items()):
            if step is not None and step[0] != "package":
                above = {item.module.rpartition(".")[0] for item in group}
                package = min(above)
                if len(above) == 1 and not loaded(package):  # shared within one package alone: in its natural order
                    out["package", package] += out.pop(step)
        return out

    def _try_apart(self, package: str, before: Snapshot) -> str:
        """How `package` looks when it is executed now; "" where it does not keep to itself."""

        def tried() -> str:
            if not self._grow(("package", package)) or self.history[-1].events or not changed_only(package, before):
                return ""
            return look(package) or " "

        return str(self._in_a_fork(tried) or "")

    def _next(self, item: Item) -> Step | None:
        """The first step of the item's import that would do anything here; None where its own code comes next."""
        parts = item.module.split(".")
        for length in range(1, len(parts)):
            package = ".".join(parts[:length])
            if not loaded(package):
                if length < len(parts) - 1 or not self._apart.get(package):
                    return "package", package
                # Behind what the module imports from elsewhere.
                found = self._next_unit(item, package)
                return found if found is not None else ("package", package)
        return None if item.module in sys.modules else self._next_unit(item)

    def _next_unit(self, item: Item, later: str = "") -> Step | None:
        """The first import at the head of the item's module that would do anything. Package `later` is not loaded yet.

        None where the module's own code comes next, or something of that package.
        """
        for unit in self._source(item.module).units:
            if later and (unit.module + ".").startswith(later + "."):
                return None
            if not loaded(unit.module):
                return "import", unit.module
            if not has(sys.modules[unit.module], unit.names):
                step = ("from", unit.module, *unit.names)
                if all(shared.step != step for shared in self.history):
                    return step
        return None

    def _source(self, module: str) -> Source:
        source = self._sources.get(module)
        if source is None:
            source = self._sources[module] = source_of(module)
        return NOTHING if self._finders.answer_for(module) else source

    def _in_a_fork(self, work: Callable[[], Any]) -> Any:
        """What `work` returned in a process that ended then, with all that it left; None where nothing came."""
        pid, between = self._fork_branch()
        if not pid:
            try:
                between.sendall(json.dumps(work()).encode())
            finally:
                child._leave(0)
        text = b""
        with between, suppress(OSError):
            if not ended(pid, self.control, self.timeout):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            supervise.end_descendants()
            between.setblocking(False)
            while piece := between.recv(1 << 20):
                text += piece
        with suppress(ValueError, RecursionError):
            return json.loads(text)
        return None

    def _branch(self, step: Step, items: list[Item]) -> list[Item]:
        """Let a process of its own make `step` and all checks that share it. Gives those that it could not make."""
        self._branches += 1
        pid, between = self._fork_branch()
        if not pid:
            try:
                self.reads.start()
                if self._grow(step):
                    read = packed(self.reads.stop())
                    between.sendall(b"+")
                    _, descriptors, _, _ = socket.recv_fds(between, 1, 1)
                    self.control = socket.socket(fileno=descriptors[0])
                    above, self._base, self._branches = self._base, f"{self._base}.{self._branches}", 0
                    if self._telling:
                        wire.send(self.control, {"base": self._base, "above": above, "reads": read})
                    back = self.visit(items)
                    between.sendall(json.dumps([item.id for item in back]).encode())
                    child._leave(0)
            finally:
                child._leave(70)
        with between:
            names = self._listen(between, pid)
        supervise.end_descendants()
        return [item for item in items if names is None or item.id in names]

    def _fork_branch(self) -> tuple[int, socket.socket]:
        """Fork a process that goes on from here: its pid, 0 in itself, and the socket between both."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = self.fork()
        if pid:
            theirs.close()
            return pid, ours
        try:
            ours.close()
            supervise.die_with_parent(parent)
            supervise.adopt_orphans()
            lives.move(parent, os.getpid())
            self._hold_alone(theirs)
        except BaseException:
            child._leave(70)
        return 0, theirs

    def _hold_alone(self, kept: socket.socket) -> None:
        """Close every descriptor but `kept`: the subject's code comes next, and may write anything anywhere."""
        self.control.detach()
        os.closerange(3, kept.fileno())
        os.closerange(kept.fileno() + 1, 4096)

    def _listen(self, branch: socket.socket, pid: int) -> frozenset[str] | None:
        """Let a branch whose step was made reply by itself. Gives the checks that it gives back; None for all."""
        text = b""
        if ended(pid, self.control, self.timeout, branch.fileno()) == branch.fileno():
            text = branch.recv(1)
        grown = text == b"+"
        with suppress(OSError):
            if grown:
                socket.send_fds(branch, [b"."], [self.control.fileno()])
                while ended(pid, self.control, None, branch.fileno()) != pid and (piece := branch.recv(1 << 16)):
                    text += piece
                ended(pid, self.control)
                branch.setblocking(False)
                while piece := branch.recv(1 << 16):
                    text += piece
            else:
                os.kill(pid, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(pid, 0)
        if not grown:
            return None
        # Where it ended early, a check killed it; the tool makes up for what it did not answer.
        try:
            return frozenset(map(str, json.loads(text[1:])))
        except (ValueError, TypeError):
            return frozenset()

    def _check(self, item: Item) -> None:
        wire.send(self.control, {"at": item.id})
        reply = self._answer(item.request, self)
        reply["base"] = self._base
        printed = "".join(shared.output for shared in self.history)
        if printed:
            reply["output"] = (printed + reply["output"])[-_PRINTED:]
        wire.send(self.control, reply)

    # -- a step ----------------------------------------------------------------------------------------------------

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
        printed = os.pread(output, _PRINTED, max(0, size - _PRINTED)).decode("utf-8", "replace")
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

    # -- events ----------------------------------------------------------------------------------------------------

    def _rows_of_an_import(self) -> bytes:
        """What stands in a stack above a module that `import_module` executes, as a log holds it."""
        rows: list[Any] = []

        class Finder:
            @staticmethod
            def find_spec(name: str, path: Any = None, target: Any = None) -> None:
                rows.extend(here())

        here = recorder(lambda text: True, {"now": "import"}).here
        sys.meta_path.insert(0, Finder)
        try:
            importlib.import_module("masquerade_is_imported_here")
        except ImportError:
            pass
        finally:
            sys.meta_path.remove(Finder)
        return encoder()(rows)[1:-1].encode()

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
