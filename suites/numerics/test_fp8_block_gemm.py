"""FP8 block GEMM against float64: tails, leading dimensions, scale dtypes, and each kind of bad argument."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm

SHAPES = [(1, 1, 1), (1, 128, 128), (7, 130, 257), (16, 256, 384), (33, 127, 300), (64, 64, 64), (5, 300, 320)]


def operands(m, n, k, block=(128, 128), dtype=torch.float8_e4m3fn, scales=torch.float32, seed=0):
    """Random operands whose scales differ by powers of two between blocks, so that a wrong scale shows."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(m, k, generator=generator).to(dtype)
    b = torch.randn(n, k, generator=generator).to(dtype)
    k_blocks, n_blocks = -(-k // block[1]), -(-n // block[0])
    a_scale = torch.exp2(torch.randint(-6, 7, (m, k_blocks), generator=generator).float())
    b_scale = torch.exp2(torch.randint(-6, 7, (n_blocks, k_blocks), generator=generator).float())
    return a, b, a_scale.to(scales), b_scale.to(scales)


def float64_answer(a, b, a_scale, b_scale, block=(128, 128)):
    """The product in float64, written with explicit index arithmetic and nothing of the code under test."""
    n, k = b.shape
    k_block = torch.arange(k) // block[1]
    n_block = torch.arange(n) // block[0]
    left = a.double() * a_scale.double()[:, k_block]
    right = b.double() * b_scale.double()[n_block][:, k_block]
    return left @ right.T


def relative_error(got, want):
    return (torch.linalg.vector_norm(got.double() - want) / torch.linalg.vector_norm(want)).item()


@pytest.mark.parametrize("scales", [torch.float32, torch.float8_e8m0fnu])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_equals_float64(m, n, k, scales):
    a, b, a_scale, b_scale = operands(m, n, k, scales=scales)
    got = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16)
    assert got.shape == (m, n) and got.dtype == torch.bfloat16
    assert relative_error(got, float64_answer(a, b, a_scale, b_scale)) < 4e-3


@pytest.mark.parametrize("block", [(64, 64), (128, 32), (32, 128)])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
def test_other_blocks_and_flavours(block, dtype):
    a, b, a_scale, b_scale = operands(9, 100, 150, block, dtype)
    got = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, list(block), torch.float32)
    assert relative_error(got, float64_answer(a, b, a_scale, b_scale, block)) < 1e-6


def test_leading_dimensions():
    a, b, a_scale, b_scale = operands(24, 40, 200)
    flat = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128])
    deep = w8a8_triton_block_scaled_mm(a.view(2, 3, 4, 200), b, a_scale.view(2, 3, 4, 2), b_scale, [128, 128])
    assert deep.shape == (2, 3, 4, 40) and flat.dtype == torch.float16
    assert torch.equal(deep.view(24, 40), flat)
    row = w8a8_triton_block_scaled_mm(a[0], b, a_scale[0], b_scale, [128, 128], torch.float32)
    assert row.shape == (40,) and relative_error(row[None], float64_answer(a, b, a_scale, b_scale)[:1]) < 1e-6


def test_no_rows_give_no_rows():
    a, b, a_scale, b_scale = operands(0, 40, 200)
    assert w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128]).shape == (0, 40)


def test_smallest_e8m0_scale_is_not_zero():
    """Code 0 is 2^-127, which a decoder by shift turns into zero."""
    a = torch.full((1, 128), 448.0).to(torch.float8_e4m3fn)
    tiny = torch.zeros(1, 1, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    one = torch.full((1, 1), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    got = w8a8_triton_block_scaled_mm(a, a.clone(), tiny, one, [128, 128], torch.float32)
    assert got.item() == pytest.approx(448.0**2 * 128 * 2.0**-127, rel=1e-6)


BAD = {
    "A has another K": (lambda c: c.update(A=c["A"][:, :100].contiguous()), r"A: got shape \(4, 100\), expected .*256"),
    "A is bf16": (lambda c: c.update(A=c["A"].bfloat16()), r"A: got torch.bfloat16, expected torch.float8_e4m3fn or"),
    "flavours differ": (lambda c: c.update(B=c["B"].float().to(torch.float8_e4m3fnuz)), r"B: got .*fnuz, expected A"),
    "As too narrow": (lambda c: c.update(As=c["As"][:, :1]), r"As: got shape \(4, 1\), expected shape \(4, 2\)"),
    "Bs of other blocks": (lambda c: c.update(block_size=[64, 128]), r"Bs: got shape \(2, 2\), expected .*\(3, 2\)"),
    "Bs is bf16": (lambda c: c.update(Bs=c["Bs"].bfloat16()), r"Bs: got torch.bfloat16, expected torch.float32 or"),
    "one block size": (lambda c: c.update(block_size=[128]), r"block_size: got \[128\], expected two positive"),
    "block size zero": (lambda c: c.update(block_size=[128, 0]), r"block_size: got \[128, 0\], expected two positive"),
    "B transposed": (lambda c: c.update(B=c["B"].T.contiguous().T), r"B: got strides .*, expected a contiguous tensor"),
    "B has three dimensions": (lambda c: c.update(B=c["B"][None]), r"B: got 3 dimensions, expected two"),
    "output is fp8": (lambda c: c.update(output_dtype=torch.float8_e4m3fn), r"output_dtype: got torch.float8_e4m3fn"),
    "NaN scale": (lambda c: c["As"].fill_(float("nan")), r"As: got 8 NaN of 8 scales, expected scales without NaN"),
    "other device": (lambda c: c.update(Bs=c["Bs"].to("meta")), r"Bs: got device meta, expected A's, cpu"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case):
    spoil, message = BAD[case]
    a, b, a_scale, b_scale = operands(4, 180, 256)
    call = {"A": a, "B": b, "As": a_scale, "Bs": b_scale, "block_size": [128, 128], "output_dtype": torch.bfloat16}
    spoil(call)
    with pytest.raises(ValueError, match=message):
        w8a8_triton_block_scaled_mm(**call)
