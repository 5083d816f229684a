"""DeepGEMM's public functions that we call, with the real ones' parameters: each checks what it is given."""

from __future__ import annotations

import sys
import types

import torch

from blockscale.formats import fp8
from blockscale.kernels.cpu import dequantize_mxfp4
from blockscale.layouts.deepgemm import unpack_scale

ALIGNMENT = 128


def _check_packed(scale, rows, columns):
    """As DeepGEMM's check_sf_layout: int32, rows innermost, a column every multiple of four rows."""
    assert scale.dtype == torch.int32 and tuple(scale.shape[-2:]) == (rows, -(-columns // 4))
    assert scale.stride()[-2:] == (1, -(-rows // 4) * 4)


def install(monkeypatch):
    """Put it in the place of deep_gemm; the list is filled with the calls' (rows, n, k)."""
    seen = []

    def m_grouped_fp8_fp4_gemm_nt_contiguous(
        a, b, d, grouped_layout, recipe=None, recipe_a=None, recipe_b=None, compiled_dims="nk",
        disable_ue8m0_cast=False, use_psum_layout=False, ensure_zero_padding=True, expected_m_for_psum_layout=None,
    ):  # fmt: skip
        (elements, scale), (weight, weight_scale) = a, b
        (rows, k), (_, n, half) = elements.shape, weight.shape
        assert elements.dtype == torch.float8_e4m3fn and elements.is_contiguous() and k % 128 == 0
        assert weight.dtype == torch.int8 and half * 2 == k and weight.is_contiguous()
        assert tuple(d.shape) == (rows, n) and d.dtype == torch.bfloat16 and d.is_contiguous()
        assert grouped_layout.dtype == torch.int32 and tuple(grouped_layout.shape) == (rows,) and rows % ALIGNMENT == 0
        assert recipe is None and recipe_a == (1, 128) and recipe_b == (1, 32)
        _check_packed(scale, rows, k // 128)
        _check_packed(weight_scale, n, k // 32)
        seen.append((rows, n, k))
        values = fp8.dequantize_groups(elements, unpack_scale(scale, k // 128).view(torch.float8_e8m0fnu), 128)
        d.fill_(float("nan"))
        for first in range(0, rows, ALIGNMENT):
            owners = set(grouped_layout[first : first + ALIGNMENT].tolist()) - {-1}
            assert len(owners) <= 1, "a block of rows is one expert's"
            for owner in owners:
                packed, codes = weight[owner].view(torch.uint8), unpack_scale(weight_scale[owner], k // 32)
                product = values[first : first + ALIGNMENT] @ dequantize_mxfp4(packed, codes).float().T
                d[first : first + ALIGNMENT] = product.bfloat16()

    stand_in = types.ModuleType("deep_gemm")
    stand_in.m_grouped_fp8_fp4_gemm_nt_contiguous = m_grouped_fp8_fp4_gemm_nt_contiguous
    stand_in.get_mk_alignment_for_contiguous_layout = lambda: ALIGNMENT
    monkeypatch.setitem(sys.modules, "deep_gemm", stand_in)
    return seen
