"""The process that imports all modules of a scan on one machine, and answers each check from what it saw.

What a check's own fork would do is played from what each module's body did here. Where that may have gone another way
in a process of its own, the check is given back.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from masquerade.stage import child, supervise, wire
from masquerade.stage.branch import ended, flush
from masquerade.stage.dressed import Dressed
from masquerade.stage.growth import PRINTED
from masquerade.stage.integrity import seal
from masquerade.stage.steps import rows_of_an_import
from masquerade.stage.trace import cached, variables
from masquerade.stage.trace.attributes import look_up
from masquerade.stage.trace.followed import POSSIBLE
from masquerade.stage.trace.imports import Imports
from masquerade.stage.trace.ops import Body, Op
from masquerade.stage.trace.parts import parts
from masquerade.stage.trace.reach import with_above
from masquerade.stage.trace.reads import Readers
from masquerade.stage.trace.replay import DoubtError, Replay
from masquerade.stage.trace.tracer import Tracer
from masquerade.watch.reads import packed
from masquerade.watch.recorder import encoder, recorder

#: Seconds that all exit functions together may take.
_EXITS = 5.0

#: The part of what was read that is everybody's.
_ALL = "all"

Reply = dict[str, Any]


#: What is another each time: where something lies, and the value of a variable.
_PASSING = re.compile(r"0x[0-9a-f]+|\"(?:before|after)\":\d+")


def digest(reply: Mapping[str, Any]) -> str:
    """What two answers to one check must share."""
    closing = json.loads(reply["closing"])
    told = [*reply["events"], json.dumps([closing["ok"], closing.get("error")])]
    return blake2b(_PASSING.sub("", "\n".join(told)).encode("utf-8", "replace"), digest_size=12).hexdigest()


class Traced(Dressed):
    """A process that imports the module of each item of `items`, ids and modules, and replies for each at `control`.

    Where only digests are wanted it gives one of each reply, and none where there is a doubt.
    """

    def __init__(self, request: dict[str, Any], control: socket.socket, items: Sequence[tuple[str, str]]) -> None:
        super().__init__(request)
        child.take_signals()
        self.control, self.items = control, items
        self._prefix = rows_of_an_import(recorder(lambda text: True, {"now": "import"}).here)
        self._variables = variables.now()
        self._digests_alone = bool(request.get("digests"))
        self._settle = float(request.get("settle", 1.0))
        self.tracer = Tracer(self._origins)
        self._readers = Readers(self.tracer) if request.get("reads") else None
        self._output, self._printed = os.memfd_create("masquerade-output"), 0
        self._said = 0.0
        #: How the import of a module ended, where it raised.
        self._ends: dict[str, dict[str, Any]] = {}

    def answer(self) -> None:
        """Import all, and reply for each; {"untrusted": why} where nothing that this process says is worth anything."""
        why = self._import_all() if POSSIBLE else "this Python cannot tell of calls"
        if why:
            wire.send(self.control, {"untrusted": why})
            return
        self._beat()
        self._look_back()
        look_up(self.tracer)
        self.tracer.trace.settle()
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
        replies = self._replies()
        if self._digests_alone:
            digests = {reply["id"]: digest(reply) for reply in replies if "id" in reply}
            wire.send(self.control, {"digests": digests})
            return
        for reply in replies if self._readers is None else self._with_parts(replies):
            if "id" in reply:
                reply["digest"] = digest(reply)
            wire.send(self.control, reply)

    def _beat(self) -> None:
        """Say that this process goes on, and that no module is to blame if it does not; once a second."""
        now = time.monotonic()
        if now - self._said > 1.0:
            self._said = now
            wire.send(self.control, {"busy": ""})

    # -- importing -----------------------------------------------------------------------------------------------------

    def _import_all(self) -> str:
        """Import everything. Gives why this process is not what it was, if it is not."""
        for fd in (1, 2):
            os.dup2(self._output, fd)
        self._current["now"] = self.tracer.recorder()
        variables.install(self.tracer)
        cached.install(self.tracer.cached_called)
        imports = Imports(self.tracer, self._switched)
        imports.install()
        self.reads._now = self._readers
        intact = seal(self.tracer.followed.now)
        # Whose body is executed when a circle of objects goes is chance: they go at the end.
        gc.disable()
        describe = child.tracer()
        message = describe.message  # type: ignore[attr-defined]
        for name, module in self.items:
            wire.send(self.control, {"busy": name})
            imports.begin()
            try:
                importlib.import_module(module)
            except BaseException as error:
                told = {**describe(error), "message": message(error)}
                left = isinstance(error, SystemExit)
                self._ends[module] = {"ok": False, "exit": left, "phase": "import", "error": told, "during": ""}
                self.tracer.going = next((one for one in with_above(module) if self._failed(one)), "")
            self.tracer.going = ""
        child.wait(self._alive, time.monotonic() + self._settle, time.monotonic, time.sleep)
        self.tracer.collect()
        self.reads.stop()
        if not intact():
            return "modules changed what this process itself does"
        return ""

    def _switched(self, left: Body | None, entered: Body | None) -> None:
        """Another body goes on: what was printed so far is that of the one before."""
        flush()
        now = os.lseek(self._output, 0, os.SEEK_CUR)
        if left is not None and now > self._printed:
            left.output.append((self._printed, now))
        self._printed = now

    def _look_back(self) -> None:
        """What is left at the end: threads, and functions that are to be called at an exit."""
        threads = Counter(started[0].name for ident in list(self._origins) if (started := self.tracer.starter(ident)))
        for name, count in threads.items():
            if name in self.tracer.trace.bodies:
                self.tracer.trace.bodies[name].threads = count
        bodies = self.tracer.trace.bodies
        for name, event, rows, origin in self._at_exit():
            if name in bodies:
                op = Op("event" if rows else "needs", event, rows)
                op.origin = origin
                if rows or event in bodies:
                    bodies[name].ops.append(op)

    def _at_exit(self) -> list[list[Any]]:
        """What exit functions do, in a process that ends with them: the body that registered one, event and stacks.

        An import is a name without a stack.
        """
        told = os.memfd_create("masquerade-exits")
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                supervise.die_with_parent(parent)
                signal.setitimer(signal.ITIMER_REAL, 0)
                self.tracer.phase = "exit"
                before = {name: len(body.ops) for name, body in self.tracer.trace.bodies.items()}
                with suppress(BaseException):
                    gc.collect()
                    atexit._run_exitfuncs()
                rows = [
                    [name, op.what, op.rows if op.kind == "event" else [], op.origin]
                    for name, body in self.tracer.trace.bodies.items()
                    for op in body.ops[before.get(name, 0) :]
                    if op.kind in ("event", "import")
                ]
                os.write(told, json.dumps(rows).encode())
            finally:
                child._leave(0)
        if not ended(pid, self.control, _EXITS):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        supervise.end_descendants()
        with os.fdopen(told, "rb") as file:
            file.seek(0)
            text = file.read()
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            kinds: list[Any] = [str, (dict, str), list, (list, type(None))]
            if all(len(row) == 4 and all(map(isinstance, row, kinds)) for row in found):
                return list(found)
        return []

    # -- replies -------------------------------------------------------------------------------------------------------

    def _replies(self) -> Iterator[Reply]:
        files = {name: str(getattr(module, "__file__", "")) for name, module in list(sys.modules.items())}
        replay = Replay(self.tracer.trace, self._prefix, self._variables, files)
        places = child.places(self.items[0][1]) if self.items else []
        for name, module in self.items:
            self._beat()
            same = module.partition(".")[0] == self.items[0][1].partition(".")[0]
            try:
                yield self._reply(replay, name, module, places if same else child.places(module))
            except DoubtError as why:
                yield {"doubt": name, "why": str(why)}

    def _executed(self, module: str) -> str:
        """The module whose body the import of `module` comes to: itself, or the outermost package above that fails.

        Raises DoubtError where it was not seen.
        """
        for above in with_above(module)[:-1]:
            if self._failed(above):
                if above not in self._ends:
                    raise DoubtError(f"how {above} ends was not seen")
                return above
        if module not in self.tracer.trace.bodies:
            raise DoubtError("its import was not seen")
        return module

    def _failed(self, module: str) -> bool:
        body = self.tracer.trace.bodies.get(module)
        return body is not None and bool(body.failed)

    def _reply(self, replay: Replay, name: str, module: str, places: list[str]) -> Reply:
        executed = self._executed(module)
        if executed in self.tracer.trace.late:
            raise DoubtError(f"something happens when the error of {executed} goes")
        played = replay.play(executed)
        encode = encoder()
        seconds = sum(body.seconds for body in played.bodies)
        closing: dict[str, Any] = {
            "ok": True, "result": None, **self._ends.get(executed, {}), "seconds": seconds,
            "threads": sum(body.threads for body in played.bodies), "place": None, "probes": {},
        }  # fmt: skip
        if self._readers is not None:
            closing["reads"] = {}  # what was read comes as parts
        ranges = [(begin, end) for body in played.bodies for begin, end in body.output]
        printed = b"".join(os.pread(self._output, end - begin, begin) for begin, end in ranges)[-PRINTED:]
        subject = encode({"kind": "subject", "what": module, "places": places})
        reply = {
            "id": name, "events": [subject, *played.events], "closing": encode(closing), "damaged": 0, "full": False,
            "exit": 0, "timed_out": False, "seconds": seconds, "output": printed.decode("utf-8", "replace"),
        }  # fmt: skip
        if self._readers is not None:
            reply["reads"] = [path for body in played.bodies for path in body.reads] + played.reads
        return reply

    def _with_parts(self, replies: Iterator[Reply]) -> Iterator[Reply]:
        """The parts of what was read first, each once, then the replies with the names of their parts."""
        made = list(replies)
        shared, of = parts({reply["id"]: reply.pop("reads") for reply in made if "id" in reply})
        for name, paths in {_ALL: list(self._readers or ()), **shared}.items():
            yield {"part": name, "reads": packed(paths)}
        for reply in made:
            if "id" in reply:
                reply["parts"] = [_ALL, *of[reply["id"]]]
            yield reply
