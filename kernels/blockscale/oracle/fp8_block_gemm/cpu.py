"""blockscale's CPU path: torch's bf16 matmul on weights widened to bf16, once after loading or at each call."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from blockscale import envs
from blockscale.kernels.fp8_block_gemm import prepared_mm, w8a8_triton_block_scaled_mm
from blockscale.layouts import cpu
from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend


def _convert(weight: torch.Tensor, scale: torch.Tensor, block_size: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The CPU's layout, unless the environment asks for less memory."""
    if not envs.widen_on_cpu():
        return weight, scale
    return cpu.fp8_weight(weight, scale, *block_size), cpu.no_scale(scale)


def _run(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, block_size: Sequence[int], dtype: torch.dtype
) -> torch.Tensor:
    """The weights themselves say which layout they are in: the environment may have changed since."""
    if B.dtype == torch.bfloat16:
        return prepared_mm(A, B, As, block_size[1], dtype)
    return w8a8_triton_block_scaled_mm(A, B, As, Bs, block_size, dtype)


BACKEND = Fp8Backend("CPU", order={"": 40}, requires=(requirements.platform("cpu"),), run=_run, convert=_convert)
