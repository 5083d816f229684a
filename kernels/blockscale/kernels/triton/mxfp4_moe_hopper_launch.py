"""The launcher of Hopper's MXFP4 MoE: what it serves, and its four to six launches."""

from __future__ import annotations

from typing import Any

import torch

from blockscale.kernels.moe_router import Logits
from blockscale.kernels.swiglu import SwiGLU
from blockscale.kernels.triton import gluon
from blockscale.kernels.triton import mxfp4_moe_hopper as kernel
from blockscale.kernels.triton.gluon import triton
from blockscale.kernels.triton.hopper_launch import ALIGNMENT, descriptor, multiprocessors
from blockscale.kernels.triton.moe_gather import Sorted, sort_and_gather, sum_slots, whole_groups

_ROWS, _GROUP = 64, 128  # rows of weights for each warpgroup; columns of one step
_BOX = 64  # columns of memory to a tile: a step's of packed weights, half a step's of tokens


def serves(hidden: int, intermediate: int, *weights: torch.Tensor) -> bool:
    """Whether the kernel can take these weights and scales, on an sm_90: whole MX blocks used, and aligned bases."""
    whole = hidden % 32 == 0 and intermediate % 32 == 0
    return gluon.AVAILABLE and whole and all(weight.data_ptr() % ALIGNMENT == 0 for weight in weights)


def mxfp4_moe(
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
    w13_bias: torch.Tensor | None,
    w2_bias: torch.Tensor | None,
    activation: SwiGLU,
    expert_map: torch.Tensor | None,
    intermediate: int,
    config: dict[str, Any],
    logits: Logits | None = None,
) -> torch.Tensor:
    """Launch: (M, H) bf16 of x (M, H) bf16. `config` is an entry of configs/mxfp4_moe_hopper; see `serves`.

    Other arguments as `kernels.mxfp4_moe.mxfp4_moe` has them, I without padding, and not checked. With `logits`, by
    which experts are still to be chosen, topk_weights (M, k) fp32 and topk_ids (M, k) int32 are memory for the choice.
    """
    size, first, second = config["BLOCK_T"], config["w13"], config["w2"]
    assignments, hidden = topk_ids.numel(), x.shape[1]
    inner = torch.empty(assignments, whole_groups(intermediate), dtype=x.dtype, device=x.device)
    routed = None if logits is None else (logits, topk_weights)
    rows, sorted_ = sort_and_gather(
        x, topk_ids, expert_map, w13.shape[0], inner, intermediate, size, early=True, routed=routed
    )
    _grouped_gemm(rows, w13, w13_scale, w13_bias, inner.unsqueeze(0), sorted_, hidden, intermediate, activation, first)
    splits = min(second.get("SPLIT_K", 1), triton.cdiv(intermediate, _GROUP))
    if splits > 1:
        out = torch.empty(splits, assignments, hidden, dtype=torch.float32, device=x.device)
    else:
        out = rows.view(-1)[: assignments * hidden].view(1, assignments, hidden)  # the gathered rows are used up
    _grouped_gemm(inner, w2, w2_scale, w2_bias, out, sorted_, intermediate, hidden, None, second)
    return sum_slots(out, topk_weights, sorted_.position, early=True)


def _grouped_gemm(
    x: torch.Tensor,  # (assignments, K to whole groups)
    weight: torch.Tensor,  # (E, rows, K_padded / 2)
    scale: torch.Tensor,  # (E, rows, K_padded / 32)
    bias: torch.Tensor | None,  # (E, rows)
    out: torch.Tensor,  # (splits, assignments, stride)
    sorted_: Sorted,
    k: int,
    columns: int,
    activation: SwiGLU | None,
    config: dict[str, Any],
) -> None:
    """Launch: `columns` of `out`, with an activation in the order of `moe_rows.place`."""
    gated, concatenated = activation is not None, activation is not None and not activation.interleaved
    experts, rows, _ = weight.shape
    warpgroups, few = config["WARPGROUPS"], config.get("SMALL_T", 0)
    row_tiles = triton.cdiv(columns * (2 if gated else 1), _ROWS * warpgroups)
    most = sorted_.tiles.numel() // 3 * row_tiles * out.shape[0]
    programs = min(most, multiprocessors(x.device) * config.get("PROGRAMS", 1))
    options = {"maxnreg": config["maxnreg"]} if "maxnreg" in config else {}
    kernel._grouped_gemm[(programs,)](
        descriptor(weight.view(experts * rows, -1), _ROWS // 2 if concatenated else _ROWS, _BOX),
        descriptor(x, sorted_.size, _BOX),
        descriptor(x, few or sorted_.size, _BOX),
        scale,
        scale if bias is None else bias.contiguous(),
        out,
        sorted_.count,
        sorted_.tiles,
        rows,
        scale.shape[2],
        row_tiles,
        triton.cdiv(k, _GROUP),
        k // 32,
        columns,
        out.stride(1),
        out.stride(0),
        activation.alpha if activation else 1.0,
        (activation.limit or 0.0) if activation else 0.0,
        activation.shift if activation else 0.0,
        GATED=gated,
        CONCATENATED=concatenated,
        LIMITED=activation is not None and activation.limit is not None,
        HAS_BIAS=bias is not None,
        WAITS=gated,
        BLOCK_T=sorted_.size,
        SMALL_T=few,
        SPLIT_K=out.shape[0],
        STAGES=config["STAGES"],
        WARPGROUPS=warpgroups,
        REGISTERS=config.get("REGISTERS", 240),
        num_warps=4,
        launch_pdl=True,
        **options,
    )
