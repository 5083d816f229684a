"""A linear layer with FP8 weights in 128 x 128 blocks, activations quantized at each call."""

from __future__ import annotations

from typing import Any

import torch

from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem, select_fp8_block_gemm_backend
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend
from blockscale.platforms import current_platform


class BlockFp8Linear:
    """One linear layer's scheme. DeepSeek names its parameters `weight` and `weight_scale_inv` (V3) or `scale` (V4)."""

    def __init__(self, problem: Fp8BlockGemmProblem, backend: str | None = None) -> None:
        self.problem = problem
        self.decision = select_fp8_block_gemm_backend(problem, backend)
        assert isinstance(self.decision.backend, Fp8Backend)
        self._backend = self.decision.backend

    def create_weights(self, layer: Any) -> None:
        """Give the layer parameters: weight (N, K) e4m3fn, weight_scale (ceil(N / block_n), ceil(K / block_k))."""
        p = self.problem
        blocks = -(-p.n // p.block_n), -(-p.k // p.block_k)
        scale = torch.ones(blocks).to(torch.float8_e8m0fnu if p.e8m0_scales else torch.float32)
        _set(layer, torch.zeros(p.n, p.k).to(torch.float8_e4m3fn), scale)

    def process_weights_after_loading(self, layer: Any) -> None:
        """Bring weights to the platform's FP8, and with their scales to the backend's layout.

        Where that FP8 is e4m3fnuz, codes are kept, each worth half there, and scales are doubled. -0, the one code that
        means something else there (NaN), becomes 0.
        """
        weight, scale = layer.weight.data, layer.weight_scale.data
        if weight.dtype != current_platform.fp8_dtype():
            code = weight.view(torch.int8)
            code = torch.where(code == -128, torch.zeros_like(code), code)
            weight, scale = code.view(current_platform.fp8_dtype()), scale.float() * 2
        _set(layer, *self._backend.convert(weight, scale, (self.problem.block_n, self.problem.block_k)))

    def apply(self, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """(..., N) in x's dtype. Errors as `w8a8_triton_block_scaled_mm`."""
        blocks = (self.problem.block_n, self.problem.block_k)
        a, a_scale = per_token_group_quant_fp8(x, blocks[1], current_platform.fp8_dtype(), layer.weight_scale.dtype)
        y = self._backend.run(a, layer.weight, a_scale, layer.weight_scale, blocks, x.dtype)
        return y if bias is None else y + bias


def _set(layer: Any, weight: torch.Tensor, scale: torch.Tensor) -> None:
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.weight_scale = torch.nn.Parameter(scale, requires_grad=False)
