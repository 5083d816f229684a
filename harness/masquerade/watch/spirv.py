"""The matrix and 2D block instructions of a kernel for Intel's GPUs, found in its SPIR-V and counted by family.

The card's own compiler makes them later: dpas is XMX's one matrix instruction. Sources: SPIR-V specification 1.6
(module layout, OpDecorate, OpFunctionCall); SPV_INTEL_subgroup_matrix_multiply_accumulate and SPV_INTEL_2d_block_io;
OpenCL's cl_intel_subgroup_matrix_multiply_accumulate and cl_intel_subgroup_2d_block_io for the functions by name.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

#: Families: loads, stores and prefetches of blocks of a matrix; and what stands for those of another kind of binary.
BLOCK_IO, UNKNOWN = "2D block io", "unknown"

_MAGIC, _HEADER = struct.pack("<I", 0x07230203), 5
_DECORATE, _LINKAGE, _CALL = 71, 41, 57
_MULTIPLY, _BLOCKS = 6237, range(6231, 6236)

#: Flags of the multiplication that say the operands' types: bits of A, bits of B.
_TYPES = {
    "i8": (0x10, 0x20),
    "i4": (0x40, 0x80),
    "tf32": (0x100, 0x200),
    "f16": (0x400, 0x800),
    "bf16": (0x1000, 0x2000),
    "e4m3": (0x4000, 0x8000),
    "e5m2": (0x10000, 0x20000),
    "e2m1": (0x40000, 0x80000),
}
_SIGNED, _SCALED = (0x1, 0x2), 0x300000

_BY_NAME = re.compile(r"intel_sub_group_([a-z0-9]+)_([a-z0-9]+)_(?:split_)?matrix_mad_k\d+")
_BLOCK_BY_NAME = re.compile(r"intel_sub_group_2d_block_(?:read|write|prefetch)")


def families(binary: bytes) -> dict[str, int]:
    """How often each family stands in a SPIR-V module. Empty where there is none; `unknown` where it is no such module.

    Triton's Intel backend gives the card's own binary instead where ocloc has compiled ahead of time.
    """
    if not binary.startswith(_MAGIC):
        return {UNKNOWN: 1}
    found: dict[str, int] = {}
    imported: dict[int, str] = {}
    for code, words in _instructions(binary):
        family = ""
        if code == _DECORATE and len(words) > 3 and words[1] == _LINKAGE:
            imported[words[0]] = _by_name(struct.pack(f"<{len(words) - 2}I", *words[2:]).partition(b"\0")[0])
        elif code == _CALL and len(words) > 2:
            family = imported.get(words[2], "")
        elif code == _MULTIPLY:
            family = _dpas(words[6] if len(words) > 6 else 0)
        elif code in _BLOCKS:
            family = BLOCK_IO
        if family:
            found[family] = found.get(family, 0) + 1
    return dict(sorted(found.items()))


def _instructions(binary: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each instruction's code and operands, up to one that is cut off."""
    words = struct.unpack(f"<{len(binary) // 4}I", binary[: len(binary) // 4 * 4])
    place = _HEADER
    while place < len(words):
        size = words[place] >> 16
        if not size or place + size > len(words):
            return
        yield words[place] & 0xFFFF, words[place + 1 : place + size]
        place += size


def _by_name(function: bytes) -> str:
    """The family of an imported function; "" for any other function."""
    name = function.decode("utf-8", "replace")
    named = _BY_NAME.search(name)
    if named:
        return f"dpas {_both(named[1], named[2])}"
    return BLOCK_IO if _BLOCK_BY_NAME.search(name) else ""


def _dpas(flags: int) -> str:
    operands = [_type(flags, side) for side in (0, 1)]
    scaled = " block-scaled" if flags & _SCALED else ""
    return f"dpas{scaled} {_both(*operands)}" if all(operands) else f"dpas{scaled}"


def _type(flags: int, side: int) -> str:
    name = next((name for name, bits in _TYPES.items() if flags & bits[side]), "")
    return f"u{name[1:]}" if name in ("i8", "i4") and not flags & _SIGNED[side] else name


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} x {b}"
