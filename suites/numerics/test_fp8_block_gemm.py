"""FP8 block GEMM against float64: tails, leading dimensions, scale dtypes, and each kind of bad argument."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels import cpu
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
def test_equals_float64(m, n, k, scales, path):
    a, b, a_scale, b_scale = operands(m, n, k, scales=scales)
    got = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16)
    assert got.shape == (m, n) and got.dtype == torch.bfloat16
    assert relative_error(got, float64_answer(a, b, a_scale, b_scale)) < 5e-3


@pytest.mark.parametrize("block", [(64, 64), (128, 32), (32, 128), (50, 96), (128, 100)])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
def test_other_blocks_and_flavours(block, dtype, path):
    a, b, a_scale, b_scale = operands(9, 100, 150, block, dtype)
    got = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, list(block), torch.float32)
    assert relative_error(got, float64_answer(a, b, a_scale, b_scale, block)) < 1e-6


def test_leading_dimensions(path):
    a, b, a_scale, b_scale = operands(24, 40, 200)
    flat = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128])
    deep = w8a8_triton_block_scaled_mm(a.view(2, 3, 4, 200), b, a_scale.view(2, 3, 4, 2), b_scale, [128, 128])
    assert deep.shape == (2, 3, 4, 40) and flat.dtype == torch.float16
    assert torch.equal(deep.view(24, 40), flat)
    row = w8a8_triton_block_scaled_mm(a[0], b, a_scale[0], b_scale, [128, 128], torch.float32)
    assert row.shape == (40,) and relative_error(row[None], float64_answer(a, b, a_scale, b_scale)[:1]) < 1e-6


def test_no_rows_give_no_rows(path):
    a, b, a_scale, b_scale = operands(0, 40, 200)
    assert w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128]).shape == (0, 40)


def test_smallest_e8m0_scale_is_not_zero(path):
    """Code 0 is 2^-127, which a decoder by shift turns into zero."""
    a = torch.full((1, 128), 448.0).to(torch.float8_e4m3fn)
    tiny = torch.zeros(1, 1, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    one = torch.full((1, 1), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    got = w8a8_triton_block_scaled_mm(a, a.clone(), tiny, one, [128, 128], torch.float32)
    assert got.item() == pytest.approx(448.0**2 * 128 * 2.0**-127, rel=1e-6, abs=0)


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
def test_bad_arguments_are_named(case, path):
    spoil, message = BAD[case]
    a, b, a_scale, b_scale = operands(4, 180, 256)
    call = {"A": a, "B": b, "As": a_scale, "Bs": b_scale, "block_size": [128, 128], "output_dtype": torch.bfloat16}
    spoil(call)
    with pytest.raises(ValueError, match=message):
        w8a8_triton_block_scaled_mm(**call)


def launch(m, n, k, config, decode=False, block=(128, 128), poison=None):
    """The Triton kernel itself, by a configuration of our choice."""
    kernel = pytest.importorskip("blockscale.kernels.triton.fp8_block_gemm")
    a, b, a_scale, b_scale = operands(m, n, k, block)
    if poison:
        poison(a, b, a_scale, b_scale)
    got = kernel.fp8_block_gemm(a, b, a_scale, b_scale, *block, torch.float32, config, decode)
    return got, float64_answer(a, b, a_scale, b_scale, block)


CONFIGS = [
    {"swap": swap, "BLOCK_M": m, "BLOCK_N": n, "GROUP_M": group, "SPLIT_K": split, "num_warps": 4, "num_stages": 2}
    for swap, m, n, group, split in [
        (True, 64, 16, 1, 4), (True, 128, 16, 4, 1), (True, 256, 32, 1, 1),
        (False, 16, 128, 8, 3), (False, 64, 64, 2, 1), (False, 32, 256, 1, 2),
    ]
]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(3, 130, 257), (70, 260, 640)])
def test_every_way_to_tile(m, n, k, config, interpreter):
    got, want = launch(m, n, k, config)
    assert relative_error(got, want) < 1e-6


def test_decoding_for_archs_without_fp8(interpreter):
    """Every code of e4m3fn, NaN included, through the kernel's own decoder."""
    got, want = launch(8, 200, 300, CONFIGS[3], decode=True)
    assert relative_error(got, want) < 1e-6

    def every_code(a, b, a_scale, b_scale):
        a.zero_()
        b.zero_()
        a[:, 0] = 1.0
        b.view(torch.uint8)[:, 0] = torch.arange(256, dtype=torch.uint8)
        a_scale.fill_(1.0)
        b_scale.fill_(1.0)

    got, want = launch(1, 256, 32, CONFIGS[3], decode=True, poison=every_code)
    assert torch.equal(got.nan_to_num(1234.5).double(), want.nan_to_num(1234.5))


