"""Our calls into humming, with a stand-in that has the real functions' parameters: what is handed over."""

from __future__ import annotations

import json
import sys
import types

import pytest
import torch

from blockscale.kernels import humming
from blockscale.kernels.cpu import dequantize_mxfp4
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem


class Config(dict):
    def to_str(self):
        return json.dumps(self)


def prepare_and_transform_humming_tensors(
    tensors, shape_n, shape_k, weight_schema, input_schema=None, num_experts=None, pad_n_to_multiple=1,
    pad_k_to_multiple=1, has_bias=False, torch_dtype=None, device=None,
):  # fmt: skip
    """Its order here: rows backwards, so that plain weights would show."""
    weight, scale = tensors["weight"], tensors["weight_scale"]
    assert weight.dtype == torch.int32 and tuple(weight.shape) == (num_experts, shape_n, shape_k // 8)
    assert scale.dtype == torch.float8_e8m0fnu and tuple(scale.shape) == (num_experts, shape_n, shape_k // 32)
    assert torch_dtype == torch.bfloat16 and (pad_n_to_multiple, pad_k_to_multiple) == (256, 128)
    assert vars(weight_schema) == {
        "b_dtype": "float4e2m1", "bs_dtype": "float8e8m0", "weight_scale_group_size": 32, "weight_scale_type": "group",
    }  # fmt: skip
    assert has_bias == ("bias" in tensors)
    more, mode = -shape_n % pad_n_to_multiple, torch.uint8
    config = Config(shape_n=shape_n + more, pad_shape_n=more, shape_k=shape_k, num_experts=num_experts)
    made = {"weight": weight.flip(1), "weight_scale": scale.view(mode).flip(1).view(torch.float8_e8m0fnu)}
    if has_bias:
        assert tensors["bias"].dtype == torch.bfloat16 and tuple(tensors["bias"].shape) == (num_experts, shape_n)
        made["bias"] = tensors["bias"].flip(1)
    return config, made


def get_heuristics_config(
    layer_config, shape_m=None, use_f16_accum=False, use_batch_invariant=False, use_m_major_input_scale=False,
    gemm_type="dense", device=None,
):  # fmt: skip
    assert gemm_type == "indexed" and isinstance(layer_config, dict)
    first = 8 if layer_config["shape_k"] >= 160 else 16  # the two GEMMs may have tiles of different sizes
    return [[0, 10, {"block_shape": [first, 64, 64]}], [10, 1 << 30, {"block_shape": [2 * first, 64, 64]}]]


@pytest.fixture
def library(monkeypatch):
    seen = []

    def humming_gemm(
        *, layer_config, inputs, weight, weight_scale, weight_scale_2=None, compute_config=None, tuning_config=None,
        input_scale=None, input_scale_2=None, zero_point=None, bias=None, outputs=None, sorted_ids=None,
        expert_ids=None, num_tokens_padded=None, expert_layout=None, locks=None, top_k=1, valid_shape_m=0,
    ):  # fmt: skip
        config, size = json.loads(layer_config), json.loads(tuning_config)["block_shape"][0]
        assert json.loads(compute_config)["gemm_type"] == "indexed"
        for ids in (sorted_ids, expert_ids, num_tokens_padded, locks):
            assert ids.dtype == torch.int32
        assert locks.sum() == 0 and inputs.is_contiguous() and inputs.dtype == torch.bfloat16
        assert tuple(outputs.shape) == (len(inputs) * top_k, config["shape_n"] - config["pad_shape_n"])
        seen.append((size, valid_shape_m, top_k, int(num_tokens_padded)))
        outputs.fill_(float("nan"))
        for tile in range(int(num_tokens_padded) // size):
            rows = sorted_ids[tile * size : (tile + 1) * size]
            rows = rows[rows < len(outputs)].long()
            packed = weight[expert_ids[tile]].flip(0).view(torch.uint8)
            codes = weight_scale.view(torch.uint8)[expert_ids[tile]].flip(0)
            product = inputs[rows // top_k].float() @ dequantize_mxfp4(packed, codes).float().T
            if bias is not None:
                product += bias[expert_ids[tile]].flip(0).float()
            outputs[rows] = product.bfloat16()
        return outputs

    def schema(**fields):
        return types.SimpleNamespace(**fields)

    package = types.ModuleType("humming")
    parts = {
        "schema": {"HummingWeightSchema": schema, "HummingInputSchema": schema},
        "transform": {"prepare_and_transform_humming_tensors": prepare_and_transform_humming_tensors},
        "tune": {"get_heuristics_config": get_heuristics_config},
        "ops": {"humming_gemm": humming_gemm},
    }
    monkeypatch.setitem(sys.modules, "humming", package)
    for name, functions in parts.items():
        module = types.ModuleType(f"humming.{name}")
        vars(module).update(functions)
        setattr(package, name, module)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return seen


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


@pytest.mark.parametrize("activation", [SILU, SWIGLU_OAI], ids=["silu", "swigluoai"])
def test_what_lies_in_a_checkpoints_own_padding_adds_nothing(here, library, experts, activation):
    here("cuda", "sm_90", ("humming",))
    e = experts(inner=128, hidden=256)
    x = e.x[:, :160].contiguous()
    problem = Mxfp4MoEProblem(
        256, 128, "deepseek-v4", activation.name, activation_format="bf16", hidden_pad=96, intermediate_pad=32
    )
    method = Mxfp4MoEMethod(problem, 3)
    assert method.decision.name == "HUMMING" and (method.intermediate_size, method.hidden_size) == (128, 256)
    layer = torch.nn.Module()
    method.create_weights(layer)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale))
    method.process_weights_after_loading(layer)
    got = method.apply(layer, x, e.topk_weights, e.topk_ids)
    want = mxfp4_moe(
        x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale, activation=activation, hidden_pad=96,
        intermediate_pad=32, activation_format="bf16",
    )  # fmt: skip
    assert got.shape == (7, 160) and close(got, want)


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
