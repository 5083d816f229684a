"""Grouped GEMM of an MXFP4 MoE for Hopper: one warp copies tiles in, warpgroups dequantize weights and multiply.

The weights are the matrix unit's left operand, 64 rows to an instruction, and are taken from registers: a thread reads
16 packed bytes of a row, which is one MX block, and decodes them where the instruction expects them. That gives the
columns another order than memory's, the same in each 128 of them, and the activations are laid out in that order (see
moe_rows). Rows of activations are sorted by expert, so that a tile of them is one box of memory; rows of the next
expert at its end are multiplied too, and not stored.
"""

from __future__ import annotations

from blockscale.kernels.triton.gluon import copy_in, gl, gluon, hopper, in_pieces, let_next_start, wait_for_previous
from blockscale.kernels.triton.mxfp4_hopper_steps import multiply_steps, next_slot, place_of
from blockscale.kernels.triton.mxfp4_moe_hopper_block import any_large, store

_ROWS = gl.constexpr(64)  # of weights to a matrix instruction
_GROUP = gl.constexpr(128)  # columns of one step
_BYTES = gl.constexpr(64)  # of a row of weights in one step
_MOST_TO_ASK = gl.constexpr(64)  # tokens of a tile for which scales are looked at before


@gluon.jit
def _copy(
    weight,
    x,
    x_small,
    lists,
    slots,
    sizes,
    CONCATENATED: gl.constexpr,
    WAITS: gl.constexpr,
    BLOCK_T: gl.constexpr,
    SMALL_T: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,  # each has 64 rows of a tile
):
    """The copying warp: fills each slot once the warpgroups have read it.

    The first weights do not wait for the kernel before, unless that made the list of tiles.
    """
    count, tile_list = lists
    weights, tokens, few, full, empty = slots
    rows, second_half, row_tiles, steps, _, _, _, _ = sizes
    PIECE: gl.constexpr = _ROWS // 2 if CONCATENATED else _ROWS
    if WAITS:
        wait_for_previous()
    tiles = gl.load(count)
    units = tiles * row_tiles * SPLIT_K
    ahead = gl.to_tensor(0)  # slots whose weights are on their way already
    if not WAITS:
        if gl.program_id(0) < units:
            tile, row_tile, first, last, _ = place_of(gl.program_id(0), tiles, row_tiles, steps, SPLIT_K)
            row = gl.load(tile_list + 3 * tile) * rows + row_tile * (PIECE * WARPGROUPS)
            is_small = gl.load(tile_list + 3 * tile + 2) - gl.load(tile_list + 3 * tile + 1) <= SMALL_T
            ahead = gl.minimum(last - first, STAGES)
            for slot in range(0, ahead):
                _expect(full.index(slot), is_small, BLOCK_T, SMALL_T, WARPGROUPS)
                _copy_weights(weight, weights, full.index(slot), slot, row, second_half, first + slot,
                              CONCATENATED, PIECE, WARPGROUPS)  # fmt: skip
        wait_for_previous()
    slot = gl.to_tensor(0)
    phase = gl.to_tensor(1)  # nobody has to empty a slot that was never filled
    for unit in range(gl.program_id(0), units, gl.num_programs(0)):
        tile, row_tile, first, last, _ = place_of(unit, tiles, row_tiles, steps, SPLIT_K)
        start = gl.load(tile_list + 3 * tile + 1)
        row = gl.load(tile_list + 3 * tile) * rows + row_tile * (PIECE * WARPGROUPS)
        is_small = gl.load(tile_list + 3 * tile + 2) - start <= SMALL_T
        for step in range(first, last):
            barrier = full.index(slot)
            if ahead > 0:
                ahead -= 1
            else:
                hopper.mbarrier.wait(empty.index(slot), phase)
                _expect(barrier, is_small, BLOCK_T, SMALL_T, WARPGROUPS)
                _copy_weights(weight, weights, barrier, slot, row, second_half, step, CONCATENATED, PIECE, WARPGROUPS)
            for half in gl.static_range(2):
                at = [start, step * _GROUP + half * (_GROUP // 2)]
                if SMALL_T > 0:
                    if is_small:
                        copy_in(x_small, at, barrier, few.index((slot * 2 + half) * (BLOCK_T // SMALL_T)))
                    else:
                        copy_in(x, at, barrier, tokens.index(slot * 2 + half))
                else:
                    copy_in(x, at, barrier, tokens.index(slot * 2 + half))
            slot, phase = next_slot(slot, phase, STAGES)


@gluon.jit
def _expect(barrier, is_small, BLOCK_T: gl.constexpr, SMALL_T: gl.constexpr, WARPGROUPS: gl.constexpr):
    """Tell a slot's barrier how many bytes will come."""
    if SMALL_T > 0:
        if is_small:
            hopper.mbarrier.expect(barrier, _ROWS * WARPGROUPS * _BYTES + SMALL_T * _GROUP * 2)
        else:
            hopper.mbarrier.expect(barrier, _ROWS * WARPGROUPS * _BYTES + BLOCK_T * _GROUP * 2)
    else:
        hopper.mbarrier.expect(barrier, _ROWS * WARPGROUPS * _BYTES + BLOCK_T * _GROUP * 2)


@gluon.jit
def _copy_weights(
    weight,
    weights,
    barrier,
    slot,
    row,
    second_half,
    step,
    CONCATENATED: gl.constexpr,
    PIECE: gl.constexpr,
    WARPGROUPS: gl.constexpr,
):
    for block in gl.static_range(WARPGROUPS):
        to = weights.index(slot * WARPGROUPS + block)
        if CONCATENATED:
            copy_in(weight, [row + block * PIECE, step * _BYTES], barrier, to.slice(0, PIECE))
            below = row + second_half + block * PIECE
            copy_in(weight, [below, step * _BYTES], barrier, to.slice(PIECE, PIECE))
        else:
            copy_in(weight, [row + block * PIECE, step * _BYTES], barrier, to)


@gluon.jit
def _multiply(
    PART: gl.constexpr,
    weight_scale,
    bias,
    out,
    lists,
    slots,
    sizes,
    constants,
    GATED: gl.constexpr,
    CONCATENATED: gl.constexpr,
    LIMITED: gl.constexpr,
    HAS_BIAS: gl.constexpr,
    WAITS: gl.constexpr,
    BLOCK_T: gl.constexpr,
    SMALL_T: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
):
    """A warpgroup: rows PART * 64 and on of each tile."""
    count, tile_list = lists
    _, _, row_tiles, steps, _, _, _, _ = sizes
    weights, tokens, few, full, empty = slots
    if WAITS:  # else the copying warp's waiting is enough: nothing is written before its copies are here
        wait_for_previous()
    tiles = gl.load(count)
    slot = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for unit in range(gl.program_id(0), tiles * row_tiles * SPLIT_K, gl.num_programs(0)):
        tile, row_tile, first, last, split = place_of(unit, tiles, row_tiles, steps, SPLIT_K)
        expert = gl.load(tile_list + 3 * tile)
        start = gl.load(tile_list + 3 * tile + 1)
        end = gl.load(tile_list + 3 * tile + 2)
        what = (weight_scale, bias, out, expert, start, end, row_tile, first, last, split)
        if SMALL_T > 0:
            if end - start <= SMALL_T:
                slot, phase = _tile(PART, what, (weights, few, full, empty), slot, phase, sizes, constants, GATED,
                                    CONCATENATED, LIMITED, HAS_BIAS, SMALL_T, BLOCK_T // SMALL_T, STAGES,
                                    WARPGROUPS)  # fmt: skip
            else:
                slot, phase = _tile(PART, what, (weights, tokens, full, empty), slot, phase, sizes, constants, GATED,
                                    CONCATENATED, LIMITED, HAS_BIAS, BLOCK_T, 1, STAGES, WARPGROUPS)  # fmt: skip
        else:
            slot, phase = _tile(PART, what, (weights, tokens, full, empty), slot, phase, sizes, constants, GATED,
                                CONCATENATED, LIMITED, HAS_BIAS, BLOCK_T, 1, STAGES, WARPGROUPS)  # fmt: skip


@gluon.jit
def _tile(
    PART: gl.constexpr,
    what,
    slots,
    slot,
    phase,
    sizes,
    constants,
    GATED: gl.constexpr,
    CONCATENATED: gl.constexpr,
    LIMITED: gl.constexpr,
    HAS_BIAS: gl.constexpr,
    BLOCK_T: gl.constexpr,
    BOXES: gl.constexpr,  # of BLOCK_T tokens in a slot's half
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
):
    """One unit of work; gives the next slot and its phase."""
    weight_scale, bias, out, expert, start, end, row_tile, first, last, split = what
    rows, second_half, _, _, blocks, _, _, _ = sizes
    PIECE: gl.constexpr = _ROWS // 2 if CONCATENATED else _ROWS
    base = (row_tile * WARPGROUPS + PART) * PIECE
    # expert * rows * blocks can be more than 2^31
    scales = weight_scale + expert.to(gl.int64) * rows * blocks
    # Few tokens take less time to multiply than their weights to decode; many do not care.
    if BLOCK_T * BOXES <= _MOST_TO_ASK:
        own = gl.minimum(PIECE, (second_half if CONCATENATED else rows) - base) * blocks
        is_large = any_large(scales + base * blocks, own)
        if CONCATENATED:
            is_large = is_large | any_large(scales + (second_half + base) * blocks, own)
        if is_large:
            sum_, slot, phase = multiply_steps(PART, scales, slots, slot, phase, base, first, last, sizes, True, GATED,
                                       CONCATENATED, BLOCK_T, BOXES, STAGES, WARPGROUPS)  # fmt: skip
        else:
            sum_, slot, phase = multiply_steps(PART, scales, slots, slot, phase, base, first, last, sizes, False, GATED,
                                       CONCATENATED, BLOCK_T, BOXES, STAGES, WARPGROUPS)  # fmt: skip
    else:
        sum_, slot, phase = multiply_steps(PART, scales, slots, slot, phase, base, first, last, sizes, True, GATED,
                                   CONCATENATED, BLOCK_T, BOXES, STAGES, WARPGROUPS)  # fmt: skip
    store(sum_, bias + expert.to(gl.int64) * rows, out + split.to(gl.int64) * constants[3], base, (start, end, split),
           sizes, constants, GATED, CONCATENATED, LIMITED, HAS_BIAS, BLOCK_T)  # fmt: skip
    return slot, phase


@gluon.jit
def _grouped_gemm(
    weight,  # boxes of (E * rows, K_padded / 2) uint8
    x,  # boxes of (assignments, K to whole groups) bf16, sorted by expert, columns in the order of `place`
    x_small,  # boxes of SMALL_T rows of it, for tiles that have no more; not read if that is 0
    weight_scale,  # (E, rows, blocks) uint8
    bias,  # (E, rows) fp32, read if HAS_BIAS
    out,  # (SPLIT_K, assignments, stride_out): the activation's columns in the order of `place` if GATED
    count,  # (1,) int32: tiles that are used
    tile_list,  # (tiles, 3) int32: expert, first row and end of its rows
    rows,  # of the weight, padding included
    blocks,  # scales in a row of the weight, padding included
    row_tiles,
    steps,  # of K, by _GROUP
    used_blocks,  # of K
    columns,  # of the output
    stride_out,
    stride_split,
    alpha,
    limit,
    shift,
    GATED: gl.constexpr,
    CONCATENATED: gl.constexpr,
    LIMITED: gl.constexpr,
    HAS_BIAS: gl.constexpr,
    WAITS: gl.constexpr,  # the kernel before made the list of tiles; else one before that, and it made x alone
    BLOCK_T: gl.constexpr,
    SMALL_T: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
    REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    weights = gl.allocate_shared_memory(gl.uint8, [STAGES * WARPGROUPS, _ROWS, _BYTES], gl.NVMMASharedLayout(64, 8, 2))
    tokens = gl.allocate_shared_memory(x.dtype, [STAGES * 2, BLOCK_T, _GROUP // 2], x.layout)
    few = tokens
    if SMALL_T > 0:
        few = in_pieces(tokens, STAGES * 2 * (BLOCK_T // SMALL_T), SMALL_T)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], hopper.mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], hopper.mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        hopper.mbarrier.init(full.index(slot), count=1)
        hopper.mbarrier.init(empty.index(slot), count=WARPGROUPS)
    hopper.fence_async_shared()
    # The kernel after may start while this one ends. If it reads the list of tiles before it waits for this one, the
    # kernel that made the list must have ended by then.
    if WAITS:
        wait_for_previous()
    let_next_start()
    lists = (count, tile_list)
    slots = (weights, tokens, few, full, empty)
    sizes = (rows, rows // 2, row_tiles, steps, blocks, used_blocks, columns, stride_out)
    constants = (alpha, limit, shift, stride_split)
    if WARPGROUPS == 4:
        gl.warp_specialize(
            [
                (_multiply, (0, weight_scale, bias, out, lists, slots, sizes, constants, GATED, CONCATENATED, LIMITED,
                             HAS_BIAS, WAITS, BLOCK_T, SMALL_T, SPLIT_K, STAGES, WARPGROUPS)),
                (_multiply, (1, weight_scale, bias, out, lists, slots, sizes, constants, GATED, CONCATENATED, LIMITED,
                             HAS_BIAS, WAITS, BLOCK_T, SMALL_T, SPLIT_K, STAGES, WARPGROUPS)),
                (_multiply, (2, weight_scale, bias, out, lists, slots, sizes, constants, GATED, CONCATENATED, LIMITED,
                             HAS_BIAS, WAITS, BLOCK_T, SMALL_T, SPLIT_K, STAGES, WARPGROUPS)),
                (_multiply, (3, weight_scale, bias, out, lists, slots, sizes, constants, GATED, CONCATENATED, LIMITED,
                             HAS_BIAS, WAITS, BLOCK_T, SMALL_T, SPLIT_K, STAGES, WARPGROUPS)),
                (_copy, (weight, x, x_small, lists, slots, sizes, CONCATENATED, WAITS, BLOCK_T, SMALL_T, SPLIT_K,
                         STAGES, WARPGROUPS)),
            ],
            [4, 4, 4, 1],
            [REGISTERS, REGISTERS, REGISTERS, 24],
        )  # fmt: skip
    elif WARPGROUPS == 2:
        gl.warp_specialize(
            [
                (_multiply, (0, weight_scale, bias, out, lists, slots, sizes, constants, GATED, CONCATENATED, LIMITED,
                             HAS_BIAS, WAITS, BLOCK_T, SMALL_T, SPLIT_K, STAGES, WARPGROUPS)),
                (_multiply, (1, weight_scale, bias, out, lists, slots, sizes, constants, GATED, CONCATENATED, LIMITED,
                             HAS_BIAS, WAITS, BLOCK_T, SMALL_T, SPLIT_K, STAGES, WARPGROUPS)),
                (_copy, (weight, x, x_small, lists, slots, sizes, CONCATENATED, WAITS, BLOCK_T, SMALL_T, SPLIT_K,
                         STAGES, WARPGROUPS)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_multiply, (0, weight_scale, bias, out, lists, slots, sizes, constants, GATED, CONCATENATED, LIMITED,
                             HAS_BIAS, WAITS, BLOCK_T, SMALL_T, SPLIT_K, STAGES, WARPGROUPS)),
                (_copy, (weight, x, x_small, lists, slots, sizes, CONCATENATED, WAITS, BLOCK_T, SMALL_T, SPLIT_K,
                         STAGES, WARPGROUPS)),
            ],
            [1],
            [24],
        )  # fmt: skip
