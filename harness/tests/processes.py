"""What runs below a process, read from /proc."""

from __future__ import annotations

import time
from pathlib import Path


def below(pid: int) -> set[int]:
    """The processes below `pid`, of any depth; the ended ones that nobody has waited for count too."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # A name may hold spaces, brackets and line ends: fields start behind the last bracket.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found = {pid}
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return found - {pid}


def alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end(pids: set[int], seconds: float = 10.0) -> set[int]:
    """Wait until all of `pids` have ended; gives those that have not."""
    deadline = time.monotonic() + seconds
    while (left := {pid for pid in pids if alive(pid)}) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
