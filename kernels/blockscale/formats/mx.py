"""MX blocks: 32 elements share one e8m0 scale. MXFP4 (e2m1, packed two to a byte) and MXFP8 (e4m3fn).

Source: OCP Microscaling Formats (MX) 1.0, sections 5 and 6.3; that standard's own scale rule is FLOOR.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import torch

from blockscale.formats import e2m1, e8m0, fp8

BLOCK = 32
_MANTISSA_BITS = 23  # of fp32
_MANTISSA = (1 << _MANTISSA_BITS) - 1


@dataclass(frozen=True)
class Element:
    """What the scale rules need of an element format: exponent and mantissa field (as fp32's) of its largest value."""

    name: str
    mantissa_bits: int
    emax: int
    largest_mantissa: int


E2M1 = Element("e2m1", mantissa_bits=1, emax=2, largest_mantissa=1 << 22)  # 6 = 1.5 * 2^2
E4M3FN = Element("e4m3fn", mantissa_bits=3, emax=8, largest_mantissa=3 << 21)  # 448 = 1.75 * 2^8


class ScaleRounding(enum.Enum):
    """How the block's largest magnitude becomes a power of two (amax 5, 6.5 and 7 in an e2m1 block tell them apart)."""

    FLOOR = "floor"
    """2^(floor(log2 amax) - emax): the MX standard's, microxcaling's, torchao's default. Large elements saturate."""
    CEIL = "ceil"
    """2^(ceil(log2 amax) - emax): nothing saturates, one bit is lost for most blocks."""
    EVEN = "even"
    """amax is first rounded to the element's mantissa width: Quark, vLLM, compressed-tensors, AITER's Triton kernel."""
    RCEIL = "rceil"
    """The power of two at or above amax / largest: AITER's HIP kernels, modelopt, DeepGEMM, NVIDIA's hardware."""

    def addend(self, element: Element) -> int:
        """What to add to amax's fp32 bits so that its exponent field, less emax, is the scale's code."""
        return {
            ScaleRounding.FLOOR: 0,
            ScaleRounding.CEIL: _MANTISSA,
            ScaleRounding.EVEN: 1 << (_MANTISSA_BITS - element.mantissa_bits - 1),
            ScaleRounding.RCEIL: _MANTISSA - element.largest_mantissa,
        }[self]


def block_scale(amax: torch.Tensor, rounding: ScaleRounding, element: Element = E2M1) -> torch.Tensor:
    """e8m0 codes (uint8, same shape) for blocks whose largest magnitudes are `amax` (fp32, not negative).

    Codes below 0 become 0, so an all-zero block has code 0. NaN gives 255, and so does infinity: libraries disagree
    about it (torchao keeps a finite scale, AITER and microxcaling do not), and a block that overflowed must not look
    healthy. The sum is taken on integers, so the largest fp32 does not overflow to 255 as where it is one of floats.
    """
    bits = amax.float().view(torch.int32)
    code = ((bits + rounding.addend(element)) >> _MANTISSA_BITS) - element.emax
    return torch.where(amax.isfinite(), code.clamp(min=0), e8m0.NAN).to(torch.uint8)


def quantize(
    x: torch.Tensor, rounding: ScaleRounding = ScaleRounding.EVEN, element: Element = E2M1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize (..., K) in blocks of 32 along K.

    Returns the elements, packed (..., K / 2) uint8 for e2m1 or (..., K) float8_e4m3fn, and the scales' codes
    (..., K / 32) uint8. Elements are rounded to nearest even and saturate; in a block whose scale is NaN they are zero.
    Raises ValueError if K is not a multiple of 32.
    """
    if x.shape[-1] % BLOCK:
        raise ValueError(f"x: got a last dimension of {x.shape[-1]}, expected a multiple of {BLOCK}")
    blocks = x.float().unflatten(-1, (-1, BLOCK))  # (..., K / 32, 32)
    code = block_scale(blocks.abs().amax(-1), rounding, element)  # (..., K / 32)
    exponent = (e8m0.BIAS - code.int()).unsqueeze(-1)
    scaled = e8m0.times_power_of_two(blocks, exponent)
    scaled = torch.where((code == e8m0.NAN).unsqueeze(-1), 0.0, scaled).flatten(-2)
    if element is E2M1:
        return e2m1.pack(e2m1.encode(scaled)), code
    return fp8.encode(scaled, torch.float8_e4m3fn), code


def dequantize(elements: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """(..., K) values in `dtype` of packed e2m1 (..., K / 2) uint8, or float8 (..., K), and e8m0 scales (..., K / 32).

    A block whose scale is NaN is all NaN. Raises ValueError if the shapes do not fit, and for other integers.
    """
    if elements.dtype != torch.uint8 and not elements.dtype.is_floating_point:
        raise ValueError(f"elements: got {elements.dtype}, expected torch.uint8 (packed e2m1) or float8")
    values = e2m1.decode(e2m1.unpack(elements)) if elements.dtype == torch.uint8 else elements.float()
    code = e8m0.codes(scales)
    expected = (*values.shape[:-1], values.shape[-1] // BLOCK)
    if values.shape[-1] % BLOCK or tuple(code.shape) != expected:
        raise ValueError(
            f"scales: got shape {tuple(code.shape)}, expected {expected}: one scale for each {BLOCK} of "
            f"{values.shape[-1]} elements"
        )
    blocks = e8m0.times_power_of_two(values.unflatten(-1, (-1, BLOCK)), (code.int() - e8m0.BIAS).unsqueeze(-1))
    blocks = torch.where((code == e8m0.NAN).unsqueeze(-1), torch.full((), float("nan"), device=blocks.device), blocks)
    return blocks.flatten(-2).to(dtype)
