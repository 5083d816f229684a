"""What a backend of the FP8 block GEMM is beyond its requirements: how weights are laid out, and the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from blockscale.kernels.fp8_block_gemm import dequantized_mm, w8a8_triton_block_scaled_mm
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.selection import Backend

Run = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Sequence[int], torch.dtype], torch.Tensor]
"""A, B, As, Bs, block_size and output_dtype, as `kernels.fp8_block_gemm.w8a8_triton_block_scaled_mm` has them."""

Convert = Callable[[torch.Tensor, torch.Tensor, Sequence[int]], tuple[torch.Tensor, torch.Tensor]]
"""A weight (N, K) in the platform's FP8, its scales (N / block_n, K / block_k) and block_size to `run`'s B and Bs."""


def as_loaded(
    weight: torch.Tensor, scale: torch.Tensor, block_size: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The checkpoint's own layout."""
    return weight, scale


def dequantized(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, block_size: Sequence[int], dtype: torch.dtype
) -> torch.Tensor:
    """The fp32 product of dequantized operands, in plain torch."""
    return dequantized_mm(A, B, As, Bs, *block_size, dtype)


@dataclass(frozen=True)
class Fp8Backend(Backend[Fp8BlockGemmProblem]):
    """A backend and how it runs; `convert` brings weights into its layout, once, after loading."""

    run: Run = w8a8_triton_block_scaled_mm
    convert: Convert = as_loaded