def test_nan_stays_in_its_row_and_column():
    """A NaN element spoils its own row (A) or column (B) of the answer, and nothing else. Triton's interpreter reads
    fp8's NaN as 480, so it cannot be asked."""
    a, b, a_scale, b_scale = operands(40, 150, 300)
    a.view(torch.uint8)[7, 299] = 0x7F
    b.view(torch.uint8)[149, 0] = 0xFF
    got = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16)
    spoiled = torch.zeros(40, 150, dtype=torch.bool)
    spoiled[7], spoiled[:, 149] = True, True
    assert torch.equal(got.isnan(), spoiled)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
@pytest.mark.parametrize("with_nan", [False, True])
def test_cpu_decoding_of_every_code(dtype, with_nan):
    codes = torch.arange(256, dtype=torch.uint8).view(dtype).view(16, 16)
    keep = codes.float().isfinite() | torch.tensor(with_nan)
    codes = torch.where(keep, codes.view(torch.uint8), 0).to(torch.uint8).view(dtype)
    got = cpu.dequantize_fp8(codes, torch.ones(1, 1), 16, 16)
    assert torch.equal(got.float().nan_to_num(1234.5), codes.float().nan_to_num(1234.5))


def test_cpu_pieces_do_not_show(monkeypatch):
    """Weights are dequantized piece by piece; the pieces' borders and the last, short one must not matter."""
    _, b, _, b_scale = operands(1, 300, 200)
    whole = cpu.dequantize_fp8(b, b_scale, 128, 128)
    monkeypatch.setattr(cpu, "_PIECE", 1)
    assert torch.equal(cpu.dequantize_fp8(b, b_scale, 128, 128), whole)
    want = b.float() * b_scale.repeat_interleave(128, 0)[:300].repeat_interleave(128, 1)[:, :200]
    assert torch.equal(whole, want.bfloat16())


def test_blocks_too_narrow_for_a_matrix_instruction_are_dequantized(interpreter, monkeypatch):
    """A step of 4 along K divides 100, and no matrix instruction takes it: the launcher must not try."""
    kernel = pytest.importorskip("blockscale.kernels.triton.fp8_block_gemm")
    monkeypatch.setattr(kernel, "fp8_block_gemm", None)
    a, b, a_scale, b_scale = operands(9, 100, 150, (128, 100))
    got = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 100], torch.float32)
    assert relative_error(got, float64_answer(a, b, a_scale, b_scale, (128, 100))) < 1e-6


def test_torch_compile_traces_it_whole():
    a, b, a_scale, b_scale = operands(5, 40, 200)

    def layer(a, a_scale):
        return torch.relu(w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16)) + 1

    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(a, a_scale), layer(a, a_scale))


def test_the_fake_says_shape_and_dtype_as_the_real_one():
    a, b, a_scale, b_scale = operands(6, 40, 200)
    arguments = (a.view(2, 3, 200), b, a_scale.view(2, 3, 2), b_scale, [128, 128], torch.float16)
    # torch's other checks multiply the arguments, which fp8 cannot.
    op = torch.ops.blockscale.w8a8_block_scaled_mm.default
    torch.library.opcheck(op, arguments, test_utils="test_faketensor")
