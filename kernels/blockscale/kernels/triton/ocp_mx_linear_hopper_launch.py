"""The launcher of Hopper's OCP-MX linear for few tokens: what it serves, and its two or three launches."""

from __future__ import annotations

from typing import Any

import torch

from blockscale.formats.mx import ScaleRounding
from blockscale.kernels.triton import gluon, ocp_mx_linear
from blockscale.kernels.triton import ocp_mx_linear_hopper as kernel
from blockscale.kernels.triton.fp8_block_gemm import sum_splits
from blockscale.kernels.triton.gluon import triton
from blockscale.kernels.triton.hopper_launch import ALIGNMENT, descriptor, even_split, multiprocessors

_ROWS, _GROUP = 64, 128  # rows of weights for each warpgroup; columns of one step
_BOX = 64  # columns of memory to a tile: a step's of packed weights, half a step's of tokens


def serves(weight: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether the kernel can take these, on an sm_90: an aligned weight (its rows are whole MX blocks), and tokens."""
    return gluon.AVAILABLE and weight.data_ptr() % ALIGNMENT == 0 and x.numel() > 0


def gemm(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    dtype: torch.dtype,
    rounding: ScaleRounding,
    config: dict[str, Any],
) -> torch.Tensor:
    """Launch: x (M, K), quantized to MXFP4, times weights (N, K / 2) with scales (N, K / 32): (M, N) in `dtype`.

    `config` is an entry of configs/ocp_mx_linear with BLOCK_T; see `serves`.
    """
    (M, K), N = x.shape, weight.shape[0]
    values = ocp_mx_linear.quantize_placed(x, rounding)
    warpgroups, size = config["WARPGROUPS"], config["BLOCK_T"]
    tiles, row_tiles, steps = triton.cdiv(M, size), triton.cdiv(N, _ROWS * warpgroups), triton.cdiv(K, _GROUP)
    programs = multiprocessors(x.device) * config.get("PROGRAMS", 1)
    split_k = config.get("SPLIT_K") or even_split(tiles * row_tiles, steps, programs, config["most_splits"])
    split_k = min(split_k, steps)
    out = torch.empty(M, N, dtype=dtype, device=x.device)
    partial = out if split_k == 1 else torch.empty(split_k, M, N, dtype=torch.float32, device=x.device)
    options = {"maxnreg": config["maxnreg"]} if "maxnreg" in config else {}
    kernel._gemm[(min(tiles * row_tiles * split_k, programs),)](
        descriptor(weight, _ROWS, _BOX),
        descriptor(values, size, _BOX),
        scale,
        partial,
        M,
        N,
        K // 32,
        tiles,
        row_tiles,
        steps,
        M * N,
        BLOCK_T=size,
        SPLIT_K=split_k,
        STAGES=config["STAGES"],
        WARPGROUPS=warpgroups,
        REGISTERS=config.get("REGISTERS", 240),
        num_warps=4,
        launch_pdl=True,
        **options,
    )
    return out if split_k == 1 else sum_splits(partial, out, early=True)
