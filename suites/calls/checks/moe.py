"""MXFP4 MoE: what a backend's weights become, and a whole layer from checkpoint to answer."""

from __future__ import annotations

import sys
from typing import Any

import torch

from checks import layouts, operands, reference

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


def served(
    intermediate: int, hidden: int, activation: str = "swigluoai", backend: str | None = None,
    intermediate_pad: int = 0, hidden_pad: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """A layer set up from a checkpoint and called: `answer` is ok or what is wrong with its numbers.

    The layer's own sizes are the checkpoint's and these pads. `pads` are the hidden and intermediate padding that the
    kernel is told, by AITER's own word where it runs; `parameters` are those that are parameters still: a wrapped
    tensor is none.
    """
    from blockscale.layers.checkpoint import ExpertWeights
    from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
    from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

    weights = operands.expert_weights(experts=3, intermediate=intermediate, hidden=hidden)
    problem = Mxfp4MoEProblem(
        hidden + hidden_pad, intermediate + intermediate_pad, "gpt-oss" if activation == "swigluoai" else "deepseek-v4",
        activation, hidden_pad=hidden_pad, intermediate_pad=intermediate_pad,
    )  # fmt: skip
    method, layer = Mxfp4MoEMethod(problem, 3, backend), torch.nn.Module()
    method.create_weights(layer, has_bias=True)
    method.load_weights(layer, ExpertWeights(**weights))
    method.process_weights_after_loading(layer)
    quant = method.get_fused_moe_quant_config(layer)
    x, topk_weights, topk_ids = operands.tokens(7, hidden, experts=3)
    got = method.apply(layer, x, topk_weights, topk_ids)
    dequantized = [reference.mxfp4(weights[name], weights[f"{name}_scale"]) for name in ("w13", "w2")]
    biases = weights["w13_bias"], weights["w2_bias"]
    want = reference.moe(x, topk_weights, topk_ids, *dequantized, *biases, activation)
    kernel = sys.modules.get("aiter.fused_moe")
    return {
        "answer": reference.verdict(got, want, 1e-2),
        "pads": list(kernel.PADS[0]) if kernel else [quant.hidden_pad, quant.intermediate_pad],
        "parameters": sorted(name for name, _ in layer.named_parameters() if "bias" not in name),
    }
