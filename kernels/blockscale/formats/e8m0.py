"""e8m0: an 8-bit power of two, 2^(code - 127). Code 255 is NaN; there is no zero, no sign and no infinity.

Source: OCP Microscaling Formats (MX) 1.0, section 5.4.1.
"""

from __future__ import annotations

import torch

BIAS = 127
NAN = 255


def codes(scales: torch.Tensor) -> torch.Tensor:
    """The codes of a tensor of scales, uint8: a float8_e8m0fnu tensor is viewed, a uint8 tensor is codes already.

    Raises ValueError for any other dtype.
    """
    if scales.dtype == torch.uint8:
        return scales
    if scales.dtype == torch.float8_e8m0fnu:
        return scales.view(torch.uint8)
    raise ValueError(f"scales: got {scales.dtype}, expected torch.uint8 or torch.float8_e8m0fnu")


def decode(scales: torch.Tensor) -> torch.Tensor:
    """fp32 values of e8m0 scales (uint8 codes or float8_e8m0fnu), same shape. Code 0 is 2^-127, code 255 is NaN."""
    code = codes(scales).int()
    # Every code but the two ends is the exponent field of an fp32; 2^-127 is subnormal, the top mantissa bit.
    bits = torch.where(code == 0, 1 << 22, code << 23)
    return torch.where(code == NAN, torch.full((), float("nan"), device=bits.device), bits.view(torch.float32))


def times_power_of_two(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """x * 2^exponent in fp32, for integer exponents in [-252, 254]; exact wherever the result is normal.

    In two steps, since 2^exponent itself may be no fp32 number, or a subnormal that a device flushes to zero.
    """
    half = exponent.div(2, rounding_mode="floor")
    return x.float() * _power_of_two(half) * _power_of_two(exponent - half)


def _power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    """2^exponent as fp32 for exponents in [-126, 127], by its bits."""
    return ((exponent.int() + BIAS) << 23).view(torch.float32)
