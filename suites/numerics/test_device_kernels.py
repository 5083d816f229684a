"""Every kernel on a device against float64, at random sizes with tails; and every layer by each backend that serves."""

from __future__ import annotations

import random

import pytest
import torch

from blockscale.formats import fp8, mx
from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm
from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.ocp_mx_linear import ROUNDING, gemm_with_dynamic_quant, triton_gemm
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.fp8_linear import BlockFp8Linear
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.layers.quark_ocp_mx import QuarkOCP_MX
from blockscale.oracle import fp8_block_gemm as fp8_oracle
from blockscale.oracle import mxfp4_moe as moe_oracle
from blockscale.oracle import ocp_mx_linear as mx_oracle
from blockscale.oracle.selection import backends_in

from .references import (
    bound,
    fp8_answer,
    fp8_operands,
    moe_answer,
    moe_operands,
    mx_answer,
    mx_operands,
    relative_error,
)
from .ways import by

pytestmark = by("device")


def sizes(count, *limits, seed=0):
    """Random sizes up to their limits, small ones as often as large ones; not so small that a sum cancels out."""
    draw = random.Random(seed)
    return [tuple(round(limit ** draw.uniform(0.3, 1)) for limit in limits) for _ in range(count)]


def in_steps(size, step):
    return -(-size // step) * step


@pytest.mark.parametrize(("m", "n", "k"), sizes(12, 1500, 2000, 4000))
def test_fp8_gemm(m, n, k, path):
    """As it comes, and with K in 16s, as descriptors of tiles ask for."""
    for depth, scales in ((k, torch.float32), (in_steps(k, 16), torch.float8_e8m0fnu)):
        given = fp8_operands(m, n, depth, dtype=path.fp8, scales=scales)
        got = w8a8_triton_block_scaled_mm(*path.put(given), [128, 128], torch.bfloat16)
        assert relative_error(got, fp8_answer(*path.exact(given))) < bound(torch.bfloat16, path)


@pytest.mark.parametrize(("m", "k"), sizes(8, 3000, 5000))
def test_fp8_quantization(m, k, path):
    x = mx_operands(m, 1, k)[0]
    for scale_dtype in (torch.float32, torch.float8_e8m0fnu):
        elements, scale = per_token_group_quant_fp8(path.put(x), 128, path.fp8, scale_dtype)
        want, want_scale = fp8.quantize_groups(x, 128, path.fp8, scale_dtype)
        assert torch.equal(scale.cpu().view(torch.uint8), want_scale.view(torch.uint8))
        assert torch.equal(elements.cpu().view(torch.uint8), want.view(torch.uint8))


@pytest.mark.parametrize(("m", "n", "k"), sizes(12, 1500, 2000, 4000, seed=1))
def test_mx_linear(m, n, k, path):
    given = mx_operands(m, n, in_steps(k, 32))
    want = mx_answer(*path.exact(given))
    x, weight, scale = path.put(given)
    assert relative_error(gemm_with_dynamic_quant(x, weight, scale), want) < bound(torch.bfloat16, path)
    packed, x_scales = path.put(mx.quantize(given[0], ROUNDING))
    got = gemm_with_dynamic_quant(packed, weight, scale, x_scales=x_scales)
    assert relative_error(got, want) < bound(torch.bfloat16, path)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("split", [1, 3])
def test_mx_linear_without_what_an_arch_has_of_its_own(split, native, path):
    """MXFP4 by MXFP4, in the matrix unit or widened by Triton; and dequantized as on an arch that nobody has tuned."""
    config = {"BLOCK_N": 64, "BLOCK_M": 32, "BLOCK_K": 128, "GROUP_N": 2, "SPLIT_K": split, "num_warps": 4}
    for m, n, k in sizes(4, 300, 500, 3000, seed=2):
        given = mx_operands(m, n, in_steps(k, 32))
        got = triton_gemm(*path.put(given), torch.float32, None, native, config)
        assert relative_error(got, mx_answer(*path.exact(given))) < bound(torch.float32, path)


@pytest.mark.parametrize("activation", [SWIGLU_OAI, SILU], ids=lambda activation: activation.name)
@pytest.mark.parametrize(("tokens", "experts", "hidden", "intermediate"), sizes(6, 200, 16, 600, 300, seed=3))
def test_moe(tokens, experts, hidden, intermediate, activation, path):
    """Some experts are another rank's, and some of what the weights hold is padding."""
    top_k = min(experts, 3)
    call = moe_operands(tokens, experts, top_k, in_steps(hidden, 32), in_steps(intermediate, 32), bias=experts % 2 == 0)
    expert_map = torch.arange(experts)
    expert_map[1::3] = -1
    want = moe_answer(**path.exact(call), activation=activation, expert_map=path.exact(expert_map))
    got = mxfp4_moe(**path.put(call), activation=activation, expert_map=path.put(expert_map))
    assert relative_error(got, want) < 1e-2


def serving(family, problem):
    """The names of a family's backends that can serve a problem here."""
    return [backend.name for backend in backends_in(family.__name__) if not backend.why_not(problem)]


def layer_on(device, scheme, load, *options):
    """A layer whose weights were loaded on the device, before its scheme brought them to the backend's layout."""
    layer = torch.nn.Module()
    with torch.device(device):
        scheme.create_weights(layer, *options)
    load(layer)
    scheme.process_weights_after_loading(layer)
    return layer


@pytest.mark.parametrize("e8m0_scales", [False, True])
def test_fp8_layer(e8m0_scales, path):
    problem = fp8_oracle.Fp8BlockGemmProblem(384, 512, e8m0_scales=e8m0_scales)
    scales = torch.float8_e8m0fnu if e8m0_scales else torch.float32
    _, weight, _, weight_scale = path.put(fp8_operands(1, 384, 512, scales=scales))
    names = serving(fp8_oracle, problem)
    assert "EMULATION" in names and len(names) > 1
    for name in names:
        scheme = BlockFp8Linear(problem, name)

        def load(layer):
            layer.weight.data, layer.weight_scale.data = weight, weight_scale

        layer = layer_on(path.device, scheme, load)
        for m in (1, 30, 200):
            x = path.put(mx_operands(m, 1, 512)[0])
            elements, scale = fp8.quantize_groups(x, 128, path.fp8, layer.weight_scale.dtype)
            want = fp8_answer(*path.exact((elements, weight, scale, weight_scale)))
            assert relative_error(scheme.apply(layer, x), want) < bound(torch.bfloat16, path), name


def test_mx_layer(path):
    problem = mx_oracle.OcpMxLinearProblem(384, 512)
    _, weight, weight_scale = path.put(mx_operands(1, 384, 512))
    names = serving(mx_oracle, problem)
    assert "EMULATION" in names and len(names) > 1
    for name in names:
        scheme = QuarkOCP_MX(384, 512, name)

        def load(layer):
            layer.weight.data, layer.weight_scale.data = weight, weight_scale

        layer = layer_on(path.device, scheme, load)
        for m in (1, 30, 300):
            x = path.put(mx_operands(m, 1, 512)[0])
            want = mx_answer(*path.exact((x, weight, weight_scale)))
            assert relative_error(scheme.apply_weights(layer, x), want) < bound(torch.bfloat16, path), name


@pytest.mark.parametrize("activation", [SWIGLU_OAI, SILU], ids=lambda activation: activation.name)
def test_moe_layer(activation, path):
    """Sizes that backends pad, each in its own way."""
    problem = moe_oracle.Mxfp4MoEProblem(288, 160, activation=activation.name)
    names = serving(moe_oracle, problem)
    assert {"TRITON", "EMULATION"} <= {*names} or (path.device.type == "xpu" and "XPU" in names)
    call = path.put(moe_operands(50, 6, 2, 288, 160, bias=True))
    want = moe_answer(**path.exact(call), activation=activation)
    weights = ExpertWeights(*(call[name] for name in ("w13", "w13_scale", "w2", "w2_scale", "w13_bias", "w2_bias")))
    for name in names:
        scheme = Mxfp4MoEMethod(problem, 6, name)
        layer = layer_on(path.device, scheme, lambda layer, s=scheme: s.load_weights(layer, weights), True)
        got = scheme.apply(layer, call["x"], call["topk_weights"], call["topk_ids"])
        assert relative_error(got, want) < 1e-2, name
