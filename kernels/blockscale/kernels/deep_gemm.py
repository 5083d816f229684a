"""Calls into DeepGEMM by its public interface (its README and tests, as of 2.8.0), imported in the calls alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8
from blockscale.kernels.moe_operator import operator
from blockscale.kernels.moe_routing import Tiles, local_experts, sort_into_tiles, weighted_sum
from blockscale.kernels.swiglu import SwiGLU
from blockscale.layouts.deepgemm import pack_scale
from blockscale.platforms import current_platform

_GROUP = 128  # columns of an activation that share a scale


def fp8_gemm(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, block_size: Sequence[int], dtype: torch.dtype
) -> torch.Tensor:
    """(..., N) of A (..., K) with scales (..., K / 128) and B (N, K) with scales per 128 x 128, all scales fp32.

    DeepGEMM writes bf16. On Blackwell it rounds fp32 scales to powers of two itself; on sm_90 it takes them as is.
    """
    import deep_gemm

    flat, scale = A.reshape(-1, A.shape[-1]), As.reshape(-1, As.shape[-1])
    out = torch.empty(flat.shape[0], B.shape[0], dtype=torch.bfloat16, device=A.device)
    aligned = deep_gemm.get_mn_major_tma_aligned_tensor(scale)
    is_hopper = current_platform.device_arch(A.device).name == "sm_90"
    deep_gemm.fp8_gemm_nt((flat, aligned), (B, Bs), out, disable_ue8m0_cast=is_hopper)
    return out.view(*A.shape[:-1], B.shape[0]).to(dtype)


@operator("deep_gemm")
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
    """The MoE by DeepGEMM's grouped FP8 x MXFP4 GEMM: (M, H) as x.

    Weights are as loaded, padded to multiples of 128, and their scales as `layouts.deepgemm` packs them. The padding is
    multiplied by zero, so it may hold anything but NaN. Activations are e4m3 in groups of 128 with e8m0 scales.
    RuntimeError for a DeepGEMM that is older than this GEMM.
    """
    import deep_gemm

    if not x.shape[0]:
        return torch.empty_like(x)
    local = local_experts(topk_ids, expert_map)
    tiles = sort_into_tiles(local, w13.shape[0], deep_gemm.get_mk_alignment_for_contiguous_layout())
    gemm = _Grouped(deep_gemm, tiles, local)
    columns = gemm(gemm.gathered(x, hidden_pad), w13, w13_scale, w13_bias)
    inner = activation.inner(columns, intermediate_pad).bfloat16()
    rows = gemm.assignments(gemm(inner, w2, w2_scale, w2_bias))
    return weighted_sum(rows, topk_weights, local)[:, : x.shape[1]].to(x.dtype)


class _Grouped:
    """DeepGEMM's contiguous layout: the assignments' rows by expert, each expert's padded to whole tiles."""

    def __init__(self, library: ModuleType, tiles: Tiles, local: torch.Tensor) -> None:
        self._multiply: Any = getattr(library, "m_grouped_fp8_fp4_gemm_nt_contiguous", None)
        if self._multiply is None:
            version = getattr(library, "__version__", "of an unknown version")
            raise RuntimeError(
                f"deep_gemm {version} has no m_grouped_fp8_fp4_gemm_nt_contiguous; install one from April 2026 or later"
            )
        self._rows, self._local = tiles.rows.long(), local
        owner = tiles.experts.repeat_interleave(tiles.size)
        # Its kernels skip rows that belong to no expert.
        self._layout = torch.where(self._rows < local.numel(), owner, -1).int()

    def gathered(self, x: torch.Tensor, pad: int) -> torch.Tensor:
        """(rows, H + pad) of x (M, H); zero where a row is padding."""
        padded = torch.nn.functional.pad(x, (0, pad, 0, 1))
        return padded[self._rows // self._local.shape[1]]

    def __call__(
        self, a: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """(rows, N) of a (rows, K) bf16 and weights (E, N, K / 2); rows that belong to no expert hold anything."""
        elements, scales = per_token_group_quant_fp8(a, _GROUP, torch.float8_e4m3fn, torch.float8_e8m0fnu)
        out = a.new_empty(a.shape[0], weight.shape[1])
        self._multiply(
            (elements, pack_scale(scales.view(torch.uint8))),
            (weight.view(torch.int8), scale),
            out,
            self._layout,
            recipe_a=(1, _GROUP),
            recipe_b=(1, 32),
        )
        return out if bias is None else out.float() + bias.float()[self._layout.clamp(min=0)]

    def assignments(self, rows: torch.Tensor) -> torch.Tensor:
        """(M * top_k, N) of (rows, N), in the order of tokens; rows of other ranks' experts hold anything."""
        total = self._local.numel()
        out = rows.new_empty(total + 1, rows.shape[1])  # the last takes all the padding
        out[self._rows] = rows
        return out[:total]
