"""Dequantization to bf16 for the CPU paths, by steps that torch vectorizes, a cache-sized piece at a time.

torch's own conversion from fp8 takes 2 ns an element on one x86 core, and so does a table look-up; these steps a fifth.
The codes' fields go into fp16's, for a subnormal fp16 is widened at full speed; bf16's and fp32's slow their products.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch

from blockscale.formats import e8m0, mx
from blockscale.formats.mx import ScaleRounding

_PIECE = 1 << 20  # elements of a piece: 4 MiB of fp32, so that it stays in a cache and is worth its few calls
_E4M3FN_LIFT, _E4M3FNUZ_LIFT, _E2M1_LIFT = 2.0**8, 2.0**7, 2.0**14  # what fp16's larger bias divides the values by


def dequantize_fp8(codes: torch.Tensor, scale: torch.Tensor, block_n: int, block_k: int) -> torch.Tensor:
    """(N, K) bf16 of e4m3fn or e4m3fnuz weights (N, K); each product is rounded once.

    Scales are (ceil(N / block_n), ceil(K / block_k)), fp32 or e8m0.
    """
    N, K = codes.shape
    out, wide = torch.empty(N, K, dtype=torch.bfloat16, device=codes.device), _buffer(codes, N, K, block_n)
    lift = _E4M3FNUZ_LIFT if codes.dtype == torch.float8_e4m3fnuz else _E4M3FN_LIFT
    scale = scale.float()
    if fits := not bool((scale.abs() >= 2.0**118).any()):
        scale = scale * lift
    for rows in pieces(N, K, block_n):
        value = wide[: rows.stop - rows.start]
        if _has_nan(codes[rows]):
            value.copy_(codes[rows]).div_(lift)  # slower, and right about NaN
        else:
            value.copy_(_fp8_to_fp16(codes[rows], out[rows]))
        if not fits:
            value *= lift
        blocks = scale[rows.start // block_n : -(-rows.stop // block_n)]
        if K % block_k == 0 and len(value) % block_n == 0:
            value.view(len(blocks), block_n, -1, block_k).mul_(blocks[:, None, :, None])
        else:
            value *= blocks.repeat_interleave(block_n, 0)[: len(value)].repeat_interleave(block_k, 1)[:, :K]
        out[rows] = value
    return out


def dequantize_mxfp4(packed: torch.Tensor, codes: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """(N, K) bf16 of packed e2m1 weights (N, K / 2) with e8m0 codes (N, K / 32); exact, but for bf16's own range.

    Into `out`, contiguous, if given: new memory costs as much as the work.
    """
    N, K = packed.shape[0], packed.shape[1] * 2
    out = torch.empty(N, K, dtype=torch.bfloat16, device=packed.device) if out is None else out
    scale, wide = codes.view(torch.float8_e8m0fnu).float().unsqueeze(-1), _buffer(packed, N, K, 1)
    if fits := bool(codes.max() <= e8m0.BIAS + 113):
        scale *= _E2M1_LIFT
    for rows in pieces(N, K):
        value = wide[: rows.stop - rows.start].copy_(_e2m1_to_fp16(packed[rows], out[rows]))
        if not fits:
            value *= _E2M1_LIFT
        value.view(-1, K // mx.BLOCK, mx.BLOCK).mul_(scale[rows])
        out[rows] = value
    return out


def round_to_mxfp4(x: torch.Tensor, rounding: ScaleRounding) -> torch.Tensor:
    """(M, K) bf16 values of x quantized to MXFP4: what `mx.dequantize(*mx.quantize(x, rounding))` gives, in one go."""
    M, K = x.shape
    out = torch.empty(M, K, dtype=torch.bfloat16, device=x.device)
    wide, magnitudes = _buffer(x, M, K, 1), _buffer(x, M, K, 1)
    for rows in pieces(M, K):
        value = wide[: rows.stop - rows.start].copy_(x[rows]).view(-1, K // mx.BLOCK, mx.BLOCK)
        magnitude = torch.abs(value, out=magnitudes[: rows.stop - rows.start].view(value.shape))
        amax = magnitude.amax(-1, keepdim=True)
        code = mx.block_scale(amax, rounding)
        low, high = torch.where(amax == 0, 1, code).aminmax()
        if int(low) >= 1 and int(high) <= 220:
            scale = (code.clamp(min=1).int() << 23).view(torch.float32)
            value = torch.copysign(_round_to_e2m1(magnitude, scale), value, out=value)
        else:
            value = mx.dequantize(*mx.quantize(value.flatten(1), rounding))
        out[rows] = value.view(-1, K)
    return out


def _round_to_e2m1(magnitude: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """In place: to the nearest e2m1 value times the power of two `scale`, ties to even, saturating at 6."""
    torch.minimum(magnitude, scale * 6, out=magnitude)
    # Half the power of two at or below it is the step, from 1 on; below 1 the step stays 0.5. Beside 1.5 * 2^22 times
    # that power, fp32's own step is this one: adding rounds, subtracting gives the rest back.
    power = (magnitude.view(torch.int32) & 0x7F800000).view(torch.float32)
    beside = torch.maximum(power, scale, out=power).mul_(1.5 * 2**22)
    return magnitude.add_(beside).sub_(beside)


def pieces(N: int, K: int, block: int = 1) -> Iterator[slice]:
    """Row ranges of about `_PIECE` elements, each a multiple of `block` rows but the last."""
    size = _rows(K, block)
    for start in range(0, N, size):
        yield slice(start, min(start + size, N))


def _rows(K: int, block: int) -> int:
    return max(1, _PIECE // (K * block)) * block


def _buffer(like: torch.Tensor, N: int, K: int, block: int) -> torch.Tensor:
    """fp32 memory for any of the pieces."""
    return torch.empty(min(N, _rows(K, block)), K, dtype=torch.float32, device=like.device)


def _has_nan(codes: torch.Tensor) -> bool:
    """By extremes, which torch finds faster than equals. The signed byte of fnuz's NaN, 0x80, is the least there is."""
    if codes.dtype == torch.float8_e4m3fnuz:
        return bool(codes.view(torch.int8).min() == -128)
    return bool((codes.view(torch.uint8) & 0x7F).max() == 0x7F)


def _fp8_to_fp16(codes: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The values over the format's lift, in the memory of `out`, 16 bits an element; none may be NaN.

    Exactly: the sign goes to bit 15, the seven others into the upper bits of fp16's exponent and mantissa.
    """
    bits = out.view(torch.int16).copy_(codes.view(torch.int8))  # the sign fills the upper byte
    bits <<= 7
    bits &= -0x4080  # keep 0xBF80
    return bits.view(torch.float16)


def _e2m1_to_fp16(packed: torch.Tensor, out: torch.Tensor, byteorder: str = sys.byteorder) -> torch.Tensor:
    """(N, K) fp16 of bytes (N, K / 2), the values times 2^-14, exactly; in the memory of `out`, 16 bits an element.

    One product puts a byte's codes at the top of a word's two halves; its two shifted copies do not overlap. The even
    element, in the low nibble, goes to the half that comes first in memory. A shift that spreads the sign then takes
    the code's other bits into fp16's fields.
    """
    words = out.view(torch.int32).copy_(packed)
    words *= 1 << 12 | 1 << 24 if byteorder == "little" else 1 << 28 | 1 << 8
    bits = out.view(torch.int16)
    bits >>= 3
    bits &= -0x7200  # keep 0x8E00
    return bits.view(torch.float16)
