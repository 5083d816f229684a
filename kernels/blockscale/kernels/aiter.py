"""Calls into AITER by its public interface (as of amd-aiter 0.1.7), imported in the calls alone: it opens HIP."""

from __future__ import annotations

import torch


def fp4_asm_gemm(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    dtype: torch.dtype,
    x_scales: torch.Tensor | None,
) -> torch.Tensor:
    """MXFP4 x MXFP4 by AITER's kernel: (M, N). Weights and scales are in AITER's layouts (`layouts.aiter`).

    x: (M, K) bf16 or fp16, or packed (M, K / 2) with shuffled `x_scales`. AITER rounds x's scales its own way (RCEIL).
    """
    import aiter

    if x_scales is None:
        x, x_scales = aiter.per_1x32_f4_quant_hip(x, shuffle=True)
    M, N = x.shape[0], weight.shape[0]
    # The kernel writes whole tiles of 32 rows.
    out = torch.empty(-(-M // 32) * 32, N, dtype=dtype, device=x.device)
    aiter.gemm_a4w4(x, weight.view(x.dtype), x_scales, weight_scale.view(x_scales.dtype), out, bpreshuffle=True)
    return out[:M]
