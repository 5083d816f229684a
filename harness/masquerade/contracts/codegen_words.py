"""What a contract may require of compiled kernels, in words, and what a change of their instructions means.

The families of instruction are those of masquerade.watch.instructions and .spirv, which name their sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from masquerade.contracts.golden.cells import MISSING

Launch = Mapping[str, Any]

#: What stands in the place of families.
NONE, LEFT_OUT, NO_LAUNCH = "none", "left out", "no launch"

#: Operand types and kinds in the name of a family. fp8 and bf8 are AMD's words for e4m3 and e5m2; f8f6f4 without a
#: type stands for tcgen05, whose operand types are not in its name.
_FP8 = {"e4m3", "e5m2", "fp8", "bf8", "f8f6f4", "mxf8f6f4"}
_FP4 = {"e2m1", "mxf4", "mxf4nvf4"}

#: Families that multiply nothing: loads and stores of blocks, and what a binary does not tell.
_BLOCK_IO, _UNKNOWN = "2D block io", "unknown"

MATRIX = "matrix instructions"
_BLOCK_SCALED = "block-scaled matrix instructions"
_NATIVE_FP8 = "native fp8 matrix instructions"
_NATIVE_FP4 = "native fp4 matrix instructions"

#: What the families of a kernel may have in common, by name.
_TRAITS: dict[str, Callable[[str], bool]] = {
    MATRIX: lambda family: family not in (_BLOCK_IO, _UNKNOWN),
    _BLOCK_IO: lambda family: family == _BLOCK_IO,
    _BLOCK_SCALED: lambda family: "block-scaled" in family,
    _NATIVE_FP4: lambda family: not _FP4.isdisjoint(_types(family)),
    _NATIVE_FP8: lambda family: not _FP8.isdisjoint(_types(family)),
}

_FITS, _NO_SPILLS, _USES = "fits", "no spills", "uses "

#: The words of `requires`.
WORDS = (_FITS, _NO_SPILLS, *(_USES + trait for trait in _TRAITS))


def families(instructions: str) -> tuple[str, ...]:
    """The families that a cell of a golden table names."""
    nothing = instructions in (NONE, LEFT_OUT, NO_LAUNCH, MISSING) or instructions.startswith("!")
    return () if nothing else tuple(instructions.split(", "))


def traits(found: Iterable[str]) -> set[str]:
    """What these families are: matrix instructions, native for some type, block-scaled."""
    return {trait for trait, holds in _TRAITS.items() if any(map(holds, found))}


def _types(family: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", family))


def of_matrices(word: str) -> bool:
    """Whether a word speaks of matrix instructions, and so of some kernels alone."""
    return word.startswith(_USES)


def lost(old: str, new: str) -> set[str]:
    """The words `uses ...` that held of a cell of instructions, and hold no more."""
    return {_USES + trait for trait in traits(families(old)) - traits(families(new))}


def broken(word: str, arch: str, kernel: str, launch: Launch) -> str:
    """How a launch breaks a requirement, as a sentence; "" where it holds. What a driver does not tell breaks none."""
    if word == _FITS:
        return f"{arch} has no room for {kernel}: {launch['pruned']}" if launch.get("pruned") else ""
    if launch.get("pruned"):
        return ""
    if word == _NO_SPILLS:
        spills = launch.get("spills", 0)
        return f"{arch} runs out of registers: {kernel} spills {spills} words" if spills else ""
    found, trait = tuple(map(str, launch.get("instructions") or ())), word.removeprefix(_USES)
    return "" if trait in traits(found) else f"{arch} does not use {trait}: {kernel} has {', '.join(found) or NONE}"


def changed(archs: str, kernel: str, old: str, new: str) -> str:
    """One sentence on instructions that are others than before."""
    before, after = traits(families(old)), traits(families(new))
    said = [f"{verb} {_most(moved)}" for verb, moved in (("lost", before - after), ("gained", after - before)) if moved]
    if not said:
        return f"{archs}: {kernel} has {new}, and had {old}"
    return f"{archs} {' and '.join(said)}: {kernel} has {new}, and had {old}"


def _most(moved: set[str]) -> str:
    """The traits in a sentence: who loses all matrix instructions has lost those of each kind."""
    return MATRIX if MATRIX in moved else " and ".join(trait for trait in _TRAITS if trait in moved)
