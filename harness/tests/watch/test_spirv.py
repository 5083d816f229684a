"""Families of instruction in SPIR-V, from modules that are assembled here by the specification."""

from __future__ import annotations

import struct

import pytest

from masquerade.watch.spirv import families


def module(*instructions: tuple[int, ...]) -> bytes:
    """A SPIR-V module of these instructions, each the code and its operands."""
    words = [0x07230203, 0x00010500, 0, 100, 0]
    for code, *operands in instructions:
        words += [(len(operands) + 1) << 16 | code, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def imported(id: int, name: str) -> tuple[int, ...]:
    """OpDecorate %id LinkageAttributes "name" Import."""
    raw = name.encode() + b"\0"
    text = struct.unpack(f"<{-(-len(raw) // 4)}I", raw.ljust(-(-len(raw) // 4) * 4, b"\0"))
    return (71, id, 41, *text, 1)


def call(function: int) -> tuple[int, ...]:
    return (57, 2, 50, function, 3, 4)


def dpas(flags: int) -> tuple[int, ...]:
    return (6237, 2, 60, 16, 3, 4, 5, flags)


@pytest.mark.parametrize(
    ("function", "family"),
    [
        ("_Z40intel_sub_group_bf16_bf16_matrix_mad_k16Dv8_sDv8_iDv8_f", "dpas bf16"),
        ("_Z39intel_sub_group_tf32_tf32_matrix_mad_k8Dv4_fDv8_fS0_", "dpas tf32"),
        ("_Z36intel_sub_group_i8_u8_matrix_mad_k32Dv8_sDv8_iS0_", "dpas i8 x u8"),
        ("_Z46intel_sub_group_2d_block_prefetch_16b_16r16x2cPU3AS1viiiDv2_i", "2D block io"),
        ("_Z42intel_sub_group_2d_block_read_16b_32r16x2cPU3AS1viiiDv2_iPt", "2D block io"),
    ],
)
def test_a_function_is_counted_by_its_calls(function: str, family: str) -> None:
    assert families(module(imported(7, function), imported(8, "_Z7barrierj"), call(7), call(8), call(7))) == {family: 2}
    assert families(module(imported(7, function))) == {}


@pytest.mark.parametrize(
    ("flags", "family"),
    [
        (0x3000, "dpas bf16"),
        (0xC00, "dpas f16"),
        (0x300, "dpas tf32"),
        (0x33, "dpas i8"),
        (0x30, "dpas u8"),
        (0x61 | 0x2, "dpas i4 x i8"),
        (0x4000 | 0x20000, "dpas e4m3 x e5m2"),
        (0xC0000 | 0x300000, "dpas block-scaled e2m1"),
        (0, "dpas"),
    ],
)
def test_an_instruction_is_named_by_its_flags(flags: int, family: str) -> None:
    assert families(module(dpas(flags), dpas(flags))) == {family: 2}


def test_loads_and_stores_of_blocks_are_one_family() -> None:
    assert families(module(*((code, 1, 2, 3, 4) for code in range(6229, 6238)))) == {"2D block io": 5, "dpas": 1}


def test_another_kind_of_binary_does_not_pass_for_a_kernel_without_instructions() -> None:
    assert families(b"\x7fELF" + bytes(200)) == {"unknown": 1} == families(b"")


def test_a_module_that_is_cut_off_ends_where_it_ends() -> None:
    whole = module(dpas(0x3000), dpas(0x3000))
    assert families(whole[:-6]) == {"dpas bf16": 1}
    assert families(whole[:20] + bytes(8)) == {}
