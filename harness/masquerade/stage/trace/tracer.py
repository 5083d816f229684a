"""Follows the bodies of modules that are executed in this process: where something happens, and whose doing it is."""

from __future__ import annotations

import gc
import os
import sys
from _thread import get_ident
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from masquerade.stage.trace.cached import CODE as CACHED
from masquerade.stage.trace.followed import Followed
from masquerade.stage.trace.ops import Body, Key, Op, Rows, Trace
from masquerade.watch.recorder import EVENTS, Recorder, encoder, row_reader

_PLAIN = (str, int, float, bool, bytes, type(None))

#: The flag of a code object that is a function's, not a class's or a module's.
OF_A_FUNCTION = 0x1

#: Calls on the way to something, outermost first, and where the rows of each begin.
Chain = tuple[tuple[Key, int], ...]


class Tracer:
    """What is executed in this process, as a Trace. `origins` maps a thread's ident to the stack that started it."""

    def __init__(self, origins: dict[int, list[Any]]) -> None:
        self.trace = Trace()
        self.origins = origins
        self.main, self.pid = get_ident(), os.getpid()
        #: The bodies that each thread executes now, the innermost last.
        self.stacks: dict[int, list[Body]] = {self.main: []}
        #: The code whose frame stands right above that of a body.
        self.marker: CodeType | None = None
        self.phase = "import"
        self._collecting = False
        #: The module whose import has failed just now: what its frames held goes.
        self.going = ""
        #: Stacks that started something, by their ids: the body that did it, and the rows from its own frame inwards.
        self._starts: dict[int, tuple[Rows, Body, Rows]] = {}
        self.followed = Followed(self.entered)
        self._caches: set[int] = set()
        #: Arguments of calls that are told by where they lie.
        self._held: list[Any] = []
        self._row, self._encode = row_reader(), encoder()

    def body(self) -> Body | None:
        """The innermost body that this thread executes."""
        stack = self.stacks.get(get_ident())
        return stack[-1] if stack else None

    # -- where ---------------------------------------------------------------------------------------------------------

    def where(self, frame: FrameType | None, follow: bool = False) -> tuple[Body | None, Rows, Chain]:
        """The body that is executed at `frame`, the rows from its own frame inwards, and the calls among them.

        `follow` sees further calls of these functions.
        """
        row, marker, body = self._row, self.marker, None
        rows: Rows = []
        calls: list[tuple[FrameType, int]] = []
        while frame is not None:
            code = frame.f_code
            if code is marker:
                body = self.body()
                break
            found = row(frame, frame.f_lineno)
            if found is not None and (found != 0 or not rows or rows[-1] != 0):
                rows.append(found)
            if (code.co_flags & OF_A_FUNCTION and found and code.co_name[0] != "<") or code is CACHED:
                calls.append((frame, len(rows)))
            frame = frame.f_back
        rows.reverse()
        while rows and rows[0] == 0:
            del rows[0]
        size = len(rows)
        held = self._held if follow else None
        chain = tuple((self._key(inner, held), max(0, size - place)) for inner, place in reversed(calls))
        for inner, _ in calls if follow else ():
            if inner.f_code is CACHED:
                self._caches.add(id(inner.f_locals["cached"]))
            else:
                self.followed.follow(inner)
        return body, rows, chain

    def _key(self, frame: FrameType, held: list[Any] | None = None) -> Key:
        """What a call is told by: its function and its arguments. `held` keeps those that are told by their place."""
        code, known = frame.f_code, frame.f_locals.get
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        names = (*code.co_varnames[:count], *code.co_freevars)
        return self.followed.name(code), *[_plain(known(name), held) for name in names]

    def key(self, function: FunctionType, arguments: list[Any]) -> Key:
        """What a call of a function with these arguments is told by."""
        values = [*arguments, *(_inside(cell) for cell in function.__closure__ or ())]
        return self.followed.name(function.__code__), *[_plain(value, None) for value in values]

    def line(self) -> int:
        """The line of the innermost body's own frame, as the body that is begun there is executed."""
        frame: FrameType | None = sys._getframe(2)  # the first is the marker's own
        line = 0
        while frame is not None and frame.f_code is not self.marker:
            if frame.f_code.co_name == "<module>":
                line = frame.f_lineno
            frame = frame.f_back
        return line

    # -- what happens --------------------------------------------------------------------------------------------------

    def recorder(self) -> Recorder:
        """What watchers are given."""
        getframe = sys._getframe

        def here() -> list[Any]:
            body, rows, _ = self.where(getframe(1))
            if body is not None:
                self._starts[id(rows)] = rows, body, list(rows)
            return rows

        def note(kind: str, what: str, **more: Any) -> None:
            # Whether a variable's value changes depends on who set it before: that is made up when it is played.
            if kind != "env-mutation" or self.phase == "exit":
                self._note({**more, "kind": kind, "what": what, "phase": self.phase}, getframe(1))

        return Recorder(note, here, self.origins)

    def starter(self, ident: int | None = None) -> tuple[Body, Rows] | None:
        """Who started a thread, or registered what runs now, with the rows from the body's own frame inwards."""
        found = self._starts.get(id(self.origins.get(get_ident() if ident is None else ident)))
        return found[1:] if found is not None else None

    def _note(self, event: dict[str, Any], frame: FrameType | None) -> None:
        body, rows, chain = self.where(frame, follow=True)
        op = Op("event", event, rows, chain)
        started = self.starter()
        if body is None and started is not None:
            (body, op.origin), op.chain = started, ()
        if body is None or (os.getpid() != self.pid and self.phase != "exit"):
            if body is None:
                self._by_itself(rows)
            return
        text = self._encode({**event, "rows": rows, "origin": op.origin})
        if text not in body.texts and len(body.texts) < EVENTS:
            body.texts.add(text)
            self.trace.took(body, op)

    def state(self, kind: str, name: Any, value: int | None, frame: FrameType) -> None:
        """A body sets ("set") or looks at ("get") what others may have set."""
        body = self.body()
        if body is None:
            self._elsewhere(kind, name, value, frame)
        if body is None or (kind, name, value) in body.asked:
            return
        body.asked[kind, name, value] = None
        found, rows, chain = self.where(frame, follow=kind == "set")
        if found is body:
            self.trace.took(body, Op(kind, (name, value), rows, chain if kind == "set" else ()))

    def unsteady(self, why: str) -> None:
        """What is executed now may go another way where others were not executed before."""
        body = self.body()
        if body is not None:
            self.trace.unsteady.setdefault(body.name, why)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def cached_called(self, cached: Any) -> None:
        """A cached function is called."""
        if id(cached) in self._caches:
            self.entered(sys._getframe(1))

    def entered(self, frame: FrameType) -> None:
        """A function is called that did something when it was first called."""
        if self.stacks.get(get_ident()):
            self.called(self._key(frame), frame.f_back)
        else:
            self._elsewhere("call", frame.f_code.co_name, None, frame)

    def _elsewhere(self, kind: str, name: Any, value: int | None, frame: FrameType) -> None:
        """A thread or a finalizer finds what others set, or does what others may have done first."""
        started = self.starter()
        if self.phase != "import":
            return
        if started is None:
            self._by_itself(self.where(frame)[1])
        elif kind == "get":
            self.trace.took(started[0], Op(kind, (name, value), []))
        else:
            self.trace.unsteady.setdefault(started[0].name, f"a thread of it comes to {kind} {name}")

    def collect(self) -> None:
        """Let circles of objects go that nothing holds."""
        self._collecting = True
        gc.collect()
        self._collecting = False

    def _by_itself(self, rows: Rows) -> None:
        """Nobody's body does this. A finalizer's is its module's doing."""
        if self.going:
            self.trace.late.add(self.going)
        if not self._collecting:
            return
        module = next((row[3] for row in reversed(rows) if row and row[3] in self.trace.bodies), None)
        if module is not None:
            self.trace.unsteady.setdefault(module, "something of it happens after it")

    def called(self, key: Key, frame: FrameType | None) -> None:
        """The call `key` is made at `frame`."""
        body = self.body()
        if body is None or key in body.keys or key not in self.trace.blocks:
            return
        body.keys.add(key)
        found, rows, chain = self.where(frame)
        if found is body:
            body.ops.append(Op("call", key, rows, chain))


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def _plain(value: Any, held: list[Any] | None) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple and len(value) < 8:
        return tuple([_plain(item, held) for item in value])
    if kind is dict and not value:
        return "{}"
    if held is not None:
        held.append(value)
    return "id", id(value)
