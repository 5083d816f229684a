"""Quark's OCP-MX linear layer: MXFP4 weights, activations quantized to MXFP4 at each call."""

from __future__ import annotations

from typing import Any

import torch

from blockscale import envs
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant, prepared_gemm
from blockscale.layouts import aiter, cpu
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem, select_ocp_mx_linear_backend


class QuarkOCP_MX:
    """One linear layer's scheme. Choosing the backend asks the oracle; nothing is imported for it."""

    def __init__(self, out_features: int, in_features: int, backend: str | None = None) -> None:
        self.out_features, self.in_features = out_features, in_features
        self.decision = select_ocp_mx_linear_backend(OcpMxLinearProblem(out_features, in_features), backend)

    def create_weights(self, layer: Any) -> None:
        """Give the layer zeroed parameters: weight (N, K / 2) and weight_scale (N, K / 32), uint8."""
        for name, columns in (("weight", self.in_features // 2), ("weight_scale", self.in_features // 32)):
            data = torch.zeros(self.out_features, columns, dtype=torch.uint8)
            setattr(layer, name, torch.nn.Parameter(data, requires_grad=False))

    def process_weights_after_loading(self, layer: Any) -> None:
        """Convert the loaded parameters to the backend's layout.

        AITER's is shuffled. The CPU's is bf16, unless BLOCKSCALE_CPU_BF16_WEIGHTS=0. The others' is as loaded.
        """
        if self.decision.name == "AITER":
            weight, scale = aiter.WEIGHT.shuffle(layer.weight), aiter.SCALE.shuffle(layer.weight_scale)
        elif self.decision.name == "CPU" and envs.widen_on_cpu():
            weight, scale = cpu.mxfp4_weight(layer.weight, layer.weight_scale), cpu.no_scale(layer.weight_scale)
        else:
            return
        layer.weight = torch.nn.Parameter(weight, requires_grad=False)
        layer.weight_scale = torch.nn.Parameter(scale, requires_grad=False)

    def apply_weights(self, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """(..., N) in x's dtype. Errors as `gemm_with_dynamic_quant`."""
        if layer.weight.dtype == torch.bfloat16:
            y = prepared_gemm(x, layer.weight, x.dtype)
        else:
            by_aiter, emulate = (self.decision.name == name for name in ("AITER", "EMULATION"))
            y = gemm_with_dynamic_quant(x, layer.weight, layer.weight_scale, by_aiter, x.dtype, emulate=emulate)
        return y if bias is None else y + bias
