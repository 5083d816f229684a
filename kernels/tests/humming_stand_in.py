"""humming's public functions that we call, with the real ones' parameters: each checks what it is given."""

from __future__ import annotations

import json
import sys
import types

import torch

from blockscale.kernels.cpu import dequantize_mxfp4


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


def install(monkeypatch):
    """Put it in the place of humming; the list is filled with size of tile, expected rows, top_k and padded rows."""
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
