"""Our calls into DeepGEMM's grouped GEMM, with a stand-in that has its parameters and its checks."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from blockscale.formats import fp8
from blockscale.kernels import deep_gemm
from blockscale.kernels.cpu import dequantize_mxfp4
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.layouts.deepgemm import unpack_scale
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

ALIGNMENT = 128


def _check_packed(scale, rows, columns):
    """As DeepGEMM's check_sf_layout: int32, rows innermost, a column every multiple of four rows."""
    assert scale.dtype == torch.int32 and tuple(scale.shape[-2:]) == (rows, -(-columns // 4))
    assert scale.stride()[-2:] == (1, -(-rows // 4) * 4)


@pytest.fixture
def library(monkeypatch):
    seen = []

    def m_grouped_fp8_fp4_gemm_nt_contiguous(
        a, b, d, grouped_layout, recipe=None, recipe_a=None, recipe_b=None, compiled_dims="nk",
        disable_ue8m0_cast=False, use_psum_layout=False, ensure_zero_padding=True, expected_m_for_psum_layout=None,
    ):  # fmt: skip
        (elements, scale), (weight, weight_scale) = a, b
        (rows, k), (_, n, half) = elements.shape, weight.shape
        assert elements.dtype == torch.float8_e4m3fn and elements.is_contiguous() and k % 128 == 0
        assert weight.dtype == torch.int8 and half * 2 == k and weight.is_contiguous()
        assert tuple(d.shape) == (rows, n) and d.dtype == torch.bfloat16 and d.is_contiguous()
        assert grouped_layout.dtype == torch.int32 and tuple(grouped_layout.shape) == (rows,) and rows % ALIGNMENT == 0
        assert recipe is None and recipe_a == (1, 128) and recipe_b == (1, 32)
        _check_packed(scale, rows, k // 128)
        _check_packed(weight_scale, n, k // 32)
        seen.append((rows, n, k))
        values = fp8.dequantize_groups(elements, unpack_scale(scale, k // 128).view(torch.float8_e8m0fnu), 128)
        d.fill_(float("nan"))
        for first in range(0, rows, ALIGNMENT):
            owners = set(grouped_layout[first : first + ALIGNMENT].tolist()) - {-1}
            assert len(owners) <= 1, "a block of rows is one expert's"
            for owner in owners:
                packed, codes = weight[owner].view(torch.uint8), unpack_scale(weight_scale[owner], k // 32)
                product = values[first : first + ALIGNMENT] @ dequantize_mxfp4(packed, codes).float().T
                d[first : first + ALIGNMENT] = product.bfloat16()

    stand_in = types.ModuleType("deep_gemm")
    stand_in.m_grouped_fp8_fp4_gemm_nt_contiguous = m_grouped_fp8_fp4_gemm_nt_contiguous
    stand_in.get_mk_alignment_for_contiguous_layout = lambda: ALIGNMENT
    monkeypatch.setitem(sys.modules, "deep_gemm", stand_in)
    return seen


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


@pytest.mark.parametrize("activation", [SILU, SWIGLU_OAI], ids=["silu", "swigluoai"])
def test_what_lies_in_a_checkpoints_own_padding_adds_nothing(here, library, experts, activation):
    here("cuda", "sm_100", ("deep_gemm",))
    e = experts(inner=128, hidden=256)
    x = e.x[:, :160].contiguous()
    problem = Mxfp4MoEProblem(
        256, 128, "deepseek-v4", activation.name, activation_format="fp8", hidden_pad=96, intermediate_pad=32
    )
    method = Mxfp4MoEMethod(problem, 3)
    assert method.decision.name == "DEEPGEMM_MXFP4" and (method.intermediate_size, method.hidden_size) == (128, 256)
    layer = torch.nn.Module()
    method.create_weights(layer)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale))
    method.process_weights_after_loading(layer)
    got = method.apply(layer, x, e.topk_weights, e.topk_ids)
    want = mxfp4_moe(
        x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale, activation=activation, hidden_pad=96,
        intermediate_pad=32, activation_format="fp8",
    )  # fmt: skip
    assert got.shape == (7, 160) and close(got, want)


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
