"""Threads that an import starts.

Wrapped below `threading`, since a raw thread raises no audit event before Python 3.12.
"""

from __future__ import annotations

import _thread
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from masquerade.watch.recorder import Recorder

#: The numbers of threads that have no name of their own, and of those of a pool: they count what came before, and how
#: fast it was.
_NUMBER = re.compile(r"^(Thread|Dummy)-\d+|(?:-\d+)?_\d+$")


def install(recorder: Recorder) -> Callable[[], int]:
    """Note `thread` for each one started; gives a function that counts those still alive."""
    note, here, origins = recorder.note, recorder.here, recorder.origins
    ident, alive = _thread.get_ident, _thread._count
    before, unnumbered = alive(), partial(_NUMBER.sub, r"\1")

    def named(function: Any) -> str:
        name = getattr(getattr(function, "__self__", None), "_name", "")
        if isinstance(name, str) and name:
            return unnumbered(name)
        name = getattr(function, "__qualname__", "") or type(function).__name__
        return name if isinstance(name, str) else "thread"

    def followed(function: Callable[..., Any], origin: list[Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            me = ident()
            origins[me] = origin
            try:
                return function(*args, **kwargs)
            finally:
                origins.pop(me, None)

        return run

    def watched(start: Callable[..., Any]) -> Callable[..., Any]:
        def start_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            name = named(function)
            note("thread", name)
            return start(followed(function, here()) if callable(function) else function, *args, **kwargs)

        return start_thread

    for module, names in (
        (_thread, ("start_new_thread", "start_new", "start_joinable_thread")),
        (threading, ("_start_new_thread", "_start_joinable_thread")),
    ):
        for name in names:
            start = getattr(module, name, None)
            if start is not None:
                setattr(module, name, watched(start))
    return lambda: alive() - before
