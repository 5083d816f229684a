"""Where an import failed, by the reply of its check, as the server that made it reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from masquerade.watch.recorder import encoder


def fails_at(module: str, reply: Mapping[str, Any]) -> int | None:
    """The line of `module` on which its import failed; 0 for elsewhere, None if it did not fail.

    A check that ended without a word counts as failed elsewhere.
    """
    closing = _closing(reply)
    if closing.get("ok") is True:
        return None
    return next((line for name, line in _bodies(closing) if name == module), 0)


def failed_inside(package: str, reply: Mapping[str, Any]) -> bool:
    """Whether an import failed by an exception that came out of the body of `package`, entered before any other."""
    closing = _closing(reply)
    bodies = _bodies(closing)
    return closing.get("ok") is False and bool(bodies) and bodies[0][0] == package


def as_of(module: str, event: str) -> str:
    """An event of another check of the same subject, as that of `module` has it."""
    known = json.loads(event)
    return encoder()({**known, "what": module}) if known["kind"] == "subject" else event


def _closing(reply: Mapping[str, Any]) -> dict[str, Any]:
    try:
        closing = json.loads(reply["closing"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    return closing if isinstance(closing, dict) else {}


def _bodies(closing: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The modules that were being executed, with their lines, outermost first."""
    try:
        return [(str(row[3]), int(row[1])) for row in closing["error"]["stack"] if row and row[2] == "<module>"]
    except (TypeError, KeyError, IndexError, ValueError):
        return []
