"""Calls into AITER by its public interface (as of amd-aiter 0.1.7), imported in the calls alone: it opens HIP."""

from __future__ import annotations

import torch

from blockscale.kernels.moe_operator import operator
from blockscale.kernels.swiglu import SwiGLU


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


@operator("aiter")
def mxfp4_moe(
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
    *,
    w13_bias: torch.Tensor | None,
    w2_bias: torch.Tensor | None,
    activation: SwiGLU,
    expert_map: torch.Tensor | None,
    hidden_pad: int,
    intermediate_pad: int,
    activation_format: str,
) -> torch.Tensor:
    """The MoE by AITER's fused_moe: (M, H) as x. Weights and scales are in AITER's layouts, padded as the pads say."""
    import aiter
    from aiter.fused_moe import fused_moe

    H = x.shape[1]
    out = fused_moe(
        torch.nn.functional.pad(x, (0, hidden_pad)),
        w13.view(torch.float4_e2m1fn_x2),
        w2.view(torch.float4_e2m1fn_x2),
        topk_weights.float(),
        topk_ids.int(),
        # AITER asks which of the global experts are here, and counts those in order.
        expert_mask=None if expert_map is None else (expert_map >= 0).int(),
        activation=aiter.ActivationType.Swiglu if activation.name == "swigluoai" else aiter.ActivationType.Silu,
        quant_type=aiter.QuantType.per_1x32,
        w1_scale=w13_scale.view(torch.float8_e8m0fnu),
        w2_scale=w2_scale.view(torch.float8_e8m0fnu),
        hidden_pad=hidden_pad,
        intermediate_pad=intermediate_pad,
        bias1=w13_bias,
        bias2=w2_bias,
    )
    return out[:, :H]
