"""Imports that failed in a package above the module: what one check's reply says for others below that package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from masquerade.watch.recorder import encoder


def failed_inside(package: str, reply: Mapping[str, Any]) -> bool:
    """Whether an import failed by an exception that came out of the body of `package`, entered before any other."""
    try:
        closing = json.loads(reply["closing"])
        bodies = [row[3] for row in closing["error"]["stack"] if row and row[2] == "<module>"]
        return closing["ok"] is False and bodies[0] == package
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return False


def as_of(module: str, event: str) -> str:
    """An event of another check of the same subject, as that of `module` has it."""
    known = json.loads(event)
    return encoder()({**known, "what": module}) if known["kind"] == "subject" else event
