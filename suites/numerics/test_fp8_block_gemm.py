"""FP8 block GEMM against float64: tails, leading dimensions, scale dtypes, and each kind of bad argument."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels import cpu
from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm

from .references import bound, fp8_answer, fp8_operands, relative_error
from .ways import by

SHAPES = [(1, 1, 1), (1, 128, 128), (7, 130, 257), (16, 256, 384), (33, 127, 300), (64, 64, 64), (5, 300, 320)]


@pytest.mark.parametrize("scales", [torch.float32, torch.float8_e8m0fnu])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_equals_float64(m, n, k, scales, path):
    given = fp8_operands(m, n, k, scales=scales, dtype=path.fp8)
    got = w8a8_triton_block_scaled_mm(*path.put(given), [128, 128], torch.bfloat16)
    assert got.shape == (m, n) and got.dtype == torch.bfloat16
    assert relative_error(got, fp8_answer(*given)) < bound(torch.bfloat16, path)


@pytest.mark.parametrize("block", [(64, 64), (128, 32), (32, 128), (50, 96), (128, 100)])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
def test_other_blocks_and_flavours(block, dtype, path):
    given = fp8_operands(9, 100, 150, block, dtype)
    if path.on_device and dtype != path.fp8:
        with pytest.raises(ValueError, match=rf"A: got {dtype}, expected {path.fp8}, the fp8 of"):
            w8a8_triton_block_scaled_mm(*path.put(given), list(block), torch.float32)
        return
    got = w8a8_triton_block_scaled_mm(*path.put(given), list(block), torch.float32)
    assert relative_error(got, fp8_answer(*given, block)) < bound(torch.float32, path, fp8=True)


def test_leading_dimensions(path):
    given = fp8_operands(24, 40, 200, dtype=path.fp8)
    a, b, a_scale, b_scale = path.put(given)
    flat = w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128])
    deep = w8a8_triton_block_scaled_mm(a.view(2, 3, 4, 200), b, a_scale.view(2, 3, 4, 2), b_scale, [128, 128])
    assert deep.shape == (2, 3, 4, 40) and flat.dtype == torch.float16
    assert torch.equal(deep.view(24, 40), flat)
    row = w8a8_triton_block_scaled_mm(a[0], b, a_scale[0], b_scale, [128, 128], torch.float32)
    assert row.shape == (40,)
    assert relative_error(row[None], fp8_answer(*given)[:1]) < bound(torch.float32, path, fp8=True)


def test_no_rows_give_no_rows(path):
    given = path.put(fp8_operands(0, 40, 200, dtype=path.fp8))
    assert w8a8_triton_block_scaled_mm(*given, [128, 128]).shape == (0, 40)


def test_smallest_e8m0_scale_is_not_zero(path):
    """Code 0 is 2^-127, which a decoder by shift turns into zero."""
    a = torch.full((1, 128), 224.0).to(path.fp8)
    tiny = torch.zeros(1, 1, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    one = torch.full((1, 1), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    got = w8a8_triton_block_scaled_mm(*path.put((a, a.clone(), tiny, one)), [128, 128], torch.float32)
    assert got.item() == pytest.approx(224.0**2 * 128 * 2.0**-127, rel=1e-6, abs=0)


def other_flavour(tensor):
    flavours = {torch.float8_e4m3fn, torch.float8_e4m3fnuz}
    return (flavours - {tensor.dtype}).pop()


BAD = {
    "A has another K": (lambda c: c.update(A=c["A"][:, :100].contiguous()), r"A: got shape \(4, 100\), expected .*256"),
    "A is bf16": (lambda c: c.update(A=c["A"].bfloat16()), r"A: got torch.bfloat16, expected torch.float8_e4m3fn or"),
    "flavours differ": (
        lambda c: c.update(B=c["B"].float().to(other_flavour(c["A"]))),
        r"B: got .*, expected A's dtype",
    ),
    "As too narrow": (lambda c: c.update(As=c["As"][:, :1]), r"As: got shape \(4, 1\), expected shape \(4, 2\)"),
    "Bs of other blocks": (lambda c: c.update(block_size=[64, 128]), r"Bs: got shape \(2, 2\), expected .*\(3, 2\)"),
    "Bs is bf16": (lambda c: c.update(Bs=c["Bs"].bfloat16()), r"Bs: got torch.bfloat16, expected torch.float32 or"),
    "one block size": (lambda c: c.update(block_size=[128]), r"block_size: got \[128\], expected two positive"),
    "block size zero": (lambda c: c.update(block_size=[128, 0]), r"block_size: got \[128, 0\], expected two positive"),
    "B transposed": (lambda c: c.update(B=c["B"].T.contiguous().T), r"B: got strides .*, expected a contiguous tensor"),
    "B has three dimensions": (lambda c: c.update(B=c["B"][None]), r"B: got 3 dimensions, expected two"),
    "output is fp8": (lambda c: c.update(output_dtype=torch.float8_e4m3fn), r"output_dtype: got torch.float8_e4m3fn"),
    "other device": (lambda c: c.update(Bs=c["Bs"].to("meta")), r"Bs: got device meta, expected A's, "),
}
UNASKED = {  # of a device, whose stream would stall
    "NaN scale": (lambda c: c["As"].fill_(float("nan")), r"As: got 8 NaN of 8 scales, expected scales without NaN"),
}


@pytest.mark.parametrize("case", UNASKED)
@by("torch", "interpreter")
def test_what_only_a_cpu_is_asked(case, path):
    raises(*UNASKED[case], path)


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case, path):
    raises(*BAD[case], path)


def raises(spoil, message, path):
    a, b, a_scale, b_scale = path.put(fp8_operands(4, 180, 256, dtype=path.fp8))
    call = {"A": a, "B": b, "As": a_scale, "Bs": b_scale, "block_size": [128, 128], "output_dtype": torch.bfloat16}
    spoil(call)
    with pytest.raises(ValueError, match=message):
        w8a8_triton_block_scaled_mm(**call)


def launch(m, n, k, config, path, decode=False, poison=None):
    """The Triton kernel itself, by a configuration of our choice."""
    kernel = pytest.importorskip("blockscale.kernels.triton.fp8_block_gemm")
    given = fp8_operands(m, n, k, dtype=torch.float8_e4m3fn if decode else path.fp8)
    if poison:
        poison(*given)
    got = kernel.fp8_block_gemm(*path.put(given), 128, 128, torch.float32, config, decode)
    return got.cpu(), fp8_answer(*given)


CONFIGS = [
    {"swap": swap, "BLOCK_M": m, "BLOCK_N": n, "GROUP_M": group, "SPLIT_K": split, "num_warps": 4, "num_stages": 2}
    for swap, m, n, group, split in [
        (True, 64, 16, 1, 4), (True, 128, 16, 4, 1), (True, 256, 32, 1, 1),
        (False, 16, 128, 8, 3), (False, 64, 64, 2, 1), (False, 32, 256, 1, 2),
    ]
]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(3, 130, 257), (70, 260, 640)])
@by("interpreter", "device")
def test_every_way_to_tile(m, n, k, config, path):
    got, want = launch(m, n, k, config, path)
    assert relative_error(got, want) < bound(torch.float32, path, fp8=True)


@by("interpreter", "device")
def test_decoding_for_archs_without_fp8(path):
    """Every code of e4m3fn, NaN included, through the kernel's own decoder."""
    got, want = launch(8, 200, 300, CONFIGS[3], path, decode=True)
    assert relative_error(got, want) < bound(torch.float32, path)

    def every_code(a, b, a_scale, b_scale):
        a.zero_()
        b.zero_()
        a[:, 0] = 1.0
        b.view(torch.uint8)[:, 0] = torch.arange(256, dtype=torch.uint8)
        a_scale.fill_(1.0)
        b_scale.fill_(1.0)

    got, want = launch(1, 256, 32, CONFIGS[3], path, decode=True, poison=every_code)
    assert torch.equal(got.nan_to_num(1234.5).double(), want.nan_to_num(1234.5))


