"""OCP-MX linear against float64 on the operands that the standard's own arithmetic quantizes."""

from __future__ import annotations

import math

import pytest
import torch

from blockscale.formats import mx
from blockscale.kernels import cpu, ocp_mx_linear
from blockscale.kernels.ocp_mx_linear import ROUNDING, gemm_with_dynamic_quant
from blockscale.platforms import current_platform

from .references import bound, mx_answer, mx_operands, relative_error
from .ways import by

SHAPES = [(1, 1, 32), (3, 100, 96), (16, 64, 256), (17, 130, 288), (70, 65, 160), (130, 129, 64)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_equals_float64(m, n, k, dtype, path):
    x, weight, scale = mx_operands(m, n, k)
    given = x * 2.0**-6, weight, scale - 4  # within fp16's range
    got = gemm_with_dynamic_quant(*path.put(given), out_dtype=dtype)
    assert got.shape == (m, n) and got.dtype == dtype
    assert relative_error(got, mx_answer(*given)) < bound(dtype, path)


@pytest.mark.parametrize("x_dtype", [torch.float32, torch.float16])
def test_other_activations_and_leading_dimensions(x_dtype, path):
    x, weight, scale = mx_operands(12, 40, 64)
    x = x.to(x_dtype)
    want = mx_answer(x, weight, scale)
    x, weight, scale = path.put((x, weight, scale.view(torch.float8_e8m0fnu)))
    got = gemm_with_dynamic_quant(x.view(2, 2, 3, 64), weight, scale, out_dtype=torch.float32)
    assert got.shape == (2, 2, 3, 40)
    assert relative_error(got.view(12, 40), want) < bound(torch.float32, path)
    assert gemm_with_dynamic_quant(x[:0], weight, scale).shape == (0, 40)


def test_activations_quantized_before(path):
    for m in (9, 300):
        given = mx_operands(m, 50, 192)
        packed, x_scales = path.put(mx.quantize(given[0], ROUNDING))
        x, weight, scale = path.put(given)
        got = gemm_with_dynamic_quant(packed, weight, scale, out_dtype=torch.float32, x_scales=x_scales)
        assert relative_error(got, mx_answer(*given)) < bound(torch.float32, path)
        if not path.on_device:  # an arch may multiply even and odd columns apart, where it quantized them itself
            assert torch.equal(got, gemm_with_dynamic_quant(x, weight, scale, out_dtype=torch.float32))


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        {"BLOCK_N": 32, "BLOCK_M": 16, "BLOCK_K": 128, "GROUP_N": 1, "SPLIT_K": 3},
        {"BLOCK_N": 32, "BLOCK_M": 16, "BLOCK_K": 32, "GROUP_N": 2, "SPLIT_K": 2},
        {"BLOCK_N": 128, "BLOCK_M": 64, "BLOCK_K": 64, "GROUP_N": 4, "SPLIT_K": 1},
    ],
    ids=str,
)
@by("interpreter", "device")
def test_every_way_to_tile(config, native, path):
    """Where the matrix unit has no MXFP4, Triton's own product of MXFP4 widens it to bf16."""
    kernel = pytest.importorskip("blockscale.kernels.triton.ocp_mx_linear")
    given = mx_operands(37, 150, 288)
    x, weight, scale = path.put(given)
    values, x_scale = kernel.quantize(x, ROUNDING, pack=native)
    got = kernel.gemm(values, x_scale if native else None, weight, scale, torch.float32, config)
    assert relative_error(got, mx_answer(*given)) < bound(torch.float32, path)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, about NaN in the interpreter
