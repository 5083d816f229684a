"""The event log: memory that a child and its server share, so that what was told stays told whatever the child does.

The map is cut into regions. Region 0 belongs to the child, the others to processes that it forks. A region is a row of
slots of 512 bytes: a header (magic, event number, part, parts, length, CRC-32) and a piece of the event. A slot's
number comes from `itertools.count`, which hands it out in one step of C: threads, signal handlers and finalizers may
write at the same time without a lock. The last slots of region 0 are kept for the closing record, so that a flood of
events cannot push it out.
"""

from __future__ import annotations

import itertools
import os
import struct
from binascii import crc32
from collections.abc import Callable, Iterator
from mmap import mmap
from typing import NamedTuple

SLOT = 512
HEADER = struct.Struct("<IIHHII")
MAGIC = 0x4D415351
PAYLOAD = SLOT - HEADER.size

MAIN_SLOTS = 65536  # 32 MiB
CLOSING_SLOTS = 4096  # 2 MiB
FORK_REGIONS = 31
FORK_SLOTS = 2048  # 1 MiB each
SIZE = (MAIN_SLOTS + CLOSING_SLOTS + FORK_REGIONS * FORK_SLOTS) * SLOT

#: Where a writer leaves its mark when an event found no room.
FULL_MARK = (MAIN_SLOTS - 1) * SLOT

#: A hole of so many unwritten slots ends a region: a thread that died between taking a slot and filling it leaves one.
HOLE = 64


class Contents(NamedTuple):
    """What a log holds: events in the order of their numbers, the closing record, and how much was lost."""

    events: tuple[bytes, ...]
    closing: bytes | None
    damaged: int
    full: bool


def _region(index: int) -> tuple[int, int]:
    """First slot and number of slots of region `index`."""
    if index == 0:
        return 0, MAIN_SLOTS - 1
    return MAIN_SLOTS + CLOSING_SLOTS + (index - 1) * FORK_SLOTS, FORK_SLOTS


def writer(memory: mmap) -> tuple[Callable[[bytes], bool], Callable[[bytes], bool]]:
    """Functions that append an event and write the closing record; each says whether it fitted.

    Both keep all they need in their closures: a subject that empties modules, replaces builtins or rewrites the globals
    of its callers does not reach them.
    """
    getpid, count, crc, pack = os.getpid, itertools.count, crc32, HEADER.pack
    rng, size = range, len
    magic, slot, payload, header_size = MAGIC, SLOT, PAYLOAD, HEADER.size
    owner = getpid()
    # The last slot of region 0 is the mark of a full log.
    # pid -> (base slot, slots, counter). A plain dict: get and setdefault are single steps of C.
    regions = {owner: (0, MAIN_SLOTS - 1, count(1))}

    def put(base: int, number: int, part: int, parts: int, piece: bytes, event: int) -> None:
        at = (base + number) * slot
        memory[at : at + header_size + size(piece)] = pack(magic, event, part, parts, size(piece), crc(piece)) + piece

    fork_regions, fork_slots, full_mark = FORK_REGIONS, FORK_SLOTS, FULL_MARK
    first_fork_slot = MAIN_SLOTS + CLOSING_SLOTS

    def claim(pid: int) -> tuple[int, int, itertools.count[int]]:
        """A region for a process that the child forked. Slot 0 of a region holds the pid that took it."""
        mark = pack(magic, pid, 0, 0, 0, 0)
        for step in rng(fork_regions):
            base = first_fork_slot + ((pid + step) % fork_regions) * fork_slots
            at = base * slot
            if memory[at : at + 4] == b"\0\0\0\0":
                memory[at : at + header_size] = mark
            if memory[at : at + header_size] == mark:
                return base, fork_slots, count(1)
        return 0, 0, count(1)

    def lost() -> bool:
        """Leave a mark that something is missing: a log with that mark proves nothing clean."""
        memory[full_mark : full_mark + 4] = b"full"
        return False

    def append(event: bytes) -> bool:
        pid = getpid()
        region = regions.get(pid)
        if region is None:
            region = regions.setdefault(pid, claim(pid))
        base, slots, numbers = region
        parts = (size(event) + payload - 1) // payload or 1
        if parts > 60000:
            return lost()
        first = 0
        for part in rng(parts):
            number = next(numbers)
            if number >= slots:
                return lost()
            first = first or number
            put(base, number, part, parts, event[part * payload : (part + 1) * payload], first)
        return True

    main_slots, closing_slots = MAIN_SLOTS, CLOSING_SLOTS

    def close(record: bytes) -> bool:
        parts = (size(record) + payload - 1) // payload or 1
        if getpid() != owner or parts > closing_slots:
            return False
        # The first slot is written last: a reader that sees it sees all.
        for part in rng(parts - 1, -1, -1):
            put(main_slots, part, part, parts, record[part * payload : (part + 1) * payload], 1)
        return True

    return append, close