@by("torch", "device")
def test_nan_stays_in_its_row_and_column(path):
    """A NaN element spoils its own row (A) or column (B) of the answer, and nothing else. Triton's interpreter reads
    fp8's NaN as 480, so it cannot be asked."""
    for m, k in ((40, 300), (7, 320), (300, 320)):
        a, b, a_scale, b_scale = fp8_operands(m, 150, k, dtype=path.fp8)
        fnuz = path.fp8 == torch.float8_e4m3fnuz
        a.view(torch.uint8)[m - 1, k - 1] = 0x80 if fnuz else 0x7F
        b.view(torch.uint8)[149, 0] = 0x80 if fnuz else 0xFF
        got = w8a8_triton_block_scaled_mm(*path.put((a, b, a_scale, b_scale)), [128, 128], torch.bfloat16)
        spoiled = torch.zeros(m, 150, dtype=torch.bool)
        spoiled[m - 1], spoiled[:, 149] = True, True
        assert torch.equal(got.isnan().cpu(), spoiled)


@by("device")
def test_nan_scale_spoils_what_it_scales(path):
    """A device is not asked for NaN before the product: it must show in it."""
    for m, k in ((40, 300), (7, 320), (300, 320)):
        a, b, a_scale, b_scale = fp8_operands(m, 300, k, dtype=path.fp8)
        a_scale[m - 1, 1], b_scale[2, 0] = float("nan"), float("nan")
        spoiled = torch.zeros(m, 300, dtype=torch.bool)
        spoiled[m - 1], spoiled[:, 256:] = True, True
        for scales in (torch.float32, torch.float8_e8m0fnu):
            given = path.put((a, b, a_scale.to(scales), b_scale.to(scales)))
            got = w8a8_triton_block_scaled_mm(*given, [128, 128], torch.bfloat16)
            assert torch.equal(got.isnan().cpu(), spoiled)


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
    _, b, _, b_scale = fp8_operands(1, 300, 200)
    whole = cpu.dequantize_fp8(b, b_scale, 128, 128)
    monkeypatch.setattr(cpu, "_PIECE", 1)
    assert torch.equal(cpu.dequantize_fp8(b, b_scale, 128, 128), whole)
    want = b.float() * b_scale.repeat_interleave(128, 0)[:300].repeat_interleave(128, 1)[:, :200]
    assert torch.equal(whole, want.bfloat16())


