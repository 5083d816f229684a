"""What the GPU benchmark runs beside each other: blockscale's kernels, and every peer that is installed.

A peer is a function of one input set that gives a call. What can be laid out once, weights and their scales, is laid
out outside the call; so are the scales of activations, which a quantization kernel can write in any layout.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from blockscale.formats import mx
from blockscale.kernels import configs
from blockscale.kernels import fp8_block_gemm as fp8
from blockscale.kernels.moe_router import Router, route
from blockscale.kernels.moe_routing import local_experts
from blockscale.kernels.mxfp4_moe import _Problem, _triton, mxfp4_moe_from_logits
from blockscale.kernels.ocp_mx_linear import ROUNDING, gemm_with_dynamic_quant
from blockscale.kernels.swiglu import SWIGLU_OAI
from blockscale.layouts import cublas

Call = Callable[[], torch.Tensor]
_BF16 = torch.bfloat16


def _ours_k1(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> Call:
    return lambda: fp8.w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], _BF16)


def _portable_k1(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> Call:
    """The kernel that every arch has, as it is configured where nothing was tuned."""
    from blockscale.kernels.triton import fp8_block_gemm as kernel

    config = configs.choose("fp8_block_gemm", None, a.shape[0], *b.shape)
    return lambda: kernel.fp8_block_gemm(a, b, a_scale, b_scale, 128, 128, _BF16, config, False)


def _cublas_k1(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> Call:
    rows = a.shape[0]
    more = (0, 0, 0, -rows % 4)
    a = functional.pad(a.view(torch.uint8), more).view(a.dtype)
    a_scale, b_scale = cublas.columns_first(functional.pad(a_scale, more)), cublas.block_scale(b_scale)
    kinds = functional.ScalingType
    return lambda: functional.scaled_mm(
        a, b.t(), a_scale, kinds.BlockWise1x128, b_scale, kinds.BlockWise128x128, output_dtype=_BF16
    )[:rows]


def _deep_gemm_k1(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> Call:
    import deep_gemm

    aligned = deep_gemm.get_mn_major_tma_aligned_tensor(a_scale)

    def call() -> torch.Tensor:
        out = torch.empty(a.shape[0], b.shape[0], dtype=_BF16, device=a.device)
        deep_gemm.fp8_gemm_nt((a, aligned), (b, b_scale), out, disable_ue8m0_cast=True)
        return out

    return call


def _vllm_k1(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> Call:
    from vllm.model_executor.layers.quantization.utils import fp8_utils

    return lambda: fp8_utils.w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], _BF16)


def _ours_k2(x: torch.Tensor, logits: torch.Tensor, top_k: int, *weights: torch.Tensor) -> Call:
    return lambda: mxfp4_moe_from_logits(x, logits, Router(top_k), *weights)


def _portable_k2(x: torch.Tensor, logits: torch.Tensor, top_k: int, *weights: torch.Tensor) -> Call:
    """The kernel that every arch has, as it is configured where nothing was tuned."""
    w13, w13_scale, w2, w2_scale = weights
    intermediate = w2.shape[2] * 2

    def call() -> torch.Tensor:
        shares, ids = route(logits, Router(top_k))
        local = local_experts(ids, None)
        problem = _Problem(x, shares, local, w13, w13_scale, w2, w2_scale, None, None, SWIGLU_OAI, intermediate, "bf16")
        return _triton(x, problem, True)

    return call


def _triton_kernels_k2(x: torch.Tensor, logits: torch.Tensor, top_k: int, *weights: torch.Tensor) -> Call:
    """triton_kernels as vLLM 0.33 brings it, with its own routing."""
    _name_what_triton_lacks()
    from triton_kernels.matmul_ogs import FlexCtx, FnSpecs, FusedActivation, PrecisionConfig, matmul_ogs
    from triton_kernels.matmul_ogs_details.opt_flags import update_opt_flags_constraints
    from triton_kernels.routing import routing
    from triton_kernels.swiglu import swiglu_fn

    update_opt_flags_constraints({"split_k": 1})  # its sum over split K does not compile on Triton 3.6
    (w13, w13_scale), (w2, w2_scale) = (_swizzled(*weights[at : at + 2]) for at in (0, 2))
    first, second = (PrecisionConfig(weight_scale=scale, flex_ctx=FlexCtx()) for scale in (w13_scale, w2_scale))
    gated = FusedActivation(FnSpecs("swiglu", swiglu_fn, ("alpha", "limit")), (1.702, 7.0), 2)

    def call() -> torch.Tensor:
        routed, gather, scatter = routing(logits, top_k)
        inner = matmul_ogs(x, w13, None, routed, gather_indx=gather, precision_config=first, fused_activation=gated)
        return matmul_ogs(
            inner, w2, None, routed, scatter_indx=scatter, precision_config=second, gammas=routed.gate_scal
        )

    return call


def _name_what_triton_lacks() -> None:
    """triton_kernels asks Triton for an arch that 3.6 does not know."""
    import triton
    from triton.language import target_info

    @triton.constexpr_function
    def never() -> bool:
        return False

    if not hasattr(target_info, "is_hip_gfx1250"):
        target_info.is_hip_gfx1250 = never


_SWIZZLED: list[tuple[torch.Tensor, Any]] = []


def _swizzled(weight: torch.Tensor, scale: torch.Tensor) -> Any:
    """Weights and scales in triton_kernels' layouts, the last two kept: they are the same for all input sets."""
    for known, swizzled in _SWIZZLED:
        if known is weight:
            return swizzled
    import triton_kernels.tensor as tensors
    from triton_kernels.tensor_details import layout as layouts

    scale = functional.pad(scale, (0, -scale.shape[-1] % 4))
    for_values, values = layouts.make_default_matmul_mxfp4_w_layout(mx_axis=1)
    for_scales, scales = layouts.make_default_matmul_mxfp4_w_scale_layout(mx_axis=1, num_warps=8)
    wrapped = tensors.wrap_torch_tensor(weight.transpose(-2, -1), dtype=tensors.FP4)
    swizzled = (
        tensors.convert_layout(wrapped, for_values, **values),
        tensors.convert_layout(tensors.wrap_torch_tensor(scale.transpose(-2, -1)), for_scales, **scales),
    )
    _SWIZZLED[:] = [*_SWIZZLED[-1:], (weight, swizzled)]
    return swizzled


