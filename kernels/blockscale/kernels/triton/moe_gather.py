"""Routing for the Hopper MoE on the device: assignments sorted by expert, their rows gathered, slots summed up.

`sort` ranks assignments by expert, `gather` lays the tokens' rows out in that order and lists tiles of them; few tokens
take one launch for both, and for the choice of their experts too. `sum_slots` gives each token the weighted sum of its
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from blockscale.kernels.moe_router import Logits
from blockscale.kernels.triton import moe_router
from blockscale.kernels.triton.language import let_next_start, tl, triton, wait_for_previous
from blockscale.kernels.triton.moe_gather_few import _route_and_gather_few, _sort_and_gather_few
from blockscale.kernels.triton.moe_rows import lay_out, local_experts
from blockscale.kernels.triton.scales import narrow

# Assignments that one launch sorts and gathers, comparing every two of them.
_FEW = 128
# Logits of which each program of such a launch chooses all tokens' experts; beyond, that is a launch of its own.
_FEW_LOGITS = 2048


@triton.jit
def _sort(
    ids,  # (assignments,) int32 or int64
    expert_map,  # (global experts,), read if HAS_MAP
    starts,  # (experts + 1,) int32, written: the first sorted row of each expert, and the number of rows
    order,  # (assignments,) int32, written: the assignment of each sorted row
    position,  # (assignments,) int32, written: the sorted row of each assignment, -1 for other ranks'
    assignments,
    experts,
    HAS_MAP: tl.constexpr,
    EARLY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program for each expert: how many assignments come before its own, and then each one's rank."""
    if EARLY:
        let_next_start()
        wait_for_previous()
    expert = tl.program_id(0)
    before = tl.zeros((BLOCK,), tl.int32)
    own = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, assignments, BLOCK):
        index = start + tl.arange(0, BLOCK)
        found = local_experts(ids, expert_map, index, index < assignments, experts, HAS_MAP)
        before += ((found >= 0) & (found < expert)).to(tl.int32)
        own += (found == expert).to(tl.int32)
    first = tl.sum(before, 0)
    tl.store(starts + expert, first)
    if expert == experts - 1:
        tl.store(starts + experts, first + tl.sum(own, 0))
    for start in range(0, assignments, BLOCK):
        index = start + tl.arange(0, BLOCK)
        found = local_experts(ids, expert_map, index, index < assignments, experts, HAS_MAP)
        mine = found == expert
        rank = first + tl.cumsum(mine.to(tl.int32), 0) - 1
        tl.store(order + rank, index, mask=mine)
        tl.store(position + index, rank, mask=mine)
        if expert == 0:
            tl.store(position + index, -1, mask=(found < 0) & (index < assignments))
        first += tl.sum(mine.to(tl.int32), 0)


