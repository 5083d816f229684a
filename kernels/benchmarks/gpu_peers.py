"""What the GPU benchmark runs beside each other: blockscale's kernels, and every peer that is installed.

A peer is a function of one input set that gives a call. What can be laid out once, weights and their scales, is laid
out outside the call; so are the scales of activations, which a quantization kernel can write in any layout.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
from torch.nn import functional

from blockscale.formats import mx
from blockscale.kernels import configs
from blockscale.kernels import fp8_block_gemm as fp8
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant
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


def _ours_k3(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> Call:
    return lambda: gemm_with_dynamic_quant(x, weight, scale)


def _bf16_k3(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> Call:
    """Weights dequantized before: four times the bytes, and x is rounded outside the call."""
    wide = mx.dequantize(weight, scale, _BF16)
    rounded = mx.dequantize(*mx.quantize(x), _BF16)
    return lambda: rounded @ wide.T


PEERS: dict[str, dict[str, tuple[Callable[..., Call], str]]] = {
    "k1": {
        "blockscale": (_ours_k1, "triton"),
        "blockscale, portable": (_portable_k1, "triton"),
        "cuBLASLt": (_cublas_k1, "torch"),
        "DeepGEMM": (_deep_gemm_k1, "deep_gemm"),
        "vLLM Triton": (_vllm_k1, "vllm"),
    },
    "k3": {
        "blockscale": (_ours_k3, "triton"),
        "bf16 matmul": (_bf16_k3, "torch"),
    },
}
"""Per job: a peer's name, what makes its call, and the package that it needs."""


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
