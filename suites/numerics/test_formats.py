"""Every code of every format, and every bf16 value encoded, against arithmetic written from the standards."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from blockscale.formats import e2m1, e8m0, fp8

ALL_BF16 = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16).float()
FINITE_BF16 = ALL_BF16[ALL_BF16.isfinite()]


def test_e8m0_decodes_every_code():
    got = e8m0.decode(torch.arange(256, dtype=torch.uint8))
    assert got[:255].double().tolist() == [2.0 ** (code - 127) for code in range(255)]
    assert math.isnan(got[255])
    assert torch.equal(e8m0.decode(torch.arange(255, dtype=torch.uint8).view(torch.float8_e8m0fnu)), got[:255])


def test_e8m0_refuses_other_dtypes():
    with pytest.raises(ValueError, match=r"scales: got torch.float32, expected torch.uint8 or torch.float8_e8m0fnu"):
        e8m0.decode(torch.ones(2))


@example(float("inf"), -252)
@example(1.0, 254)
@given(st.floats(width=32, allow_nan=False), st.integers(-252, 254))
def test_times_power_of_two_is_exact(x, exponent):
    got = e8m0.times_power_of_two(torch.tensor([x]), torch.tensor([exponent])).item()
    want = torch.tensor(x, dtype=torch.float64) * 2.0**exponent
    if want.abs() >= 2.0**-126 or want == 0:  # no promise for subnormal results, which may round twice
        assert got == want.float().item()


def test_e2m1_decodes_every_code():
    for code, value in enumerate(e2m1.decode(torch.arange(16)).tolist()):
        sign, exponent, mantissa = code >> 3, (code >> 1) & 3, code & 1
        want = (1 + mantissa / 2) * 2.0 ** (exponent - 1) if exponent else mantissa / 2
        assert (math.copysign(1, value), abs(value)) == (-1 if sign else 1, want)


def nearest_even_code(x, values):
    """Index of the nearest of `values` (ascending, not negative); of two equally near, the even index."""
    distance = (x.double()[:, None] - values.double()[None, :]).abs()
    best = distance.amin(1, keepdim=True)
    candidates = torch.where(distance == best, torch.arange(len(values)), -1)
    low = torch.where(candidates >= 0, candidates, len(values)).amin(1)
    return torch.where(low % 2 == 0, low, candidates.amax(1))


def test_e2m1_encodes_every_bf16():
    code = e2m1.encode(FINITE_BF16)
    assert torch.equal(
        (code & 7).long(), nearest_even_code(FINITE_BF16.abs().clamp(max=6), torch.tensor(e2m1.VALUES[:8]))
    )
    assert torch.equal(code >> 3 == 1, torch.signbit(FINITE_BF16))


def test_e2m1_beyond_the_finite():
    inf, nan = float("inf"), float("nan")
    assert e2m1.encode(torch.tensor([inf, -inf, 3e38, -0.0])).tolist() == [7, 15, 7, 8]
    assert e2m1.encode(torch.tensor([nan])).item() & 7 == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_e2m1_round_trip(dtype):
    codes = torch.arange(16, dtype=torch.uint8)
    assert torch.equal(e2m1.encode(e2m1.decode(codes, dtype)), codes)


def test_the_even_element_is_in_the_low_nibble():
    assert e2m1.pack(torch.tensor([1, 2, 3, 15])).tolist() == [0x21, 0xF3]
    assert e2m1.unpack(torch.tensor([0x21, 0xF3], dtype=torch.uint8)).tolist() == [1, 2, 3, 15]
    every_byte = torch.arange(256, dtype=torch.uint8).view(4, 64)
    assert torch.equal(e2m1.pack(e2m1.unpack(every_byte)), every_byte)
    with pytest.raises(ValueError, match="code: got a last dimension of 3, expected an even one"):
        e2m1.pack(torch.zeros(3))


FP8 = {  # exponent bits, mantissa bits, bias, codes that are NaN, codes that are infinite
    torch.float8_e4m3fn: (4, 3, 7, {0x7F, 0xFF}, set()),
    torch.float8_e4m3fnuz: (4, 3, 8, {0x80}, set()),
    torch.float8_e5m2: (5, 2, 15, {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}, {0x7C, 0xFC}),
}


def fp8_value(code, dtype):
    exponent_bits, mantissa_bits, bias, nans, infinities = FP8[dtype]
    sign = -1.0 if code >> 7 else 1.0
    if code in nans:
        return math.nan
    if code in infinities:
        return sign * math.inf
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    return sign * ((1 + mantissa) * 2.0 ** (exponent - bias) if exponent else mantissa * 2.0 ** (1 - bias))


@pytest.mark.parametrize("dtype", fp8.DTYPES)
def test_fp8_decodes_every_code(dtype):
    got = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    assert torch.equal(
        got.nan_to_num(1234.5), torch.tensor([fp8_value(c, dtype) for c in range(256)]).nan_to_num(1234.5)
    )
    assert fp8.largest(dtype) == max(fp8_value(c, dtype) for c in range(256) if math.isfinite(fp8_value(c, dtype)))


@pytest.mark.parametrize("dtype", fp8.DTYPES)
def test_fp8_encodes_every_bf16(dtype):
    values = torch.tensor([fp8_value(c, dtype) for c in range(128)])
    values = values[values.isfinite()]
    want = nearest_even_code(FINITE_BF16.abs().clamp(max=fp8.largest(dtype)), values)
    got = fp8.encode(FINITE_BF16, dtype)
    assert torch.equal(got.view(torch.uint8).long() & 0x7F, want)
    negative = torch.signbit(FINITE_BF16) & ((want > 0) | (dtype != torch.float8_e4m3fnuz))  # fnuz has no -0
    assert torch.equal(got.view(torch.uint8) >> 7 == 1, negative)


@pytest.mark.parametrize("dtype", fp8.DTYPES)
def test_fp8_saturates_the_same_on_every_torch(dtype):
    top = fp8.largest(dtype)
    got = fp8.encode(torch.tensor([1e30, -1e30, math.inf, -math.inf, top * 1.04, math.nan]), dtype).float()
    assert got[:5].tolist() == [top, -top, top, -top, top] and math.isnan(got[5])


def test_fp8_refuses_other_dtypes():
    with pytest.raises(ValueError, match=r"dtype: got torch.float16, expected one of torch.float8_e4m3fn"):
        fp8.encode(torch.ones(1), torch.float16)


@pytest.mark.parametrize("k", [128, 1, 200, 384])
@pytest.mark.parametrize("dtype", fp8.DTYPES)
@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.float8_e8m0fnu])
def test_quantized_groups(k, dtype, scale_dtype):
    x = torch.randn(2, 5, k, generator=torch.Generator().manual_seed(k)) * torch.logspace(-20, 20, 10).view(2, 5, 1)
    elements, scale = fp8.quantize_groups(x, 128, dtype, scale_dtype)
    assert elements.shape == x.shape and scale.shape == (2, 5, -(-k // 128)) and scale.dtype == scale_dtype
    back = fp8.dequantize_groups(elements, scale, 128)
    amax = torch.nn.functional.pad(x, (0, -k % 128)).unflatten(-1, (-1, 128)).abs().amax(-1)
    # Half a step of the coarsest binade, 2^-4 (2^-3 for e5m2), and up to twice that for a power-of-two scale.
    step = (2.0**-3 if dtype == torch.float8_e5m2 else 2.0**-4) * (1 if scale_dtype == torch.float32 else 2)
    assert ((back - x).abs() <= step * amax.repeat_interleave(128, -1)[..., :k] * 1.001).all()
    largest_seen = (amax / scale.float()).max().item()
    assert largest_seen <= fp8.largest(dtype) * 1.000001, "the scale lets an element saturate"
    if scale_dtype == torch.float8_e8m0fnu:
        assert (amax / scale.float() > fp8.largest(dtype) / 2).all(), "the power of two is larger than needed"


def test_groups_of_nothing_and_of_no_number():
    x = torch.zeros(3, 128)
    x[1, 7] = math.nan
    x[2, 7] = math.inf
    elements, scale = fp8.quantize_groups(x, 128, torch.float8_e4m3fn)
    assert scale[0].item() == 2.0**-126 and (elements[0].float() == 0).all()
    assert scale[1:].isnan().all()
    _, e8m0_scale = fp8.quantize_groups(x, 128, torch.float8_e4m3fn, torch.float8_e8m0fnu)
    assert e8m0_scale.view(torch.uint8).flatten().tolist() == [1, 255, 255]


def test_group_arguments():
    with pytest.raises(ValueError, match="group: got 0, expected at least 1"):
        fp8.quantize_groups(torch.ones(4), 0, torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=r"scale_dtype: got torch.bfloat16, expected torch.float32 or"):
        fp8.quantize_groups(torch.ones(4), 2, torch.float8_e4m3fn, torch.bfloat16)
