"""Runs each check in a process of its own, in disguise and under watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade.stage.client import Check, Discovery, Stage, StageError, SubjectError
    from masquerade.stage.record import Finding, Line, Record

__all__ = ["Check", "Discovery", "Finding", "Line", "Record", "Stage", "StageError", "SubjectError"]


def __getattr__(name: str) -> Any:
    # The child side lives in this package too and must not load the tool's side with it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from masquerade.stage import client, record

    return getattr(record if name in ("Finding", "Line", "Record") else client, name)
