"""Whether a process in which a subject's code ran still does what it is told.

A check's own process is the subject's. One that goes on to serve other checks must not be: what a subject changed in
the functions that serve, or hung on what happens there, would speak for others.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

#: Modules of the standard library that serve a check, beside masquerade's own.
_SERVING = (
    "_frozen_importlib", "_frozen_importlib_external", "_io", "_json", "_posixsubprocess", "_signal", "_socket",
    "_struct", "ast", "atexit", "binascii", "builtins", "contextlib", "ctypes", "faulthandler", "gc", "importlib",
    "importlib.machinery", "importlib.util", "itertools", "json", "json.decoder", "json.encoder", "mmap", "os", "posix",
    "re", "resource", "select", "signal", "socket", "struct", "time",
)  # fmt: skip

#: What time.tzset() makes anew: data that nothing here asks for.
_TIME_ZONE = ("altzone", "daylight", "timezone", "tzname")


def seal(renewed: Callable[[Any], Any] = lambda code: code) -> Callable[[], bool]:
    """Gives a function that says whether all is as it is now. What is added to a module does not count.

    `renewed` gives the code that masquerade itself has put in the place of another.
    """
    held: list[tuple[Mapping[str, Any], str, Any, Any]] = []
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and (name in _SERVING or name.partition(".")[0] == "masquerade"):
            for key, value in vars(module).items():
                if name == "time" and key in _TIME_ZONE:
                    continue
                held.append((vars(module), key, value, _code(value)))
                if isinstance(value, type) and value.__module__ == name:
                    held += [(vars(value), attribute, own, _code(own)) for attribute, own in vars(value).items()]
    held += [(vars(sys), name, getattr(sys, name), None) for name in ("_getframe", "modules", "addaudithook")]
    callbacks, handlers, timers = len(gc.callbacks), _handlers(), _timers()
    hooks = [0]
    sys.addaudithook(lambda event, args: hooks.append(1) if event == "sys.addaudithook" else None)
    tools = _monitored()
    code_of, trace, profile, missing = _code, sys.gettrace, sys.getprofile, object()

    def intact() -> bool:
        return (
            len(hooks) == 1
            and trace() is None
            and profile() is None
            and _monitored() == tools
            and len(gc.callbacks) == callbacks
            and _handlers() == handlers
            and _timers() == timers
            and all(
                space.get(key, missing) is value and code_of(value) is renewed(code) for space, key, value, code in held
            )
        )

    return intact


def _code(value: Any) -> Any:
    return value.__code__ if type(value) is FunctionType else None


def _monitored() -> list[str | None]:
    """Who follows what is executed, on Python 3.12 and newer."""
    monitoring: Any = getattr(sys, "monitoring", None)
    return [monitoring.get_tool(tool) for tool in range(6)] if monitoring is not None else []


def _handlers() -> list[Any]:
    return [signal.getsignal(number) for number in signal.valid_signals()]


def _timers() -> tuple[Any, ...]:
    return tuple(signal.getitimer(which) for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF))
