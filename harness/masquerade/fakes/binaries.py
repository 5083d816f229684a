"""What a driver reads off a kernel's binary when it loads it: registers, and memory that a thread spills into.

Sources: for cubin, the ELF64 header and section table (System V ABI) and the attributes of `.nv.info` as NVIDIA's own
cuobjdump --dump-resource-usage decodes them (REG, STACK); for hsaco, "Code Object V5 Metadata" of LLVM's AMDGPUUsage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

#: Attributes of .nv.info that have a symbol and a number: registers of a thread, bytes of its stack frame.
_REGISTERS, _FRAME = 0x2F, 0x11
#: The format of an attribute that is followed by its value; other formats hold it in place of the size.
_VALUE_FOLLOWS = 4


class Resources(NamedTuple):
    """Of one thread: registers, and 32-bit words in local memory, as the driver's function attributes give them."""

    registers: int
    spills: int


def resources(binary: bytes) -> Resources | None:
    """The resources of the largest kernel of a cubin or hsaco. None where they are not told."""
    try:
        return _amd(binary) if b"\xab.vgpr_count" in binary else _nvidia(binary)
    except (struct.error, IndexError, ValueError):
        return None


def _nvidia(binary: bytes) -> Resources | None:
    found: dict[int, list[int]] = {_REGISTERS: [], _FRAME: []}
    for name, start, size in _sections(binary):
        if name != b".nv.info":
            continue
        place = start
        while place < start + size:
            form, attribute, length = struct.unpack_from("<BBH", binary, place)
            if form == _VALUE_FOLLOWS and attribute in found:
                found[attribute].append(struct.unpack_from("<II", binary, place + 4)[1])
            place += 4 + (length if form == _VALUE_FOLLOWS else 0)
    if not found[_REGISTERS]:
        return None
    return Resources(max(found[_REGISTERS]), max(found[_FRAME], default=0) // 4)


def _sections(binary: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(name, offset, size) of each section."""
    (table,) = struct.unpack_from("<Q", binary, 0x28)
    width, count, names = struct.unpack_from("<HHH", binary, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", binary, table + width * index) for index in range(count)]
    text = rows[names][4]
    for name, _, _, _, offset, size in rows:
        yield binary[text + name : binary.index(b"\0", text + name)], offset, size


def _amd(binary: bytes) -> Resources:
    local = _numbers(binary, b".private_segment_fixed_size")
    return Resources(max(_numbers(binary, b".vgpr_count")), max(local, default=0) // 4)


def _numbers(binary: bytes, key: bytes) -> list[int]:
    """The unsigned numbers behind a key of the metadata's MessagePack."""
    found = []
    label = (bytes([0xA0 | len(key)]) if len(key) < 32 else bytes([0xD9, len(key)])) + key
    place = binary.find(label)
    while place >= 0:
        place += len(label)
        width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(binary[place], 0)
        found.append(int.from_bytes(binary[place + 1 : place + 1 + width], "big") if width else binary[place])
        place = binary.find(label, place)
    return found
