"""Sees each call of chosen functions, at no cost for all others.

From Python 3.12 on the interpreter tells of them (sys.monitoring). On 3.11 a call of the hook is put into the
function's code.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

if sys.version_info < (3, 12):
    from masquerade.stage.trace.inserted import with_call

#: Whether calls can be followed on this Python.
POSSIBLE = sys.version_info >= (3, 11)

#: The identifier of this tool of sys.monitoring, which no well-known tool has.
_TOOL = 4


class Followed:
    """`called(frame)` is called at the beginning of each call of a followed function."""

    def __init__(self, called: Callable[[FrameType], None]) -> None:
        self._called = called
        self._known: set[int] = set()
        #: Codes that must not go, or others would get their place.
        self._held: list[Any] = []
        self._original: dict[int, int] = {}
        self._hooked: dict[int, CodeType] = {}
        if sys.version_info >= (3, 12):
            monitoring = sys.monitoring
            monitoring.use_tool_id(_TOOL, "masquerade")  # a ValueError where somebody has it: then there is no trace
            monitoring.register_callback(_TOOL, monitoring.events.PY_START, lambda code, offset: self._began())

    def _began(self) -> None:
        self._called(sys._getframe(2))

    def name(self, code: CodeType) -> int:
        """What a function is told by, whether it is followed or not."""
        return self._original.get(id(code), id(code))

    def now(self, code: Any) -> Any:
        """What stands in the place of a code."""
        return self._hooked.get(id(code), code)

    def follow(self, frame: FrameType) -> None:
        """Follow the function that is executed in `frame`."""
        code = frame.f_code
        if id(code) in self._known:
            return
        self._known.add(id(code))
        self._held.append(code)
        if sys.version_info >= (3, 12):
            sys.monitoring.set_local_events(_TOOL, code, sys.monitoring.events.PY_START)
            return
        hooked = with_call(code, lambda: self._began())
        self._known.add(id(hooked))
        self._original[id(hooked)], self._hooked[id(code)] = id(code), hooked
        self._held.append(hooked)
        for function in functions_of(code, frame):
            function.__code__ = hooked


def functions_of(code: CodeType, frame: FrameType) -> list[FunctionType]:
    """The functions whose code `code` is, which is executed in `frame`."""
    known = {id(found): found for found in _by_name(code, frame)}
    if not known:
        known = {id(found): found for found in gc.get_referrers(code) if type(found) is FunctionType}
    return [found for found in known.values() if found.__code__ is code]


def _by_name(code: CodeType, frame: FrameType) -> Iterator[FunctionType]:
    space: Any = frame.f_globals
    for part in code.co_qualname.split("."):  # type: ignore[attr-defined]
        value = space.get(part)
        space = getattr(value, "__dict__", {})
        yield from _inside(value, code)


def _inside(value: Any, code: CodeType) -> Iterator[FunctionType]:
    """The function in a method, a property or a decorated function."""
    for _ in range(8):
        if type(value) is FunctionType and value.__code__ is code:
            yield value
            return
        for name in ("__func__", "fget", "__wrapped__", "func"):
            inner = getattr(value, "__dict__", {}).get(name) if name == "__wrapped__" else None
            inner = inner if inner is not None else getattr(type(value), name, None) and getattr(value, name, None)
            if inner is not None:
                value = inner
                break
        else:
            return
