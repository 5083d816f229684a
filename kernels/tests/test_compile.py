"""torch.compile(fullgraph=True) traces the MX layers: one operator, whoever runs it. Libraries have their own tests."""

from __future__ import annotations

import pytest
import torch

from blockscale.formats import mx
from blockscale.kernels.moe_router import Router
from blockscale.kernels.mxfp4_moe import mxfp4_moe, mxfp4_moe_from_logits
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.layers.quark_ocp_mx import QuarkOCP_MX
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

OPERATOR = "blockscale.mxfp4_moe"


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


def graphs(function):
    """`function` compiled as one graph, and the names of what the graphs call."""
    called = []

    def backend(module, inputs):
        called.extend(str(node.target) for node in module.graph.nodes if node.op == "call_function")
        return module

    return torch.compile(function, fullgraph=True, backend=backend), called


@pytest.mark.parametrize(
    ("platform", "arch", "backend", "activation"),
    [("cuda", "sm_90", "TRITON", "swigluoai"), ("rocm", "gfx942", "TRITON_UNFUSED", "silu"),
     ("xpu", None, "XPU", "silu"), ("cpu", None, "CPU", "swigluoai"), ("cpu", None, "EMULATION", "silu")],
)  # fmt: skip
def test_a_layer_is_one_operator(here, experts, platform, arch, backend, activation):
    here(platform, arch, ("triton",))
    e = experts(bias=activation == "swigluoai")
    method = Mxfp4MoEMethod(Mxfp4MoEProblem(160, 96, activation=activation), 3, backend)
    layer = torch.nn.Module()
    method.create_weights(layer, has_bias=e.w13_bias is not None)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale, e.w13_bias, e.w2_bias))
    method.process_weights_after_loading(layer)
    map_ = torch.tensor([2, -1, 0])

    def model(x, topk_weights, topk_ids):
        return method.apply(layer, x * 2, topk_weights, topk_ids, expert_map=map_) + 1

    compiled, called = graphs(model)
    got = compiled(e.x, e.topk_weights, e.topk_ids)
    assert torch.equal(got, model(e.x, e.topk_weights, e.topk_ids))
    assert called.count(OPERATOR) == 1
    more = experts(count=12, seed=1)
    assert compiled(more.x, more.topk_weights, more.topk_ids).shape == (12, 160)


@pytest.mark.parametrize("backend", ["CPU", "EMULATION"])
def test_an_ocp_mx_layer_is_one_operator(here, backend):
    here("cpu", None)
    scheme, layer = QuarkOCP_MX(48, 64, backend), torch.nn.Module()
    scheme.create_weights(layer)
    weight, scale = mx.quantize(torch.randn(48, 64))
    layer.weight.copy_(weight), layer.weight_scale.copy_(scale)
    compiled, called = graphs(lambda x: scheme.apply_weights(layer, x * 2) + 1)
    for rows in (5, 9):
        x = torch.randn(2, rows, 64).bfloat16()
        assert torch.equal(compiled(x), scheme.apply_weights(layer, x * 2) + 1)
    assert called[: len(called) // 2].count("blockscale.gemm_with_dynamic_quant") == 1


@pytest.mark.parametrize("named", [{}, {"fused": False}, {"emulate": True, "activation": SILU}])
def test_the_kernel_alone_is_the_operator(experts, named):
    e = experts()
    weights = e.w13, e.w13_scale, e.w2, e.w2_scale.view(torch.float8_e8m0fnu)
    compiled, called = graphs(lambda x: mxfp4_moe(x, e.topk_weights, e.topk_ids, *weights, **named))
    assert torch.equal(compiled(e.x), mxfp4_moe(e.x, e.topk_weights, e.topk_ids, *weights, **named))
    assert called == [OPERATOR]


def test_from_logits_it_is_two_operators(experts):
    e, router = experts(), Router(2, "sigmoid", scale=2.0)
    weights = e.w13, e.w13_scale, e.w2, e.w2_scale
    logits, correction = torch.randn(len(e.x), 3), torch.tensor([0.1, 0.0, -0.1])
    compiled, called = graphs(lambda x: mxfp4_moe_from_logits(x, logits, router, *weights, correction=correction))
    assert torch.equal(compiled(e.x), mxfp4_moe_from_logits(e.x, logits, router, *weights, correction=correction))
    assert [name for name in called if name.startswith("blockscale")] == ["blockscale.route", OPERATOR]
    checked = torch.library.opcheck(
        torch.ops.blockscale.route.default, (logits, correction, 2, "sigmoid", True, 2.0),
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
    )  # fmt: skip
    assert set(checked.values()) == {"SUCCESS"}


def test_sizes_may_vary(experts):
    e = experts()
    compiled = torch.compile(
        lambda x: mxfp4_moe(x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale).float().sum(),
        fullgraph=True, dynamic=True, backend="aot_eager",
    )  # fmt: skip
    want = mxfp4_moe(e.x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale).float().sum()
    assert torch.equal(compiled(e.x), want)


def test_what_the_operator_promises_of_its_output(experts):
    """Schema, fake and strides, as torch's own checker wants them of a custom operator."""
    e, a = experts(bias=True), SWIGLU_OAI
    arguments = (
        "fused", e.x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale, e.w13_bias, e.w2_bias, None,
        a.name, a.interleaved, a.alpha, a.limit, a.shift, 0, 0, "bf16", "", "",
    )  # fmt: skip
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    checked = torch.library.opcheck(torch.ops.blockscale.mxfp4_moe.default, arguments, test_utils=tests)
    assert set(checked.values()) == {"SUCCESS"}
