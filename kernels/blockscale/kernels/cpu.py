"""Dequantization to bf16 for the CPU paths, by integer steps that torch vectorizes, a cache-sized piece at a time.

torch's own conversion from fp8 takes 2 ns an element on one x86 core, and so does a table look-up; these steps a fifth.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch

from blockscale.formats import e8m0, mx
from blockscale.formats.mx import ScaleRounding

_PIECE = 1 << 18  # elements of a piece: 1 MiB of fp32, so that its few passes stay in a cache


def dequantize_fp8(codes: torch.Tensor, scale: torch.Tensor, block_n: int, block_k: int) -> torch.Tensor:
    """(N, K) bf16 of e4m3fn or e4m3fnuz weights (N, K); each product is rounded once.

    Scales are (ceil(N / block_n), ceil(K / block_k)), fp32 or e8m0.
    """
    N, K = codes.shape
    out = torch.empty(N, K, dtype=torch.bfloat16, device=codes.device)
    scale = scale.float()
    for rows in _pieces(N, K, block_n):
        value = _fp8_to_bf16(codes[rows]).float()
        blocks = scale[rows.start // block_n : -(-rows.stop // block_n)]
        if K % block_k == 0 and len(value) % block_n == 0:
            value.view(len(blocks), block_n, -1, block_k).mul_(blocks[:, None, :, None])
        else:
            spread = blocks.repeat_interleave(block_n, 0)[: len(value)].repeat_interleave(block_k, 1)[:, :K]
            value.mul_(spread)
        out[rows] = value
    return out


def dequantize_mxfp4(packed: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """(N, K) bf16 of packed e2m1 weights (N, K / 2) with e8m0 codes (N, K / 32); exact, but for bf16's own range."""
    N, K = packed.shape[0], packed.shape[1] * 2
    out = torch.empty(N, K, dtype=torch.bfloat16, device=packed.device)
    scale = codes.view(torch.float8_e8m0fnu).to(torch.bfloat16)  # (N, K / 32): every code is a bf16 number
    for rows in _pieces(N, K, 1):
        value = _e2m1_to_bf16(packed[rows]).view(-1, K // 32, 32)
        torch.mul(value, scale[rows].unsqueeze(-1), out=out[rows].view(-1, K // 32, 32))
    return out


def round_to_mxfp4(x: torch.Tensor, rounding: ScaleRounding) -> torch.Tensor:
    """(M, K) bf16 values of x quantized to MXFP4: what `mx.dequantize(*mx.quantize(x, rounding))` gives, in one go."""
    M, K = x.shape
    out = torch.empty(M, K, dtype=torch.bfloat16, device=x.device)
    for rows in _pieces(M, K, 1):
        blocks = x[rows].float().view(-1, K // mx.BLOCK, mx.BLOCK)
        code = mx.block_scale(blocks.abs().amax(-1), rounding).unsqueeze(-1)
        exponent = code.int() - e8m0.BIAS
        value = _round_to_e2m1(_times_power_of_two(blocks, -exponent))
        value = _times_power_of_two(value, exponent)
        if bool((broken := code == e8m0.NAN).any()):
            value = torch.where(broken, torch.full((), float("nan"), device=x.device), value)
        out[rows] = value.view(-1, K)
    return out


def _times_power_of_two(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """As `e8m0.times_power_of_two`, in one multiplication where every power is a normal number."""
    if bool(exponent.abs().max() > 126):
        return e8m0.times_power_of_two(x, exponent)
    return x * ((exponent + 127) << 23).view(torch.float32)


def _round_to_e2m1(x: torch.Tensor) -> torch.Tensor:
    """fp32 to the nearest e2m1 value, ties to even, saturating at 6."""
    magnitude = x.abs().clamp_(max=6.0)
    # Half the power of two at or below it is the step, from 1 on; below 1 the step stays 0.5. Beside 1.5 * 2^22 times
    # that power, fp32's own step is this one: adding rounds, subtracting gives the rest back.
    power = (magnitude.clamp(min=1.0).view(torch.int32) & 0x7F800000).view(torch.float32)
    beside = power.mul_(1.5 * 2**22)
    return torch.copysign(magnitude.add_(beside).sub_(beside), x)


def _pieces(N: int, K: int, block: int) -> Iterator[slice]:
    """Row ranges of about `_PIECE` elements, each a multiple of `block` rows but the last."""
    size = max(1, _PIECE // (K * block)) * block
    for start in range(0, N, size):
        yield slice(start, min(start + size, N))


def _fp8_to_bf16(codes: torch.Tensor) -> torch.Tensor:
    """Exactly. Sign to bit 15 and the seven others into bf16's fields give the value times 2^(bias - 127)."""
    fnuz = codes.dtype == torch.float8_e4m3fnuz
    # By extremes, which torch finds faster than equals. The signed byte of fnuz's NaN, 0x80, is the least there is.
    has_nan = codes.view(torch.int8).min() == -128 if fnuz else (codes.view(torch.uint8) & 0x7F).max() == 0x7F
    if bool(has_nan):
        return codes.to(torch.bfloat16)  # slower, and right about NaN
    bits = codes.view(torch.int8).to(torch.int16)  # the sign fills the upper byte
    bits <<= 4
    bits &= -0x7810  # keep 0x87F0
    return bits.view(torch.bfloat16).mul_(2.0 ** (119 if fnuz else 120))


def _e2m1_to_bf16(packed: torch.Tensor, byteorder: str = sys.byteorder) -> torch.Tensor:
    """(N, K / 2) bytes to (N, K) bf16, exactly: each 32-bit word takes both of a byte's codes into bf16's fields.

    Exponent and mantissa land in bits 6 to 8 of their half, the sign in bit 15: the value times 2^-126. One product
    puts both codes there, since its two shifted copies do not overlap. The even element, in the low nibble, goes to the
    half that comes first in memory.
    """
    byte = packed.to(torch.int32)
    low, high = (6, 18) if byteorder == "little" else (22, 2)
    bits = byte * (1 << low | 1 << high)
    bits &= 0x01C001C0
    byte *= 1 << low + 6 | 1 << high + 6
    byte &= -0x7FFF8000  # keep 0x80008000
    bits |= byte
    return bits.view(torch.bfloat16).mul_(2.0**126)
