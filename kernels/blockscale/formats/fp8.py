"""FP8: e4m3fn, e4m3fnuz and e5m2, with one saturation that does not depend on torch's release.

Sources: OCP 8-bit Floating Point (OFP8) 1.0 for e4m3fn and e5m2; AMD's CDNA 3 ISA guide for the fnuz flavour.
"""

from __future__ import annotations

import torch

DTYPES = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)


def largest(dtype: torch.dtype) -> float:
    """The largest finite value: 448 (e4m3fn), 240 (e4m3fnuz), 57344 (e5m2). ValueError for another dtype."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype: got {dtype}, expected one of {', '.join(map(str, DTYPES))}")
    return torch.finfo(dtype).max


def encode(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x in an FP8 dtype, rounded to nearest even; beyond the largest value saturates, infinities too; NaN stays NaN.

    torch's own cast gives NaN above e4m3fn's range up to release 2.11 and saturates in 2.13; this always saturates.
    """
    limit = largest(dtype)
    return x.float().clamp(-limit, limit).to(dtype)


def quantize_groups(
    x: torch.Tensor, group: int, dtype: torch.dtype, scale_dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize (..., K) in groups of `group` along K: elements (..., K) in `dtype`, scales (..., ceil(K / group)).

    An fp32 scale is amax / largest, an e8m0 scale the power of two at or above that; neither is below fp32's smallest
    normal number, 2^-126, so an all-zero group has that scale and zero elements. A group with NaN or infinity has a NaN
    scale. x ~ elements * scale. Raises ValueError for a group below 1 or a scale dtype other than those two.
    """
    if group < 1:
        raise ValueError(f"group: got {group}, expected at least 1")
    if scale_dtype not in (torch.float32, torch.float8_e8m0fnu):
        raise ValueError(f"scale_dtype: got {scale_dtype}, expected torch.float32 or torch.float8_e8m0fnu")
    K = x.shape[-1]
    padded = torch.nn.functional.pad(x.float(), (0, -K % group)).unflatten(-1, (-1, group))  # (..., K / group, group)
    # Divided by a tensor: on a device torch would multiply by a number's reciprocal, which rounds twice.
    top = torch.full((), largest(dtype), dtype=torch.float32, device=x.device)
    scale = (padded.abs().amax(-1) / top).clamp(min=2.0**-126)
    finite = scale.isfinite()
    if scale_dtype == torch.float8_e8m0fnu:
        # Up to the next power of two: adding all mantissa bits carries into the exponent unless the mantissa is zero.
        scale = ((scale.view(torch.int32) + 0x7FFFFF) & 0x7F800000).view(torch.float32)
    scale = torch.where(finite, scale, torch.full((), float("nan"), device=x.device))
    elements = encode(padded / scale.unsqueeze(-1), dtype).flatten(-2)[..., :K]
    return elements.contiguous(), scale.to(scale_dtype)


def dequantize_groups(elements: torch.Tensor, scale: torch.Tensor, group: int) -> torch.Tensor:
    """The inverse, to fp32: (..., K) elements times (..., ceil(K / group)) fp32 or e8m0 scales. Else ValueError."""
    if group < 1:
        raise ValueError(f"group: got {group}, expected at least 1")
    if scale.dtype not in (torch.float32, torch.float8_e8m0fnu):
        raise ValueError(f"scale: got {scale.dtype}, expected torch.float32 or torch.float8_e8m0fnu")
    expected = (*elements.shape[:-1], -(-elements.shape[-1] // group))
    if tuple(scale.shape) != expected:
        got = tuple(scale.shape)
        raise ValueError(f"scale: got shape {got}, expected shape {expected}: one scale for each {group} elements")
    spread = scale.float().repeat_interleave(group, -1)[..., : elements.shape[-1]]
    return elements.float() * spread
