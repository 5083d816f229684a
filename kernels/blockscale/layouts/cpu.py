"""The CPU's layout: bf16 numbers, the scales multiplied in, for torch's bf16 matmul.

To dequantize takes 0.4 ns an element on one core, several times what the product with a single token takes. Here it
is done once, after loading. Memory is 2 bytes an element, twice FP8's and 3.8 times MXFP4's with its scales, and what
a call reads of it grows likewise. The numbers are those that a call would make of the codes, to the bit. As codes and
scales are not kept, this layout alone has no inverse; an empty tensor stands in the place of the scales.
"""

from __future__ import annotations

import torch

from blockscale.formats import e8m0
from blockscale.formats.mx import BLOCK
from blockscale.kernels import cpu
from blockscale.kernels.checks import expect, expect_dtype, expect_no_nan, expect_shape
from blockscale.layouts.gate_up import interleaved_to_halves


def fp8_weight(weight: torch.Tensor, scale: torch.Tensor, block_n: int, block_k: int) -> torch.Tensor:
    """(N, K) bf16, each product rounded once, of e4m3 weights (N, K) with their scales, a block of N by K each.

    e4m3fn or e4m3fnuz. Scales are (ceil(N / block_n), ceil(K / block_k)), fp32 or e8m0. ValueError for other weights or
    scales, and for NaN among these.
    """
    expect(weight.dim() == 2, "weight", f"{weight.dim()} dimensions", "two, (N, K)")
    expect_dtype("weight", weight, (torch.float8_e4m3fn, torch.float8_e4m3fnuz))
    expect(weight.numel() > 0, "weight", f"shape {tuple(weight.shape)}", "(N, K), neither of them 0")
    expect(block_n > 0 and block_k > 0, "block_n, block_k", (block_n, block_k), "two positive integers")
    blocks = -(-weight.shape[0] // block_n), -(-weight.shape[1] // block_k)
    expect_shape("scale", scale, blocks, f"one scale per {block_n} x {block_k} block of the weight")
    expect_dtype("scale", scale, (torch.float32, torch.float8_e8m0fnu))
    expect_no_nan("scale", scale)
    return cpu.dequantize_fp8(weight, scale, block_n, block_k)


def mxfp4_weight(packed: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """(..., N, K) bf16, exact but for bf16's range, of packed e2m1 (..., N, K / 2) and e8m0 codes (..., N, K / 32).

    Both uint8, the codes float8_e8m0fnu as well. ValueError for others, and if the codes are not one to 32 elements.
    """
    expect_dtype("packed", packed, (torch.uint8,))
    whole_blocks = packed.dim() >= 2 and packed.numel() > 0 and packed.shape[-1] * 2 % BLOCK == 0
    wanted = f"(..., N, K / 2), none of them 0, with K a multiple of {BLOCK}"
    expect(whole_blocks, "packed", f"shape {tuple(packed.shape)}", wanted)
    expect_dtype("codes", codes, (torch.uint8, torch.float8_e8m0fnu))
    codes = e8m0.codes(codes)
    expect_shape("codes", codes, (*packed.shape[:-1], packed.shape[-1] * 2 // BLOCK), f"one to {BLOCK} elements")
    rows = cpu.dequantize_mxfp4(packed.flatten(0, -2), codes.flatten(0, -2))
    return rows.view(*packed.shape[:-1], rows.shape[-1])


def mxfp4_w13(packed: torch.Tensor, codes: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """(E, 2 I, H) bf16 as `mxfp4_weight`, all gates before all ups. `interleaved`: rows are g0, u0, g1, u1, ..."""
    if interleaved:
        packed, codes = interleaved_to_halves(packed), interleaved_to_halves(codes)
    return mxfp4_weight(packed, codes)


def no_scale(scale: torch.Tensor) -> torch.Tensor:
    """What stands in the place of a scale that is multiplied in: no elements, of its dtype."""
    return scale.new_empty(0)
