"""What warpgroups of Hopper's MXFP4 kernels do with a block of 64 rows: decode its weights, and store its product."""

from __future__ import annotations

from blockscale.kernels.triton.gluon import gl, gluon
from blockscale.kernels.triton.moe_rows import place

_ROWS = gl.constexpr(64)
_BLOCKS = gl.constexpr(4)  # MX blocks of a row in one step

# Four bytes, low nibbles n0, n2, n4, n6 and high ones n1, n3, n5, n7, to pairs of bf16 (n0, n4), (n1, n5), (n2, n6),
# (n3, n7). A multiplication puts two copies of each code into its half: the sign into bf16's, exponent and mantissa
# into the lowest bits of bf16's. That is the value times 2^-126, for the subnormal code (0.5) too. Shifts would take
# the pipe that the masks are waiting for. What is left is 2^126 times the scale: one bf16 number up to a scale of 2.
_ASSEMBLY = """
    {
    .reg .b32 v, h;
    and.b32 v, $4, 0x000F000F;
    mul.lo.u32 v, v, 0x1040;
    and.b32 v, v, 0x81C081C0;
    mul.rn.bf16x2 $0, v, $5;
    and.b32 v, $4, 0x00F000F0;
    mul.lo.u32 v, v, 0x0104;
    and.b32 v, v, 0x81C081C0;
    mul.rn.bf16x2 $1, v, $5;
    shr.u32 h, $4, 8;
    and.b32 v, h, 0x000F000F;
    mul.lo.u32 v, v, 0x1040;
    and.b32 v, v, 0x81C081C0;
    mul.rn.bf16x2 $2, v, $5;
    and.b32 v, h, 0x00F000F0;
    mul.lo.u32 v, v, 0x0104;
    and.b32 v, v, 0x81C081C0;
    mul.rn.bf16x2 $3, v, $5;
    }
    """
_DECODE = gl.constexpr(_ASSEMBLY)
# For larger scales 2^126 (0x7e80) first, and then the scale.
_DECODE_LARGE = gl.constexpr(
    _ASSEMBLY.replace("v, h;", "v, h, c;\n    mov.b32 c, 0x7E807E80;").replace(
        "    mul.rn.bf16x2", "    mul.rn.bf16x2 v, v, c;\n    mul.rn.bf16x2"
    )
)
LARGEST = gl.constexpr(128)  # the code of 2


@gluon.jit
def any_large(scales, count):
    """Whether one of `count` bytes, whole words of them, is above LARGEST. Reads them all, coalesced."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    words = scales.to(gl.pointer_type(gl.int32), bitcast=True)
    found = gl.zeros((2048,), gl.int32, layout)
    for start in range(0, count // 4, 2048):
        index = start + gl.arange(0, 2048, layout=layout)
        word = gl.load(words + index, mask=index < count // 4, other=0)
        # A byte above 128 has its uppermost bit and another one.
        found = found | (((word & 0x7F7F7F7F) + 0x7F7F7F7F) & word)
    return gl.max((found & -0x7F7F7F80 != 0).to(gl.int32), 0) > 0


@gluon.jit
def load_scales(pointers, step, blocks):
    """One step's scales, (64, 4). Past K zero, which stands for a finite number, and x is zero there."""
    block = step * (_BLOCKS) + gl.arange(0, _BLOCKS, layout=gl.SliceLayout(0, pointers.type.layout))
    mask = gl.expand_dims(block < blocks, 0)
    return gl.load(pointers + gl.expand_dims(block, 0), mask=mask, other=0).to(gl.int32)


@gluon.jit
def operands(packed, code, LARGE: gl.constexpr, GATED: gl.constexpr, CONCATENATED: gl.constexpr, layout: gl.constexpr):
    """(64, 4, 16) bytes and their (64, 4) scale codes to two left operands (64, 64), their rows as in `_rows`.

    Unless LARGE no code is above LARGEST.
    """
    if LARGE:
        bits = gl.maximum(code << 7, 0x0040)  # code 0 is subnormal, and 255 NaN
        bits = gl.where(code == 255, 0x7FC0, bits)
    else:
        bits = (code + 126) << 7
    factor = gl.expand_dims(bits.to(gl.int16).to(gl.bfloat16, bitcast=True), 2)
    packed, factor = gl.broadcast(packed, factor)
    halves = gl.inline_asm_elementwise(
        _DECODE_LARGE if LARGE else _DECODE,
        "=r,=r,=r,=r,r,r,r",
        [packed, factor],
        dtype=(gl.bfloat16, gl.bfloat16),
        is_pure=True,
        pack=4,
    )
    first, second = halves
    return (
        _arranged(first, GATED, CONCATENATED, layout),
        _arranged(second, GATED, CONCATENATED, layout),
    )


