"""MXFP4 MoE in Triton: a grouped GEMM over tiles of one expert each, used for w13 with its activation and for w2."""

from __future__ import annotations

from typing import Any

import torch

from blockscale.kernels.moe_routing import Tiles
from blockscale.kernels.swiglu import SwiGLU
from blockscale.kernels.triton import mxfp4
from blockscale.kernels.triton.language import tl, triton
from blockscale.kernels.triton.scales import narrow


@triton.jit
def _grouped_gemm(
    x,  # (rows of x, K) bf16
    weight,  # (E, rows of weight, K_padded / 2) uint8
    weight_scale,  # (E, rows of weight, K_padded / 32) uint8
    bias,  # (E, rows of weight) fp32, read if HAS_BIAS
    row_weight,  # (assignments,) fp32, what each output row is multiplied by, read unless GATED
    out,  # (assignments, N / 2) if GATED, else (assignments, N)
    tile_rows,  # (tiles * BLOCK_M,) int32: assignments, or `assignments` for padding
    tile_experts,  # (tiles,) int32: experts, or E for an unused tile
    assignments,
    experts,
    N,  # rows of weight that are used
    K,  # columns that are used
    stride_x,
    stride_expert,
    stride_weight,
    stride_scale_expert,
    stride_scale,
    stride_bias,
    second_half,  # the row where the ups start, unless INTERLEAVED
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,  # None: no limit
    SHIFT: tl.constexpr,
    TOP_K: tl.constexpr,  # rows of x are tokens, each assigned TOP_K times; 1: rows of x are assignments
    GATED: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    INTERPRETED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile = tl.program_id(1)
    expert = tl.load(tile_experts + tile).to(tl.int64)
    if expert >= experts:
        return
    row = tl.load(tile_rows + tile * BLOCK_M + tl.arange(0, BLOCK_M))
    is_row = row < assignments
    x_row = (tl.where(is_row, row, 0) // TOP_K).to(tl.int64)[:, None]  # padding reads row 0 and is not stored

    # A gate and its up are neighbours in n, wherever w13 keeps them.
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    n_read = tl.minimum(n, N - 1)
    w_row = n_read
    if GATED and not INTERLEAVED:
        w_row = n_read // 2 + (n_read % 2) * second_half
    w_rows = w_row.to(tl.int64)[:, None]

    byte = tl.arange(0, BLOCK_K // 2)[None, :]
    block = tl.arange(0, BLOCK_K // 32)[None, :]
    k = tl.arange(0, BLOCK_K)[None, :]
    weight += expert * stride_expert
    weight_scale += expert * stride_scale_expert
    accumulator = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        # Past K lies padding, whose bytes may be anything: it is never read.
        w_mask, s_mask = start // 2 + byte < K // 2, start // 32 + block < (K + 31) // 32
        w = tl.load(weight + w_rows * stride_weight + start // 2 + byte, mask=w_mask, other=0)
        s = tl.load(weight_scale + w_rows * stride_scale + start // 32 + block, mask=s_mask, other=0)
        a = tl.load(x + x_row * stride_x + start + k, mask=start + k < K, other=0.0)
        w = mxfp4.dequantize(w, s, BLOCK_N, BLOCK_K)
        accumulator = mxfp4.dot(w, tl.trans(a), accumulator, INTERPRETED)

    if HAS_BIAS:
        accumulator += tl.load(bias + expert * stride_bias + w_row)[:, None]
    out_row = row.to(tl.int64)[None, :]
    if GATED:
        pairs = tl.permute(tl.reshape(accumulator, (BLOCK_N // 2, 2, BLOCK_M)), (0, 2, 1))
        gate, up = tl.split(pairs)
        if LIMIT is not None:
            gate = tl.where(gate > LIMIT, LIMIT, gate)  # keeps NaN
            up = tl.where(up > LIMIT, LIMIT, tl.where(up < -LIMIT, -LIMIT, up))
        value = gate / (1.0 + tl.exp(-ALPHA * gate)) * (up + SHIFT)
        column = (tl.program_id(0) * (BLOCK_N // 2) + tl.arange(0, BLOCK_N // 2))[:, None]
        target = out + out_row * (N // 2) + column
        tl.store(target, narrow(value, out.dtype.element_ty, INTERPRETED), mask=is_row[None, :] & (column < N // 2))
    else:
        value = accumulator * tl.load(row_weight + row, mask=is_row, other=0.0)[None, :]
        target = out + out_row * N + n[:, None]
        tl.store(target, narrow(value, out.dtype.element_ty, INTERPRETED), mask=is_row[None, :] & (n < N)[:, None])


@triton.jit
def _sum_slots(
    rows,  # (M * TOP_K, H)
    local,  # (M * TOP_K,) int64: local experts, -1 for rows that nobody wrote
    out,  # (M, H)
    H,
    TOP_K: tl.constexpr,
    INTERPRETED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for slot in tl.static_range(TOP_K):
        row = token * TOP_K + slot
        written = tl.where(tl.load(local + row) >= 0, H, 0)  # columns
        total += tl.load(rows + row * H + h, mask=h < written, other=0.0).to(tl.float32)
    tl.store(out + token * H + h, narrow(total, out.dtype.element_ty, INTERPRETED), mask=h < H)


def grouped_gemm(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    row_weight: torch.Tensor,
    tiles: Tiles,
    *,
    n: int,
    k: int,
    top_k: int,
    activation: SwiGLU | None,
    config: dict[str, Any],
) -> torch.Tensor:
    """Launch: one row per assignment, (assignments, n) or with an activation (assignments, n / 2), in x's dtype.

    Rows of assignments that are in no tile are not written. `n` and `k` are what is used of the weight's padded size.
    """
    assignments = row_weight.numel()
    columns = n if activation is None else n // 2
    out = torch.empty(assignments, columns, dtype=x.dtype, device=x.device)
    _grouped_gemm[(triton.cdiv(n, config["BLOCK_N"]), tiles.experts.numel())](
        x,
        weight,
        weight_scale,
        row_weight if bias is None else bias,
        row_weight,
        out,
        tiles.rows,
        tiles.experts,
        assignments,
        weight.shape[0],
        n,
        k,
        x.stride(0),
        weight.stride(0),
        weight.stride(1),
        weight_scale.stride(0),
        weight_scale.stride(1),
        0 if bias is None else bias.stride(0),
        weight.shape[1] // 2,
        ALPHA=activation.alpha if activation else 1.0,
        LIMIT=activation.limit if activation else None,
        SHIFT=activation.shift if activation else 0.0,
        TOP_K=top_k,
        GATED=activation is not None,
        INTERLEAVED=activation is not None and activation.interleaved,
        HAS_BIAS=bias is not None,
        INTERPRETED=x.device.type == "cpu",
        BLOCK_M=tiles.size,
        **config,
    )
    return out


def sum_slots(rows: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """Launch: (M * top_k, H) rows and (M, top_k) local experts to (M, H), in a fixed order."""
    (M, top_k), H = local.shape, rows.shape[1]
    out = torch.empty(M, H, dtype=rows.dtype, device=rows.device)
    interpreted = rows.device.type == "cpu"
    _sum_slots[(M, triton.cdiv(H, 1024))](rows, local, out, H, TOP_K=top_k, INTERPRETED=interpreted, BLOCK=1024)
    return out
