"""The tool's side of the stage: starts servers in the subject's interpreter, hands out checks, makes records."""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from masquerade import machines
from masquerade.machines import Machine
from masquerade.stage import bootstrap, fast, wire
from masquerade.stage.check import SILENCE, Check, Discovery, StageError, SubjectError, replaced
from masquerade.stage.findings import Context, judge
from masquerade.stage.forkserver import Server, clean_environment
from masquerade.stage.record import Record
from masquerade.stage.toolbox import Toolbox
from masquerade.stage.turns import Turns

__all__ = ["Check", "Discovery", "Stage", "StageError", "SubjectError", "blind", "clean_environment"]

#: The folder of the positive control's modules.
CONTROL = os.path.join(bootstrap.PACKAGE, "control")


class Stage:
    """Runs checks, each in a process of its own.

    python: the subject's interpreter (this one without it; masquerade need not be installed there, 3.10 or newer).
    isolation: "fork" from a server that has imported torch, or "fresh" interpreters; the verdicts are the same.
    jobs: how many checks run at a time. torch: preload it; without that a check sees who imports torch itself, and pays
    for it. path: folders for the subjects of `run` that name none. Raises StageError when the stage itself fails.
    """

    def __init__(
        self,
        python: str | None = None,
        isolation: str = "fork",
        jobs: int = 1,
        torch: bool = True,
        path: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        if isolation not in ("fork", "fresh"):
            raise ValueError(f"isolation is {isolation!r}; it must be 'fork' or 'fresh'")
        self.python = python or sys.executable
        self.isolation, self.jobs, self.torch = isolation, max(1, jobs), torch
        self.path = tuple(os.fspath(folder) for folder in path)
        self.agreement = fast.Agreement()
        #: Have records tell what files their checks read.
        self.reads = False
        #: More checks of the same machine will be asked for one by one: its disguise is kept from the first on.
        self.more_to_come = False
        self._servers: list[Server] = []
        self._closed = False
        self._toolbox = Toolbox(self.python)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End all servers and remove temporary files."""
        self._closed = True
        try:
            self.drop_servers()
        finally:
            self._toolbox.remove()

    def drop_servers(self) -> None:
        """End all servers, and what they do; the next check starts new ones."""
        dropped = list(self._servers)
        self._servers.clear()
        for server in dropped:
            server.close()

    @property
    def facts(self) -> dict[str, Any]:
        """The subject's interpreter: python, executable, system, torch and where things lie."""
        return self._server().facts

    def _server(self) -> Server:
        self.start(1)
        self._servers[0].wait_ready()
        return self._servers[0]

    @property
    def processes(self) -> tuple[int, ...]:
        """The pids of the servers."""
        return tuple(server.process.pid for server in self._servers)

    def start(self, count: int) -> None:
        """Have at least `count` servers; they get ready side by side."""
        if self._closed:
            raise StageError("the stage is closed")
        while len(self._servers) < count:
            self._servers.append(Server(self.python, self.isolation == "fresh", self.torch))

    def request(self, check: Check) -> dict[str, Any]:
        machine = check.machine
        if check.present or check.absent or check.stand_ins:
            if machine.platform == "here":
                why = "the machine here has what is installed: no module can be added, hidden or replaced"
                raise SubjectError(why)
            machine = machines.install(machine, check.present, check.absent)
        module, _, function = check.subject.partition(":")
        document = replaced(machine, check.stand_ins)
        return {
            "id": check.id,
            "machine": document,
            "tools": self._toolbox.of(machine.id, document),
            "first": list(check.first),
            "module": module,
            "function": function,
            "args": list(check.args),
            "kwargs": dict(check.kwargs),
            "owners": {owner: list(names) for owner, names in check.owners.items()},
            "path": [os.path.abspath(folder) for folder in check.path],
            "env": dict(check.env),
            "factory": check.factory,
            "env_after_import": dict(check.env_after_import),
            "probes": list(check.probes),
            "oracle": check.oracle,
            "timeout": check.timeout,
            "settle": check.settle,
            "memory_limit": check.memory,
            "measure": check.measure,
            "reads": self.reads,
        }

    def record(self, check: Check, reply: Mapping[str, Any], facts: Mapping[str, Any]) -> Record:
        closing = str(reply.get("closing") or "")
        context = Context(
            id=check.id,
            subject=check.subject,
            action=check.action,
            machine=check.machine.id,
            platform=check.machine.platform,
            timeout=check.timeout,
            path=tuple(os.path.abspath(folder) for folder in check.path),
            facts=facts,
            levels=check.levels,
            owners=check.owners,
        )
        if '"tool":true' in closing and reply.get("exit") == 70:
            raise StageError(f"{check.id}: the disguise itself failed: {closing[:2000]}")
        return judge(context, reply)

    def run(
        self,
        subject: str,
        on: str | Machine = "cpu",
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        owners: Mapping[str, Sequence[str]] | None = None,
        path: Sequence[str | os.PathLike[str]] = (),
        **options: Any,
    ) -> Record:
        """Run one check and give its record. `on` is a machine or its name; other options are those of Check."""
        check = Check(
            subject,
            on if isinstance(on, Machine) else machines.resolve(on),
            args=tuple(args),
            kwargs=kwargs or {},
            owners=machines.default_owners() if owners is None else owners,
            path=tuple(os.fspath(folder) for folder in path) or self.path,
            **options,
        )
        return next(iter(self.run_all([check])))

    def run_all(self, checks: Iterable[Check]) -> Iterator[Record]:
        """Run many checks, as many at a time as there are jobs; records come as they are ready."""
        waiting = Turns(checks)
        if not len(waiting):
            return
        self.start(min(self.jobs, len(waiting)))
        with selectors.DefaultSelector() as selector:
            running: dict[Server, tuple[Check, int]] = {}
            deadlines: dict[Server, float] = {}

            def hand_out(server: Server) -> None:
                check, tries = waiting.take(server)
                request = {**self.request(check), "more": self.more_to_come or waiting.more(check)}
                try:
                    wire.send(server.socket, request)
                except OSError:  # the server died while it had nothing to do
                    server = self.replace(server)
                    wire.send(server.socket, request)
                running[server] = (check, tries)
                deadlines[server] = time.monotonic() + check.timeout + SILENCE
                selector.register(server.socket, selectors.EVENT_READ, server)

            for server in self._servers:
                server.wait_ready()
                if len(waiting):
                    hand_out(server)
            try:
                while running:
                    ready = [key.data for key, _ in selector.select(timeout=1.0)]
                    late = [server for server in running if time.monotonic() > deadlines[server]]
                    for server in dict.fromkeys([*ready, *late]):
                        selector.unregister(server.socket)
                        check, tries = running.pop(server)
                        try:
                            reply = wire.receive(server.socket) if server in ready else None
                        except (wire.WireError, OSError):
                            reply = None
                        if reply is None:
                            server = self.replace(server)
                            if tries == 0:
                                waiting.again(check, 1)
                            else:
                                yield self.record(check, _server_killed(), server.facts)
                        else:
                            server.dressed = tuple(reply.get("dressed") or ())
                            yield self.record(check, reply, server.facts)
                        if len(waiting):
                            hand_out(server)
            finally:
                for server in running:
                    # Somebody stopped asking in the middle of a check: the server and its child go with the question.
                    self._servers.remove(server)
                    server.close()

    def scan(self, checks: Iterable[Check]) -> Iterator[Record]:
        """As run_all, and fast for many modules: import work that they share is paid once per machine.

        The records are those of a fork of its own per module; `agreement` tells how often that was confirmed.
        """
        rows = list(checks)
        by_machine: dict[str, list[Check]] = {}
        for check in rows:
            by_machine.setdefault(check.machine.id, []).append(check)
        large = [row for row in by_machine.values() if len(row) >= fast.WORTH]
        many = [check for row in large for check in row if check.action == "import" and not check.first]
        if self.isolation == "fresh" or not many:
            yield from self.run_all(rows)
            return
        chosen = {id(check) for check in many}
        yield from self.run_all([check for check in rows if id(check) not in chosen])
        yield from fast.run(self, many, self.agreement)

    def flat(self, check: Check, number: int = 0) -> Record:
        """Run one check on server `number`, in a flat fork; for callers that hold that server alone."""
        for tries in range(2):
            server = self._servers[number]
            server.wait_ready()
            try:
                server.socket.settimeout(check.timeout + SILENCE)
                wire.send(server.socket, self.request(check))
                reply = wire.receive(server.socket)
                server.socket.settimeout(None)
            except (wire.WireError, OSError):
                reply = None
            if reply is not None:
                return self.record(check, reply, server.facts)
            server = self.replace(server)
            if tries:
                break
        return self.record(check, _server_killed(), server.facts)

    def server(self, number: int) -> Server:
        """Server `number`, ready; for callers that hold it alone."""
        self._servers[number].wait_ready()
        return self._servers[number]

    def replace(self, server: Server) -> Server:
        """A new server in the place of one that died."""
        if self._closed or server not in self._servers:
            raise StageError("the server was dropped")
        place = self._servers.index(server)
        server.process.kill()
        server.close()
        self._servers[place] = Server(self.python, self.isolation == "fresh", self.torch)
        self._servers[place].wait_ready()
        return self._servers[place]

    def discover(self, name: str, path: Sequence[str] = ()) -> Discovery:
        """The modules of the package `name`, or the module itself.

        Raises SubjectError, with the nearest names, for what is neither.
        """
        request = {"find": name, "path": [os.path.abspath(folder) for folder in path], "timeout": 120.0}
        found, why = self._search(request)
        if found is None:  # the server died, or its child was killed
            self.replace(self._server())
            found, why = self._search(request)
        if found is None:
            raise StageError(f"the search for {name} failed: {why}")
        if not found["modules"]:
            raise SubjectError(f"there is no module {name} in {self.python}; {_hint(name, found)}")
        return Discovery(found["root"], tuple(found["modules"]), tuple(found["notes"]))

    def _search(self, request: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """What the first server finds; None with the reason where it does not answer."""
        server = self._server()
        try:
            wire.send(server.socket, request)
            reply = wire.receive(server.socket)
        except (wire.WireError, OSError) as error:
            return None, str(error)
        return _found(reply), str((reply or {}).get("output", ""))[-500:]

    def control(self) -> Record:
        """The positive control: a subject that opens a device, or without torch executes a foreign module.

        It must be seen.
        """
        has_torch = bool(self.facts.get("torch"))
        subject = "masquerade_control_device" if has_torch else "masquerade_control_import"
        owners = {"rocm": ("masquerade_control_foreign",)}
        record = self.run(subject, on="cuda", owners=owners, path=[CONTROL])
        return replace(record, action="import")


def blind(record: Record) -> bool:
    """Whether a control's record misses what the control does."""
    return record.verdict not in ("device-init", "forbidden-import")


def _found(reply: Mapping[str, Any] | None) -> dict[str, Any] | None:
    import json

    try:
        found = json.loads((reply or {}).get("closing") or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and "modules" in found else None


def _server_killed() -> dict[str, Any]:
    note = "the subject ended the process that started it"
    return {"exit": -9, "closing": None, "events": [], "output": "", "notes": [note]}


def _hint(name: str, found: Mapping[str, Any]) -> str:
    """Where a module that was not found may be: the layout with `src` first, for many projects have it."""
    top = name.partition(".")[0]
    if not found.get("within") and any(os.path.exists(os.path.join("src", file)) for file in (top, f"{top}.py")):
        return f"src has {top}: say --path src, or path in the configuration"
    near = found.get("near")
    return f"did you mean {' or '.join(near)}?" if near else "is its folder given with --path, or in the configuration?"
