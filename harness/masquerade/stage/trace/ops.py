"""What the bodies of modules do, taken down while many modules are imported in one process: the data.

A trace holds one execution of each module's body as a row of operations: imports that it asked for, events that
watchers saw, what it set and looked at that others set, and calls of functions that did such a thing when somebody
called them first. From that the import of any one module in a fresh process can be played.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

Rows = list[Any]

#: A function and the arguments of one call.
Key = tuple[Any, ...]


class Op:
    """One operation of a body.

    kind: "import" (what: the name), "event" (what: the event without its stack), "set" and "get" (what: a variable, and
    its value), "call" (what: a key), "needs" (what: a module that must be there). rows: the stack from the body's own
    frame inwards, as a log has it. chain: the calls of functions on the way, outermost first, and where the rows of
    each begin.
    """

    __slots__ = ("above", "chain", "effects", "failed", "kind", "missing", "names", "origin", "rows", "state", "what")

    def __init__(self, kind: str, what: Any, rows: Rows, chain: tuple[tuple[Key, int], ...] = ()) -> None:
        self.kind, self.what, self.rows, self.chain = kind, what, rows, chain
        #: Of an import: where the module that is asked for stood in its own body, if it was half executed then.
        self.state: int | None = None
        #: Of an import: the names that are wanted of the module.
        self.names: tuple[str, ...] = ()
        #: Of an import: whether it failed.
        self.failed = False
        #: Of an import: whether there was no such module.
        self.missing = False
        #: Of an import: the package above that failed.
        self.above = ""
        #: Of what another thread does: the stack that started it, from the body's own frame inwards.
        self.origin: Rows | None = None
        #: Of a call: what it would have done, had it been the first one, and where the rows of that begin.
        self.effects: list[tuple[Op, int]] = []

    def signature(self, begin: int) -> Any:
        """What an operation within a call shares with the same one within another such call."""
        return self.kind, repr(self.what), repr(self.rows[begin:])


class Body:
    """One execution of a module's body."""

    __slots__ = (
        "asked",
        "at",
        "code",
        "failed",
        "half",
        "keys",
        "name",
        "ops",
        "output",
        "reads",
        "seconds",
        "texts",
        "threads",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        #: What is executed, of a body that imports anything.
        self.code: CodeType | None = None
        self.ops: list[Op] = []
        #: How it failed.
        self.failed = ""
        #: Whether it asked for a module that was half executed.
        self.half = False
        #: The line at which it asked for what is executed now.
        self.at = 0
        #: Seconds, without those of other bodies.
        self.seconds = 0.0
        self.reads: dict[str, None] = {}
        #: Where what it printed begins and ends.
        self.output: list[tuple[int, int]] = []
        #: Threads that it left.
        self.threads = 0
        #: What it asked for and looked at, which events it had, and which calls: each counts once.
        self.asked: dict[Any, Op | None] = {}
        self.texts: set[str] = set()
        self.keys: set[Key] = set()

    def looks(self) -> set[Any]:
        """What it looked at, and what was there."""
        return {op.what for op in self.ops if op.kind == "get"}


class Trace:
    """All bodies by module name, and what first calls of functions did."""

    def __init__(self) -> None:
        self.bodies: dict[str, Body] = {}
        #: Modules that failed once and did not another time; and why others cannot be played.
        self.unsteady: dict[str, str] = {}
        #: Modules that failed in another way when they were executed once more.
        self.moody: set[str] = set()
        #: Modules whose import failed, after which something happened that nobody's body does.
        self.late: set[str] = set()
        #: Modules that were found in a folder which somebody has added to the path.
        self.by_path: set[str] = set()
        #: Key -> where it was called first, and the operations of that call with where its rows begin in theirs.
        self.blocks: dict[Key, tuple[Any, list[tuple[Op, int]]]] = {}

    def begun(self, name: str) -> Body:
        """The body of a module that is executed now."""
        body = Body(name)
        if name in self.bodies:  # of what it reads only that counts which it did not read the first time
            body.reads = self.bodies[name].reads
        return body

    def took(self, body: Body, op: Op) -> None:
        """Add an operation to the body, and to the calls that led to it."""
        body.ops.append(op)
        for key, begin in op.chain:
            place = (body.name, repr(op.rows[:begin]))
            known = self.blocks.setdefault(key, (place, []))
            if known[0] == place:
                known[1].append((op, begin))

    def ended(self, body: Body) -> None:
        """The body was executed. Of several executions the first counts, or the first that did not fail."""
        known = self.bodies.setdefault(body.name, body)
        if known.failed and body.failed:
            if known.failed != body.failed:
                self.moody.add(body.name)
                if known.half or body.half or body.looks() - known.looks():
                    self.unsteady[body.name] = "it fails in another way by what others are doing, or have set"
        elif known.failed != body.failed:
            self.unsteady[body.name] = "it came out in two ways"
            if known.failed and not body.failed:
                self.bodies[body.name] = body

    def settle(self) -> None:
        """Work out what each call would have done, had it been the first one; leave out what changes nothing."""
        missing = {op.what for body in self.bodies.values() for op in body.ops if op.kind == "import" and op.missing}
        for name in missing & self.bodies.keys() - self.by_path:
            self.unsteady.setdefault(name, "it is there for some, and for others it is not")
        changed = {op.what[0] for body in self.bodies.values() for op in body.ops if op.kind == "set"}
        for body in self.bodies.values():
            for op in body.ops:
                if op.kind == "call":
                    self._settle(body, op)
            body.ops = [op for op in body.ops if self._matters(op, changed)]

    def _matters(self, op: Op, changed: set[Any]) -> bool:
        if op.kind == "call":
            return bool(op.effects)
        if op.kind == "import":
            return (op.above or op.what) in self.bodies
        return op.kind != "get" or op.what[0] in changed

    def _settle(self, body: Body, op: Op) -> None:
        key = op.what
        place, block = self.blocks[key]
        if place == (body.name, repr(op.rows)):
            return  # the first call itself
        own = [(other, begin) for other in body.ops for within, begin in other.chain if within == key]
        inner = {other.what for other, _ in own if other.kind == "call"}
        seen = {other.signature(begin) for other, begin in own if other.kind != "call"}
        for effect, begin in block:
            after = next((within for within, start in effect.chain if start > begin), None)
            if after in inner or (effect.kind == "import" and (effect.above or effect.what) not in self.bodies):
                continue
            if effect.signature(begin) not in seen:
                op.effects.append((effect, begin))
