"""Joins a server's memory into huge pages: a fork then copies hundreds of page-table entries, not tens of thousands.

The memory stays shared by small pages: what a child writes to is copied 4 KiB at a time as before.
"""

from __future__ import annotations

import ctypes
import sys

#: Linux 6.1: collapse a range now. Older kernels refuse it, and all is as it was.
#: Source: uapi/asm-generic/mman-common.h.
MADV_COLLAPSE = 25

HUGE = 2 << 20


def regions(maps: str) -> list[tuple[int, int]]:
    """(start, end) of each anonymous, private, writable region in the text of /proc/self/maps, in whole huge pages."""
    found = []
    for row in maps.splitlines():
        words = row.split()
        if words[1][1] == "w" and words[1][3] == "p" and (len(words) < 6 or words[5] == "[heap]"):
            start, end = (int(number, 16) for number in words[0].split("-"))
            start, end = -(-start // HUGE) * HUGE, end // HUGE * HUGE
            if start < end:
                found.append((start, end))
    return found


def join() -> None:
    """Join what can be joined of this process's memory. Where the kernel refuses, nothing changes."""
    if not sys.platform.startswith("linux"):
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            found = regions(file.read())
    except OSError:
        return
    for start, end in found:
        madvise(start, end - start, MADV_COLLAPSE)
