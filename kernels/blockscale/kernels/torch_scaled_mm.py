"""torch's own FP8 product with block scales: cuBLASLt's on Hopper, from CUDA 12.9 on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from blockscale.layouts import cublas

_ROWS = 4  # cuBLASLt wants rows of activations in fours


def fp8_block_gemm(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, block_size: Sequence[int], dtype: torch.dtype
) -> torch.Tensor:
    """(..., N) of A (..., K) with scales (..., K / 128) and B (N, K) with scales in `layouts.cublas`, all scales fp32.

    The product is made in bf16, as DeepGEMM's is.
    """
    flat, scale = A.reshape(-1, A.shape[-1]), As.reshape(-1, As.shape[-1])
    if not flat.shape[0]:
        return A.new_empty(*A.shape[:-1], B.shape[0], dtype=dtype)
    more = (0, 0, 0, -flat.shape[0] % _ROWS)
    out = functional.scaled_mm(
        functional.pad(flat.view(torch.uint8), more).view(A.dtype),
        B.t(),
        cublas.columns_first(functional.pad(scale, more)),
        functional.ScalingType.BlockWise1x128,
        Bs,
        functional.ScalingType.BlockWise128x128,
        output_dtype=torch.bfloat16,
    )
    return out[: flat.shape[0]].view(*A.shape[:-1], B.shape[0]).to(dtype)
