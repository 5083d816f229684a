"""Runs each check in a process of its own, in disguise and under watch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade.stage.check import Check, Discovery, InterpreterError, SubjectError
    from masquerade.stage.client import Stage, StageError
    from masquerade.stage.record import Finding, Line, Record

__all__ = ["Check", "Discovery", "Finding", "InterpreterError", "Line", "Record", "Stage", "StageError", "SubjectError"]

_MODULES = {
    **dict.fromkeys(("Check", "Discovery", "InterpreterError", "SubjectError"), "check"),
    **dict.fromkeys(("Stage", "StageError"), "client"),
    **dict.fromkeys(("Finding", "Line", "Record"), "record"),
}


def __getattr__(name: str) -> Any:
    # The child side lives in this package too and must not load the tool's side with it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