def _slot(memory: mmap, number: int) -> tuple[int, int, int, bytes] | None:
    """(event, part, parts, piece) of one slot; None where nothing was written. Raises ValueError for a spoilt one."""
    at = number * SLOT
    magic, event, part, parts, length, crc = HEADER.unpack(memory[at : at + HEADER.size])
    if magic == 0:
        return None
    piece = memory[at + HEADER.size : at + HEADER.size + min(length, PAYLOAD)]
    if magic != MAGIC or length > PAYLOAD or crc32(piece) != crc:
        raise ValueError("spoilt slot")
    return event, part, parts, piece


def closed(memory: mmap) -> bool:
    """Whether the child has written its closing record."""
    return memory[MAIN_SLOTS * SLOT : MAIN_SLOTS * SLOT + 4] != b"\0\0\0\0"


def _closing(memory: mmap) -> bytes | None:
    pieces: list[bytes] = []
    number, parts = 0, 1
    while number < parts:
        try:
            slot = _slot(memory, MAIN_SLOTS + number)
        except ValueError:
            return None
        if slot is None or slot[1] != number or slot[2] > CLOSING_SLOTS:
            return None
        parts = slot[2]
        pieces.append(slot[3])
        number += 1
    return b"".join(pieces)


def _region_events(memory: mmap, base: int, slots: int) -> Iterator[bytes | None]:
    """The events of one region; None for each that is spoilt or incomplete."""
    # event -> (parts announced, the parts that are there). What a child announces takes no room here.
    found: dict[int, tuple[int, dict[int, bytes]]] = {}
    hole = 0
    for number in range(1, slots):
        try:
            slot = _slot(memory, base + number)
        except ValueError:
            yield None
            continue
        if slot is None:
            hole += 1
            if hole > HOLE:
                break
            continue
        hole = 0
        event, part, parts, piece = slot
        announced, pieces = found.setdefault(event, (parts, {}))
        if announced == parts and part < parts:
            pieces[part] = piece
    for announced, pieces in found.values():
        yield b"".join(pieces[part] for part in range(announced)) if len(pieces) == announced > 0 else None


def read(memory: mmap) -> Contents:
    """Everything that was written. Never raises for what a child left there."""
    events: list[bytes] = []
    damaged = 0
    for index in range(FORK_REGIONS + 1):
        base, slots = _region(index)
        if index and memory[base * SLOT : base * SLOT + 4] == b"\0\0\0\0":
            continue
        for event in _region_events(memory, base, slots):
            if event is None:
                damaged += 1
            else:
                events.append(event)
    return Contents(tuple(events), _closing(memory), damaged, memory[FULL_MARK : FULL_MARK + 4] != b"\0\0\0\0")


def allocate(fd: int = -1) -> mmap:
    """A fresh log: anonymous memory for a forked child, or over a file descriptor for a fresh interpreter."""
    return mmap(fd, SIZE)
