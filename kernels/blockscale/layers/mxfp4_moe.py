"""An MXFP4 MoE layer: its backend chosen, its weights padded and converted, and the call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from blockscale.kernels.moe_operator import Run
from blockscale.kernels.moe_router import Router, route
from blockscale.kernels.mxfp4_moe import mxfp4_moe, mxfp4_moe_from_logits
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layouts.padding import packed_columns, pad_w2, pad_w13, scale_columns
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem, select_mxfp4_moe_backend
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.weights import (
    KernelTensor,
    PrecisionConfig,
    convert_weight_to_mxfp4_moe_kernel_format,
)


@dataclass(frozen=True, eq=False)
class FusedMoEQuantConfig:
    """What a fused MoE kernel needs beside the weights: scales or precision configs, biases, and the padding."""

    w13_scale: torch.Tensor | None
    w2_scale: torch.Tensor | None
    w13_precision: PrecisionConfig | None
    w2_precision: PrecisionConfig | None
    w13_bias: torch.Tensor | None
    w2_bias: torch.Tensor | None
    hidden_pad: int
    intermediate_pad: int


class Mxfp4MoEMethod:
    """One MoE layer's method. Choosing the backend asks the oracle, so errors are `select_mxfp4_moe_backend`'s."""

    def __init__(self, problem: Mxfp4MoEProblem, num_experts: int, backend: str | None = None) -> None:
        self.problem = problem
        self.num_experts = num_experts
        self.decision = select_mxfp4_moe_backend(problem, backend)
        assert isinstance(self.decision.backend, MoEBackend)
        self._backend = self.decision.backend
        self.activation = SWIGLU_OAI if problem.activation == "swigluoai" else SILU
        self.interleaved = self.activation.interleaved
        padded = self.decision.padding.padded(problem.intermediate_size, problem.hidden_size)
        self.intermediate_size, self.hidden_size = padded

    def create_weights(self, layer: Any, has_bias: bool = False) -> None:
        """Give the layer zeroed parameters of the padded sizes: w13_weight, w13_weight_scale, w13_bias and w2's."""
        E, I, H = self.num_experts, self.intermediate_size, self.hidden_size  # noqa: E741
        shapes = {
            "w13_weight": (E, 2 * I, packed_columns(H)),
            "w13_weight_scale": (E, 2 * I, scale_columns(H)),
            "w2_weight": (E, H, packed_columns(I)),
            "w2_weight_scale": (E, H, scale_columns(I)),
        }
        for name, shape in shapes.items():
            _set(layer, name, torch.zeros(shape, dtype=torch.uint8))
        for name, rows in (("w13_bias", 2 * I), ("w2_bias", H)):
            _set(layer, name, torch.zeros(E, rows, dtype=torch.bfloat16) if has_bias else None)

    def load_weights(self, layer: Any, weights: ExpertWeights) -> None:
        """Copy a checkpoint's weights into the parameters, each half of w13 to its padded place.

        ValueError if the weights are larger than the layer, or of another number of experts.
        """
        if weights.w13.shape[0] != self.num_experts:
            raise ValueError(f"weights: got {weights.w13.shape[0]} experts, expected {self.num_experts}")
        I, H = self.intermediate_size, self.hidden_size  # noqa: E741
        layer.w13_weight.copy_(pad_w13(weights.w13, I, packed_columns(H), self.interleaved))
        layer.w13_weight_scale.copy_(pad_w13(weights.w13_scale, I, scale_columns(H), self.interleaved))
        layer.w2_weight.copy_(pad_w2(weights.w2, H, packed_columns(I)))
        layer.w2_weight_scale.copy_(pad_w2(weights.w2_scale, H, scale_columns(I)))
        if weights.w13_bias is not None and weights.w2_bias is not None:
            w13_bias = pad_w13(weights.w13_bias.unsqueeze(-1), I, 1, self.interleaved)
            layer.w13_bias.copy_(w13_bias.squeeze(-1))
            layer.w2_bias.copy_(pad_w2(weights.w2_bias.unsqueeze(-1), H, 1).squeeze(-1))

    def process_weights_after_loading(self, layer: Any) -> None:
        """Convert the loaded parameters to the backend's layout."""
        self._setup_kernel(
            layer, layer.w13_weight, layer.w2_weight, layer.w13_weight_scale, layer.w2_weight_scale, layer.w13_bias,
            layer.w2_bias,
        )  # fmt: skip

    def _setup_kernel(
        self, layer: Any, w13: torch.Tensor, w2: torch.Tensor, w13_scale: torch.Tensor,
        w2_scale: torch.Tensor, w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None,
    ) -> None:  # fmt: skip
        """Convert, and put what comes out on the layer. Wrapped tensors are no parameters: they only have a shape."""
        weights = convert_weight_to_mxfp4_moe_kernel_format(
            self.decision.name, w13, w2, w13_scale, w2_scale, w13_bias, w2_bias, self.interleaved
        )
        _set(layer, "w13_weight", weights.w13)
        _set(layer, "w2_weight", weights.w2)
        _set(layer, "w13_weight_scale", weights.w13_scale)
        _set(layer, "w2_weight_scale", weights.w2_scale)
        _set(layer, "w13_bias", weights.w13_bias)
        _set(layer, "w2_bias", weights.w2_bias)
        layer.w13_precision_config = weights.w13_precision
        layer.w2_precision_config = weights.w2_precision

    def get_fused_moe_quant_config(self, layer: Any) -> FusedMoEQuantConfig:
        """The scales and pads of a layer that `_setup_kernel` has set up."""
        return FusedMoEQuantConfig(
            layer.w13_weight_scale,
            layer.w2_weight_scale,
            layer.w13_precision_config,
            layer.w2_precision_config,
            layer.w13_bias,
            layer.w2_bias,
            self.hidden_size - self.problem.hidden_size + self.problem.hidden_pad,
            self.intermediate_size - self.problem.intermediate_size + self.problem.intermediate_pad,
        )

    def apply(
        self,
        layer: Any,
        x: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        expert_map: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """(M, H) bf16 of x (M, H) bf16, H without any padding; routing and errors as `kernels.mxfp4_moe.mxfp4_moe`."""
        return self._call(self._backend.run, layer, x, topk_weights, topk_ids, expert_map=expert_map)

    def apply_from_logits(
        self,
        layer: Any,
        x: torch.Tensor,
        logits: torch.Tensor,
        router: Router,
        correction: torch.Tensor | None = None,
        expert_map: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """As `apply`, of the experts that `router` chooses by logits (M, E): see `mxfp4_moe_from_logits`."""
        if self._backend.run is mxfp4_moe:  # it can choose them on its way
            more = {"correction": correction, "expert_map": expert_map}
            return self._call(mxfp4_moe_from_logits, layer, x, logits, router, **more)
        return self.apply(layer, x, *route(logits, router, correction), expert_map)

    def _call(self, run: Run, layer: Any, x: torch.Tensor, *routing: Any, **named: Any) -> torch.Tensor:
        quant = self.get_fused_moe_quant_config(layer)
        w13, w13_scale = _unwrapped(layer.w13_weight, quant.w13_scale, quant.w13_precision)
        w2, w2_scale = _unwrapped(layer.w2_weight, quant.w2_scale, quant.w2_precision)
        return run(
            x, *routing, w13, w13_scale, w2, w2_scale,
            w13_bias=quant.w13_bias,
            w2_bias=quant.w2_bias,
            activation=self.activation,
            hidden_pad=quant.hidden_pad,
            intermediate_pad=quant.intermediate_pad,
            activation_format=self.problem.activation_format,
            **named,
            **_layouts(layer.w13_weight, layer.w2_weight),
        )  # fmt: skip


def _set(layer: Any, name: str, value: torch.Tensor | KernelTensor | None) -> None:
    """Set a parameter from a tensor, a plain attribute from anything else, in place of what had the name."""
    if hasattr(layer, name):
        delattr(layer, name)
    if isinstance(value, torch.Tensor):
        value = torch.nn.Parameter(value.detach(), requires_grad=False)
    setattr(layer, name, value)


def _unwrapped(
    weight: torch.Tensor | KernelTensor, scale: torch.Tensor | None, precision: PrecisionConfig | None
) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(weight, KernelTensor) and precision is not None:
        return weight.data, precision.weight_scale.data
    assert isinstance(weight, torch.Tensor) and scale is not None
    return weight, scale


def _layouts(*weights: torch.Tensor | KernelTensor) -> dict[str, tuple[str, ...]]:
    """The names of the weights' layouts, for a run that has to be told."""
    names = tuple(
        weight.layout for weight in weights if isinstance(weight, KernelTensor) and weight.layout != "strided"
    )
    return {"layouts": names} if names else {}
