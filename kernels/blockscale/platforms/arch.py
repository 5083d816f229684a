"""Arch names, parsed: `gfx950:sramecc+:xnack-`, `sm_90a`, `bmg`. No other module looks into such a string."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NVIDIA = re.compile(r"sm_?(?P<digits>\d{2,3})(?P<suffix>[af]?)")
_AMD = re.compile(r"gfx(?P<major>\d{1,2})(?P<minor>\d)(?P<stepping>[0-9a-f])(?P<features>(?::[a-z0-9-]+[+-])*)")

# Intel names its GPU architectures by code name; Triton's and SYCL's spelling is used here.
_INTEL = frozenset({"pvc", "dg2", "bmg", "lnl", "mtl", "arl", "ptl"})


@dataclass(frozen=True)
class Arch:
    """One GPU architecture.

    `name` is the canonical name, without features or suffix (`sm_90`, `gfx950`, `bmg`), so equal arches are the same
    silicon. `major`, `minor` and `stepping` are NVIDIA's compute capability (stepping 0) or the parts of AMD's gfx
    number (gfx90a is 9, 0, 10); all are 0 on Intel.
    """

    vendor: str
    name: str
    major: int = 0
    minor: int = 0
    stepping: int = 0

    @classmethod
    def parse(cls, text: str) -> Arch:
        """Parse a name as torch, Triton, NVML, amdsmi or a compiler writes it. ValueError if it is none of those."""
        if match := _NVIDIA.fullmatch(text):
            return cls.from_capability((int(match["digits"][:-1]), int(match["digits"][-1])))
        if match := _AMD.fullmatch(text):
            return cls.from_gfx_version(int(match["major"]), int(match["minor"]), int(match["stepping"], 16))
        if text in _INTEL:
            return cls("intel", text)
        raise ValueError(f"arch: got {text!r}, expected a name like sm_90, sm_90a, gfx950:sramecc+:xnack- or bmg")

    @classmethod
    def from_capability(cls, capability: tuple[int, int]) -> Arch:
        """NVIDIA's compute capability as an arch: (9, 0) is sm_90. What torch says on ROCm is not one."""
        major, minor = capability
        return cls("nvidia", f"sm_{major}{minor}", major, minor)

    @classmethod
    def from_gfx_version(cls, major: int, minor: int, stepping: int) -> Arch:
        """AMD's gfx version as an arch: (9, 0, 10) is gfx90a."""
        return cls("amd", f"gfx{major}{minor}{stepping:x}", major, minor, stepping)

    @property
    def capability(self) -> tuple[int, int]:
        """(major, minor) on NVIDIA. TypeError on other vendors, whose numbers mean something else."""
        if self.vendor != "nvidia":
            raise TypeError(f"{self.name} has no compute capability: that is NVIDIA's, and this is {self.vendor}'s")
        return self.major, self.minor

    def in_family(self, family: str) -> bool:
        """Whether this arch belongs to one of `FAMILIES`. ValueError for an unknown family."""
        if family not in FAMILIES:
            raise ValueError(f"family: got {family!r}, expected one of {', '.join(FAMILIES)}")
        vendor, major, minors = FAMILIES[family]
        return self.vendor == vendor and self.major == major and self.minor in minors

    @property
    def fp8_is_fnuz(self) -> bool:
        """Whether the matrix units take e4m3fnuz in place of e4m3fn: gfx942 alone (AMD's CDNA 3 ISA guide)."""
        return self.name == "gfx942"

    @property
    def warp_size(self) -> int:
        """Lanes of a warp: 64 on AMD's gfx9, else 32. Source: LLVM AMDGPU usage guide, CUDA programming guide."""
        return 64 if self.vendor == "amd" and self.major == 9 else 32

    def __str__(self) -> str:
        return self.name


_ANY = range(10)

# vendor, major, minors. NVIDIA's families are named by their first member, AMD's by what the names share. gfx12 is
# RDNA4 alone; gfx125 (gfx1250, gfx1251) shares the first digits with it and nothing else.
FAMILIES: dict[str, tuple[str, int, range]] = {
    "sm_80": ("nvidia", 8, _ANY),
    "sm_90": ("nvidia", 9, _ANY),
    "sm_100": ("nvidia", 10, _ANY),
    "sm_110": ("nvidia", 11, _ANY),
    "sm_120": ("nvidia", 12, _ANY),
    "gfx9": ("amd", 9, _ANY),
    "gfx11": ("amd", 11, _ANY),
    "gfx12": ("amd", 12, range(5)),
    "gfx125": ("amd", 12, range(5, 6)),
}
