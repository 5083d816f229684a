"""OCP-MX linear of few tokens for Hopper: one warp copies tiles in, warpgroups decode weights and multiply.

Weights are decoded as the MoE's are (see mxfp4_moe_hopper), in registers, from where the matrix unit takes them as its
left operand. K is split over programs, whose sums another kernel adds up.
"""

from __future__ import annotations

from blockscale.kernels.triton.gluon import copy_in, gl, gluon, hopper, let_next_start, wait_for_previous
from blockscale.kernels.triton.mxfp4_hopper_steps import multiply_steps, next_slot, place_of
from blockscale.kernels.triton.mxfp4_moe_hopper_block import store

_ROWS = gl.constexpr(64)  # of weights to a warpgroup
_GROUP = gl.constexpr(128)  # columns of one step
_BYTES = gl.constexpr(64)  # of a row of weights in one step


@gluon.jit
def _copy_weights(weight, weights, barrier, slot, row, step, BLOCK_T: gl.constexpr, WARPGROUPS: gl.constexpr):
    """Tell a slot's barrier how many bytes will come, and send for those of its weights."""
    hopper.mbarrier.expect(barrier, _ROWS * WARPGROUPS * _BYTES + BLOCK_T * _GROUP * 2)
    for part in gl.static_range(WARPGROUPS):
        copy_in(weight, [row + part * _ROWS, step * _BYTES], barrier, weights.index(slot * WARPGROUPS + part))


@gluon.jit
def _copy(
    weight,
    x,
    slots,
    sizes,
    units,
    tiles,
    BLOCK_T: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
):
    """The copying warp: fills each slot once the warpgroups have read it. The first weights do not wait for x."""
    weights, tokens, full, empty = slots
    _, _, row_tiles, steps, _, _, _, _ = sizes
    _, row_tile, first, last, _ = place_of(gl.program_id(0), tiles, row_tiles, steps, SPLIT_K)
    ahead = gl.minimum(last - first, STAGES)  # slots whose weights are on their way already
    for slot in range(0, ahead):
        row = row_tile * (_ROWS * WARPGROUPS)
        _copy_weights(weight, weights, full.index(slot), slot, row, first + slot, BLOCK_T, WARPGROUPS)
    wait_for_previous()
    slot = gl.to_tensor(0)
    phase = gl.to_tensor(1)  # nobody has to empty a slot that was never filled
    for unit in range(gl.program_id(0), units, gl.num_programs(0)):
        tile, row_tile, first, last, _ = place_of(unit, tiles, row_tiles, steps, SPLIT_K)
        row = row_tile * (_ROWS * WARPGROUPS)
        for step in range(first, last):
            barrier = full.index(slot)
            if ahead > 0:
                ahead -= 1
            else:
                hopper.mbarrier.wait(empty.index(slot), phase)
                _copy_weights(weight, weights, barrier, slot, row, step, BLOCK_T, WARPGROUPS)
            for half in gl.static_range(2):
                at = [tile * BLOCK_T, step * _GROUP + half * (_GROUP // 2)]
                copy_in(x, at, barrier, tokens.index(slot * 2 + half))
            slot, phase = next_slot(slot, phase, STAGES)


@gluon.jit
def _multiply(
    PART: gl.constexpr,
    scale,
    out,
    slots,
    sizes,
    units,
    tiles,
    tokens,
    stride_split,
    BLOCK_T: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
):
    """A warpgroup: rows PART * 64 and on of each tile. Nothing is written before the copies of x are here."""
    _, _, row_tiles, steps, _, _, _, _ = sizes
    slot = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for unit in range(gl.program_id(0), units, gl.num_programs(0)):
        tile, row_tile, first, last, split = place_of(unit, tiles, row_tiles, steps, SPLIT_K)
        base = (row_tile * WARPGROUPS + PART) * _ROWS
        # Looking first whether a scale is large, as the MoE does, costs more here than it saves.
        sum_, slot, phase = multiply_steps(
            PART, scale, slots, slot, phase, base, first, last, sizes, True, False, False, BLOCK_T, 1, STAGES,
            WARPGROUPS,
        )  # fmt: skip
        start = tile * BLOCK_T
        span = (start, gl.minimum(start + BLOCK_T, tokens), split)
        to = out + split.to(gl.int64) * stride_split
        store(sum_, scale, to, base, span, sizes, (1.0, 0.0, 0.0, 0), False, False, False, False, BLOCK_T)


@gluon.jit
def _gemm(
    weight,  # boxes of (N, K / 2) uint8
    x,  # boxes of (M, K to whole groups) bf16, columns in the order of `place`
    scale,  # (N, K / 32) uint8
    out,  # (SPLIT_K, M, N): with SPLIT_K > 1, fp32 partial sums
    M,
    N,
    blocks,  # K / 32
    tiles,  # of tokens
    row_tiles,
    steps,  # of K, by _GROUP
    stride_split,
    BLOCK_T: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,  # 1 or 2
    REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    weights = gl.allocate_shared_memory(gl.uint8, [STAGES * WARPGROUPS, _ROWS, _BYTES], weight.layout)
    tokens = gl.allocate_shared_memory(x.dtype, [STAGES * 2, BLOCK_T, _GROUP // 2], x.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], hopper.mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], hopper.mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        hopper.mbarrier.init(full.index(slot), count=1)
        hopper.mbarrier.init(empty.index(slot), count=WARPGROUPS)
    hopper.fence_async_shared()
    let_next_start()
    slots = (weights, tokens, full, empty)
    sizes = (N, 0, row_tiles, steps, blocks, blocks, N, N)
    units = tiles * row_tiles * SPLIT_K
    if WARPGROUPS == 2:
        gl.warp_specialize(
            [
                (_multiply, (0, scale, out, slots, sizes, units, tiles, M, stride_split, BLOCK_T, SPLIT_K,
                             STAGES, WARPGROUPS)),
                (_multiply, (1, scale, out, slots, sizes, units, tiles, M, stride_split, BLOCK_T, SPLIT_K,
                             STAGES, WARPGROUPS)),
                (_copy, (weight, x, slots, sizes, units, tiles, BLOCK_T, SPLIT_K, STAGES, WARPGROUPS)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_multiply, (0, scale, out, slots, sizes, units, tiles, M, stride_split, BLOCK_T, SPLIT_K,
                             STAGES, WARPGROUPS)),
                (_copy, (weight, x, slots, sizes, units, tiles, BLOCK_T, SPLIT_K, STAGES, WARPGROUPS)),
            ],
            [1],
            [24],
        )  # fmt: skip
