"""What the kernels share that sort and gather the rows of an MoE: local experts, and a row in its columns' order."""

from __future__ import annotations

from blockscale.kernels.triton.language import tl, triton


@triton.jit
def place(column):
    """Where the grouped GEMM reads a column: a permutation of each 128.

    A matrix instruction takes from thread t of four the columns 2t, 2t + 1, 2t + 8 and 2t + 9 of its 16; the thread has
    read columns 32t to 32t + 31, and decodes them in words of eight, n and n + 4 together.
    """
    half, word, pair = column // 2 % 2, column // 8 % 4, column % 2
    thread, upper = column // 32 % 4, column // 4 % 2
    return column // 128 * 128 + half * 64 + word * 16 + pair * 8 + thread * 2 + upper


@triton.jit
def local_experts(ids, expert_map, index, mask, experts, HAS_MAP: tl.constexpr):
    """Local experts of assignments, -1 for those of other ranks, of no expert, and past the end."""
    expert = tl.load(ids + index, mask=mask, other=-1)
    if HAS_MAP:
        expert = tl.load(expert_map + expert, mask=expert >= 0, other=-1)
    return tl.where((expert >= 0) & (expert < experts), expert, -1).to(tl.int32)


@triton.jit
def lay_out(
    x,
    token,
    row,
    rows,
    inner,
    stride_x,
    K,
    intermediate,
    stride_rows,
    stride_inner,
    BLOCK: tl.constexpr,
):
    """A program's columns of a token to a sorted row, in the order of `place`; zeros past K, and past I in `inner`."""
    row = row.to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + token.to(tl.int64) * stride_x + column, mask=column < K, other=0.0)
    value = tl.reshape(value, (BLOCK // 128, 4, 4, 2, 2, 2))  # thread, word, upper, half, pair
    value = tl.reshape(tl.permute(value, (0, 4, 2, 5, 1, 3)), (BLOCK,))
    tl.store(rows + row * stride_rows + column, value, mask=column < stride_rows)
    if tl.program_id(1) == 0:
        last = stride_inner - 128 + tl.arange(0, 128)
        zeros = tl.zeros((128,), inner.dtype.element_ty)
        tl.store(inner + row * stride_inner + place(last), zeros, mask=last >= intermediate)
