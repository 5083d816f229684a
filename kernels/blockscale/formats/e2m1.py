"""e2m1 (FP4): sign, two exponent bits, one mantissa bit; neither NaN nor infinity. Two to a byte, the even one low.

Source: OCP Microscaling Formats (MX) 1.0, section 5.3.3; gpt-oss, AITER, DeepGEMM and torchao agree on the nibbles.
"""

from __future__ import annotations

import torch

VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The value of each code."""

# Midpoints between neighbours, by where the tie goes: round to nearest even takes the neighbour with an even code.
_TIES_TO_LOWER = (0.25, 1.25, 2.5, 5.0)
_TIES_TO_UPPER = (0.75, 1.75, 3.5)


def encode(x: torch.Tensor) -> torch.Tensor:
    """Codes 0..15 (uint8, same shape) of x, rounded to nearest even; beyond 6 saturates, infinities too.

    The sign is kept, of zero too. NaN has no code: it becomes a zero with NaN's sign, so the caller must mark it.
    """
    magnitude = x.abs()
    code = torch.zeros_like(x, dtype=torch.uint8)
    for tie in _TIES_TO_LOWER:
        code += magnitude > tie
    for tie in _TIES_TO_UPPER:
        code += magnitude >= tie
    return code | (torch.signbit(x).to(torch.uint8) << 3)


def decode(code: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values of codes 0..15 (any integer dtype), same shape; exact in any float dtype of 16 bits or more."""
    # By arithmetic: a table would have to be copied to a device, which cannot be while a graph is captured there.
    code = code.int()
    magnitude, mantissa = code & 7, code & 1
    halves = torch.where(magnitude < 2, mantissa, (2 | mantissa) << ((magnitude >> 1) - 1).clamp(min=0))
    value = halves.to(dtype) * 0.5
    return torch.where(code & 8 == 0, value, -value)


def pack(code: torch.Tensor) -> torch.Tensor:
    """(..., K) codes to (..., K / 2) bytes, the even element in the low nibble. ValueError if K is odd."""
    if code.shape[-1] % 2:
        raise ValueError(f"code: got a last dimension of {code.shape[-1]}, expected an even one: two codes fill a byte")
    code = code.to(torch.uint8)
    return code[..., 0::2] | (code[..., 1::2] << 4)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """(..., K / 2) bytes, uint8, to (..., K) codes, uint8. ValueError for another dtype."""
    if packed.dtype != torch.uint8:
        raise ValueError(f"packed: got {packed.dtype}, expected torch.uint8, two e2m1 codes to a byte")
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
