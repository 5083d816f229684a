"""MXFP4 MoE: what a backend's weights become, and a whole layer from checkpoint to answer."""

from __future__ import annotations

import sys
from typing import Any

import torch

from checks import layouts, operands, reference

EXPERTS = 3
NAMES = ("w13", "w2", "w13_scale", "w2_scale", "w13_bias", "w2_bias")


def conversion(backend: str) -> dict[str, Any]:
    """Arguments of convert_weight_to_mxfp4_moe_kernel_format, for its own contracts."""
    return {"backend": backend, **operands.expert_weights(experts=2, intermediate=64, hidden=256)}


def lora() -> list[Any]:
    """Arguments of select_mxfp4_moe_backend: a layer with LoRA."""
    from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

    return [Mxfp4MoEProblem(2880, 2880, lora=True)]


def converted(backend: str) -> dict[str, str]:
    """The layout of each tensor that convert_weight_to_mxfp4_moe_kernel_format gives."""
    from blockscale.oracle.mxfp4_moe.weights import convert_weight_to_mxfp4_moe_kernel_format as convert

    given = conversion(backend)
    got = convert(**given)
    out = {}
    for name in NAMES:
        tensor, precision = getattr(got, name), getattr(got, name.replace("scale", "precision"), None)
        if tensor is None and name.endswith("scale"):
            tensor = getattr(precision, "weight_scale", None)
        out[name] = layouts.named(tensor, given[name])
    return out


def loaded(
    backend: str | None, activation: str = "swigluoai", intermediate: int = 96, hidden: int = 160,
    intermediate_pad: int = 0, hidden_pad: int = 0,
) -> list[Any]:  # fmt: skip
    """Arguments of _setup_kernel: a method, and a layer with a checkpoint's weights, which w13 and the rest are.

    The layer's own sizes are the checkpoint's and these pads.
    """
    from blockscale.layers.checkpoint import ExpertWeights
    from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
    from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

    problem = Mxfp4MoEProblem(
        hidden + hidden_pad, intermediate + intermediate_pad, "gpt-oss" if activation == "swigluoai" else "deepseek-v4",
        activation, hidden_pad=hidden_pad, intermediate_pad=intermediate_pad,
    )  # fmt: skip
    method, layer = Mxfp4MoEMethod(problem, EXPERTS, backend), torch.nn.Module()
    method.create_weights(layer, has_bias=True)
    method.load_weights(layer, ExpertWeights(**operands.expert_weights(EXPERTS, intermediate, hidden)))
    names = ("w13_weight", "w2_weight", "w13_weight_scale", "w2_weight_scale", "w13_bias", "w2_bias")
    return [method, layer, *(getattr(layer, name) for name in names)]


def set_up(*args: Any, **kwargs: Any) -> list[Any]:
    """Arguments of get_fused_moe_quant_config: as `loaded`, set up."""
    method, layer, *_ = loaded(*args, **kwargs)
    method.process_weights_after_loading(layer)
    return [method, layer]


def called(*args: Any, **kwargs: Any) -> list[Any]:
    """Arguments of apply: as `set_up`, with tokens."""
    method, layer = set_up(*args, **kwargs)
    return [method, layer, *operands.tokens(7, method.problem.hidden_size - method.problem.hidden_pad, EXPERTS)]


def served(backend: str | None, activation: str = "swigluoai", intermediate: int = 96, hidden: int = 160,
           **pads: int) -> dict[str, Any]:  # fmt: skip
    """A layer set up from a checkpoint and called: `answer` is ok or what is wrong with its numbers.

    `pads` are the hidden and intermediate padding that the kernel is told, by AITER's own word where it runs; `wrapped`
    says that weights and scales are no parameters any more, or names those that are where it is not all or none.
    """
    method, layer, x, topk_weights, topk_ids = called(backend, activation, intermediate, hidden, **pads)
    quant = method.get_fused_moe_quant_config(layer)
    got = method.apply(layer, x, topk_weights, topk_ids)
    weights = operands.expert_weights(EXPERTS, intermediate, hidden)
    dequantized = [reference.mxfp4(weights[name], weights[f"{name}_scale"]) for name in ("w13", "w2")]
    biases = weights["w13_bias"], weights["w2_bias"]
    want = reference.moe(x, topk_weights, topk_ids, *dequantized, *biases, activation)
    kernel = sys.modules.get("aiter.fused_moe")
    parameters = [name for name, _ in layer.named_parameters() if "bias" not in name]
    return {
        "answer": reference.verdict(got, want, 1e-2),
        "pads": list(kernel.PADS[0]) if kernel else [quant.hidden_pad, quant.intermediate_pad],
        "wrapped": {0: True, 4: False}.get(len(parameters), parameters),
    }


def expert_mask() -> dict[str, Any]:
    """The mask that AITER gets for a rank with three of five experts, and the answer: that of these three alone."""
    method, layer, x, topk_weights, _ = called("AITER_MXFP4_BF16", "swigluoai", 256, 256)
    expert_map = torch.tensor([0, -1, 1, -1, 2])
    ids = torch.tensor([[0, 2], [4, 1], [3, 0], [2, 4], [4, 3], [0, 4], [1, 2]])
    got = method.apply(layer, x, topk_weights, ids, expert_map)
    weights = operands.expert_weights(EXPERTS, 256, 256)
    dequantized = [reference.mxfp4(weights[name], weights[f"{name}_scale"]) for name in ("w13", "w2")]
    local, biases = expert_map[ids], (weights["w13_bias"], weights["w2_bias"])
    here = topk_weights * (local >= 0)
    want = reference.moe(x, here, local.clamp(min=0), *dequantized, *biases, "swigluoai")
    mask = sys.modules["aiter.fused_moe"].MASKS[0]
    return {"mask": mask.tolist(), "answer": reference.verdict(got, want, 1e-2)}
