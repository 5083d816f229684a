"""How modules failed first, kept apart from the exceptions themselves: these change hands, and hold whole frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any

#: Where something lies, which is another place each time.
_PLACE = re.compile("0x[0-9a-f]+")

#: A frame of a traceback: its code, the line, and the name of its module.
Step = tuple[CodeType, int, Any]

#: The bit in a class's flags that those have which Python code defines.
_HEAP = 1 << 9

#: What a likeness does not share: frames, and other errors, which hold frames too.
_HELD = frozenset({"__traceback__", "__context__", "__cause__", "__dict__"})


def _there() -> Iterator[None]:
    """What frames of likenesses execute: nothing. A generator's frame holds no other ones."""
    yield


class Failure:
    """A failure as it was when it was made. Raises what the making of its class's objects raises."""

    __slots__ = ("_error", "_steps", "told")

    def __init__(self, error: BaseException) -> None:
        self._error, self._steps = likeness(error), list[Step]()
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            self._steps.append((frame.f_code, trace.tb_lineno, frame.f_globals.get("__name__")))
            trace = trace.tb_next
        #: What it is told by, other failures of its module beside it.
        self.told = f"{_place(error)} {_text(likeness(self._error))}"

    def again(self, now: BaseException) -> BaseException:
        """The error as it was raised first, to be raised in the place of `now`: it lives as long as this one does."""
        trace = None
        for code, line, name in reversed(self._steps):
            there = _there.__code__.replace(co_filename=code.co_filename, co_name=code.co_name)
            frame = FunctionType(there, {"__name__": name, "now": now})().gi_frame
            trace = TracebackType(trace, frame, 0, line)
        return likeness(self._error).with_traceback(trace)


def told(error: BaseException) -> str:
    """What an exception is told by where there is no likeness of it."""
    return f"{_place(error)} ?"


def likeness(error: BaseException, known: dict[int, BaseException] | None = None) -> BaseException:
    """An exception that says what `error` says now. What its class does when it is made or copied is not done."""
    kind = type(error)
    made: BaseException = next(base for base in kind.__mro__ if not base.__flags__ & _HEAP).__new__(kind, *error.args)
    for base in kind.__mro__[: kind.__mro__.index(BaseException) + 1]:
        for name, member in vars(base).items():
            if isinstance(member, GetSetDescriptorType | MemberDescriptorType) and name not in _HELD:
                with suppress(AttributeError, TypeError, ValueError):  # not set, or not to be set
                    value = member.__get__(error, kind)
                    if value is not getattr(made, name, _HELD):  # what is set to None is not what is not set
                        member.__set__(made, value)
    made.__dict__.update(error.__dict__)
    known = {} if known is None else known
    known[id(error)] = made
    cause = error.__cause__
    if cause is not None:
        made.__cause__ = known[id(cause)] if id(cause) in known else likeness(cause, known)
    return made


def _place(error: BaseException) -> str:
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} {place}"


def _text(error: BaseException) -> str:
    with suppress(BaseException):
        return _PLACE.sub("", str(error))
    return "?"
