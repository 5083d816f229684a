"""MXFP4 on the device: decoding to bf16 and quantizing, as the kernels share them."""

from __future__ import annotations

from blockscale.kernels.triton.language import tl, triton
from blockscale.kernels.triton.scales import e8m0_to_fp32


@triton.jit
def power_of_two(exponent):
    """2^exponent as fp32, for exponents in [-126, 127], by its bits."""
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def decode_e2m1(code):
    """Codes 0..15 (any shape) to fp32."""
    code = code.to(tl.int32)
    # Sign, exponent and mantissa in fp32's fields give the value times 2^-126, for the subnormal code (0.5) too.
    bits = ((code & 8) << 28) | ((code & 7) << 22)
    return bits.to(tl.float32, bitcast=True) * 8.507059173023462e37  # 2^126


@triton.jit
def unpack(packed, ROWS: tl.constexpr, K: tl.constexpr):
    """(ROWS, K / 2) bytes to (ROWS, K) codes: the even element is in the low nibble."""
    return tl.reshape(tl.join(packed & 0xF, packed >> 4), (ROWS, K))


@triton.jit
def dequantize(packed, scale, ROWS: tl.constexpr, K: tl.constexpr):
    """(ROWS, K / 2) packed e2m1 and (ROWS, K / 32) e8m0 codes to (ROWS, K) bf16, exactly but for bf16's own range."""
    values = tl.reshape(decode_e2m1(unpack(packed, ROWS, K)), (ROWS, K // 32, 32))
    # In fp32, since not every arch multiplies bf16; the products are bf16 numbers.
    return tl.reshape(values * e8m0_to_fp32(scale)[:, :, None], (ROWS, K)).to(tl.bfloat16)


@triton.jit
def dot(left, right, accumulator, INTERPRETED: tl.constexpr):
    """left @ right + accumulator for bf16 operands. Triton's interpreter would multiply bf16's bits as integers."""
    if INTERPRETED:
        left = left.to(tl.float32)
        right = right.to(tl.float32)
    return tl.dot(left, right, accumulator, input_precision="ieee")


@triton.jit
def quantize(x, ROWS: tl.constexpr, K: tl.constexpr, ADDEND: tl.constexpr):
    """(ROWS, K) fp32 to e2m1 codes (ROWS, K / 32, 32) and e8m0 codes (ROWS, K / 32), both int32.

    As `formats.mx.quantize`: ADDEND says how the scale is rounded, elements go to nearest even and saturate.
    """
    blocks = tl.reshape(x, (ROWS, K // 32, 32))
    magnitude = tl.abs(blocks)
    amax = tl.max(magnitude, axis=2)
    # max() may pass over NaN, and a block with NaN or infinity must not look healthy.
    broken = tl.max((~(magnitude < float("inf"))).to(tl.int32), axis=2) > 0
    scale = tl.maximum(((amax.to(tl.int32, bitcast=True) + ADDEND) >> 23) - 2, 0)
    scale = tl.where(broken, 255, scale)

    # Times 2^(127 - scale), in two factors: one alone may be no normal number.
    exponent = tl.where(broken, 0, 127 - scale)
    half = exponent >> 1
    factor = power_of_two(half)[:, :, None]
    rest = power_of_two(exponent - half)[:, :, None]
    scaled = magnitude * factor * rest
    # To nearest even: a tie goes to the neighbour with the even code.
    code = (scaled > 0.25).to(tl.int32) + (scaled > 1.25).to(tl.int32)
    code += (scaled > 2.5).to(tl.int32) + (scaled > 5.0).to(tl.int32)
    code += (scaled >= 0.75).to(tl.int32) + (scaled >= 1.75).to(tl.int32) + (scaled >= 3.5).to(tl.int32)
    code |= tl.where(blocks.to(tl.int32, bitcast=True) < 0, 8, 0)
    return tl.where(broken[:, :, None], 0, code), scale


@triton.jit
def pack(code, ROWS: tl.constexpr, K: tl.constexpr):
    """(ROWS, K / 32, 32) codes to (ROWS, K / 2) bytes."""
    low, high = tl.split(tl.reshape(code, (ROWS, K // 2, 2)))
    return (low | (high << 4)).to(tl.uint8)
