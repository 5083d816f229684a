"""Our calls into AITER, with a stand-in that has the real functions' parameters: what is handed over."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from blockscale.kernels.aiter import fp4_asm_gemm


@pytest.fixture
def calls(monkeypatch):
    seen = {}

    def per_1x32_f4_quant_hip(x, scale=None, quant_dtype=None, shuffle=False, num_rows=None, num_rows_factor=1):
        seen["quantized"] = tuple(x.shape), shuffle
        return x.new_zeros(x.shape[0], x.shape[1] // 2, dtype=torch.uint8), torch.zeros(256, 8, dtype=torch.uint8)

    def gemm_a4w4(A, B, A_scale, B_scale, out, bias=None, alpha=1.0, beta=0.0, bpreshuffle=True):
        seen["gemm"] = tuple(A.shape), tuple(B.shape), tuple(A_scale.shape), tuple(B_scale.shape), tuple(out.shape)
        out.fill_(3.0)
        return out

    stand_in = types.ModuleType("aiter")
    stand_in.per_1x32_f4_quant_hip, stand_in.gemm_a4w4 = per_1x32_f4_quant_hip, gemm_a4w4
    monkeypatch.setitem(sys.modules, "aiter", stand_in)
    return seen


def test_fp4_gemm_pads_its_rows_and_cuts_them(calls):
    weight, scale = torch.zeros(48, 32, dtype=torch.uint8), torch.zeros(256, 8, dtype=torch.uint8)
    out = fp4_asm_gemm(torch.zeros(5, 64, dtype=torch.bfloat16), weight, scale, torch.bfloat16, None)
    assert out.shape == (5, 48) and (out == 3).all() and out.dtype == torch.bfloat16
    assert calls == {"quantized": ((5, 64), True), "gemm": ((5, 32), (48, 32), (256, 8), (256, 8), (32, 48))}


def test_fp4_gemm_takes_what_is_quantized(calls):
    packed, scales = torch.zeros(33, 32, dtype=torch.uint8), torch.zeros(256, 8, dtype=torch.uint8)
    out = fp4_asm_gemm(packed, torch.zeros(16, 32, dtype=torch.uint8), scales, torch.float16, scales)
    assert out.shape == (33, 16) and "quantized" not in calls and calls["gemm"][-1] == (64, 16)
