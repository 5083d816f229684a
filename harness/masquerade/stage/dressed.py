"""Servers that wear a machine: forked from the bare one, each forks for the checks of its machine.

The disguise is paid once, and its memory is shared. What a check finds is what a fork of the bare server that dresses
itself would find: nothing of a subject ever ran in a server. Its path is put on after the disguise here and before it
there; no fake looks at the path when it is put on.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from mmap import mmap
from typing import Any, NamedTuple

from masquerade.fakes import triton_driver
from masquerade.stage import begun, child, supervise, wire
from masquerade.stage.disguise import disguise, watch
from masquerade.watch.reads import Reads
from masquerade.watch.recorder import Recorder, recorder

#: Seconds beyond a check's limit in which its server replies, unless the subject stopped it.
_OVERDUE = 5.0

#: Dressed servers that a bare one has at a time; each has some 5 MB of its own.
MOST = 8


class Dressed:
    """The state of a server that wears a machine."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._current: dict[str, Recorder] = {}
        self._origins: dict[int, list[Any]] = {}
        self._platform = request["machine"]["platform"]
        self.faked = self._platform != "here"
        child.enter(request)
        disguise(request["machine"], folder=request.get("tools", ""))
        self.reads = Reads()
        self._alive = watch(self._relay(), request["machine"], request.get("owners", {}), self.reads)
        self._begun = bool(request.get("first"))
        #: Whether it may serve: what it has imported for its checks left nothing else behind.
        self.clean = not self._begun or self._begin(request["first"])

    def _begin(self, modules: Sequence[str]) -> bool:
        """Import what all checks of this server import first."""
        told = [0]

        def count(text: bytes) -> bool:
            told[0] += 1
            return True

        self._current["now"] = recorder(count, {"now": "import"}, self._origins)
        try:
            clean = begun.begin(modules, lambda: told[0], self._alive)
        finally:
            self._current["now"] = nobody(self._origins)
        if clean:
            triton_driver.ask(self._platform)
        return clean

    def _relay(self) -> Recorder:
        """A recorder that passes on to the one of the present process."""
        current = self._current
        current["now"] = nobody(self._origins)

        def note(kind: str, what: str, **more: Any) -> None:
            current["now"].note(kind, what, **more)

        return Recorder(note, lambda: current["now"].here(), self._origins)

    def fork(self) -> int:
        """Fork for a check."""
        return begun.fork()

    def leaf(self, request: dict[str, Any], memory: mmap) -> None:
        """Run one check in this process, which was forked for it."""

        def ready(
            asked: dict[str, Any], append: child.Append, phase: dict[str, str], reads: Reads
        ) -> Callable[[], int]:
            self.enter(asked)
            child.name_subject(asked, append)
            self.begin(append, asked)
            self._current["now"] = recorder(append, phase, self._origins)
            return self._alive

        child.run(request, memory, ready, self.reads)

    def enter(self, request: dict[str, Any]) -> None:
        """What the check's own request changes: its path, where it is not on yet. Its environment is the server's."""
        child.forget_exits()
        if not self._begun:
            sys.path[:0] = request.get("path", [])
        child.take_signals()

    def begin(self, append: child.Append, request: dict[str, Any]) -> None:
        """Write what comes before the check's own events."""


def nobody(origins: dict[int, list[Any]]) -> Recorder:
    """A recorder for events of the server's own."""
    return Recorder(lambda kind, what, **more: None, list, origins)


class _Server(NamedTuple):
    pid: int
    socket: socket.socket

    def end(self) -> None:
        self.socket.close()
        with suppress(OSError):
            os.waitpid(self.pid, 0)


Serve = Callable[[socket.socket, Dressed], None]


class Wardrobe:
    """The dressed servers of a bare one. `serve` answers the requests of a socket, in the process of a dressed one."""

    def __init__(self, control: socket.socket, serve: Serve) -> None:
        self._control, self._serve = control, serve
        self._servers: dict[str, _Server] = {}
        self._asked: deque[str] = deque(maxlen=MOST)
        #: Servers that cannot be had: what they would import first leaves more than modules behind.
        self._refused: set[str] = set()

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(server.pid for server in self._servers.values())

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The reply of the server that wears the request's machine.

        None where there is none: a machine that was not asked for lately, and is not about to be, does without, and so
        does a check that killed its server.
        """
        if "machine" not in request:
            return None
        names = ("machine", "tools", "owners", "env")
        worn: dict[str, Any] = {"path": [], **{name: request.get(name) for name in names}}
        if request.get("first") and not request.get("reads"):  # what was read for all would be told of none
            further = {**worn, "path": request.get("path", []), "first": request["first"]}
            worn = worn if json.dumps(further) in self._refused else further
        key = json.dumps(worn)
        server = self._servers.pop(key, None) or (
            self._dress(worn, request) if key in self._asked or request.get("more") else None
        )
        if server is None:
            self._asked.append(key)
            return None
        try:
            wire.send(server.socket, request)
            reply = wire.receive(server.socket) if self._wait(server, request.get("timeout", 60.0)) else None
        except (wire.WireError, OSError):
            reply = None
        if reply is None:
            with suppress(OSError):
                os.kill(server.pid, signal.SIGKILL)
            server.end()
            supervise.end_descendants(self.pids)
        else:
            self._servers[key] = server
        return reply

    def _dress(self, worn: dict[str, Any], request: Mapping[str, Any]) -> _Server | None:
        while len(self._servers) >= MOST:
            self._servers.pop(next(iter(self._servers))).end()  # the one that was not asked for the longest time
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
        if pid:
            theirs.close()
            return self._if_clean(_Server(pid, ours), worn, request)
        try:
            supervise.die_with_parent(parent)
            supervise.adopt_orphans()
            for each in (self._control, ours, *(server.socket for server in self._servers.values())):
                each.close()
            dressed = Dressed({**worn, "env": worn["env"] or {}, "owners": worn["owners"] or {}})
            if "first" in worn:
                wire.send(theirs, {"clean": dressed.clean})
            if dressed.clean:
                self._serve(theirs, dressed)
        finally:
            child._leave(70)

    def _if_clean(self, server: _Server, worn: Mapping[str, Any], request: Mapping[str, Any]) -> _Server | None:
        """The server, where its beginning left nothing but modules behind."""
        if "first" not in worn:
            return server
        reply = None
        with suppress(wire.WireError, OSError):
            reply = wire.receive(server.socket) if self._wait(server, request.get("timeout", 60.0)) else None
        if reply is not None and reply.get("clean") is True:
            return server
        self._refused.add(json.dumps(worn))
        with suppress(OSError):
            os.kill(server.pid, signal.SIGKILL)
        server.end()
        supervise.end_descendants(self.pids)
        return None

    def _wait(self, server: _Server, timeout: float) -> bool:
        """Wait for a reply; False when it is overdue: the server, which keeps the check's time, was stopped.

        Ends this process when nobody waits for it any more.
        """
        poll = select.poll()
        poll.register(server.socket, select.POLLIN)
        poll.register(self._control, select.POLLHUP | select.POLLRDHUP)
        ready = dict(poll.poll((timeout + _OVERDUE) * 1000))
        if self._control.fileno() in ready:
            server.end()  # which ends the check first
            os._exit(0)
        return bool(ready)
