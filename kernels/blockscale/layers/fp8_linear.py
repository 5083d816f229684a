"""A linear layer with FP8 weights in 128 x 128 blocks, activations quantized at each call."""

from __future__ import annotations

from typing import Any

import torch

from blockscale.kernels import deep_gemm
from blockscale.kernels.fp8_block_gemm import dequantized_mm, w8a8_triton_block_scaled_mm
from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem, select_fp8_block_gemm_backend
from blockscale.platforms import current_platform


class BlockFp8Linear:
    """One linear layer's scheme. DeepSeek names its parameters `weight` and `weight_scale_inv` (V3) or `scale` (V4)."""

    def __init__(self, problem: Fp8BlockGemmProblem, backend: str | None = None) -> None:
        self.problem = problem
        self.decision = select_fp8_block_gemm_backend(problem, backend)

    def create_weights(self, layer: Any) -> None:
        """Give the layer parameters: weight (N, K) e4m3fn, weight_scale (ceil(N / block_n), ceil(K / block_k))."""
        p = self.problem
        blocks = -(-p.n // p.block_n), -(-p.k // p.block_k)
        scale = torch.ones(blocks).to(torch.float8_e8m0fnu if p.e8m0_scales else torch.float32)
        _set(layer, torch.zeros(p.n, p.k).to(torch.float8_e4m3fn), scale)

    def process_weights_after_loading(self, layer: Any) -> None:
        """Where the platform's FP8 is e4m3fnuz, keep the codes, each worth half there, and double the scales.

        -0, the one code that means something else there (NaN), becomes 0.
        """
        if layer.weight.dtype == current_platform.fp8_dtype():
            return
        code = layer.weight.view(torch.int8)
        code = torch.where(code == -128, torch.zeros_like(code), code)
        _set(layer, code.view(current_platform.fp8_dtype()), layer.weight_scale.float() * 2)

    def apply(self, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """(..., N) in x's dtype. Errors as `w8a8_triton_block_scaled_mm`."""
        p = self.problem
        a, a_scale = per_token_group_quant_fp8(x, p.block_k, layer.weight.dtype, layer.weight_scale.dtype)
        if self.decision.name == "DEEP_GEMM":
            y = deep_gemm.fp8_gemm(a, a_scale, layer.weight, layer.weight_scale, x.dtype)
        elif self.decision.name in ("UPCAST", "EMULATION"):
            y = dequantized_mm(a, layer.weight, a_scale, layer.weight_scale, p.block_n, p.block_k, x.dtype)
        else:
            blocks = (p.block_n, p.block_k)
            y = w8a8_triton_block_scaled_mm(a, layer.weight, a_scale, layer.weight_scale, blocks, x.dtype)
        return y if bias is None else y + bias


def _set(layer: Any, weight: torch.Tensor, scale: torch.Tensor) -> None:
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.weight_scale = torch.nn.Parameter(scale, requires_grad=False)
