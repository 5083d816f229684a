"""The matrix instructions of a kernel, found in its assembly and counted by family.

Sources: PTX ISA (wgmma.mma_async, tcgen05.mma, mma.sync), "AMD Matrix Instruction" sections of the CDNA and RDNA ISA
guides (v_mfma, v_smfmac, v_wmma, v_swmmac) and LLVM's AMDGPU assembler for the scaled forms.
"""

from __future__ import annotations

import re

#: PTX. wgmma carries shape and types of both operands; tcgen05 a kind; mma.sync shape and the types D.A.B.C.
_WGMMA = re.compile(r"\bwgmma\.mma_async\S*?\.(m\d+n\d+k\d+)\.\w+\.(\w+)\.(\w+)")
_TCGEN05 = re.compile(r"\btcgen05\.mma\S*?\.kind::(\w+)(\S*)")
_MMA = re.compile(r"\bmma\.sync\.aligned\.(m\d+n\d+k\d+)\.row\.col(\S*?)\.(?:f16|f32|f64|s32)\.(\w+)\.(\w+)\.\w+")
#: AMD: the mnemonic says it all; its ending _e64 or _vgprcd is the encoding.
_AMD = re.compile(r"^\s*(v_(?:mfma|smfmac|wmma|swmmac)_\w+)(.*)", re.MULTILINE)

#: The operand formats of f8f6f4 by the modifier that names them, as a number or as a word; e4m3 is not written.
_FORMATS = {"0": "e4m3", "1": "e5m2", "2": "e2m3", "3": "e3m2", "4": "e2m1"}
_WORDS = {"FP8": "e4m3", "BF8": "e5m2", "FP6": "e2m3", "BF6": "e3m2", "FP4": "e2m1"}


def families(text: str) -> dict[str, int]:
    """How often each family of matrix instruction stands in PTX or AMDGPU assembly. Empty where there is none."""
    found: dict[str, int] = {}
    # Every name has one of these in it. Most lines have none, and each expression would be tried on each of them.
    text = "\n".join(line for line in text.splitlines() if "mma" in line or "mfma" in line)

    def count(name: str) -> None:
        found[name] = found.get(name, 0) + 1

    for _, a, b in _WGMMA.findall(text):
        count(f"wgmma {_both(a, b)}")
    for kind, rest in _TCGEN05.findall(text):
        count(f"tcgen05 {kind}" + (" block-scaled" if "block_scale" in rest else ""))
    for _, rest, a, b in _MMA.findall(text):
        kind = re.search(r"kind::(\w+)", rest)
        scaled = f" {kind[1]} block-scaled" if kind and "block_scale" in rest else ""
        count(f"mma.sync{scaled} {_both(a, b)}")
    for name, rest in _AMD.findall(text):
        count(_amd(name, rest))
    return dict(sorted(found.items()))


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} x {b}"


def _amd(name: str, rest: str) -> str:
    name = re.sub(r"_(?:e64|vgprcd|w32|w64)$", "", name)
    unit, _, types = name.removeprefix("v_").partition("_")
    types = re.sub(r"^scale(?:16)?_", "", types)
    scaled = " block-scaled" if "_scale_" in name or "_scale16_" in name else ""
    # Behind the shape stand the operands' types: f32_16x16x32_fp8_bf8, f32_32x32x8_bf16, f32_16x16x128_f8f6f4.
    operands = re.sub(r"^\w+?_\d+x\d+x\d+_?", "", types)
    operands = re.sub(r"^\d+b_|_1k$", "", operands) or types.partition("_")[0]
    if "f8f6f4" in operands:
        operands = _both(_format(rest, ("cbsz", "matrix_a_fmt")), _format(rest, ("blgp", "matrix_b_fmt")))
        return f"{unit}{scaled} {operands}"
    pair = operands.split("_")
    return f"{unit}{scaled} {_both(*pair) if len(pair) == 2 else operands}"


def _format(rest: str, modifiers: tuple[str, ...]) -> str:
    for modifier in modifiers:
        told = re.search(rf"\b{modifier}:(?:MATRIX_FMT_)?(\w+)", rest)
        if told:
            return _FORMATS.get(told[1]) or _WORDS.get(told[1], told[1])
    return _FORMATS["0"]
