"""FP8 GEMM with block scales for Hopper: one warp copies tiles in, one or two warpgroups multiply and scale them.

Each warpgroup goes its own way between the barriers, so that the matrix unit multiplies for one while the other adds
its product, scaled, to the fp32 sum. Programs stay and take tile after tile; copies for the next one start early.
"""

from __future__ import annotations

from blockscale.kernels.triton.gluon import copy_in, copy_out, gl, gluon, hopper, let_next_start, wait_for_previous

_ROWS = gl.constexpr(64)  # of the left operand, for each warpgroup: what one matrix instruction takes
_BLOCK_K = gl.constexpr(128)  # the bytes of one swizzled row


@gluon.jit
def _fp32(scale):
    """Scales as fp32, from fp32 or (uint8) e8m0: code 0 is subnormal and 255 NaN."""
    if scale.dtype == gl.uint8:
        code = scale.to(gl.int32)
        bits = gl.where(code == 0, 1 << 22, code << 23)
        bits = gl.where(code == 255, 0x7FC00000, bits)
        scale = bits.to(gl.float32, bitcast=True)
    return scale


@gluon.jit
def _place(
    unit,
    M,
    N,
    steps,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    GROUP_M: gl.constexpr,
    SPLIT_K: gl.constexpr,
    DEPTH: gl.constexpr,
):
    """The tile of a unit of work, its share of the K steps and its split. Shares hold whole DEPTHs of steps.

    Units of a split lie together. Tiles are in groups of GROUP_M rows of tiles, so that neighbours in time share
    operands in the L2 cache.
    """
    tiles_m = gl.cdiv(M, BLOCK_M)
    tiles_n = gl.cdiv(N, BLOCK_N)
    split = unit // (tiles_m * tiles_n)
    tile = unit % (tiles_m * tiles_n)
    group = tile // (GROUP_M * tiles_n)
    group_size = gl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + (tile % (GROUP_M * tiles_n)) % group_size
    tile_n = (tile % (GROUP_M * tiles_n)) // group_size
    parts = gl.cdiv(steps, DEPTH)
    return tile_m, tile_n, parts * split // SPLIT_K * DEPTH, parts * (split + 1) // SPLIT_K * DEPTH, split


@gluon.jit
def _next(slot, phase, STAGES: gl.constexpr):
    wraps = slot == STAGES - 1
    return gl.where(wraps, 0, slot + 1), gl.where(wraps, phase ^ 1, phase)


@gluon.jit
def _copy(
    left,
    right,
    slots,
    sizes,
    BLOCK_N: gl.constexpr,
    GROUP_M: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
    DEPTH: gl.constexpr,
):
    """The copying warp: fills each slot once the warpgroups have read it."""
    left_tiles, right_tiles, full, empty = slots
    M, N, steps, units = sizes
    wait_for_previous()
    slot = gl.to_tensor(0)
    phase = gl.to_tensor(1)  # nobody has to empty a slot that was never filled
    for unit in range(gl.program_id(0), units, gl.num_programs(0)):
        tile_m, tile_n, first, last, _ = _place(unit, M, N, steps, _ROWS * WARPGROUPS, BLOCK_N, GROUP_M, SPLIT_K, DEPTH)
        for step in range(first, last):
            barrier = full.index(slot)
            hopper.mbarrier.wait(empty.index(slot), phase)
            hopper.mbarrier.expect(barrier, (_ROWS * WARPGROUPS + BLOCK_N) * _BLOCK_K)
            for part in gl.static_range(WARPGROUPS):
                row = (tile_m * WARPGROUPS + part) * _ROWS
                copy_in(left, [row, step * _BLOCK_K], barrier, left_tiles.index(slot * WARPGROUPS + part))
            copy_in(right, [tile_n * BLOCK_N, step * _BLOCK_K], barrier, right_tiles.index(slot))
            slot, phase = _next(slot, phase, STAGES)


@gluon.jit
def _start(left, right, BLOCK_N: gl.constexpr, layout: gl.constexpr):
    """Start one step's product. It begins at zero, for Hopper's own fp8 accumulator has fewer bits than fp32."""
    zero = gl.zeros((_ROWS, BLOCK_N), gl.float32, layout)
    return hopper.warpgroup_mma(left, right.permute((1, 0)), zero, use_acc=False, is_async=True)


@gluon.jit
def _load_scales(scales, one, step, steps, STEPS_PER_SCALE: gl.constexpr):
    """One step's scales: one for each row (or column) of the tile, and one for all of it. Zero past K, where the step
    that makes their number even may lie."""
    column, inside = step // STEPS_PER_SCALE, step < steps
    return gl.load(scales + column, mask=inside, other=0), gl.load(one + column, mask=inside, other=0)


