"""A warpgroup's way along K, which Hopper's MXFP4 kernels share: 64 rows of weights are decoded and multiplied."""

from __future__ import annotations

from blockscale.kernels.triton.gluon import gl, gluon, hopper
from blockscale.kernels.triton.mxfp4_moe_hopper_block import load_scales, operands

_ROWS = gl.constexpr(64)


@gluon.jit
def next_slot(slot, phase, STAGES: gl.constexpr):
    """The slot behind this one in the ring, and the phase of its barriers."""
    wraps = slot == STAGES - 1
    return gl.where(wraps, 0, slot + 1), gl.where(wraps, phase ^ 1, phase)


@gluon.jit
def place_of(unit, tiles, row_tiles, steps, SPLIT_K: gl.constexpr):
    """A unit's tile of tokens, tile of rows, share of the K steps and split. Neighbours share their tokens."""
    split = unit // (tiles * row_tiles)
    tile = unit % (tiles * row_tiles)
    return tile // row_tiles, tile % row_tiles, steps * split // SPLIT_K, steps * (split + 1) // SPLIT_K, split


@gluon.jit
def multiply_steps(
    PART: gl.constexpr,
    scales,
    slots,
    slot,
    phase,
    base,
    first,
    last,
    sizes,
    LARGE: gl.constexpr,
    GATED: gl.constexpr,
    CONCATENATED: gl.constexpr,
    BLOCK_T: gl.constexpr,
    BOXES: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
):
    """A block's product over its share of K, with the next slot and its phase. `scales` are its expert's."""
    weights, tokens, full, empty = slots
    _, second_half, _, _, blocks, used_blocks, columns, _ = sizes
    accumulator: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_T, 16]
    )
    left: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=accumulator, k_width=2)
    # Rows of shared memory that a thread reads two of, those of a warp, and where the warps' lie.
    two: gl.constexpr = (32 if CONCATENATED else 1) if GATED else 8
    lane: gl.constexpr = (1 if CONCATENATED else 2) if GATED else 1
    warp: gl.constexpr = 8 if GATED and CONCATENATED else 16
    flat: gl.constexpr = gl.DistributedLinearLayout(
        [[0, 1], [0, 2], [0, 4], [0, 8], [two, 0]],
        [[0, 16], [0, 32], [lane, 0], [lane * 2, 0], [lane * 4, 0]],
        [[warp, 0], [warp * 2, 0]],
        [],
        [64, 64],
    )
    deep: gl.constexpr = gl.DistributedLinearLayout(
        [[0, 0, 1], [0, 0, 2], [0, 0, 4], [0, 0, 8], [two, 0, 0]],
        [[0, 1, 0], [0, 2, 0], [lane, 0, 0], [lane * 2, 0, 0], [lane * 4, 0, 0]],
        [[warp, 0, 0], [warp * 2, 0, 0]],
        [],
        [64, 4, 16],
    )
    of_scales: gl.constexpr = gl.SliceLayout(2, deep)
    row = base + gl.arange(0, _ROWS, layout=gl.SliceLayout(1, of_scales))
    if CONCATENATED:
        row = gl.minimum(base + (row - base) % 32, columns - 1) + (row - base) // 32 * second_half
    else:
        row = gl.minimum(row, (columns * 2 if GATED else columns) - 1)
    scales += gl.expand_dims(row * blocks, 1) + gl.zeros((1, 4), gl.int32, of_scales)
    # Scales come past shared memory, some steps ahead: their rows have no length that a tile could have.
    s0 = load_scales(scales, first, used_blocks)
    s1 = load_scales(scales, first + 1, used_blocks)
    s2 = load_scales(scales, first + 2, used_blocks)
    sum_ = gl.zeros((_ROWS, BLOCK_T), gl.float32, accumulator)
    for step in range(first, last):
        s3 = load_scales(scales, step + 3, used_blocks)
        hopper.mbarrier.wait(full.index(slot), phase)
        packed = gl.convert_layout(weights.index(slot * WARPGROUPS + PART).load(flat).reshape((64, 4, 16)), deep)
        left_0, left_1 = operands(packed, s0, LARGE, GATED, CONCATENATED, left)
        product = hopper.warpgroup_mma(left_0, tokens.index(slot * 2 * BOXES).permute((1, 0)), sum_, is_async=True)
        right_1 = tokens.index((slot * 2 + 1) * BOXES).permute((1, 0))
        product = hopper.warpgroup_mma(left_1, right_1, product, is_async=True)
        # ptxas decodes nothing while a product is in flight that the same registers could be for: another warpgroup
        # does, meanwhile.
        sum_ = hopper.warpgroup_mma_wait(0, deps=[product])
        hopper.mbarrier.arrive(empty.index(slot), count=1)
        s0, s1, s2 = s1, s2, s3
        slot, phase = next_slot(slot, phase, STAGES)
    return sum_, slot, phase
