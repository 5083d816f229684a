"""Arch conditions of the hardware marks: `sm_90`, `sm_90+`, `gfx950`, `bmg`, `x86_64`, `amx_tile`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

PLATFORMS = ("cuda", "rocm", "xpu", "cpu")


@dataclass(frozen=True)
class Condition:
    """One arch that a test accepts; `upwards` accepts later ones too."""

    arch: str
    upwards: bool = False

    def accepts(self, archs: Iterable[str]) -> bool:
        """Whether one of a device's names for its arch will do: a CPU has its machine name and its flags."""
        if not self.upwards:
            return self.arch in archs
        return any(_number(arch) >= _number(self.arch) for arch in archs if arch.startswith("sm_"))

    def __str__(self) -> str:
        return f"{self.arch}+" if self.upwards else self.arch


def _number(arch: str) -> int:
    digits = re.match(r"sm_(\d+)", arch)
    return int(digits[1]) if digits else -1


def parse(platform: str, text: object) -> Condition:
    """The condition that `text` states. Raises ValueError, which says what is wrong and what would be right."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no text; write {_EXAMPLES[platform]}")
    if platform == "cuda":
        match = re.fullmatch(r"(sm_\d{2,3})(\+?)", text)
        if match:
            return Condition(match[1], bool(match[2]))
        raise ValueError(f"{text!r} is no arch of CUDA; write {_EXAMPLES[platform]}")
    if text.endswith("+"):
        raise ValueError(f"{text!r}: the archs of {platform} have no order; name each one")
    if platform == "rocm":
        if re.fullmatch(r"gfx[0-9a-f]{3,4}", text):
            return Condition(text)
        raise ValueError(f"{text!r} is no arch of ROCm; write {_EXAMPLES[platform]}")
    known = known_archs(platform)
    if text in known:
        return Condition(text)
    near = difflib.get_close_matches(text, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"write {_EXAMPLES[platform]}"
    raise ValueError(f"{text!r} is no known arch of {platform}; {hint}")


_EXAMPLES = {
    "cuda": "sm_90 for that one, or sm_90+ for it and later ones",
    "rocm": "gfx950",
    "xpu": "bmg, pvc or dg2",
    "cpu": "x86_64, aarch64, or a flag of /proc/cpuinfo such as avx512f",
}


@cache
def known_archs(platform: str) -> frozenset[str]:
    """The archs of a platform's machines; of CPUs also the flags that any of them has."""
    from masquerade.machines import zoo

    found: set[str] = set()
    for machine in zoo().machines():
        if machine.platform == platform:
            found.add(machine.arch)
            if platform == "cpu":
                flags = machine.host.get("cpu", {}).get("flags", ())
                found.update(flag for flag in flags if isinstance(flags, (list, tuple)))
    return frozenset(found)
