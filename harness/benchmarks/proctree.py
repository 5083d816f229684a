"""What runs below a process, and in whose session, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A row of /proc/PID/stat: state, the parent's pid, and the session."""

    pid: int
    state: str
    parent: int
    session: int


def look(pid: int) -> Process | None:
    """None for a process that is gone."""
    try:
        # A name may hold spaces, brackets and line ends: fields start behind the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return Process(pid, fields[0], int(fields[1]), int(fields[3]))


def everything() -> Iterator[Process]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (found := look(int(entry))) is not None:
            yield found


def below(pid: int) -> set[int]:
    """The processes below `pid`, of any depth; ended ones that nobody has waited for count too."""
    parents = {process.pid: process.parent for process in everything()}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def state(pid: int) -> str:
    """The letter of a process's state; X for one that is gone."""
    found = look(pid)
    return found.state if found is not None else "X"


def marked(mark: str) -> set[int]:
    """The living processes in whose environment `mark` stands."""
    found = set()
    for process in everything():
        try:
            if process.state not in "ZX" and mark.encode() in Path(f"/proc/{process.pid}/environ").read_bytes():
                found.add(process.pid)
        except OSError:
            continue
    return found
