"""Arguments for blockscale's launchers on a machine's device, made in the child: shapes of decode and of prefill."""

from __future__ import annotations

from typing import Any

import torch

_BLOCK = 128


def _device() -> str:
    """What the machine's platform calls its devices: cuda, ROCm's too, or xpu."""
    from blockscale.platforms import current_platform

    return current_platform.device_type


def fp8_block_gemm(rows: int, n: int, k: int) -> dict[str, Any]:
    """For w8a8_triton_block_scaled_mm: (rows, k) and (n, k) of the platform's fp8, fp32 scales, bf16 out."""
    from blockscale.platforms import current_platform

    fp8 = current_platform.fp8_dtype()
    return {
        "A": torch.empty(rows, k, dtype=fp8, device=_device()),
        "B": torch.empty(n, k, dtype=fp8, device=_device()),
        "As": torch.empty(rows, k // _BLOCK, device=_device()),
        "Bs": torch.empty(n // _BLOCK, k // _BLOCK, device=_device()),
        "block_size": [_BLOCK, _BLOCK],
        "output_dtype": torch.bfloat16,
    }


def fp8_block_gemm_tiles(block_m: int = 128, block_n: int = 256) -> dict[str, Any]:
    """For the launcher of the FP8 block GEMM for all archs: tiles of (block_m, block_n), three stages of them."""
    given = fp8_block_gemm(1024, 4096, 4096)
    scaled_n, scaled_k = given.pop("block_size")
    tile = {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": 4 if block_m < 128 else 8, "num_stages": 3}
    config = {"swap": False, "GROUP_M": 8, "SPLIT_K": 1, **tile}
    dtype = given.pop("output_dtype")
    return {**given, "block_n": scaled_n, "block_k": scaled_k, "dtype": dtype, "config": config, "decode": False}


def fp8_quantization(rows: int, k: int) -> dict[str, Any]:
    """For per_token_group_quant_fp8: (rows, k) bf16 in groups of 128, to the platform's fp8."""
    return {"x": torch.empty(rows, k, dtype=torch.bfloat16, device=_device()), "group_size": _BLOCK}


def ocp_mx_linear(rows: int, n: int, k: int) -> dict[str, Any]:
    """For what gemm_with_dynamic_quant does in Triton: (rows, k) bf16, (n, k / 2) packed e2m1 with e8m0 scales."""
    return {
        "x": torch.empty(rows, k, dtype=torch.bfloat16, device=_device()),
        "weight": torch.empty(n, k // 2, dtype=torch.uint8, device=_device()),
        "weight_scale": torch.empty(n, k // 32, dtype=torch.uint8, device=_device()),
        "dtype": torch.bfloat16,
        "x_scales": None,
    }


def mxfp4_moe(rows: int, hidden: int, intermediate: int, experts: int, top_k: int) -> dict[str, Any]:
    """For mxfp4_moe: gpt-oss's layer, a token's experts being the first top_k."""
    ids = torch.arange(top_k, device=_device()).repeat(rows, 1)
    return {
        "x": torch.empty(rows, hidden, dtype=torch.bfloat16, device=_device()),
        "topk_weights": torch.ones(rows, top_k, device=_device()),
        "topk_ids": ids,
        "w13": torch.empty(experts, 2 * intermediate, hidden // 2, dtype=torch.uint8, device=_device()),
        "w13_scale": torch.empty(experts, 2 * intermediate, hidden // 32, dtype=torch.uint8, device=_device()),
        "w2": torch.empty(experts, hidden, intermediate // 2, dtype=torch.uint8, device=_device()),
        "w2_scale": torch.empty(experts, hidden, intermediate // 32, dtype=torch.uint8, device=_device()),
    }


def mxfp4_moe_from_logits(rows: int, hidden: int, intermediate: int, experts: int, top_k: int) -> dict[str, Any]:
    """For mxfp4_moe_from_logits: gpt-oss's layer and its router."""
    given = mxfp4_moe(rows, hidden, intermediate, experts, top_k)
    weights = {name: tensor for name, tensor in given.items() if name == "x" or name.startswith("w")}
    return {**weights, **moe_router(rows, experts, top_k)}


def moe_router(rows: int, experts: int, top_k: int, scores: str = "softmax") -> dict[str, Any]:
    """For route: fp32 logits, and a correction where sigmoids are the scores."""
    from blockscale.kernels.moe_router import Router

    given = {"logits": torch.empty(rows, experts, device=_device()), "router": Router(top_k, scores)}
    if scores == "sigmoid":
        given["correction"] = torch.empty(experts, device=_device())
    return given


def ocp_mx_linear_native(rows: int, n: int, k: int) -> dict[str, Any]:
    """For triton_gemm with MXFP4 by MXFP4 in the matrix unit, in the portable configuration for many rows."""
    from blockscale.kernels import configs

    return {**ocp_mx_linear(rows, n, k), "native": True, "config": configs.choose("ocp_mx_linear", None, rows, n, k)}