@gluon.jit
def _add(sum_, product, loaded, LEFT_ROWS: gl.constexpr):
    """The sum with a product added, times its scales: one multiply-add for each element.

    As assembly with effects, which keeps its place: the compiler would move it behind the wait for the next product.
    """
    scales, one = loaded
    scale = gl.expand_dims(_fp32(scales) * _fp32(one), 1 if LEFT_ROWS == 1 else 0)
    return gl.inline_asm_elementwise(
        "fma.rn.f32 $0, $1, $2, $3;", "=f,f,f,f", [product, scale, sum_], dtype=gl.float32, is_pure=False, pack=1
    )


@gluon.jit
def _multiply(
    PART: gl.constexpr,
    scales_and_out,
    out_tiles,
    staged,
    slots,
    sizes,
    s_strides,
    c_strides,
    LEFT_ROWS: gl.constexpr,
    RIGHT_ROWS: gl.constexpr,
    STEPS_PER_SCALE: gl.constexpr,
    BLOCK_N: gl.constexpr,
    GROUP_M: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,
    DEPTH: gl.constexpr,
):
    """A warpgroup: rows PART * 64 and on of each tile."""
    left_scale, right_scale, out = scales_and_out
    left_tiles, right_tiles, full, empty = slots
    M, N, steps, units = sizes
    stride_left_scale, stride_right_scale = s_strides
    stride_out_split, stride_out_m, stride_out_n = c_strides
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_N, 32]
    )
    wait_for_previous()
    slot = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for unit in range(gl.program_id(0), units, gl.num_programs(0)):
        tile_m, tile_n, first, last, split = _place(
            unit, M, N, steps, _ROWS * WARPGROUPS, BLOCK_N, GROUP_M, SPLIT_K, DEPTH
        )
        row = (tile_m * WARPGROUPS + PART) * _ROWS
        m = row + gl.arange(0, _ROWS, layout=gl.SliceLayout(1, layout))
        n = tile_n * BLOCK_N + gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, layout))
        # One operand has a scale for each of its rows, the other one scale for the whole tile.
        if LEFT_ROWS == 1:
            scales = left_scale + gl.minimum(m, M - 1) * stride_left_scale
            one = right_scale + (tile_n * BLOCK_N // RIGHT_ROWS) * stride_right_scale
        else:
            scales = right_scale + gl.minimum(n, N - 1) * stride_right_scale
            one = left_scale + gl.minimum(row // LEFT_ROWS, (M - 1) // LEFT_ROWS) * stride_left_scale
        sum_ = gl.zeros((_ROWS, BLOCK_N), gl.float32, layout)
        loaded = _load_scales(scales, one, first, steps, STEPS_PER_SCALE)
        loaded_next = _load_scales(scales, one, first + 1, steps, STEPS_PER_SCALE)
        # DEPTH steps at a time: while one product is added to the sum, the matrix unit makes the next. Only the last
        # one's sum keeps it waiting.
        for step in range(first, last, DEPTH):
            hopper.mbarrier.wait(full.index(slot), phase)
            product = _start(left_tiles.index(slot * WARPGROUPS + PART), right_tiles.index(slot), BLOCK_N, layout)
            for ahead in gl.static_range(1, DEPTH):
                then, its_phase = _next(slot, phase, STAGES)
                hopper.mbarrier.wait(full.index(then), its_phase)
                coming = _start(left_tiles.index(then * WARPGROUPS + PART), right_tiles.index(then), BLOCK_N, layout)
                # The scales of the step after are on their way meanwhile.
                later = _load_scales(scales, one, step + ahead + 1, steps, STEPS_PER_SCALE)
                product = hopper.warpgroup_mma_wait(1, deps=[product])
                hopper.mbarrier.arrive(empty.index(slot), count=1)
                sum_ = _add(sum_, product, loaded, LEFT_ROWS)
                product, loaded, loaded_next, slot, phase = coming, loaded_next, later, then, its_phase
            later = _load_scales(scales, one, step + DEPTH + 1, steps, STEPS_PER_SCALE)
            product = hopper.warpgroup_mma_wait(0, deps=[product])
            hopper.mbarrier.arrive(empty.index(slot), count=1)
            sum_ = _add(sum_, product, loaded, LEFT_ROWS)
            loaded, loaded_next = loaded_next, later
            slot, phase = _next(slot, phase, STAGES)
        if out_tiles is not None:
            tile = staged.index(PART)
            hopper.tma.store_wait(0)
            tile.store(sum_.to(out.dtype.element_ty))
            hopper.fence_async_shared()
            copy_out(out_tiles, [row, tile_n * BLOCK_N], tile)
        else:
            target = out + split.to(gl.int64) * stride_out_split
            target += (
                gl.expand_dims(m.to(gl.int64), 1) * stride_out_m + gl.expand_dims(n.to(gl.int64), 0) * stride_out_n
            )
            gl.store(target, sum_.to(out.dtype.element_ty), mask=gl.expand_dims(m < M, 1) & gl.expand_dims(n < N, 0))
    if out_tiles is not None:
        hopper.tma.store_wait(0)


@gluon.jit
def _gemm(
    left,  # tiles of (M, K) fp8
    right,  # tiles of (N, K) fp8
    left_scale,  # (ceil(M / LEFT_ROWS), k_blocks) fp32 or e8m0
    right_scale,  # (ceil(N / RIGHT_ROWS), k_blocks); one of the two has one row for each row of its operand
    out,  # (SPLIT_K, M, N): with SPLIT_K > 1, fp32 partial sums
    out_tiles,  # tiles of out, None where single elements are written
    M,
    N,
    K,
    units,  # tiles * SPLIT_K
    stride_left_scale,
    stride_right_scale,
    stride_out_split,
    stride_out_m,
    stride_out_n,
    LEFT_ROWS: gl.constexpr,  # rows that share a scale
    RIGHT_ROWS: gl.constexpr,
    STEPS_PER_SCALE: gl.constexpr,  # block_k / 128
    BLOCK_N: gl.constexpr,
    GROUP_M: gl.constexpr,
    SPLIT_K: gl.constexpr,
    STAGES: gl.constexpr,
    WARPGROUPS: gl.constexpr,  # 1 or 2
    DEPTH: gl.constexpr,  # products between two waits for all of them: 2 or more
    num_warps: gl.constexpr,
):
    left_tiles = gl.allocate_shared_memory(left.dtype, [STAGES * WARPGROUPS, _ROWS, _BLOCK_K], left.layout)
    right_tiles = gl.allocate_shared_memory(right.dtype, [STAGES, BLOCK_N, _BLOCK_K], right.layout)
    staged = left_tiles
    if out_tiles is not None:
        staged = gl.allocate_shared_memory(out.dtype.element_ty, [WARPGROUPS, _ROWS, BLOCK_N], out_tiles.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], hopper.mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], hopper.mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        hopper.mbarrier.init(full.index(slot), count=1)
        hopper.mbarrier.init(empty.index(slot), count=WARPGROUPS)
    hopper.fence_async_shared()
    # Programs start while the kernel before still ends, and let those of the kernel after start likewise; each waits
    # for the end of what is before it, ere it reads or writes.
    let_next_start()
    steps = gl.cdiv(K, _BLOCK_K)
    # Tuples hold what differs between launches; what the compiler must know goes beside them.
    slots = (left_tiles, right_tiles, full, empty)
    sizes = (M, N, steps, units)
    s_strides = (stride_left_scale, stride_right_scale)
    c_strides = (stride_out_split, stride_out_m, stride_out_n)
    given = (left_scale, right_scale, out)
    # The copying warp needs few registers; what it leaves is for the sums and products.
    if WARPGROUPS == 2:
        gl.warp_specialize(
            [
                (_multiply, (0, given, out_tiles, staged, slots, sizes, s_strides, c_strides, LEFT_ROWS, RIGHT_ROWS,
                             STEPS_PER_SCALE, BLOCK_N, GROUP_M, SPLIT_K, STAGES, WARPGROUPS, DEPTH)),
                (_multiply, (1, given, out_tiles, staged, slots, sizes, s_strides, c_strides, LEFT_ROWS, RIGHT_ROWS,
                             STEPS_PER_SCALE, BLOCK_N, GROUP_M, SPLIT_K, STAGES, WARPGROUPS, DEPTH)),
                (_copy, (left, right, slots, sizes, BLOCK_N, GROUP_M, SPLIT_K, STAGES, WARPGROUPS, DEPTH)),
            ],
            [4, 1],
            [240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_multiply, (0, given, out_tiles, staged, slots, sizes, s_strides, c_strides, LEFT_ROWS, RIGHT_ROWS,
                             STEPS_PER_SCALE, BLOCK_N, GROUP_M, SPLIT_K, STAGES, WARPGROUPS, DEPTH)),
                (_copy, (left, right, slots, sizes, BLOCK_N, GROUP_M, SPLIT_K, STAGES, WARPGROUPS, DEPTH)),
            ],
            [1],
            [24],
        )  # fmt: skip
