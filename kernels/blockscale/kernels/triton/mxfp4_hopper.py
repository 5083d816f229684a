"""MXFP4 to bf16 on NVIDIA from sm_90 on, two elements to an instruction."""

from __future__ import annotations

from blockscale.kernels.triton.language import tl, triton

# Four bytes to four low and four high nibbles, as bf16. Each byte is moved to the top of a 16-bit half; sign, exponent
# and mantissa then go to bf16's fields, which gives the value times 2^-126, for the subnormal code (0.5) too; times
# 2^126 (0x7e80) it is exact.
_DECODE = tl.constexpr(
    """
    {
    .reg .b32 t<2>, u, v, c;
    mov.b32 c, 0x7E807E80;
    prmt.b32 t0, $4, 0, 0x1404;
    prmt.b32 t1, $4, 0, 0x3424;
    shr.u32 v, t0, 6;
    and.b32 u, t0, 0x80008000;
    lop3.b32 u, v, 0x01C001C0, u, 0xEA;
    mul.rn.bf16x2 $2, u, c;
    shr.u32 v, t1, 6;
    and.b32 u, t1, 0x80008000;
    lop3.b32 u, v, 0x01C001C0, u, 0xEA;
    mul.rn.bf16x2 $3, u, c;
    shl.b32 t0, t0, 4;
    shl.b32 t1, t1, 4;
    shr.u32 v, t0, 6;
    and.b32 u, t0, 0x80008000;
    lop3.b32 u, v, 0x01C001C0, u, 0xEA;
    mul.rn.bf16x2 $0, u, c;
    shr.u32 v, t1, 6;
    and.b32 u, t1, 0x80008000;
    lop3.b32 u, v, 0x01C001C0, u, 0xEA;
    mul.rn.bf16x2 $1, u, c;
    }
    """
)


@triton.jit
def e8m0_to_bf16(code):
    """uint8 codes to bf16: 2^(code - 127). Code 0 is subnormal and 255 NaN."""
    code = code.to(tl.int16)
    bits = tl.where(code == 0, 0x0040, code << 7)
    bits = tl.where(code == 255, 0x7FC0, bits)
    return bits.to(tl.int16).to(tl.bfloat16, bitcast=True)


@triton.jit
def dequantize_halves(packed, scale, ROWS: tl.constexpr, K: tl.constexpr):
    """(ROWS, K / 2) packed e2m1 and (ROWS, K / 32) e8m0 codes to two of (ROWS, K / 2) bf16: even elements, odd ones."""
    even, odd = tl.inline_asm_elementwise(
        _DECODE, "=r,=r,=r,=r,r", [packed], dtype=(tl.bfloat16, tl.bfloat16), is_pure=True, pack=4
    )
    factor = e8m0_to_bf16(scale)[:, :, None]
    even = tl.reshape(tl.reshape(even, (ROWS, K // 32, 16)) * factor, (ROWS, K // 2))
    odd = tl.reshape(tl.reshape(odd, (ROWS, K // 32, 16)) * factor, (ROWS, K // 2))
    return even, odd
