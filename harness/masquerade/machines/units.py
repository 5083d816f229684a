"""Sizes and clock rates as people and tools write them, turned into bytes and kHz."""

from __future__ import annotations

import re

#: Every factor is a power of 1024: torch, nvidia-smi, rocminfo and deviceQuery print KB and MB and mean KiB and MiB.
_BYTES = {"B": 1, "KB": 2**10, "KIB": 2**10, "MB": 2**20, "MIB": 2**20, "GB": 2**30, "GIB": 2**30}
_KHZ = {"KHZ": 1, "MHZ": 1000, "GHZ": 1_000_000}

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def _convert(value: object, factors: dict[str, int]) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].upper() not in factors:
        return None
    return round(float(match[1]) * factors[match[2].upper()])


def parse_bytes(value: object) -> int | None:
    """Bytes of `"143156MB"`, `"64KiB"` or a plain number of bytes; None if it is no size."""
    return _convert(value, _BYTES)


def parse_khz(value: object) -> int | None:
    """kHz of `"1980MHz"`, `"2.4GHz"` or a plain number of kHz; None if it is no clock rate."""
    return _convert(value, _KHZ)


def show_bytes(value: int) -> str:
    """The largest unit in which the size is a whole number: `143156 MiB`."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{value} bytes"


def show_khz(value: int) -> str:
    """`1980 MHz`."""
    return f"{value / 1000:g} MHz"
