"""Many modules on one machine, where imports that they share are made once: a tree of processes.

A module's import begins with its packages and with the import statements at its head. Modules that begin alike share
that beginning: a process makes it once, and forks for each of them. So what a check finds in its process is what a fork
of its own would find there, to the order in which modules were loaded and to what they did to each other. The events of
the shared part are written into each check's log, with the line of its own module.

Where a beginning cannot be shared, each check makes it itself: it fails, leaves threads, processes or open files
behind, imports the module that is to be checked, or changes what this process itself does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from masquerade.fakes import lives
from masquerade.stage import child, supervise, wire
from masquerade.stage.apart import Snapshot, changed_only, look, snapshot
from masquerade.stage.branch import ended
from masquerade.stage.failing import as_of, failed_inside
from masquerade.stage.growth import PRINTED, Grown
from masquerade.stage.steps import Step, has, loaded
from masquerade.watch.reads import packed

#: So many packages side by side are worth a look whether they keep to themselves.
_SIDE_BY_SIDE = 4

#: Seconds that the beginning of an import may take, of those that a check has.
_SHARE = 0.5

Answer = Callable[[dict[str, Any], Any], dict[str, Any]]


class Item(NamedTuple):
    """A check that is still to be made."""

    id: str
    module: str
    request: dict[str, Any]


class Tree(Grown):
    """One process of the tree. `answer(request, self)` runs a check in a fork of it; `control` is where replies go."""

    def __init__(self, request: dict[str, Any], control: socket.socket, answer: Answer) -> None:
        super().__init__(request)
        self.control, self._answer = control, answer
        self.timeout = float(request.get("timeout", 60.0)) * _SHARE
        #: What the steps so far read is told once, under this name; each check tells what it read beyond that.
        self._base, self._branches, self._telling = "", 0, bool(request.get("reads"))

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
            if later:
                for item in left:
                    wire.send(self.control, {"flat": item.id})
            else:
                self._one_by_one(left, step)
        return back

    def _one_by_one(self, items: list[Item], step: Step | None) -> None:
        """Make each check here, whose next step is `step`, and reply."""
        failed: dict[str, Any] | None = None
        for item in items:
            if failed is not None:
                self._reply_alike(item, failed)
                continue
            reply = self._check(item)
            if step is not None and step[0] == "package" and failed_inside(step[1], reply):
                failed = reply  # the package is above them all
            wire.send(self.control, reply)

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

    def _check(self, item: Item) -> dict[str, Any]:
        """The reply of a check that is made now."""
        wire.send(self.control, {"at": item.id})
        reply = self._answer(item.request, self)
        reply["base"] = self._base
        if self.printed:
            reply["output"] = (self.printed + reply["output"])[-PRINTED:]
        return reply

    def _reply_alike(self, item: Item, reply: Mapping[str, Any]) -> None:
        """Reply for a check that fails in a package above it as the check of `reply` did."""
        wire.send(self.control, {"at": item.id})
        events = [as_of(item.module, event) for event in reply["events"]]
        wire.send(self.control, {**reply, "id": item.id, "events": events})
