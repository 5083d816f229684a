"""Our calls into humming, with a stand-in that has the real functions' parameters: what is handed over."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels import humming
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

from . import humming_stand_in


@pytest.fixture
def library(monkeypatch):
    return humming_stand_in.install(monkeypatch)


def close(got, want):
    return got.isfinite().all() and (got.float() - want.float()).norm() / want.float().norm() < 1e-2


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [SILU, SWIGLU_OAI], ids=["silu", "swigluoai"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_layer_by_humming(here, library, experts, activation, bias, mapped):
    here("cuda", "sm_90", ("humming",))
    e = experts(inner=96, hidden=160, bias=bias)
    map_ = torch.tensor([-1, 2, 0, 1, -1, -1]) if mapped else None
    ids = e.topk_ids + 1 - (e.topk_ids == 0).int() if mapped else e.topk_ids
    method = Mxfp4MoEMethod(Mxfp4MoEProblem(160, 96, "deepseek-v4", activation.name), 3)
    assert method.decision.name == "HUMMING" and (method.intermediate_size, method.hidden_size) == (128, 160)
    layer = torch.nn.Module()
    method.create_weights(layer, has_bias=bias)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale, e.w13_bias, e.w2_bias))
    method.process_weights_after_loading(layer)
    assert layer.w13_weight.shape == (3, 256, 80) and layer.w13_weight_scale is None
    got = method.apply(layer, e.x, e.topk_weights, ids, expert_map=map_)
    want = mxfp4_moe(
        e.x, e.topk_weights, ids, e.w13, e.w13_scale, e.w2, e.w2_scale, w13_bias=e.w13_bias, w2_bias=e.w2_bias,
        activation=activation, expert_map=map_,
    )  # fmt: skip
    assert got.shape == e.x.shape and got.dtype == torch.bfloat16 and close(got, want)
    # 14 assignments; of six experts three are here, so seven may be expected.
    expected, (first, second) = (7, (8, 16)) if mapped else (14, (16, 32))
    assert [call[:3] for call in library] == [(first, expected, 2), (second, expected, 1)]


def test_no_token_is_no_call(library, experts):
    e = experts(count=0)
    none = {"w13_bias": None, "w2_bias": None, "expert_map": None, "hidden_pad": 0, "intermediate_pad": 0}
    got = humming.mxfp4_moe(
        e.x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale, activation=SILU,
        activation_format="bf16", layouts=("{}", "{}"), **none,
    )  # fmt: skip
    assert got.shape == (0, 160) and library == []


def test_torch_compile_sees_one_operator(here, library, experts):
    here("cuda", "sm_90", ("humming",))
    e = experts()
    method = Mxfp4MoEMethod(Mxfp4MoEProblem(160, 96, "deepseek-v4", "silu", activation_format="bf16"), 3)
    layer = torch.nn.Module()
    method.create_weights(layer)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale))
    method.process_weights_after_loading(layer)

    def model(x):
        return method.apply(layer, x * 2, e.topk_weights, e.topk_ids) + 1

    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert torch.equal(compiled(e.x), model(e.x)) and len(library) == 4
