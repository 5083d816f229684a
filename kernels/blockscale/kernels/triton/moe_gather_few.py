"""Sorting and gathering the rows of few tokens in one launch, from their experts or from a router's logits."""

from __future__ import annotations

from blockscale.kernels.triton.language import let_next_start, tl, triton, wait_for_previous
from blockscale.kernels.triton.moe_router import choose
from blockscale.kernels.triton.moe_rows import lay_out, local_experts


@triton.jit
def _sort_and_gather_few(
    x,
    ids,  # (assignments,) int32 or int64
    expert_map,
    rows,
    inner,
    position,
    count,
    tile_list,
    stride_x,
    K,
    intermediate,
    stride_rows,
    stride_inner,
    assignments,
    experts,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    HAS_MAP: tl.constexpr,
    EARLY: tl.constexpr,
    ALL: tl.constexpr,  # assignments, up to a power of two
    BLOCK: tl.constexpr,
):
    """`_sort` and `_gather` in one, a program for each assignment; each ranks all of them by comparing every two."""
    if EARLY:
        let_next_start()
        wait_for_previous()
    sizes = (stride_x, K, intermediate, stride_rows, stride_inner, assignments, experts)
    _rank(x, ids, expert_map, rows, inner, position, count, tile_list, sizes, TOP_K, BLOCK_T, HAS_MAP, ALL, BLOCK)


@triton.jit
def _route_and_gather_few(
    x,
    logits,  # (tokens, global experts)
    correction,  # (global experts,) fp32, read if CORRECTED
    topk_weights,  # (assignments,) fp32, written
    ids,  # (assignments,) int32, written
    expert_map,
    rows,
    inner,
    position,
    count,
    tile_list,
    stride_x,
    K,
    intermediate,
    stride_rows,
    stride_inner,
    assignments,
    experts,
    global_experts,
    scale,
    TOP_K: tl.constexpr,
    SLOTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    SIGMOID: tl.constexpr,
    CORRECTED: tl.constexpr,
    RENORMALIZE: tl.constexpr,
    BLOCK_T: tl.constexpr,
    HAS_MAP: tl.constexpr,
    EARLY: tl.constexpr,
    TOKENS: tl.constexpr,  # tokens, up to a power of two
    ALL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """`_sort_and_gather_few` that starts at logits: each program chooses all tokens' experts for itself."""
    if EARLY:
        let_next_start()
        wait_for_previous()
    token, tokens = tl.arange(0, TOKENS), assignments // TOP_K
    chosen, weights = choose(
        logits, correction, token, tokens, global_experts, scale, TOP_K, SLOTS, EXPERTS, SIGMOID, CORRECTED, RENORMALIZE
    )
    # All programs write the same, and each reads no earlier than it has written.
    to = token[:, None] * TOP_K + tl.arange(0, SLOTS)[None, :]
    tl.store(ids + to, chosen, mask=chosen >= 0)
    tl.store(topk_weights + to, weights, mask=chosen >= 0)
    tl.debug_barrier()
    sizes = (stride_x, K, intermediate, stride_rows, stride_inner, assignments, experts)
    _rank(x, ids, expert_map, rows, inner, position, count, tile_list, sizes, TOP_K, BLOCK_T, HAS_MAP, ALL, BLOCK)


@triton.jit
def _rank(
    x,
    ids,
    expert_map,
    rows,
    inner,
    position,
    count,
    tile_list,
    sizes,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    HAS_MAP: tl.constexpr,
    ALL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Lay out a program's part of its assignment's row. One program of each writes down where it is, and its tile if
    it begins one; the first also how many tiles there are."""
    stride_x, K, intermediate, stride_rows, stride_inner, assignments, experts = sizes
    own = tl.program_id(0)
    index = tl.arange(0, ALL)
    expert = local_experts(ids, expert_map, index, index < assignments, experts, HAS_MAP)
    mine = local_experts(ids, expert_map, own, own < assignments, experts, HAS_MAP)
    is_before = (expert >= 0) & ((expert < mine) | ((expert == mine) & (index < own)))
    row = tl.sum(is_before.to(tl.int32), 0)
    if mine >= 0:
        lay_out(x, own // TOP_K, row, rows, inner, stride_x, K, intermediate, stride_rows, stride_inner, BLOCK)
    if tl.program_id(1) == 0:
        tl.store(position + own, tl.where(mine >= 0, row, -1))
        rank = tl.sum((is_before & (expert == mine)).to(tl.int32), 0)
        if (mine >= 0) & (rank % BLOCK_T == 0) | (own == 0):
            # The first of a tile enters it in the list, behind the tiles of which it counts the first ones.
            same = (expert[:, None] == expert[None, :]) & (index[None, :] < index[:, None])
            is_first = (expert >= 0) & (tl.sum(same.to(tl.int32), 1) % BLOCK_T == 0)
            if (mine >= 0) & (rank % BLOCK_T == 0):
                tile = tl.sum((is_first & is_before).to(tl.int32), 0)
                tl.store(tile_list + 3 * tile, mine)
                tl.store(tile_list + 3 * tile + 1, row)
                tl.store(tile_list + 3 * tile + 2, row - rank + tl.sum((expert == mine).to(tl.int32), 0))
            if own == 0:
                tl.store(count, tl.sum(is_first.to(tl.int32), 0))