@pytest.mark.parametrize("rounding", mx.ScaleRounding)
@by("interpreter", "device")
def test_quantizing_kernel_gives_the_definitions_bits(rounding, path):
    """Every bf16 value, in blocks of neighbours, of strangers and alone; NaN and infinity mark their block."""
    kernel = pytest.importorskip("blockscale.kernels.triton.ocp_mx_linear")
    every = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    strangers = every[torch.randperm(65536, generator=torch.Generator().manual_seed(0))]
    alone = torch.zeros(512, 32, dtype=torch.bfloat16)
    alone[:, 7] = every[::128]
    for x in (every.view(16, 4096), strangers.view(16, 4096), alone.view(4, 4096)):
        # In fp32, for the interpreter reads subnormal bf16 as zero; it writes them wrongly too, so those are left out.
        x = x if path.on_device else x.float()
        packed, scale = kernel.quantize(path.put(x), rounding, pack=True)
        want_packed, want_scale = mx.quantize(x, rounding)
        assert torch.equal(scale.cpu(), want_scale)
        assert torch.equal(packed.cpu(), want_packed)
        if rounding is not ROUNDING and not path.on_device:
            continue
        values, _ = kernel.quantize(path.put(x), rounding, pack=False)
        want = mx.dequantize(want_packed, want_scale, torch.bfloat16)
        assert same_numbers(values.cpu(), want) if path.on_device else same_normal_numbers(values, want)


def same_normal_numbers(got, want):
    """Equal, each NaN to each, where `want` is no subnormal number."""
    normal = ~(want.float().abs() < 2.0**-126) | (want == 0)
    return torch.equal(torch.where(normal, got, 0).nan_to_num(1234.5), torch.where(normal, want, 0).nan_to_num(1234.5))


def same_numbers(got, want):
    """Equal bit for bit, but for NaN: each to each."""
    number = ~want.isnan()
    return torch.equal(got.isnan(), ~number) and torch.equal(
        got.view(torch.int16)[number], want.view(torch.int16)[number]
    )


def every_weight():
    """Each byte with each scale code: rows of 16 blocks, and 256 rows."""
    packed = torch.arange(256, dtype=torch.uint8).repeat(256, 1)
    return packed, torch.arange(256, dtype=torch.uint8).view(-1, 1).repeat(1, 16)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, in the interpreter
def test_every_weight_with_every_scale(path):
    packed, scale = every_weight()
    if path.name == "torch":
        got = cpu.dequantize_mxfp4(packed, scale)
    else:
        kernel = pytest.importorskip("blockscale.kernels.triton.ocp_mx_linear")
        got = kernel.dequantize(*path.put((packed, scale))).cpu()
    want = mx.dequantize(packed, scale, torch.bfloat16)
    assert same_normal_numbers(got, want) if path.name == "interpreter" else same_numbers(got, want)


def test_cpu_pieces_do_not_show(monkeypatch):
    _, weight, scale = mx_operands(1, 70, 96)
    whole = cpu.dequantize_mxfp4(weight, scale)
    monkeypatch.setattr(cpu, "_PIECE", 700)
    assert torch.equal(cpu.dequantize_mxfp4(weight, scale), whole)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_stays_in_its_row_and_column(path):
    for m in (20, 100, 300) if path.on_device else (20,):
        x, weight, scale = mx_operands(m, 33, 64)
        x[3, 40], x[4, 1] = math.nan, math.inf
        scale[32, 1] = 255
        got = gemm_with_dynamic_quant(*path.put((x, weight, scale)))
        spoiled = torch.zeros(m, 33, dtype=torch.bool)
        spoiled[3], spoiled[4], spoiled[:, 32] = True, True, True
        assert torch.equal(got.isnan().cpu(), spoiled)


def test_torch_compile_traces_it_whole():
    x, weight, scale = mx_operands(5, 40, 64)

    def layer(x):
        return torch.relu(gemm_with_dynamic_quant(x, weight, scale)) + 1

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), layer(x))


def test_the_fake_says_shape_and_dtype_as_the_real_one():
    x, weight, scale = mx_operands(6, 40, 64)
    arguments = (x.view(2, 3, 64), weight, scale, False, torch.float16, None)
    torch.library.opcheck(torch.ops.blockscale.gemm_with_dynamic_quant.default, arguments)


