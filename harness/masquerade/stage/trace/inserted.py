"""Puts the call of a hook into the code of a function, for CPython 3.11.

Its lines, its names and its signature stay what they were; jumps are relative there, so that nothing else moves.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CodeType

#: An entry of a table of lines that has no line (Objects/locations.md of CPython 3.11).
_NO_LINE = 15


def with_call(code: CodeType, hook: Callable[[], object]) -> CodeType:
    """`code`, which calls `hook` behind its first RESUME."""
    op = dis.opmap
    raw, constant = code.co_code, len(code.co_consts)
    place = next(at for at in range(0, len(raw), 2) if raw[at] == op["RESUME"]) // 2 + 1
    caches: list[int] = dis._inline_cache_entries  # type: ignore[attr-defined]
    words = [(op["PUSH_NULL"], 0)]
    words += [(op["EXTENDED_ARG"], constant >> shift & 255) for shift in (24, 16, 8) if constant >> shift]
    words.append((op["LOAD_CONST"], constant & 255))
    for name in ("PRECALL", "CALL"):
        words += [(op[name], 0), *[(op["CACHE"], 0)] * caches[op[name]]]
    words.append((op["POP_TOP"], 0))
    added = bytes(byte for word in words for byte in word)
    return code.replace(
        co_code=raw[: 2 * place] + added + raw[2 * place :],
        co_consts=(*code.co_consts, hook),
        co_stacksize=code.co_stacksize + 3,
        co_linetable=_lines(code.co_linetable, place, len(words)),
        co_exceptiontable=_handlers(code.co_exceptiontable, place, len(words)),  # type: ignore[call-arg,attr-defined]
    )


def _lines(table: bytes, place: int, added: int) -> bytes:
    """The table of lines with `added` words that have no line, at `place`."""
    at = index = 0
    while index < len(table) and at < place:
        at += (table[index] & 7) + 1
        index += 1
        while index < len(table) and not table[index] & 128:
            index += 1
    sizes = [8] * (added // 8) + [added % 8] * bool(added % 8)
    return table[:index] + bytes(128 | _NO_LINE << 3 | size - 1 for size in sizes) + table[index:]


def _handlers(table: bytes, place: int, added: int) -> bytes:
    """The table of handlers (Objects/exception_handling_notes.txt), moved by `added` words from `place` on."""
    numbers = list(_numbers(table))
    out = bytearray()
    for index in range(0, len(numbers), 4):
        start, length, target, depth = numbers[index : index + 4]
        if start < place < start + length:
            length += added
        moved = [number + added if number >= place else number for number in (start, target)]
        for which, number in enumerate((moved[0], length, moved[1], depth)):
            out += _packed(number, first=which == 0)
    return bytes(out)


def _numbers(table: bytes) -> Iterator[int]:
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0


def _packed(number: int, first: bool) -> bytes:
    """Six bits to a byte, the highest first; 64 says that more follow, 128 that an entry begins."""
    digits = [number & 63]
    while number := number >> 6:
        digits.append(number & 63 | 64)
    digits[-1] |= 128 if first else 0
    return bytes(reversed(digits))
