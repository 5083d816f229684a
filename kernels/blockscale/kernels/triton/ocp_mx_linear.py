"""OCP-MX linear in Triton: quantize activations to MXFP4, multiply by MXFP4 weights, sum over split K."""

from __future__ import annotations

from typing import Any

import torch

from blockscale.formats.mx import E2M1, ScaleRounding
from blockscale.kernels.triton import mxfp4, mxfp4_hopper
from blockscale.kernels.triton.fp8_block_gemm import sum_splits
from blockscale.kernels.triton.language import let_next_start, tl, triton, wait_for_previous
from blockscale.kernels.triton.scales import narrow


@triton.jit
def _quantize(
    x,  # (M, K) bf16, fp16 or fp32
    packed,  # (M, K / 2) uint8, written if PACK
    scale,  # (M, K / 32) uint8, written if PACK
    values,  # (M, stride_values) bf16, written unless PACK: what packed and scale stand for, zero past K
    M,
    K,
    stride_x,
    stride_values,
    ADDEND: tl.constexpr,
    PACK: tl.constexpr,
    PLACED: tl.constexpr,  # columns of each 128 where `moe_rows.place` puts them
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    if PLACED:  # sm_90 or later, whose kernels may start before the one before has ended
        let_next_start()
        wait_for_previous()
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k_start = tl.program_id(1) * BLOCK_K
    k = k_start + tl.arange(0, BLOCK_K)
    row = m.to(tl.int64)[:, None]
    inside = (m < M)[:, None] & (k < K)[None, :]
    block = tl.load(x + row * stride_x + k[None, :], mask=inside, other=0.0).to(tl.float32)
    code, scale_code = mxfp4.quantize(block, BLOCK_M, BLOCK_K, ADDEND)
    if PACK:
        byte = k_start // 2 + tl.arange(0, BLOCK_K // 2)
        group = k_start // 32 + tl.arange(0, BLOCK_K // 32)
        tl.store(
            packed + row * (K // 2) + byte[None, :],
            mxfp4.pack(code, BLOCK_M, BLOCK_K),
            mask=(m < M)[:, None] & (byte < K // 2)[None, :],
        )
        tl.store(
            scale + row * (K // 32) + group[None, :],
            scale_code.to(tl.uint8),
            mask=(m < M)[:, None] & (group < K // 32)[None, :],
        )
    else:
        exact = tl.reshape(mxfp4.decode_e2m1(code) * mxfp4.e8m0_to_fp32(scale_code)[:, :, None], (BLOCK_M, BLOCK_K))
        exact = exact.to(tl.bfloat16)
        if PLACED:
            exact = tl.reshape(exact, (BLOCK_M, BLOCK_K // 128, 4, 4, 2, 2, 2))  # thread, word, upper, half, pair
            exact = tl.reshape(tl.permute(exact, (0, 1, 5, 3, 6, 2, 4)), (BLOCK_M, BLOCK_K))
        tl.store(values + row * stride_values + k[None, :], exact, mask=(m < M)[:, None] & (k < stride_values))


@triton.jit
def _gemm(
    weight,  # (N, K / 2) uint8
    weight_scale,  # (N, K / 32) uint8
    x,  # (M, K) bf16; (M, K / 2) uint8 if NATIVE
    x_scale,  # (M, K / 32) uint8, read if NATIVE
    out,  # (SPLIT_K, M, N): with SPLIT_K > 1, fp32 partial sums
    M,
    N,
    K,
    stride_weight,
    stride_weight_scale,
    stride_x,
    stride_x_scale,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_N: tl.constexpr,
    SPLIT_K: tl.constexpr,
    EVEN_K: tl.constexpr,
    INTERPRETED: tl.constexpr,
    NATIVE: tl.constexpr,  # multiply MXFP4 by MXFP4 in the matrix unit, else dequantize the weights to bf16
):
    # The weights are the left operand: for few tokens they fill the tall side of the matrix instruction, and what has
    # been dequantized in registers can be used from there.
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_m = tl.cdiv(M, BLOCK_M)
    group = tile // (GROUP_N * tiles_m)
    group_size = min(tiles_n - group * GROUP_N, GROUP_N)
    tile_n = group * GROUP_N + (tile % (GROUP_N * tiles_m)) % group_size
    tile_m = (tile % (GROUP_N * tiles_m)) // group_size

    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    # Rows past the end read the last row, so that no load needs a mask for them; they are not stored.
    n_read = tl.minimum(n, N - 1).to(tl.int64)[:, None]
    m_read = tl.minimum(m, M - 1).to(tl.int64)[:, None]
    byte = tl.arange(0, BLOCK_K // 2)[None, :]
    block = tl.arange(0, BLOCK_K // 32)[None, :]
    k = tl.arange(0, BLOCK_K)[None, :]

    steps = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(steps, SPLIT_K)
    first = tl.program_id(1) * share
    last = min(first + share, steps)

    accumulator = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for step in range(first, last):
        bytes_in, blocks_in, k_in = step * (BLOCK_K // 2) + byte, step * (BLOCK_K // 32) + block, step * BLOCK_K + k
        # Past K, zero codes times 2^-127: they add nothing.
        if EVEN_K:
            w = tl.load(weight + n_read * stride_weight + bytes_in)
            ws = tl.load(weight_scale + n_read * stride_weight_scale + blocks_in)
        else:
            w = tl.load(weight + n_read * stride_weight + bytes_in, mask=bytes_in < K // 2, other=0)
            ws = tl.load(weight_scale + n_read * stride_weight_scale + blocks_in, mask=blocks_in < K // 32, other=0)
        if NATIVE:
            a = tl.load(x + m_read * stride_x + bytes_in, mask=bytes_in < K // 2, other=0)
            a_s = tl.load(x_scale + m_read * stride_x_scale + blocks_in, mask=blocks_in < K // 32, other=0)
            accumulator = tl.dot_scaled(w, ws, "e2m1", tl.trans(a), a_s, "e2m1", accumulator)
        else:
            if EVEN_K:
                a = tl.load(x + m_read * stride_x + k_in)
            else:
                a = tl.load(x + m_read * stride_x + k_in, mask=k_in < K, other=0.0)
            w = mxfp4.dequantize(w, ws, BLOCK_N, BLOCK_K)
            accumulator = mxfp4.dot(w, tl.trans(a), accumulator, INTERPRETED)

    split = tl.program_id(1).to(tl.int64)
    target = out + (split * M + m.to(tl.int64))[None, :] * N + n[:, None]
    tl.store(target, narrow(accumulator, out.dtype.element_ty, INTERPRETED), mask=(n < N)[:, None] & (m < M)[None, :])


@triton.jit
def _dequantize(packed, scale, out, rows, K, FAST: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_K: tl.constexpr):
    """(rows, K / 2) and (rows, K / 32) to (rows, K) bf16."""
    row = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)[:, None]
    byte = tl.program_id(1) * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2)[None, :]
    block = tl.program_id(1) * (BLOCK_K // 32) + tl.arange(0, BLOCK_K // 32)[None, :]
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)[None, :]
    w = tl.load(packed + row * (K // 2) + byte, mask=(row < rows) & (byte < K // 2), other=0)
    s = tl.load(scale + row * (K // 32) + block, mask=(row < rows) & (block < K // 32), other=0)
    if FAST:
        even, odd = mxfp4_hopper.dequantize_halves(w, s, BLOCK_ROWS, BLOCK_K)
        values = tl.reshape(tl.join(even, odd), (BLOCK_ROWS, BLOCK_K))
    else:
        values = mxfp4.dequantize(w, s, BLOCK_ROWS, BLOCK_K)
    tl.store(out + row * K + k, values, mask=(row < rows) & (k < K))


def quantize(x: torch.Tensor, rounding: ScaleRounding, pack: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch: (M, K) to packed (M, K / 2) and scales (M, K / 32); without `pack`, to their values (M, K), twice."""
    M, K = x.shape
    packed = torch.empty(M, K // 2 if pack else K, dtype=torch.uint8 if pack else torch.bfloat16, device=x.device)
    scale = torch.empty(M, K // 32, dtype=torch.uint8, device=x.device) if pack else packed
    _launch_quantize(x, packed, scale, rounding, PACK=pack, PLACED=False)
    return packed, scale


def quantize_placed(x: torch.Tensor, rounding: ScaleRounding) -> torch.Tensor:
    """Launch, on sm_90 or later: (M, K) to the values of its MXFP4, (M, K to whole 128) bf16, as `moe_rows.place`."""
    values = torch.empty(x.shape[0], -(-x.shape[1] // 128) * 128, dtype=torch.bfloat16, device=x.device)
    _launch_quantize(x, values, values, rounding, PACK=False, PLACED=True, launch_pdl=True)
    return values


def _launch_quantize(
    x: torch.Tensor, out: torch.Tensor, scale: torch.Tensor, rounding: ScaleRounding, **options: Any
) -> None:
    if x.numel() == 0:
        return
    M, K = x.shape
    block_m, block_k = (1, 1024) if M < 64 else (4, 512)
    grid = (triton.cdiv(M, block_m), triton.cdiv(K, block_k))
    _quantize[grid](
        x, out, scale, out, M, K, x.stride(0), out.stride(0), ADDEND=rounding.addend(E2M1), BLOCK_M=block_m,
        BLOCK_K=block_k, **options,
    )  # fmt: skip


def gemm_of_dequantized(
    x: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor, dtype: torch.dtype, rows: int, fast: bool
) -> torch.Tensor:
    """x (M, K) bf16 times weights (N, K / 2), `rows` of them dequantized to bf16 at a time: torch's own product.

    For many tokens, where the matrix unit is the limit and a weight is used often enough to pay for its way to memory.
    """
    out = torch.empty(x.shape[0], weight.shape[0], dtype=dtype, device=x.device)
    for start in range(0, weight.shape[0], rows):
        piece = slice(start, start + rows)
        wide = dequantize(weight[piece], weight_scale[piece], fast)
        if dtype == torch.bfloat16:
            torch.mm(x, wide.t(), out=out[:, piece])
        else:
            out[:, piece] = torch.mm(x, wide.t(), out_dtype=torch.float32)
        del wide  # else it would live until the next piece is made, which takes as much again
    return out


def dequantize(packed: torch.Tensor, scale: torch.Tensor, fast: bool = False) -> torch.Tensor:
    """Launch: (rows, K / 2) and (rows, K / 32), both contiguous, to (rows, K) bf16; `fast` on NVIDIA from sm_90 on."""
    rows, K = packed.shape[0], packed.shape[1] * 2
    out = torch.empty(rows, K, dtype=torch.bfloat16, device=packed.device)
    grid = (triton.cdiv(rows, 8), triton.cdiv(K, 512))
    _dequantize[grid](packed, scale, out, rows, K, fast, BLOCK_ROWS=8, BLOCK_K=512)
    return out


def gemm(
    x: torch.Tensor,  # (M, K) bf16, or (M, K / 2) uint8 with x_scale
    x_scale: torch.Tensor | None,  # (M, K / 32) uint8
    weight: torch.Tensor,  # (N, K / 2) uint8
    weight_scale: torch.Tensor,  # (N, K / 32) uint8
    dtype: torch.dtype,
    config: dict[str, Any],
) -> torch.Tensor:
    """Launch: x @ weight.T, (M, N) in `dtype`. With `x_scale` the matrix unit multiplies MXFP4 by MXFP4."""
    config = dict(config)
    M, (N, K) = x.shape[0], (weight.shape[0], weight.shape[1] * 2)
    out = torch.empty(M, N, dtype=dtype, device=x.device)
    if M == 0:
        return out
    split_k = min(config.pop("SPLIT_K"), triton.cdiv(K, config["BLOCK_K"]))
    partial = out if split_k == 1 else torch.empty(split_k, M, N, dtype=torch.float32, device=x.device)
    scale = weight_scale if x_scale is None else x_scale  # not read without NATIVE
    grid = (triton.cdiv(N, config["BLOCK_N"]) * triton.cdiv(M, config["BLOCK_M"]), split_k)
    _gemm[grid](
        weight,
        weight_scale,
        x,
        scale,
        partial,
        M,
        N,
        K,
        weight.stride(0),
        weight_scale.stride(0),
        x.stride(0),
        scale.stride(0),
        SPLIT_K=split_k,
        EVEN_K=K % config["BLOCK_K"] == 0,
        INTERPRETED=x.device.type == "cpu",
        NATIVE=x_scale is not None,
        **config,
    )
    return out if split_k == 1 else sum_splits(partial, out)
