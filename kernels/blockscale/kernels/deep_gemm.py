"""Calls into DeepGEMM by its public interface, imported in the calls alone."""

from __future__ import annotations

import torch

from blockscale.platforms import current_platform


def fp8_gemm(
    a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """(..., N) of a (..., K) with scales (..., K / 128) and b (N, K) with scales per 128 x 128, all scales fp32.

    DeepGEMM writes bf16. On Blackwell it rounds fp32 scales to powers of two itself; on sm_90 it takes them as is.
    """
    import deep_gemm

    flat, scale = a.reshape(-1, a.shape[-1]), a_scale.reshape(-1, a_scale.shape[-1])
    out = torch.empty(flat.shape[0], b.shape[0], dtype=torch.bfloat16, device=a.device)
    aligned = deep_gemm.get_mn_major_tma_aligned_tensor(scale)
    is_hopper = current_platform.device_arch(a.device).name == "sm_90"
    deep_gemm.fp8_gemm_nt((flat, aligned), (b, b_scale), out, disable_ue8m0_cast=is_hopper)
    return out.view(*a.shape[:-1], b.shape[0]).to(dtype)
