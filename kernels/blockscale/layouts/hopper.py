"""Hopper's scale layout for triton_kernels' MXFP4 GEMM: each thread's scales lie together."""

from __future__ import annotations

import functools

from blockscale.layouts.tiling import Tiling


@functools.cache
def scale(num_warps: int) -> Tiling:
    """The layout for a kernel of 4 or 8 warps. Rows are padded to 32 per warp, columns to 2. ValueError for others."""
    if num_warps not in (4, 8):
        raise ValueError(f"num_warps: got {num_warps}, expected 4 or 8")
    return Tiling(f"Hopper scales, {num_warps} warps", (2, num_warps, 2, 8), (2,), (0, 2, 5, 1, 4, 6, 3))
