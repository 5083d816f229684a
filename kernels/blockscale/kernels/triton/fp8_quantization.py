"""FP8 quantization in groups, in Triton: each program takes some rows of groups, whatever row of x they belong to."""

from __future__ import annotations

import torch

from blockscale.formats import fp8
from blockscale.kernels.triton.language import tl, triton

_MANTISSA_AND_BIAS = {torch.float8_e4m3fn: (3, 7), torch.float8_e4m3fnuz: (3, 8), torch.float8_e5m2: (2, 15)}


@triton.jit
def encode_fp8(x, LARGEST: tl.constexpr, MANTISSA: tl.constexpr, BIAS: tl.constexpr, FNUZ: tl.constexpr):
    """fp32 to FP8 codes (uint8): to nearest even, saturating, NaN kept. By integer steps, so that every arch and the
    interpreter agree, and archs without the type can do it."""
    magnitude = tl.minimum(tl.abs(x), LARGEST)
    bits = magnitude.to(tl.int32, bitcast=True)
    # Normal numbers: drop mantissa bits, adding half a step less one, and one more where the kept part is odd.
    DROPPED: tl.constexpr = 23 - MANTISSA
    rounded = (bits + (1 << (DROPPED - 1)) - 1 + ((bits >> DROPPED) & 1)) >> DROPPED
    normal = rounded - ((127 - BIAS) << MANTISSA)
    # Subnormal ones are multiples of 2^(1 - BIAS - MANTISSA): counted in fp32 beside 2^23, whose step is one.
    steps = magnitude * (2.0 ** (BIAS - 1 + MANTISSA)) + 8388608.0
    subnormal = steps.to(tl.int32, bitcast=True) & 0x7FFFFF
    code = tl.where(magnitude < 2.0 ** (1 - BIAS), subnormal, normal)
    negative = (x.to(tl.int32, bitcast=True) < 0) & ((code > 0) | (not FNUZ))  # fnuz has no -0
    code = code | tl.where(negative, 0x80, 0)
    return tl.where(x != x, 0x80 if FNUZ else 0x7F, code).to(tl.uint8)


@triton.jit
def _quantize_groups(
    x,  # (M, K)
    elements,  # (M, K) uint8, the codes
    scale,  # (M, groups) fp32, or uint8 e8m0
    groups_in_all,  # M * groups
    groups,  # ceil(K / GROUP)
    K,
    LARGEST: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    FNUZ: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,  # groups of one program
):
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, column = group // groups, (group % groups)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    inside = (group < groups_in_all)[:, None] & (column < K)
    values = tl.load(x + row[:, None] * K + column, mask=inside, other=0.0).to(tl.float32)  # (BLOCK, GROUP)

    # The correctly rounded quotient: Triton's `/` is an approximation, and every path must give the same bits.
    magnitude = tl.abs(values)
    amax = tl.max(magnitude, axis=1)
    # max() may pass over NaN, and a group with NaN must not look healthy.
    broken = tl.max((magnitude != magnitude).to(tl.int32) | (magnitude == float("inf")).to(tl.int32), axis=1) > 0
    size = tl.maximum(tl.div_rn(amax, tl.full((BLOCK,), LARGEST, tl.float32)), 1.1754943508222875e-38)  # 2^-126
    is_e8m0: tl.constexpr = scale.dtype.element_ty == tl.uint8
    if is_e8m0:
        size = ((size.to(tl.int32, bitcast=True) + 0x7FFFFF) & 0x7F800000).to(tl.float32, bitcast=True)
    size = tl.where(broken, float("nan"), size)
    quotient = tl.div_rn(values, tl.broadcast_to(size[:, None], (BLOCK, GROUP)))
    code = encode_fp8(quotient, LARGEST, MANTISSA, BIAS, FNUZ)
    tl.store(elements + row[:, None] * K + column, code, mask=inside)
    if is_e8m0:
        scale_code = tl.where(broken, 255, size.to(tl.int32, bitcast=True) >> 23)
        tl.store(scale + group, scale_code.to(tl.uint8), mask=group < groups_in_all)
    else:
        tl.store(scale + group, size, mask=group < groups_in_all)


def quantize_groups(
    x: torch.Tensor, group: int, dtype: torch.dtype, scale_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch, as `formats.fp8.quantize_groups`; `group` is a power of two."""
    K = x.shape[-1]
    groups = -(-K // group)
    elements = torch.empty(x.shape, dtype=dtype, device=x.device)
    scale = torch.empty(*x.shape[:-1], groups, dtype=scale_dtype, device=x.device)
    if x.numel():
        block = max(1, 2048 // group)
        code = scale.view(torch.uint8) if scale.element_size() == 1 else scale
        mantissa, bias = _MANTISSA_AND_BIAS[dtype]
        _quantize_groups[(triton.cdiv(scale.numel(), block),)](
            x,
            elements.view(torch.uint8),
            code,
            scale.numel(),
            groups,
            K,
            LARGEST=fp8.largest(dtype),
            MANTISSA=mantissa,
            BIAS=bias,
            FNUZ=dtype == torch.float8_e4m3fnuz,
            GROUP=group,
            BLOCK=block,
        )
    return elements, scale
