"""Writes an event with its stack to the log, at the moment it happens and out of the subject's reach."""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

try:
    from _json import encode_basestring_ascii as _quote
except ImportError:  # an interpreter without the C accelerator
    from json.encoder import encode_basestring_ascii as _quote

#: Frames kept of a deep stack, at each end.
ENDS = 150
#: Different events kept of one kind and level: a flood of harmless ones leaves room for a grave one.
EVENTS = 6_000

Note = Callable[..., None]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: The folders of what runs beside the subject: these frames are nobody's fault.
HERE = tuple(os.path.join(_PACKAGE, folder, "") for folder in ("fakes", "watch", "stage"))


def encoder() -> Callable[[Any], str]:
    """A JSON encoder for strings, numbers, tuples, lists and dicts of strings; its closure holds all that it needs."""
    quote, rep, kind, join = _quote, repr, type, ",".join
    string, integer, real, boolean, null, mapping, row, tup = str, int, float, bool, type(None), dict, list, tuple

    def encode(value: Any) -> str:
        t = kind(value)
        if t is string:
            return quote(value)
        if t is null:
            return "null"
        if t is boolean:
            return "true" if value else "false"
        if t is integer:
            return rep(value)
        if t is real:
            return rep(value) if value - value == 0 else "null"
        if t is mapping:
            return "{" + join([quote(k) + ":" + encode(v) for k, v in value.items()]) + "}"
        if t is row or t is tup:
            return "[" + join([encode(item) for item in value]) + "]"
        return quote(f"<{t.__name__}>")

    return encode


def row_reader() -> Callable[[FrameType, int | None], list[Any] | int | None]:
    """A function that gives the row of one frame at a line: [file, line, function, module].

    It is 0 for the import machinery, and None for masquerade itself.
    """
    string, here, kind, startswith = str, HERE, type, str.startswith

    def row(frame: FrameType, line: int | None) -> list[Any] | int | None:
        code = frame.f_code
        file = code.co_filename
        if file[:18] == "<frozen importlib.":
            return 0
        if startswith(file, here):
            return None
        name = frame.f_globals.get("__name__")
        return [file, line or 0, code.co_name, name if kind(name) is string else ""]

    return row


def stack_reader() -> Callable[[FrameType | None], list[Any]]:
    """A function that gives the stack from `frame` outwards, outermost first: a row for each frame.

    A run of import machinery is one 0; frames of masquerade itself are left out.
    """
    size, ends, row = len, ENDS, row_reader()

    def stack(frame: FrameType | None) -> list[Any]:
        rows: list[Any] = []
        while frame is not None:
            found = row(frame, frame.f_lineno)
            if found is not None and (found != 0 or not rows or rows[-1] != 0):
                rows.append(found)
            frame = frame.f_back
        rows.reverse()
        if size(rows) > 2 * ends:
            rows = rows[:ends] + rows[-ends:]
        return rows

    return stack


class Recorder(NamedTuple):
    """What watchers are given.

    `note(kind, what, **more)` writes an event. `here()` is the stack of its caller, and `origins` maps a thread's ident
    to the stack that started it, for a thread whose own frames name no line of the subject.
    """

    note: Note
    here: Callable[[], list[Any]]
    origins: dict[int, list[Any]]


def recorder(
    append: Callable[[bytes], bool], phase: dict[str, str], origins: dict[int, list[Any]] | None = None
) -> Recorder:
    """A recorder that writes through `append`. `phase["now"]` is "import" or "call"."""
    getframe, getpid, ident = sys._getframe, os.getpid, get_ident
    encode, stack = encoder(), stack_reader()
    seen: dict[str, set[str]] = {}
    size, limit, main = len, EVENTS, os.getpid()
    anything, fresh = BaseException, set
    origins = {} if origins is None else origins

    def here() -> list[Any]:
        try:
            return stack(getframe(1))
        except anything:  # an audit hook of the subject's refuses, or a frame is not what it should be
            return []

    def note(kind: str, what: str, **more: Any) -> None:
        more["kind"], more["what"], more["phase"], more["stack"] = kind, what, phase["now"], here()
        origin = origins.get(ident())
        if origin:
            more["origin"] = origin
        if getpid() != main:
            more["forked"] = True
        text = encode(more)
        known = seen.setdefault(f"{kind} {more.get('level')}", fresh())
        if text in known or size(known) >= limit:
            return
        known.add(text)
        append(text.encode())

    return Recorder(note, here, origins)
