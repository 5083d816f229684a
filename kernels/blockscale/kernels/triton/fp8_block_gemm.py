"""FP8 GEMM with block scales, in Triton: one kernel for all shapes, and the sum over split K.

The kernel treats both operands alike: (rows, K) fp8, with one scale for some rows and `block_k` of K. For few
activation rows its launcher hands over the weights as the left operand, so that weights fill the tall matrix
instructions, and has C written transposed: the strides of C say so.
"""

from __future__ import annotations

from typing import Any

import torch

from blockscale.kernels.triton.language import tl, triton, wait_for_previous
from blockscale.kernels.triton.scales import e4m3fn_to_fp16, load_scale, narrow

_SUM_BLOCK = 256  # elements: small, so that also one row of C gives work to many multiprocessors


@triton.jit
def _gemm(
    left,  # (M, K) fp8
    right,  # (N, K) fp8
    left_scale,  # (ceil(M / LEFT_ROWS), k_blocks) fp32 or e8m0
    right_scale,  # (ceil(N / RIGHT_ROWS), k_blocks)
    out,  # (SPLIT_K, M, N): with SPLIT_K > 1, fp32 partial sums
    M,
    N,
    K,
    stride_left,
    stride_right,
    stride_left_scale,
    stride_right_scale,
    stride_out_split,
    stride_out_m,
    stride_out_n,
    LEFT_ROWS: tl.constexpr,  # rows that share a scale
    RIGHT_ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,  # divides block_k
    K_STEPS_PER_SCALE: tl.constexpr,  # block_k / BLOCK_K
    GROUP_M: tl.constexpr,
    SPLIT_K: tl.constexpr,
    EVEN_K: tl.constexpr,  # K is a multiple of BLOCK_K
    DECODE: tl.constexpr,  # operands are uint8 codes of e4m3fn
    INTERPRETED: tl.constexpr,
):
    # Tiles in groups of GROUP_M rows of tiles, so that neighbours in time share operands in the L2 cache.
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group = tile // (GROUP_M * tiles_n)
    group_size = min(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + (tile % (GROUP_M * tiles_n)) % group_size
    tile_n = (tile % (GROUP_M * tiles_n)) // group_size

    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    # Rows past the end read the last row, so that no load needs a mask for them; they are not stored.
    m_read = tl.minimum(m, M - 1)
    n_read = tl.minimum(n, N - 1)

    # This program's share of the K steps. Split evenly; the last share may be short or empty.
    steps = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(steps, SPLIT_K)
    first = tl.program_id(1) * share
    last = min(first + share, steps)

    # Row offsets in 64 bits: M * K may pass 2^31.
    left_rows = left + m_read.to(tl.int64)[:, None] * stride_left
    right_rows = right + n_read.to(tl.int64)[:, None] * stride_right
    left_scales = left_scale + (m_read // LEFT_ROWS) * stride_left_scale
    right_scales = right_scale + (n_read // RIGHT_ROWS) * stride_right_scale

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(first, last):
        columns = step * BLOCK_K + k
        if EVEN_K:
            a = tl.load(left_rows + columns[None, :])
            b = tl.load(right_rows + columns[None, :])
        else:
            k_inside = (columns < K)[None, :]
            a = tl.load(left_rows + columns[None, :], mask=k_inside, other=0.0)
            b = tl.load(right_rows + columns[None, :], mask=k_inside, other=0.0)
        if DECODE:
            a = e4m3fn_to_fp16(a)
            b = e4m3fn_to_fp16(b)
        # Each product starts from zero and is added in fp32: Hopper's own fp8 accumulator has fewer bits.
        product = tl.dot(a, tl.trans(b))  # (BLOCK_M, BLOCK_N)

        scale_column = step // K_STEPS_PER_SCALE
        # Where all rows of a tile share their scale, one load and a scalar will do.
        if RIGHT_ROWS % BLOCK_N == 0:
            scale = load_scale(left_scales + scale_column)
            one = load_scale(right_scale + (tile_n * BLOCK_N // RIGHT_ROWS) * stride_right_scale + scale_column)
            accumulator += product * (scale * one)[:, None]
        elif LEFT_ROWS % BLOCK_M == 0:
            scale = load_scale(right_scales + scale_column)
            one = load_scale(left_scale + (tile_m * BLOCK_M // LEFT_ROWS) * stride_left_scale + scale_column)
            accumulator += product * (scale * one)[None, :]
        else:
            a_scale = load_scale(left_scales + scale_column)
            b_scale = load_scale(right_scales + scale_column)
            accumulator += product * a_scale[:, None] * b_scale[None, :]

    split = tl.program_id(1).to(tl.int64)
    target = out + split * stride_out_split
    target += m.to(tl.int64)[:, None] * stride_out_m + n.to(tl.int64)[None, :] * stride_out_n
    tl.store(target, narrow(accumulator, out.dtype.element_ty, INTERPRETED), mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def _sum_splits(
    partial,  # (SPLIT_K, size) fp32
    out,  # (size,)
    size,
    SPLIT_K: tl.constexpr,
    INTERPRETED: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,  # launched while the kernel before still runs (sm_90 and later)
):
    if EARLY:
        wait_for_previous()
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    addend = partial + i
    for _ in tl.static_range(SPLIT_K):
        total += tl.load(addend, mask=i < size, other=0.0)
        addend += size  # step by step: SPLIT_K * size may pass 2^31
    tl.store(out + i, narrow(total, out.dtype.element_ty, INTERPRETED), mask=i < size)


def block_k_step(block_k: int) -> int:
    """How much of K one step takes: the largest power of two, at most 128, that divides block_k."""
    return min(block_k & -block_k, 128)


def fp8_block_gemm(
    A: torch.Tensor,  # (M, K) fp8
    B: torch.Tensor,  # (N, K) fp8
    As: torch.Tensor,  # (M, k_blocks) fp32 or e8m0
    Bs: torch.Tensor,  # (n_blocks, k_blocks)
    block_n: int,
    block_k: int,
    dtype: torch.dtype,
    config: dict[str, Any],
    decode: bool,
) -> torch.Tensor:
    """Launch: (M, N) in `dtype`. `config` is an entry of configs/fp8_block_gemm; `decode` is for archs without fp8."""
    config = dict(config)
    (M, K), N = A.shape, B.shape[0]
    out = torch.empty(M, N, dtype=dtype, device=A.device)
    if M == 0:
        return out
    split_k = min(config.pop("SPLIT_K"), triton.cdiv(K, block_k))
    partial = out if split_k == 1 else torch.empty(split_k, M, N, dtype=torch.float32, device=A.device)
    operands = [(A, As, 1, M, N), (B, Bs, block_n, N, 1)]  # with rows per scale, rows, and the stride of C over them
    if config.pop("swap"):
        operands.reverse()
    (left, left_scale, left_rows, m, stride_m), (right, right_scale, right_rows, n, stride_n) = operands
    step = block_k_step(block_k)
    grid = (triton.cdiv(m, config["BLOCK_M"]) * triton.cdiv(n, config["BLOCK_N"]), split_k)
    _gemm[grid](
        codes(left) if decode else left,
        codes(right) if decode else right,
        codes(left_scale),
        codes(right_scale),
        partial,
        m,
        n,
        K,
        left.stride(0),
        right.stride(0),
        left_scale.stride(0),
        right_scale.stride(0),
        M * N,
        stride_m,
        stride_n,
        LEFT_ROWS=left_rows,
        RIGHT_ROWS=right_rows,
        BLOCK_K=step,
        K_STEPS_PER_SCALE=block_k // step,
        SPLIT_K=split_k,
        EVEN_K=K % step == 0,
        DECODE=decode,
        INTERPRETED=A.device.type == "cpu",
        **config,
    )
    return out if split_k == 1 else sum_splits(partial, out)


def sum_splits(partial: torch.Tensor, out: torch.Tensor, early: bool = False) -> torch.Tensor:
    """Launch: `out` becomes the sum of `partial` (SPLIT_K, *out.shape) fp32 over its first dimension, in order.

    `early`, for sm_90 and later: its programs may start while the kernel before still runs, and wait there for its end.
    """
    size = out.numel()
    options = {"launch_pdl": True} if early else {}
    interpreted = out.device.type == "cpu"
    grid = (triton.cdiv(size, _SUM_BLOCK),)
    _sum_splits[grid](
        partial, out, size, partial.shape[0], INTERPRETED=interpreted, BLOCK=_SUM_BLOCK, EARLY=early, **options
    )
    return out


def codes(tensor: torch.Tensor) -> torch.Tensor:
    """One-byte floats as uint8 (e8m0 has no Triton type); fp32 as it is."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
