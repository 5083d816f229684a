"""Finds the modules of packages before any stage is there: in the subject's interpreter, without its torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from masquerade.stage import bootstrap
from masquerade.stage.check import Discovery, SubjectError

#: Seconds that a search may take.
LIMIT = 120.0


def finder(python: str | None = None) -> Callable[[str, Sequence[str]], Discovery]:
    """A function (name, path) -> Discovery, as Stage.discover, that remembers what it found.

    Raises SubjectError, with the nearest names, where there is no such module.
    """
    interpreter = python or sys.executable
    known: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}

    def find(name: str, path: Sequence[str] = ()) -> Discovery:
        key = name, tuple(os.path.abspath(folder) for folder in path)
        if key not in known:
            known[key] = _asked(interpreter, *key)
        return discovery(name, known[key], interpreter)

    return find


def discovery(name: str, found: dict[str, Any], python: str) -> Discovery:
    """What a search found. Raises SubjectError if that is nothing."""
    if not found["modules"]:
        near = found.get("near") or []
        lost = "is its folder given with --path, or as path in the configuration?"
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; {lost}"
        raise SubjectError(f"there is no module {name} in {python}{hint}")
    return Discovery(found["root"], tuple(found["modules"]), tuple(found["notes"]))


def _asked(python: str, name: str, path: Sequence[str]) -> dict[str, Any]:
    source = bootstrap.line("masquerade.stage.discovery", "tell", name, list(path))
    try:
        done = subprocess.run([python, "-c", source], capture_output=True, timeout=LIMIT, check=False)
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SubjectError(f"{python} cannot look for {name}: {error}") from None
    except ValueError:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SubjectError(f"{python} cannot look for {name}: {words[-1] if words else 'it said nothing'}") from None
    return found
