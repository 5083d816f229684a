"""Finds what a dotted name means in a module that is loaded, and says which names are near one that is not there."""

from __future__ import annotations

from typing import Any


def attribute(found: Any, path: str) -> Any:
    """What the dotted `path` names in `found`. Raises AttributeError, with the nearest names."""
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            # One that has another name comes from inside: a module's own __getattr__ may fail.
            if len(error.args) == 1 and error.name in (None, name):
                error.args = (f"{error.args[0]}{_near(found, name)}",)
            raise
    return found


def _near(holder: Any, name: str) -> str:
    from difflib import get_close_matches

    try:  # the subject's own object may answer anything
        near = get_close_matches(name, [each for each in vars(holder) if isinstance(each, str)])
    except Exception:
        return ""
    return f"; did you mean {' or '.join(near)}?" if near else ""
