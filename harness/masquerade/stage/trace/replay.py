"""Plays the import of one module in a fresh process, from a trace of all bodies.

What a request for a module does depends on what was done before, of all that it can lead to. Where that is as it was
once before, it is not played again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from masquerade.stage.trace.bound import bound_names
from masquerade.stage.trace.ops import Body, Op, Rows, Trace
from masquerade.stage.trace.reach import Reach, with_above
from masquerade.watch.recorder import ENDS, encoder


class DoubtError(Exception):
    """The import of a module may go another way in a fresh process than it went here."""


#: Rows of a stack, as a chain of pieces from the innermost outwards.
Stack = tuple[Any, Rows] | None

#: After the last line of any module.
_NEVER = 1 << 60

#: What is told: an operation, its stack, and the stack of its body.
Told = tuple[Op, Stack, Stack]


class Played(NamedTuple):
    """What a request did: the tokens that it added, the bodies, and what it told; or why it is doubtful."""

    tokens: tuple[Any, ...]
    bodies: tuple[Body, ...]
    told: tuple[tuple[Op, tuple[Rows, ...], tuple[Rows, ...]], ...]
    reads: tuple[str, ...]
    doubt: str = ""


class Import(NamedTuple):
    """The import of one module: the events as a log has them, the bodies that it executes, what functions read."""

    events: list[str]
    bodies: list[Body]
    reads: list[str]


class Replay:
    """Plays one import after another."""

    def __init__(self, trace: Trace, prefix: Rows, environment: dict[str, int | None], files: dict[str, str]) -> None:
        self.trace, self.files = trace, files
        self.reach = Reach(trace)
        self._prefix: Stack = (None, prefix)
        self._initial = environment
        self._bound: dict[str, dict[str, int]] = {}
        self._encode = encoder()
        self._known: dict[Any, Played] = {}
        self._failing = {name for name, body in trace.bodies.items() if body.failed}

    def play(self, module: str) -> Import:
        """The import of `module`. Raises DoubtError."""
        #: What was done: modules, operations that are done once, variables as they are.
        self._done: set[Any] = set()
        self._added: list[Any] = []
        self._mask = 0
        self._bodies: list[Body] = []
        self._running: dict[str, int] = {}
        self._variables: dict[Any, int | None] = {}
        self._told: list[Told] = []
        self._reads: list[str] = []
        self._request(module, self._prefix, None)
        return Import(self._events(), self._bodies, self._reads)

    def _add(self, token: Any) -> None:
        self._done.add(token)
        self._added.append(token)
        self._mask |= self.reach.bits.get(token, 0)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _request(self, name: str, stack: Stack, op: Op | None) -> None:
        """A module is asked for."""
        if name in self._done:
            self._once_more(name, stack)
            return
        if name in self._running:
            self._meets_half(name, op)
            return
        reach = self.reach.of.get(name)
        if reach is None:  # below what failed, or no module
            above = name.rpartition(".")[0]
            if above:
                self._request(above, stack, None)
            return
        half = [(other, line) for other, line in self._running.items() if reach & self.reach.bits[other]]
        state = name, self._mask & reach, tuple(half), op.names if op is not None and half else ()
        known = self._known.get(state)
        if known is None:
            self._first(state, name, stack)
        else:
            self._again(known, stack)

    def _once_more(self, name: str, stack: Stack) -> None:
        """A module is asked for that was executed: if it failed, it is executed again."""
        if name in self.trace.moody:
            raise DoubtError(f"{name} fails in another way when it is executed once more")
        if name in self._failing:
            self._execute(self.trace.bodies[name], stack)

    def _first(self, state: Any, name: str, stack: Stack) -> None:
        added, bodies, told, reads = len(self._added), len(self._bodies), len(self._told), len(self._reads)
        try:
            self._execute_all(name, stack)
        except DoubtError as doubt:
            self._known[state] = Played((), (), (), (), str(doubt))
            raise
        rows = tuple((op, pieces(inner, stack), pieces(outer, stack)) for op, inner, outer in self._told[told:])
        done = tuple(self._added[added:]), tuple(self._bodies[bodies:])
        self._known[state] = Played(*done, rows, tuple(self._reads[reads:]))

    def _again(self, known: Played, stack: Stack) -> None:
        if known.doubt:
            raise DoubtError(known.doubt)
        for token in known.tokens:
            if type(token) is tuple:
                self._variables[token[0]] = token[1]
        self._done.update(known.tokens)
        self._added += known.tokens
        bits = self.reach.bits
        for token in known.tokens:
            self._mask |= bits.get(token, 0)
        self._bodies += known.bodies
        self._reads += known.reads
        for op, inner, outer in known.told:
            self._told.append((op, stacked(inner, stack), stacked(outer, stack)))

    def _execute_all(self, name: str, stack: Stack) -> None:
        """Execute the packages above, then the module."""
        bodies = self.trace.bodies
        above = name.rpartition(".")[0]
        if above:
            self._request(above, stack, None)
            failed = [other for other in with_above(above) if other in self._done and other in bodies]
            if any(bodies[other].failed for other in failed):
                if not bodies[name].failed:
                    raise DoubtError(f"{name} is found though a package above it fails")
                return
            if name in self._done or name in self._running:
                return
        if name in self.trace.unsteady:
            raise DoubtError(f"{name}: {self.trace.unsteady[name]}")
        self._execute(bodies[name], stack)

    def _execute(self, body: Body, stack: Stack) -> None:
        running, done, name = self._running, self._done, body.name
        running[name] = 0
        self._bodies.append(body)
        for op in body.ops:
            if op.kind == "import" and op.what in done and not op.above:
                self._had_less(op)
                if op.what in self._failing:
                    self._once_more(op.what, (stack, op.rows))
                continue
            if op.rows and op.rows[0] != 0:
                running[name] = op.rows[0][1]
            self._perform(op, (stack, op.rows), stack)
        del running[name]
        self._add(name)

    def _perform(self, op: Op, stack: Stack, above: Stack) -> None:
        kind = op.kind
        if kind == "import":
            if op.origin is not None:
                raise DoubtError(f"{op.what} is imported in another thread")
            if op.missing and op.what in self.trace.by_path:
                if any(type(name) is tuple and name[0] == "path" for name in self._variables):
                    raise DoubtError(f"{op.what} was not there, and may be")
                return
            if op.above in self._done:
                raise DoubtError(f"{op.what} is asked for when {op.above} has failed already")
            self._request(op.above or op.what, stack, op)
            self._had_less(op)
            if op.what in self._failing and op.what in self._done and not op.failed:
                raise DoubtError(f"{op.what} fails, and did not when it was half executed")
        elif kind == "call":
            for effect, begin in op.effects:
                if id(effect) not in self._done:
                    self._perform(effect, (stack, effect.rows[begin:]), above)
            return
        elif id(op) in self._done:
            return
        elif kind == "event":
            self._told.append((op, stack, above))
        elif kind == "needs":
            if op.what not in self._done and op.what not in self._running:
                raise DoubtError(f"{op.what} is looked up, and who imports it is not known")
        elif kind == "read":
            self._reads.append(op.what)
        elif kind == "get":
            name, value = op.what
            if self._variables.get(name, self._initial.get(name)) != value:
                raise DoubtError(f"{name} is asked for")
        else:
            self._set(op, stack, above)
        if id(op) in self.reach.shared:
            self._add(id(op))

    def _set(self, op: Op, stack: Stack, above: Stack) -> None:
        name, value = op.what
        if self._variables.get(name, self._initial.get(name)) == value:
            return
        self._variables[name] = value
        self._add(op.what)
        if type(name) is str:  # a variable of the environment, which every later child process has
            self._told.append((op, stack, above))

    def _meets_half(self, name: str, op: Op | None) -> None:
        """A module is asked for whose body is under way: what it has by then must do."""
        if op is None:
            return
        line = self._running[name]
        if op.state is not None and op.state <= line:
            return
        for wanted in op.names:
            if self._binds(name).get(wanted, _NEVER) >= line and f"{name}.{wanted}" not in self.trace.bodies:
                raise DoubtError(f"{name} is asked for {wanted} at line {line} of its own")

    def _had_less(self, op: Op) -> None:
        """A module was asked for that was half executed: what it did not have then it must not have now."""
        if op.state is None:
            return
        name, line = op.what, self._running.get(op.what, _NEVER)
        for wanted in op.names:
            if op.state <= self._binds(name).get(wanted, 0) < line and f"{name}.{wanted}" not in self.trace.bodies:
                raise DoubtError(f"{name} had no {wanted} when it was half executed")

    def _binds(self, name: str) -> dict[str, int]:
        bound = self._bound.get(name)
        if bound is None:
            bound = self._bound[name] = dict(bound_names(self.files.get(name, "")))
        return bound

    # -- events --------------------------------------------------------------------------------------------------------

    def _events(self) -> list[str]:
        events: dict[str, None] = {}
        variables = dict(self._initial)
        for op, stack, above in self._told:
            if op.kind == "event":
                event = dict(op.what)
                event["stack"] = op.rows if op.origin is not None else flat(stack)
                if op.origin is not None:
                    event["origin"] = flat((above, op.origin))
            else:
                name, value = op.what
                before, variables[name] = variables.get(name), value
                event = {"before": before, "after": value, "kind": "env-mutation", "what": name}
                event["phase"], event["stack"] = "import", flat(stack)
            events[self._encode(event)] = None
        return list(events)


def pieces(stack: Stack, base: Stack) -> tuple[Rows, ...]:
    """The pieces of a stack that lie within `base`, innermost first."""
    out = []
    while stack is not base and stack is not None:
        stack, rows = stack
        out.append(rows)
    return tuple(out)


def stacked(inner: tuple[Rows, ...], base: Stack) -> Stack:
    """A stack of `pieces` on another base."""
    for rows in reversed(inner):
        base = base, rows
    return base


def flat(stack: Stack) -> Rows:
    """The rows of a stack, outermost first, as a log keeps them."""
    out: Rows = []
    for rows in reversed(pieces(stack, None)):
        out += rows[1:] if rows and rows[0] == 0 and out and out[-1] == 0 else rows
    return out if len(out) <= 2 * ENDS else out[:ENDS] + out[-ENDS:]