@by("interpreter", "device")
def test_blocks_too_narrow_for_a_matrix_instruction_are_dequantized(path, monkeypatch):
    """A step of 4 along K divides 100, and no matrix instruction takes it: the launcher must not try."""
    kernel = pytest.importorskip("blockscale.kernels.triton.fp8_block_gemm")
    monkeypatch.setattr(kernel, "fp8_block_gemm", None)
    given = fp8_operands(9, 100, 150, (128, 100), dtype=path.fp8)
    got = w8a8_triton_block_scaled_mm(*path.put(given), [128, 100], torch.float32)
    assert relative_error(got, fp8_answer(*given, (128, 100))) < bound(torch.float32, path)


def test_torch_compile_traces_it_whole():
    a, b, a_scale, b_scale = fp8_operands(5, 40, 200)

    def layer(a, a_scale):
        return torch.relu(w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16)) + 1

    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(a, a_scale), layer(a, a_scale))


def test_the_fake_says_shape_and_dtype_as_the_real_one():
    a, b, a_scale, b_scale = fp8_operands(6, 40, 200)
    arguments = (a.view(2, 3, 200), b, a_scale.view(2, 3, 2), b_scale, [128, 128], torch.float16)
    # torch's other checks multiply the arguments, which fp8 cannot.
    op = torch.ops.blockscale.w8a8_block_scaled_mm.default
    torch.library.opcheck(op, arguments, test_utils="test_faketensor")
