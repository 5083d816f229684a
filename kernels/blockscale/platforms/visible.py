"""Visible-devices variables, and the vendors' own programs: what the management libraries leave to their users."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def visible(cards: Sequence[T], uuids: Sequence[str], *variables: str) -> tuple[T, ...]:
    """The cards that the first set variable leaves, by index or by (the start of) a UUID, in its order.

    A variable that is unset, empty or names no card leaves all: platform and arch are the host's question, and a parent
    that hides every card from itself asks it for its workers. As in the drivers, the list ends at its first bad entry.
    """
    listed = next((os.environ[name] for name in variables if os.environ.get(name)), "")
    chosen: list[T] = []
    for entry in filter(None, (part.strip() for part in listed.split(","))):
        index = _index(entry, uuids)
        if index is None or index >= len(cards):
            break
        chosen.append(cards[index])
    return tuple(chosen) or tuple(cards)


def _index(entry: str, uuids: Sequence[str]) -> int | None:
    if entry.isdigit():
        return int(entry)
    matches = [number for number, uuid in enumerate(uuids) if uuid and uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def output_of(*command: str) -> str | None:
    """What a vendor's program prints; None if it is not there, fails or takes over ten seconds."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