BAD = {
    "K no multiple of 32": (lambda c: c.update(weight=c["weight"][:, :24].contiguous()), r"weight: got shape \(40, 24"),
    "x has another K": (lambda c: c.update(x=c["x"][:, :32].contiguous()), r"x: got shape \(4, 32\), .* of 64"),
    "x is int8": (lambda c: c.update(x=c["x"].to(torch.int8)), r"x: got torch.int8, expected torch.bfloat16 or"),
    "weight is int8": (lambda c: c.update(weight=c["weight"].view(torch.int8)), r"weight: got torch.int8, expected"),
    "scales of blocks of 16": (
        lambda c: c.update(weight_scale=c["weight_scale"].repeat(1, 2)), r"weight_scale: got shape \(40, 4\)"),
    "scales are fp32": (lambda c: c.update(weight_scale=c["weight_scale"].float()), r"weight_scale: got torch.float32"),
    "out is fp8": (lambda c: c.update(out_dtype=torch.float8_e4m3fn), r"out_dtype: got torch.float8_e4m3fn, expected"),
    "x strided": (lambda c: c.update(x=c["x"].repeat(1, 2)[:, ::2]), r"x: got strides \(128, 2\)"),
    "x_scales without packed x": (
        lambda c: c.update(x_scales=c["weight_scale"][:4]), r"x: got shape \(4, 64\), expected a last dimension of 32"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case, path):
    spoil, message = BAD[case]
    x, weight, scale = path.put(mx_operands(4, 40, 64))
    call = {"x": x, "weight": weight, "weight_scale": scale}
    spoil(call)
    with pytest.raises(ValueError, match=message):
        gemm_with_dynamic_quant(**call)


@pytest.mark.parametrize(
    "path", ["torch", "interpreter", pytest.param("device", marks=(pytest.mark.cuda, pytest.mark.xpu))], indirect=True
)
def test_aiter_is_refused_elsewhere(path):
    given = path.put(mx_operands(4, 40, 64))
    message = "rocm_use_aiter_fp4_asm_gemm: got True, expected False: aiter is a library for rocm, and this is "
    with pytest.raises(ValueError, match=message + current_platform.name):
        gemm_with_dynamic_quant(*given, rocm_use_aiter_fp4_asm_gemm=True)


def test_aiter_gets_its_own_layouts(monkeypatch):
    """On a host with AITER the flag reaches AITER with what it was given, and nothing is quantized by us."""
    seen = []
    monkeypatch.setattr(ocp_mx_linear, "_why_not_aiter", lambda x: "")
    monkeypatch.setattr(ocp_mx_linear.aiter, "fp4_asm_gemm", lambda x, *_: seen.append(x.shape) or x.new_zeros(4, 40))
    x, weight, scale = mx_operands(4, 40, 64)
    shuffled = torch.zeros(256, 8, dtype=torch.uint8)
    assert gemm_with_dynamic_quant(x.view(2, 2, 64), weight, shuffled, True).shape == (2, 2, 40)
    assert seen == [(4, 64)]
    with pytest.raises(
        ValueError, match=r"weight_scale: got shape \(40, 2\), expected shape \(256, 8\) \(AITER's layout"
    ):
        gemm_with_dynamic_quant(x, weight, scale, True)


@pytest.mark.parametrize("rounding", mx.ScaleRounding)
def test_cpu_rounding_is_quantizing_and_back(rounding):
    """Every bf16 value among neighbours, among strangers and alone, the sign of zero included."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    strangers = every[torch.randperm(65536, generator=torch.Generator().manual_seed(0))]
    alone = torch.zeros(65536, 32, dtype=torch.bfloat16)
    alone[:, 7] = every
    ties = (torch.arange(-64, 64).float() / 8).view(4, 32)
    for x in (every.view(64, 1024), strangers.view(64, 1024), alone.view(-1, 1024), ties):
        got = cpu.round_to_mxfp4(x, rounding)
        want = mx.dequantize(*mx.quantize(x, rounding), torch.bfloat16)
        assert torch.equal(got.nan_to_num(1234.5), want.nan_to_num(1234.5))
        number = ~want.isnan()
        assert torch.equal(torch.signbit(got)[number], torch.signbit(want)[number])