@triton.jit
def _gather(
    x,  # (M, K) bf16
    starts,  # (experts + 1,) int32
    order,  # (assignments,) int32
    rows,  # (assignments, K to whole groups) bf16, written: columns as `place` has them, zero past K
    inner,  # (assignments, I to whole groups) bf16: zero past I
    count,  # (1,) int32, written: tiles that are used
    tile_list,  # (tiles, 3) int32, written: expert, first row, end of the expert's rows
    stride_x,
    K,
    intermediate,
    stride_rows,
    stride_inner,
    tiles,
    experts,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    EXPERTS: tl.constexpr,  # a power of two
    EARLY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if EARLY:
        let_next_start()
        wait_for_previous()
    row = tl.program_id(0)
    if row < tl.load(starts + experts):
        token = tl.load(order + row) // TOP_K
        lay_out(x, token, row, rows, inner, stride_x, K, intermediate, stride_rows, stride_inner, BLOCK)
    if (tl.program_id(1) == 0) & (row < tiles):
        expert = tl.arange(0, EXPERTS)
        is_expert = expert < experts
        first = tl.load(starts + expert, mask=is_expert, other=0)
        end = tl.load(starts + expert + 1, mask=is_expert, other=0)
        each = (end - first + BLOCK_T - 1) // BLOCK_T
        after = tl.cumsum(each, 0)
        mine = (row >= after - each) & (row < after) & is_expert
        tl.store(tile_list + 3 * row, tl.sum(tl.where(mine, expert, 0), 0))
        tl.store(tile_list + 3 * row + 1, tl.sum(tl.where(mine, first + (row - after + each) * BLOCK_T, 0), 0))
        tl.store(tile_list + 3 * row + 2, tl.sum(tl.where(mine, end, 0), 0))
        if row == 0:
            tl.store(count, tl.sum(each, 0))


@triton.jit
def _sum_slots(
    rows,  # (SPLITS, assignments, H), sorted
    topk_weights,  # (M, TOP_K) any float
    position,  # (M, TOP_K) int32
    out,  # (M, H)
    H,
    stride_split,
    TOP_K: tl.constexpr,
    SPLITS: tl.constexpr,
    EARLY: tl.constexpr,
    INTERPRETED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if EARLY:
        let_next_start()
        wait_for_previous()
    token = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for slot in tl.static_range(TOP_K):
        row = tl.load(position + token * TOP_K + slot).to(tl.int64)
        weight = tl.load(topk_weights + token * TOP_K + slot).to(tl.float32)
        is_there = row + tl.zeros((BLOCK,), tl.int64) >= 0
        value = tl.zeros((BLOCK,), tl.float32)
        for split in tl.static_range(SPLITS):
            part = rows + split * stride_split + row * H + h
            value += tl.load(part, mask=(h < H) & is_there, other=0.0).to(tl.float32)
        total += tl.where(is_there, weight * value, 0.0)
    tl.store(out + token * H + h, narrow(total, out.dtype.element_ty, INTERPRETED), mask=h < H)


@dataclass(frozen=True)
class Sorted:
    """Assignments by expert, in tiles of `size` rows. All on the device, which is not waited for.

    count: (1,) int32, the tiles that are used. tiles: (most, 3) int32: expert, first row, end of the expert's rows.
    position: (M, top_k) int32, each assignment's sorted row, -1 where another rank has it.
    """

    count: torch.Tensor
    tiles: torch.Tensor
    position: torch.Tensor
    size: int


def whole_groups(columns: int) -> int:
    """Columns rounded up to whole groups."""
    return -(-columns // 128) * 128


def sort_and_gather(
    x: torch.Tensor,
    topk_ids: torch.Tensor,
    expert_map: torch.Tensor | None,
    experts: int,
    inner: torch.Tensor,
    intermediate: int,
    size: int,
    early: bool,
    routed: tuple[Logits, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, Sorted]:
    """Launch: rows (assignments, K to whole groups) of x (M, K), sorted by expert, and where they lie.

    `inner` (assignments, I to whole groups) gets zeros past I. `early`: on an arch with programmatic dependent launch.
    `routed`: logits, by which experts are still to be chosen, and the (M, top_k) fp32 weights to be written; topk_ids
    is then memory for them.
    """
    (_, top_k), K = topk_ids.shape, x.shape[1]
    assignments = topk_ids.numel()
    most = min(assignments, assignments // size + min(experts, assignments))
    numbers = torch.empty(experts + 2 + 2 * assignments + 3 * most, dtype=torch.int32, device=x.device)
    starts, count, order, position, tiles = numbers.split([experts + 1, 1, assignments, assignments, 3 * most])
    rows = torch.empty(assignments, whole_groups(K), dtype=x.dtype, device=x.device)
    sorted_ = Sorted(count, tiles, position.view(topk_ids.shape), size)
    options = {"EARLY": early} | ({"launch_pdl": True} if early else {})
    mapping = {"HAS_MAP": expert_map is not None}
    # Few rows are spread over more programs, many take one each: what a program costs beside its bytes is waiting.
    columns = 1024 if assignments < 1024 else min(triton.next_power_of_2(rows.shape[1]), 8192)
    grid = (assignments, triton.cdiv(rows.shape[1], columns))
    if routed is not None:
        (logits, router, correction), topk_weights = routed
        how = moe_router.ways(router, correction, logits.shape[1])
        tokens = triton.next_power_of_2(len(x))
        if assignments <= _FEW and tokens * how["EXPERTS"] <= _FEW_LOGITS:
            _route_and_gather_few[grid](
                x, logits, logits if correction is None else correction, topk_weights, topk_ids,
                logits if expert_map is None else expert_map, rows, inner, position, count, tiles,
                x.stride(0), K, intermediate, rows.shape[1], inner.shape[1], assignments, experts, logits.shape[1],
                router.scale, BLOCK_T=size, TOKENS=tokens, ALL=triton.next_power_of_2(assignments), BLOCK=columns,
                **how, **mapping, **options,
            )  # fmt: skip
            return rows, sorted_
        moe_router.route(logits, router, correction, early, topk_weights, topk_ids)
    ids = topk_ids.contiguous()
    if assignments <= _FEW:
        _sort_and_gather_few[grid](
            x, ids, ids if expert_map is None else expert_map, rows, inner, position, count, tiles,
            x.stride(0), K, intermediate, rows.shape[1], inner.shape[1], assignments, experts,
            TOP_K=top_k, BLOCK_T=size, ALL=triton.next_power_of_2(assignments), BLOCK=columns, **mapping, **options,
        )  # fmt: skip
        return rows, sorted_
    block = min(triton.next_power_of_2(assignments), 16384)
    _sort[(experts,)](
        ids, ids if expert_map is None else expert_map, starts, order, position, assignments, experts,
        BLOCK=block, num_warps=max(4, min(block // 512, 32)), **mapping, **options,
    )  # fmt: skip
    _gather[grid](
        x, starts, order, rows, inner, count, tiles, x.stride(0), K, intermediate, rows.shape[1], inner.shape[1],
        most, experts,
        TOP_K=top_k, BLOCK_T=size, EXPERTS=triton.next_power_of_2(experts), BLOCK=columns, **options,
    )  # fmt: skip
    return rows, sorted_


def sum_slots(rows: torch.Tensor, topk_weights: torch.Tensor, position: torch.Tensor, early: bool) -> torch.Tensor:
    """Launch: (splits, assignments, H) sorted rows to (M, H) bf16, each token's weighted sum, in a fixed order."""
    (M, top_k), (splits, _, H) = position.shape, rows.shape
    out = torch.empty(M, H, dtype=torch.bfloat16, device=rows.device)
    options = {"launch_pdl": True} if early else {}
    block = 512 if M < 64 else min(triton.next_power_of_2(H), 4096)
    _sum_slots[(M, triton.cdiv(H, block))](
        rows, topk_weights.contiguous(), position, out, H, rows.stride(0), TOP_K=top_k, SPLITS=splits, EARLY=early,
        INTERPRETED=rows.device.type == "cpu", BLOCK=block, num_warps=8 if block == 4096 else 4, **options,
    )  # fmt: skip
    return out