@gluon.jit
def _arranged(half, GATED: gl.constexpr, CONCATENATED: gl.constexpr, layout: gl.constexpr):
    """(64, 4, 16) as threads hold it to the left operand (64, 64): nothing moves between threads."""
    if GATED and not CONCATENATED:
        half = half.reshape((4, 8, 2, 4, 4, 2, 2)).permute((0, 2, 1, 4, 5, 3, 6))
    elif GATED:
        half = half.reshape((2, 4, 8, 4, 4, 2, 2)).permute((1, 0, 2, 4, 5, 3, 6))
    else:
        half = half.reshape((4, 2, 8, 4, 4, 2, 2)).permute((0, 1, 2, 4, 5, 3, 6))
    return gl.convert_layout(half.reshape((64, 64)), layout, assert_trivial=False)


@gluon.jit
def _rows(index, row, second_half, GATED: gl.constexpr, CONCATENATED: gl.constexpr):
    """Rows of the weight, and columns of what is stored, that the instruction's rows stand for.

    Of each 16 rows of a gated product the first 8 are gates and the last 8 their ups: a thread holds both.
    """
    if GATED:
        column = index // 16 * 8 + index % 8
        is_up = index // 8 % 2
        if CONCATENATED:
            return row + column + is_up * second_half
        return row + 2 * column + is_up
    return row + index


@gluon.jit
def store(
    sum_,
    bias,
    out,
    base,
    span,
    sizes,
    constants,
    GATED: gl.constexpr,
    CONCATENATED: gl.constexpr,
    LIMITED: gl.constexpr,
    HAS_BIAS: gl.constexpr,
    BLOCK_T: gl.constexpr,
):
    """One block of 64 rows of a product: bias, activation, and the tile's rows of the output that are its expert's."""
    start, end, split = span
    rows, second_half, _, _, _, _, columns, stride_out = sizes
    alpha, limit, shift, _ = constants
    index = gl.arange(0, _ROWS, layout=gl.SliceLayout(1, sum_.type.layout))
    if HAS_BIAS:
        row = _rows(index, base, second_half, GATED, CONCATENATED)
        mask = (row < rows) & (split == 0)
        sum_ += gl.expand_dims(gl.load(bias + row, mask=mask, other=0.0), 1)
    if GATED:
        pairs = sum_.reshape((4, 2, 8, BLOCK_T)).permute((0, 2, 3, 1)).reshape((32, BLOCK_T, 2))
        gate, up = gl.split(pairs)
        if LIMITED:
            gate = gl.where(gate > limit, limit, gate)  # keeps NaN
            up = gl.where(up > limit, limit, gl.where(up < -limit, -limit, up))
        value = gate / (1.0 + gl.exp(-alpha * gate)) * (up + shift)
        value = value.to(out.dtype.element_ty)
        # 32 columns are one MX block, which is wholly used or not at all.
        first = base if CONCATENATED else base // 2
        to = place(first + gl.arange(0, 32, layout=gl.SliceLayout(1, value.type.layout)))
    else:
        value = sum_.to(out.dtype.element_ty)
        if BLOCK_T >= 16:
            by_rows: gl.constexpr = gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])
            value = gl.convert_layout(value, by_rows)
        to = base + gl.arange(0, _ROWS, layout=gl.SliceLayout(1, value.type.layout))
    token = start + gl.arange(0, BLOCK_T, layout=gl.SliceLayout(0, value.type.layout))
    target = out + gl.expand_dims(token.to(gl.int64), 0) * stride_out + gl.expand_dims(to, 1)
    is_token = gl.expand_dims(token < end, 0)
    if GATED:
        gl.store(target, value, mask=is_token & (first < columns))
    else:
        gl.store(target, value, mask=is_token & gl.expand_dims(to < columns, 1))
