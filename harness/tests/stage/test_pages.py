"""A server's memory in huge pages: what is joined, and that a refusal changes nothing."""

from __future__ import annotations

import pytest

from masquerade.stage import Stage, pages

MAPS = """\
55d000000000-55d000400000 rw-p 00000000 00:00 0                          [heap]
55d000500000-55d000a00000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000800000 r--p 00000000 00:00 0
7f0001000000-7f0001800000 rw-s 00000000 00:01 5                          /dev/zero (deleted)
7f0002000000-7f0002800000 rw-p 00000000 08:01 9                          /lib/libtorch.so
7f0003000000-7f0003100000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00800000 rw-p 00000000 00:00 0                          [stack]
7f0004100000-7f0004900000 rw-p 00000000 00:00 0
"""


def test_whole_huge_pages_of_anonymous_private_memory_are_chosen() -> None:
    assert pages.regions(MAPS) == [
        (0x55D000000000, 0x55D000400000),
        (0x55D000600000, 0x55D000A00000),
        (0x7F0004200000, 0x7F0004800000),
    ]


def test_memory_can_be_joined_and_is_what_it_was() -> None:
    kept = bytearray(b"masquerade") * (8 << 20)
    before = hash(bytes(kept))
    pages.join()
    assert hash(bytes(kept)) == before


def test_a_server_is_joined(one: Stage) -> None:
    assert one.run("json").verdict == "ok"
    with open(f"/proc/{one.processes[0]}/smaps_rollup") as file:
        huge = next(int(row.split()[1]) for row in file if row.startswith("AnonHugePages:"))
    if not huge:
        pytest.skip("this kernel joins no pages")
    assert huge > 32_000  # kB, of more than 100 MB
