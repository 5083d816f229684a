"""Our calls into DeepGEMM's grouped GEMM, with a stand-in that has its parameters and its checks."""

from __future__ import annotations

import sys

import pytest
import torch

from blockscale.kernels import deep_gemm
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

from . import deep_gemm_stand_in


@pytest.fixture
def library(monkeypatch):
    return deep_gemm_stand_in.install(monkeypatch)


def close(got, want):
    """DeepGEMM gives its columns in bf16, which now and then rounds an activation to the neighbouring FP8 number."""
    return got.isfinite().all() and (got.float() - want.float()).norm() / want.float().norm() < 2e-2


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [SILU, SWIGLU_OAI], ids=["silu", "swigluoai"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_layer_of_odd_sizes_by_deepgemm(here, library, experts, activation, bias, mapped):
    """Padded to 128 by the layer, packed, and cut again: the answer of our own kernel for FP8 activations."""
    here("cuda", "sm_100", ("deep_gemm",))
    e = experts(inner=96, hidden=160, bias=bias)
    map_ = torch.tensor([-1, 2, 0, 1]) if mapped else None  # expert 0 is another rank's
    ids = e.topk_ids + 1 - (e.topk_ids == 0).int() if mapped else e.topk_ids
    problem = Mxfp4MoEProblem(160, 96, "deepseek-v4", activation.name, activation_format="fp8")
    method = Mxfp4MoEMethod(problem, 3)
    assert method.decision.name == "DEEPGEMM_MXFP4" and (method.intermediate_size, method.hidden_size) == (128, 256)
    layer = torch.nn.Module()
    method.create_weights(layer, has_bias=bias)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale, e.w13_bias, e.w2_bias))
    method.process_weights_after_loading(layer)
    got = method.apply(layer, e.x, e.topk_weights, ids, expert_map=map_)
    want = mxfp4_moe(
        e.x, e.topk_weights, ids, e.w13, e.w13_scale, e.w2, e.w2_scale, w13_bias=e.w13_bias, w2_bias=e.w2_bias,
        activation=activation, expert_map=map_, activation_format="fp8",
    )  # fmt: skip
    assert got.shape == e.x.shape and got.dtype == torch.bfloat16 and close(got, want)
    assert [size[1:] for size in library] == [(256, 256), (256, 128)]


def test_no_token_is_no_call(here, library, experts):
    here("cuda", "sm_100", ("deep_gemm",))
    e = experts(count=0)
    none = {"w13_bias": None, "w2_bias": None, "expert_map": None, "hidden_pad": 0, "intermediate_pad": 0}
    got = deep_gemm.mxfp4_moe(
        e.x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale, activation=SILU,
        activation_format="fp8", **none,
    )  # fmt: skip
    assert got.shape == (0, 160) and library == []


def test_an_older_deepgemm_says_what_to_install(here, library, experts, monkeypatch):
    stand_in = sys.modules["deep_gemm"]
    del stand_in.m_grouped_fp8_fp4_gemm_nt_contiguous
    stand_in.__version__ = "2.1.0"
    e = experts(inner=128, hidden=128)
    with pytest.raises(RuntimeError, match=r"deep_gemm 2\.1\.0 has no m_grouped_fp8_fp4_gemm_nt_contiguous; install"):
        deep_gemm.mxfp4_moe(
            e.x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale, w13_bias=None, w2_bias=None,
            activation=SILU, expert_map=None, hidden_pad=0, intermediate_pad=0, activation_format="fp8",
        )  # fmt: skip


def test_torch_compile_sees_one_operator(here, library, experts):
    here("cuda", "sm_100", ("deep_gemm",))
    e = experts()
    method = Mxfp4MoEMethod(Mxfp4MoEProblem(160, 96, "deepseek-v4", "silu", activation_format="fp8"), 3)
    layer = torch.nn.Module()
    method.create_weights(layer)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale))
    method.process_weights_after_loading(layer)

    def model(x):
        return method.apply(layer, x * 2, e.topk_weights, e.topk_ids) + 1

    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert torch.equal(compiled(e.x), model(e.x)) and len(library) == 4