def _ours_k3(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> Call:
    return lambda: gemm_with_dynamic_quant(x, weight, scale)


def _bf16_k3(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> Call:
    """Weights dequantized before: four times the bytes, and x is rounded outside the call."""
    wide = mx.dequantize(weight, scale, _BF16)
    rounded = mx.dequantize(*mx.quantize(x), _BF16)
    return lambda: rounded @ wide.T


def _humming_k3(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> Call:
    """humming, and before it blockscale's kernel that rounds x, for humming has none."""
    from humming import ops
    from humming.schema import HummingInputSchema, HummingWeightSchema
    from humming.transform import prepare_and_transform_humming_tensors
    from humming.tune import get_heuristics_config

    from blockscale.kernels.triton.ocp_mx_linear import quantize

    (rows, k), n = x.shape, weight.shape[0]
    layer, tensors = prepare_and_transform_humming_tensors(
        tensors={"weight": weight.view(torch.int32), "weight_scale": scale.view(torch.float8_e8m0fnu)},
        shape_n=n, shape_k=k,
        weight_schema=HummingWeightSchema(
            b_dtype="float4e2m1", bs_dtype="float8e8m0", weight_scale_group_size=32, weight_scale_type="group"
        ),
        input_schema=HummingInputSchema(),
        num_experts=None, pad_n_to_multiple=256, pad_k_to_multiple=128, torch_dtype=_BF16, device=x.device,
    )  # fmt: skip
    tuning = get_heuristics_config(layer, shape_m=rows, use_m_major_input_scale=False, gemm_type="dense")
    how = {
        "layer_config": layer.to_str(),
        "compute_config": json.dumps({"gemm_type": "dense", "use_f16_accum": False, "use_batch_invariant": False}),
        "tuning_config": json.dumps(tuning),
        "weight": tensors["weight"], "weight_scale": tensors["weight_scale"],
        "weight_scale_2": tensors.get("weight_scale_2"),
        "locks": torch.zeros(4096, dtype=torch.int32, device=x.device),
    }  # fmt: skip

    def call() -> torch.Tensor:
        out = torch.empty(rows, n, dtype=_BF16, device=x.device)
        values, _ = quantize(x, ROUNDING, pack=False)
        ops.humming_gemm(inputs=values, outputs=out, input_scale=None, **how)
        return out

    return call


PEERS: dict[str, dict[str, tuple[Callable[..., Call], str]]] = {
    "k1": {
        "blockscale": (_ours_k1, "triton"),
        "blockscale, portable": (_portable_k1, "triton"),
        "cuBLASLt": (_cublas_k1, "torch"),
        "DeepGEMM": (_deep_gemm_k1, "deep_gemm"),
        "vLLM Triton": (_vllm_k1, "vllm"),
    },
    "k2": {
        "blockscale": (_ours_k2, "triton"),
        "blockscale, portable": (_portable_k2, "triton"),
        "triton_kernels": (_triton_kernels_k2, "triton_kernels"),
    },
    "k3": {
        "blockscale": (_ours_k3, "triton"),
        "bf16 matmul": (_bf16_k3, "torch"),
        "humming": (_humming_k3, "humming"),
    },
}
"""Per job: a peer's name, what makes its call, and the package that it needs."""


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
