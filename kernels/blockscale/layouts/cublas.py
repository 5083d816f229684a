"""cuBLASLt's layouts of fp32 block scales, as torch.nn.functional.scaled_mm takes them (pytorch/pytorch#166752)."""

from __future__ import annotations

import torch

_ALIGNMENT = 4  # K blocks


def columns_first(scale: torch.Tensor) -> torch.Tensor:
    """Scales of activations, (M, k) with strides (1, M)."""
    # Copied: a tensor of one row counts as contiguous whatever its strides are.
    return scale.new_empty(*scale.shape[::-1]).t().copy_(scale)


def block_scale(scale: torch.Tensor) -> torch.Tensor:
    """Scales of a weight, (n, k) per 128 x 128 block, as (k padded to 4, n) with strides (1, k padded); zero pads."""
    return torch.nn.functional.pad(scale, (0, -scale.shape[1] % _ALIGNMENT)).contiguous().t()


def plain_block_scale(laid_out: torch.Tensor, k: int) -> torch.Tensor:
    """The inverse of `block_scale`: (n, k). ValueError if `laid_out` does not hold k blocks."""
    if laid_out.shape[0] != k + -k % _ALIGNMENT:
        raise ValueError(f"laid_out: got {laid_out.shape[0]} rows, expected {k + -k % _ALIGNMENT} for k = {k}")
    return laid_out.t()[:, :k].contiguous()
