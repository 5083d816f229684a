"""Activation quantization: every path gives the definition's bits."""

from __future__ import annotations

import math

import pytest
import torch

from blockscale.formats import fp8
from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8


def bits(tensor):
    """Comparable bits: equal numbers are equal, and so is each NaN to each."""
    return tensor.cpu().float().nan_to_num(1234.5)


@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.float8_e8m0fnu])
@pytest.mark.parametrize("dtype", fp8.DTYPES)
@pytest.mark.parametrize(("shape", "group"), [((1, 128), 128), ((3, 5, 200), 128), ((7, 33), 32), ((65, 256), 64)])
def test_the_definitions_bits(shape, group, dtype, scale_dtype, path):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator) * torch.exp2(torch.randn(shape, generator=generator) * 8)
    x = x.bfloat16()
    elements, scale = per_token_group_quant_fp8(path.put(x), group, dtype, scale_dtype)
    want_elements, want_scale = fp8.quantize_groups(x, group, dtype, scale_dtype)
    assert elements.dtype == dtype and scale.dtype == scale_dtype
    assert torch.equal(bits(scale), bits(want_scale))
    assert torch.equal(bits(elements), bits(want_elements))


def test_nothing_and_no_number(path):
    x = torch.zeros(4, 128)
    x[1, 3], x[2, 3], x[3, 3] = math.nan, math.inf, 1e-44
    for scale_dtype in (torch.float32, torch.float8_e8m0fnu):
        _, scale = per_token_group_quant_fp8(path.put(x), 128, torch.float8_e4m3fn, scale_dtype)
        assert torch.equal(bits(scale), bits(fp8.quantize_groups(x, 128, torch.float8_e4m3fn, scale_dtype)[1]))
    assert per_token_group_quant_fp8(path.put(x[:0]), 128)[1].shape == (0, 1)


def test_groups_that_are_no_power_of_two(path):
    x = torch.randn(5, 100, generator=torch.Generator().manual_seed(2))
    elements, scale = per_token_group_quant_fp8(path.put(x), 48)
    assert scale.shape == (5, 3)
    assert ((fp8.dequantize_groups(elements, scale, 48).cpu() - x).abs() < 0.3).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": torch.zeros(2, 4, dtype=torch.int32)}, r"x: got torch.int32, expected torch.bfloat16 or"),
        ({"x": torch.zeros(2, 0)}, r"x: got shape \(2, 0\), expected at least one column"),
        ({"group_size": 0}, "group_size: got 0, expected at least 1"),
        ({"dtype": torch.int8}, r"dtype: got torch.int8, expected torch.float8_e4m3fn or"),
        ({"scale_dtype": torch.float16}, r"scale_dtype: got torch.float16, expected float32 or"),
        ({"x": torch.zeros(4, 2).T}, r"x: got strides \(1, 2\) for shape \(2, 4\), expected a contiguous tensor"),
    ],
)
def test_bad_arguments_are_named(options, message, path):
    call = path.put({"x": torch.zeros(2, 4), "group_size": 4} | options)
    with pytest.raises(ValueError, match=message):
        per_token_group_quant_fp8(**call)


@pytest.mark.parametrize("dtype", fp8.DTYPES)
def test_every_bf16_as_an_element(dtype, path):
    """All values within the range, unscaled: an element of the largest value in each group makes the scale 1."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    x = torch.full((65536, 2), fp8.largest(dtype), dtype=torch.bfloat16)
    x[:, 0] = torch.where(every.abs() <= fp8.largest(dtype), every, 0)
    elements, scale = per_token_group_quant_fp8(path.put(x), 2, dtype)
    assert (scale == 1).all()
    assert torch.equal(elements[:, 0].view(torch.uint8).cpu(), fp8.encode(x[:, 0].float(), dtype).view(torch.uint8))
