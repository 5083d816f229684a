"""Gets in before a Python function, by whatever name and reference it is called."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

_HOOK = "masquerade: the hook goes here"


def intercept(function: FunctionType, before: Callable[[], None]) -> None:
    """Make `function` call `before` first by exchanging its code, so that every reference to it is caught."""
    code = function.__code__
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__

    def hook(*args: Any, **kwargs: Any) -> Any:
        before()
        return original(*args, **kwargs)

    def trampoline(*args: Any, **kwargs: Any) -> Any:
        target: Any = "masquerade: the hook goes here"
        return target(*args, **kwargs)

    # A constant may be any object: the code needs no name that a subject could rebind. A function keeps its closure,
    # so the new code names as many variables of it as the old, and uses none.
    constants = tuple(hook if constant == _HOOK else constant for constant in trampoline.__code__.co_consts)
    function.__code__ = trampoline.__code__.replace(
        co_consts=constants, co_name=function.__name__, co_freevars=code.co_freevars
    )
