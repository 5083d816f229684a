"""Dynamic FP8 quantization of activations: one scale per row and group of columns (1 x 128)."""

from __future__ import annotations

import torch

from blockscale.formats import fp8
from blockscale.kernels import dispatch
from blockscale.kernels.checks import expect, expect_contiguous, expect_dtype
from blockscale.platforms import current_platform


def per_token_group_quant_fp8(
    x: torch.Tensor,
    group_size: int,
    dtype: torch.dtype | None = None,
    scale_dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize (..., K) bf16, fp16 or fp32: elements (..., K) fp8 and scales (..., ceil(K / group_size)).

    `dtype` defaults to the platform's e4m3 flavour. Scales are fp32 (amax / largest) or float8_e8m0fnu (the power of
    two at or above that). Defined by `formats.fp8.quantize_groups`, whose answer every path gives bit for bit, so that
    a group's depends on nothing else. A device holds nothing beside the answer.
    Raises ValueError for another dtype, a group below 1 or a tensor that is not contiguous.
    """
    dtype = dtype or current_platform.fp8_dtype()
    expect_dtype("x", x, (torch.bfloat16, torch.float16, torch.float32))
    expect(x.dim() >= 1 and x.shape[-1] > 0, "x", f"shape {tuple(x.shape)}", "at least one column")
    expect(dtype in fp8.DTYPES, "dtype", dtype, " or ".join(map(str, fp8.DTYPES)))
    expect(group_size >= 1, "group_size", group_size, "at least 1")
    is_known = scale_dtype in (torch.float32, torch.float8_e8m0fnu)
    expect(is_known, "scale_dtype", scale_dtype, "float32 or float8_e8m0fnu")
    expect_contiguous("x", x)
    is_power_of_two = group_size & (group_size - 1) == 0
    if not dispatch.runs_on_triton(x) or not is_power_of_two:
        return fp8.quantize_groups(x, group_size, dtype, scale_dtype)
    return _triton(x, group_size, dtype, scale_dtype)


@dispatch.on_its_device
def _triton(
    x: torch.Tensor, group_size: int, dtype: torch.dtype, scale_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    dispatch.arch_of(x)  # says so if Triton is missing or too old
    from blockscale.kernels.triton.fp8_quantization import quantize_groups

    return quantize_groups(x, group_size, dtype, scale_dtype)
