"""The launcher of Hopper's FP8 block GEMM: what it serves, and which of its tiles are split along K."""

from __future__ import annotations

import functools
from typing import Any

import torch

from blockscale.kernels.triton import fp8_block_gemm_hopper as kernel
from blockscale.kernels.triton import gluon
from blockscale.kernels.triton.fp8_block_gemm import codes, sum_splits
from blockscale.kernels.triton.gluon import triton
from blockscale.kernels.triton.hopper_launch import (
    ALIGNMENT,
    STEPS_OF_A_UNIT,
    STEPS_OF_THE_SUM,
    descriptor,
    even_split,
    multiprocessors,
)

_ROWS, _BLOCK_K = 64, 128  # of the left operand for each warpgroup; bytes of a swizzled row


def serves(A: torch.Tensor, B: torch.Tensor, block_n: int, block_k: int) -> bool:
    """Whether the kernel can take these operands, on an sm_90: whole blocks of 128 and what a descriptor asks for."""
    K = B.shape[1]
    whole = block_n % 128 == 0 and block_k % _BLOCK_K == 0 and K % ALIGNMENT == 0
    aligned = all(operand.data_ptr() % ALIGNMENT == 0 for operand in (A, B))
    return gluon.AVAILABLE and whole and aligned and A.dtype == torch.float8_e4m3fn and A.numel() > 0


def fp8_block_gemm(
    A: torch.Tensor,  # (M, K) e4m3fn
    B: torch.Tensor,  # (N, K) e4m3fn
    As: torch.Tensor,  # (M, k_blocks) fp32 or e8m0
    Bs: torch.Tensor,  # (n_blocks, k_blocks)
    block_n: int,
    block_k: int,
    dtype: torch.dtype,
    config: dict[str, Any],
) -> torch.Tensor:
    """Launch: (M, N) in `dtype`. `config` is an entry of configs/fp8_block_gemm_hopper; see `serves`."""
    (M, K), N = A.shape, B.shape[0]
    out = torch.empty(M, N, dtype=dtype, device=A.device)
    if splits := config.get("most_tail_splits"):
        height = _ROWS * config["WARPGROUPS"]
        tiles = triton.cdiv(M, height), triton.cdiv(N, config["BLOCK_N"])
        start = M - rows_apart(*tiles, triton.cdiv(K, _BLOCK_K), multiprocessors(A.device), splits) * height
        _product(A[:start], B, As[:start], Bs, block_n, block_k, out[:start], config)
        if start < M:
            tail = {**config, "most_splits": splits}
            _product(A[start:], B, As[start:], Bs, block_n, block_k, out[start:], tail)
        return out
    return _product(A, B, As, Bs, block_n, block_k, out, config)


def _product(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_n: int,
    block_k: int,
    out: torch.Tensor,
    config: dict[str, Any],
) -> torch.Tensor:
    """Launch: the product into `out`, all of its tiles split along K alike."""
    (M, K), N = A.shape, B.shape[0]
    operands = [(A, As, 1, M, N), (B, Bs, block_n, N, 1)]  # with rows per scale, rows, and the stride of C over them
    if config["swap"]:
        operands.reverse()
    (left, left_scale, left_rows, m, stride_m), (right, right_scale, right_rows, n, stride_n) = operands
    warpgroups, block_n_tile = config["WARPGROUPS"], config["BLOCK_N"]
    tiles = triton.cdiv(m, _ROWS * warpgroups) * triton.cdiv(n, block_n_tile)
    programs = multiprocessors(A.device) * config.get("PROGRAMS", 1)
    split_k = config.get("SPLIT_K") or even_split(tiles, triton.cdiv(K, _BLOCK_K), programs, config["most_splits"])
    depth = config.get("DEPTH", 2)
    split_k = min(split_k, triton.cdiv(K, depth * _BLOCK_K))
    partial = out if split_k == 1 else torch.empty(split_k, M, N, dtype=torch.float32, device=A.device)
    # Tiles of C go out through shared memory, where rows are aligned and a tile is small enough.
    by_tiles = split_k == 1 and not config["swap"] and out.itemsize == 2 and N * out.itemsize % ALIGNMENT == 0
    options = {"maxnreg": config["maxnreg"]} if "maxnreg" in config else {}
    kernel._gemm[(min(tiles * split_k, programs),)](
        descriptor(left, _ROWS, _BLOCK_K),
        descriptor(right, block_n_tile, _BLOCK_K),
        codes(left_scale),
        codes(right_scale),
        partial,
        descriptor(out, _ROWS, block_n_tile) if by_tiles else None,
        m,
        n,
        K,
        tiles * split_k,
        left_scale.stride(0),
        right_scale.stride(0),
        M * N,
        stride_m,
        stride_n,
        LEFT_ROWS=left_rows,
        RIGHT_ROWS=right_rows,
        STEPS_PER_SCALE=block_k // _BLOCK_K,
        BLOCK_N=block_n_tile,
        GROUP_M=config["GROUP_M"],
        SPLIT_K=split_k,
        STAGES=config["STAGES"],
        WARPGROUPS=warpgroups,
        DEPTH=depth,
        num_warps=4,
        launch_pdl=True,
        **options,
    )
    return out if split_k == 1 else sum_splits(partial, out, early=True)


@functools.cache
def rows_apart(tiles_m: int, tiles_n: int, steps: int, programs: int, most: int) -> int:
    """How many of the last rows of tiles are done sooner apart, split along K, since they would be a round in which few
    programs have work; 0 where that gains less than a twentieth."""

    def cost(rows: int, split: int) -> int:
        return triton.cdiv(rows * tiles_n * split, programs) * (triton.cdiv(steps, split) + STEPS_OF_A_UNIT)

    rest = tiles_m - tiles_m * tiles_n // programs * programs // tiles_n
    apart = cost(tiles_m - rest, 1) + cost(rest, even_split(rest * tiles_n, steps, programs, most))
    apart += STEPS_OF_THE_SUM + STEPS_OF_A_UNIT
    return rest if 0 < rest < tiles_m and apart < 0.95 * cost(tiles_m, 1) else 0
