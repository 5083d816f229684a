"""The CPU's layout: widened once, weights give the bits that they give as loaded, and no call widens them again."""

from __future__ import annotations

import pytest
import torch

from blockscale.formats import mx
from blockscale.kernels import cpu as widening
from blockscale.kernels import mxfp4_moe as moe
from blockscale.kernels.fp8_block_gemm import prepared_mm, w8a8_triton_block_scaled_mm
from blockscale.kernels.mxfp4_moe import ACTIVATION_FORMATS, mxfp4_moe, prepared_moe
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant, prepared_gemm
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.fp8_linear import BlockFp8Linear
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.layers.quark_ocp_mx import QuarkOCP_MX
from blockscale.layouts import cpu
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

E4M3, E4M3_AMD, E8M0 = torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e8m0fnu
ACTIVATIONS = pytest.mark.parametrize("activation", [SWIGLU_OAI, SILU], ids=lambda activation: activation.name)


@pytest.fixture(autouse=True)
def _plain_torch(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.delenv("BLOCKSCALE_CPU_BF16_WEIGHTS", raising=False)


def fp8(m, n, k, block, dtype=E4M3, scales=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(rows, k, generator=generator).to(dtype) for rows in (m, n))
    shapes = (m, -(-k // block[1])), (-(-n // block[0]), -(-k // block[1]))
    a_scale, b_scale = (torch.rand(shape, generator=generator).add(0.1).to(scales) for shape in shapes)
    return a, b, a_scale, b_scale


def same(got, want):
    return torch.equal(got.contiguous().view(torch.uint8), want.contiguous().view(torch.uint8))


def error(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


@pytest.mark.parametrize(("m", "n", "k", "block"), [(1, 256, 384, (128, 128)), (9, 200, 300, (128, 128)),
                                                     (150, 70, 65, (16, 32))])  # fmt: skip
@pytest.mark.parametrize("dtype", [E4M3, E4M3_AMD])
@pytest.mark.parametrize("scales", [torch.float32, E8M0])
def test_fp8_gives_the_same_bits(m, n, k, block, dtype, scales):
    a, b, a_scale, b_scale = fp8(m, n, k, block, dtype, scales)
    weight = cpu.fp8_weight(b, b_scale, *block)
    assert weight.shape == (n, k) and weight.dtype == torch.bfloat16
    spread = b_scale.float().repeat_interleave(block[0], 0)[:n].repeat_interleave(block[1], 1)[:, :k]
    assert same(weight, (b.float() * spread).bfloat16())
    got = prepared_mm(a, weight, a_scale, block[1])
    assert same(got, w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, block, torch.bfloat16))
    rows = a.float() * a_scale.float().repeat_interleave(block[1], 1)[:, :k]
    want = rows.double() @ (b.float() * spread).double().T
    assert error(got, want) < 5e-3
    for more in (torch.float32, torch.float16):  # the weights are rounded to bf16, and nothing else is
        assert error(prepared_mm(a, weight, a_scale, block[1], more), want) < 2.5e-3
    assert prepared_mm(a.view(m, 1, k), weight, a_scale.unsqueeze(1), block[1]).shape == (m, 1, n)
    assert prepared_mm(a[:0], weight, a_scale[:0], block[1]).shape == (0, n)


@pytest.mark.parametrize("m", [1, 16, 130])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_ocp_mx_gives_the_same_bits(m, dtype):
    generator = torch.Generator().manual_seed(m)
    weight, scale = mx.quantize(torch.randn(72, 160, generator=generator))
    x = torch.randn(m, 160, generator=generator)
    prepared = cpu.mxfp4_weight(weight, scale)
    assert same(prepared, mx.dequantize(weight, scale, torch.bfloat16))
    want = gemm_with_dynamic_quant(x, weight, scale, out_dtype=dtype)
    assert same(prepared_gemm(x, prepared, dtype), want)
    quantized, x_scale = mx.quantize(x, mx.ScaleRounding.EVEN)
    assert same(prepared_gemm(quantized, prepared, dtype, x_scale), want)
    assert same(prepared_gemm(quantized.view(1, m, -1), prepared, dtype, x_scale.view(E8M0).view(1, m, -1))[0], want)
    assert prepared_gemm(x[:0], prepared, dtype).shape == (0, 72)


def made(e, interleaved):
    """The layer's weights and biases in the CPU's layout."""
    bias = e.w13_bias
    if bias is not None and interleaved:
        bias = torch.cat([bias[:, 0::2], bias[:, 1::2]], 1)
    return (cpu.mxfp4_w13(e.w13, e.w13_scale, interleaved), cpu.mxfp4_weight(e.w2, e.w2_scale)), {
        "w13_bias": bias, "w2_bias": e.w2_bias,
    }  # fmt: skip


@ACTIVATIONS
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation_format", ACTIVATION_FORMATS)
@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_the_moe_gives_the_same_bits(experts, activation, bias, activation_format, count):
    e = experts(count=count, bias=bias)
    weights, biases = made(e, activation.interleaved)
    gates = slice(0, None, 2) if activation.interleaved else slice(0, 96)
    assert same(weights[0][:, :96], mx.dequantize(e.w13, e.w13_scale, torch.bfloat16)[:, gates])
    assert same(weights[1], mx.dequantize(e.w2, e.w2_scale, torch.bfloat16))
    named = {"activation": activation, "activation_format": activation_format, "expert_map": torch.tensor([2, -1, 0])}
    got = prepared_moe(e.x, e.topk_weights, e.topk_ids, *weights, **biases, **named)
    given = e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale
    want = mxfp4_moe(e.x, *given, w13_bias=e.w13_bias, w2_bias=e.w2_bias, **named)
    assert got.shape == (count, 160) and same(got, want)
    assert same(prepared_moe(e.x, e.topk_weights, e.topk_ids, *weights, **biases, **named), got)


@ACTIVATIONS
def test_what_lies_in_the_moes_padding_does_not_count(experts, activation):
    """NaN there, in weights and biases alike, beside the same layer whose padding is zero."""
    e = experts(bias=True)
    pads = {"hidden_pad": 34, "intermediate_pad": 22}
    given = e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale
    named = {"w13_bias": e.w13_bias, "w2_bias": e.w2_bias, "activation": activation, **pads}
    x = e.x[:, :126].contiguous()
    want = mxfp4_moe(x, *given, **named)
    (w13, w2), biases = made(e, activation.interleaved)
    for tensor in (w13.view(3, 2, 96, 160)[:, :, 74:], w13[..., 126:], w2[:, 126:], w2[..., 74:],
                   biases["w13_bias"].view(3, 2, 96)[..., 74:], biases["w2_bias"][:, 126:]):  # fmt: skip
        tensor.fill_(torch.nan)
    got = prepared_moe(x, e.topk_weights, e.topk_ids, w13, w2, **biases, activation=activation, **pads)
    assert got.shape == (7, 126) and error(got, want.double()) < 5e-3


def test_what_is_no_number_goes_through_as_before(experts):
    a, b, a_scale, b_scale = fp8(5, 160, 256, (128, 128))
    a.view(torch.uint8)[1, 3], b.view(torch.uint8)[7, 9] = 0x7F, 0xFF
    got = prepared_mm(a, cpu.fp8_weight(b, b_scale, 128, 128), a_scale, 128)
    assert got[1].isnan().all() and got[:, 7].isnan().all() and int(got.isnan().sum()) == 160 + 4
    e = experts()
    e.w2_scale[1, 5, 2] = 255
    e.x[2, 5], e.x[4, 5] = float("nan"), float("inf")
    weights, _ = made(e, True)
    got = prepared_moe(e.x, e.topk_weights, e.topk_ids, *weights)
    want = mxfp4_moe(e.x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale)
    assert same(got.isnan(), want.isnan()) and got[2].isnan().all() and not got[:, 6].isnan().all()
    assert got[(e.topk_ids == 1).any(1), 5].isnan().all()
    x, weight, scale = e.x, e.w13[0], e.w13_scale[0].clone()
    scale[3, 1] = 255
    got = prepared_gemm(x, cpu.mxfp4_weight(weight, scale))
    assert same(got.isnan(), gemm_with_dynamic_quant(x, weight, scale).isnan()) and got[:, 3].isnan().all()


def fp8_layer():
    scheme, layer = BlockFp8Linear(Fp8BlockGemmProblem(200, 300)), torch.nn.Module()
    _, weight, _, scale = fp8(1, 200, 300, (128, 128))
    scheme.create_weights(layer)
    layer.weight.data, layer.weight_scale.data = weight, scale
    x = torch.randn(3, 300, generator=torch.Generator().manual_seed(1)).bfloat16()
    return scheme, layer, lambda: scheme.apply(layer, x), 200 * 300, 1


def mx_layer():
    scheme, layer = QuarkOCP_MX(48, 96), torch.nn.Module()
    scheme.create_weights(layer)
    weight, scale = mx.quantize(torch.randn(48, 96, generator=torch.Generator().manual_seed(2)))
    layer.weight.copy_(weight), layer.weight_scale.copy_(scale)
    x = torch.randn(3, 96, generator=torch.Generator().manual_seed(3)).bfloat16()
    return scheme, layer, lambda: scheme.apply_weights(layer, x), 48 * 96, 0.5


def moe_layer(experts, activation):
    e = experts(bias=True)
    method, layer = Mxfp4MoEMethod(Mxfp4MoEProblem(160, 96, activation=activation.name), 3), torch.nn.Module()
    method.create_weights(layer, has_bias=True)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale, e.w13_bias, e.w2_bias))
    return method, layer, lambda: method.apply(layer, e.x, e.topk_weights, e.topk_ids), 3 * 3 * 96 * 160, 0.5


@pytest.mark.parametrize("which", ["fp8", "mx", "moe, swigluoai", "moe, silu"])
def test_a_layer_widens_its_weights_once(here, experts, monkeypatch, which):
    """Beside the same layer with its weights as loaded; and no call of it widens weights again."""
    here("cpu")
    make = {"fp8": fp8_layer, "mx": mx_layer, "moe, swigluoai": lambda: moe_layer(experts, SWIGLU_OAI),
            "moe, silu": lambda: moe_layer(experts, SILU)}[which]  # fmt: skip
    monkeypatch.setenv("BLOCKSCALE_CPU_BF16_WEIGHTS", "0")
    scheme, as_loaded, answer, elements, size = make()
    assert scheme.decision.name == "CPU"
    scheme.process_weights_after_loading(as_loaded)
    assert memory(as_loaded) == {elements * size}
    want = answer()
    monkeypatch.delenv("BLOCKSCALE_CPU_BF16_WEIGHTS")
    assert same(answer(), want), "the layer as loaded, whatever the environment says by now"
    scheme, layer, answer, elements, _ = make()
    scheme.process_weights_after_loading(layer)
    assert memory(layer) == {elements * 2}
    scales = [value for name, value in layer.named_parameters() if "scale" in name]
    assert scales and all(scale.numel() == 0 for scale in scales)
    monkeypatch.setenv("BLOCKSCALE_CPU_BF16_WEIGHTS", "0")
    monkeypatch.setattr(widening, "dequantize_mxfp4", lambda *_: pytest.fail("weights were widened in a call"))
    monkeypatch.setattr(moe, "_weight", lambda *_: pytest.fail("weights were widened in a call"))
    widen = widening.dequantize_fp8
    monkeypatch.setattr(widening, "dequantize_fp8", lambda codes, *rest: widen(codes[:3], *rest))  # the rows of x
    assert same(answer(), want)


def memory(layer):
    """Bytes of a layer's weights, all together."""
    weights = [value for name, value in layer.named_parameters() if name.endswith("weight")]
    assert weights
    return {sum(weight.numel() * weight.element_size() for weight in weights)}


def test_compiled_they_are_one_operator_each(experts):
    torch.compiler.reset()
    called = []

    def backend(module, inputs):
        called.extend(str(node.target) for node in module.graph.nodes if node.op == "call_function")
        return module

    a, b, a_scale, b_scale = fp8(5, 64, 96, (32, 32))
    fp8_weight, e = cpu.fp8_weight(b, b_scale, 32, 32), experts()
    weights, _ = made(e, True)
    first = weights[0][0]
    calls = {
        "blockscale.prepared_mm": lambda: prepared_mm(a, fp8_weight, a_scale, 32),
        "blockscale.prepared_ocp_mx_gemm": lambda: prepared_gemm(e.x, first),
        "blockscale.mxfp4_moe": lambda: prepared_moe(e.x, e.topk_weights, e.topk_ids, *weights),
    }
    for name, call in calls.items():
        called.clear()
        assert same(torch.compile(call, fullgraph=True, backend=backend)(), call())
        assert called == [name]
    operators = torch.ops.blockscale
    for operator, *given in (
        (operators.prepared_mm, a, fp8_weight, a_scale, 32, torch.bfloat16),
        (operators.prepared_ocp_mx_gemm, e.x, first, torch.bfloat16, None),
    ):  # torch's checker of schemas multiplies its operands, which fp8 cannot
        assert torch.library.opcheck(operator.default, given, test_utils="test_faketensor") == {
            "test_faketensor": "SUCCESS"
        }


def test_bad_arguments_are_named(experts):
    a, b, a_scale, b_scale = fp8(5, 64, 96, (32, 32))
    weight, e = cpu.fp8_weight(b, b_scale, 32, 32), experts()
    (w13, w2), _ = made(e, True)
    routing = e.topk_weights, e.topk_ids
    bad_scale = b_scale.clone()
    bad_scale[0, 1] = torch.nan
    for message, call in (
        (r"B: got torch.float8_e4m3fn, expected torch.bfloat16", lambda: prepared_mm(a, b, a_scale, 32)),
        (r"A: got torch.bfloat16, expected torch.float8", lambda: prepared_mm(weight, weight, a_scale, 32)),
        (r"As: got shape \(5, 3\), expected shape \(5, 6\)", lambda: prepared_mm(a, weight, a_scale, 16)),
        (r"block_k: got 0, expected a positive integer", lambda: prepared_mm(a, weight, a_scale, 0)),
        (r"output_dtype: got torch.int8", lambda: prepared_mm(a, weight, a_scale, 32, torch.int8)),
        (r"B: got strides", lambda: prepared_mm(a, weight.T.contiguous().T, a_scale, 32)),
        (r"scale: got shape \(2, 3\), expected shape \(4, 3\)", lambda: cpu.fp8_weight(b, b_scale, 16, 32)),
        (r"scale: got 1 NaN of 6 scales", lambda: cpu.fp8_weight(b, bad_scale, 32, 32)),
        (r"codes: got shape \(3, 160, 3\), expected shape \(3, 192, 5\)", lambda: cpu.mxfp4_weight(e.w13, e.w2_scale)),
        (r"weight: got torch.uint8, expected torch.bfloat16", lambda: prepared_gemm(e.x, e.w13[0])),
        (r"weight: got shape \(192, 150\), expected \(N, K\) with K a multiple of 32",
         lambda: prepared_gemm(e.x, w13[0, :, :150].contiguous())),
        (r"x: got shape \(7, 160\), expected a last dimension of 96", lambda: prepared_gemm(e.x, w2[0])),
        (r"w13: got torch.uint8, expected torch.bfloat16", lambda: prepared_moe(e.x, *routing, e.w13, w2)),
        (r"w13: got shape \(3, 192, 128\), expected shape \(3, 192, 160\)",
         lambda: prepared_moe(e.x, *routing, w13[..., :128].contiguous(), w2)),
        (r"x: got shape \(7, 160\), expected \(M, 158\)", lambda: prepared_moe(e.x, *routing, w13, w2, hidden_pad=2)),
        (r"topk_ids: got ids from 3 to 3", lambda: prepared_moe(e.x, routing[0], routing[1] * 0 + 3, w13, w2)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()
