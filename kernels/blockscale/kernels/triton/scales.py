"""Device functions that the kernels share: e8m0 scales, and FP8 on archs whose compiler has no such type."""

from __future__ import annotations

from blockscale.kernels.triton.language import tl, triton


@triton.jit
def e8m0_to_fp32(code):
    """uint8 codes to fp32: 2^(code - 127). Code 0 is subnormal and 255 NaN, which a mere shift gets wrong."""
    code = code.to(tl.int32)
    bits = tl.where(code == 0, 1 << 22, code << 23)
    bits = tl.where(code == 255, 0x7FC00000, bits)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def load_scale(pointers):
    """Scales as fp32, from fp32 or (uint8) e8m0."""
    scale = tl.load(pointers)
    if scale.dtype == tl.uint8:
        scale = e8m0_to_fp32(scale)
    return scale


@triton.jit
def narrow(value, dtype: tl.constexpr, INTERPRETED: tl.constexpr):
    """fp32 to the output's dtype, to nearest even. Triton's interpreter cuts bf16 off, so it is rounded for it here."""
    if INTERPRETED and dtype == tl.bfloat16:
        bits = value.to(tl.int32, bitcast=True)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)
        value = tl.where(value == value, rounded, value)
    return value.to(dtype)


@triton.jit
def e4m3fn_to_fp16(code):
    """uint8 codes to fp16, exactly, with integer steps: for NVIDIA before sm_89, where Triton has no e4m3 type."""
    code = code.to(tl.int16)
    # Exponent and mantissa moved into fp16's fields give the value times 2^-8, for the biases are 7 and 15. That holds
    # for subnormal codes too.
    magnitude = ((code & 0x7F) << 7).to(tl.float16, bitcast=True) * 256.0
    magnitude = tl.where((code & 0x7F) == 0x7F, float("nan"), magnitude)
    return tl.where((code & 0x80) != 0, -magnitude, magnitude).to(tl.float16)
