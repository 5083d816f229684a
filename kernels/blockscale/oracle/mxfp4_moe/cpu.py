"""blockscale's CPU path: torch's matmul on experts widened to bf16, once after loading or at each call."""

from __future__ import annotations

from typing import Any

import torch

from blockscale import envs
from blockscale.kernels.mxfp4_moe import mxfp4_moe, prepared_moe
from blockscale.layouts import cpu
from blockscale.layouts.gate_up import interleaved_to_halves
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import GATED
from blockscale.oracle.mxfp4_moe.weights import Mxfp4MoEWeights


def _convert(
    w13: torch.Tensor, w2: torch.Tensor, w13_scale: torch.Tensor, w2_scale: torch.Tensor,
    w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None, interleaved: bool,
) -> Mxfp4MoEWeights:  # fmt: skip
    """The CPU's layout, unless the environment asks for less memory."""
    if not envs.widen_on_cpu():
        return Mxfp4MoEWeights(w13, w2, w13_scale, w2_scale, w13_bias, w2_bias)
    if interleaved and w13_bias is not None:
        w13_bias = interleaved_to_halves(w13_bias, dim=-1)
    return Mxfp4MoEWeights(
        cpu.mxfp4_w13(w13, w13_scale, interleaved), cpu.mxfp4_weight(w2, w2_scale), cpu.no_scale(w13_scale),
        cpu.no_scale(w2_scale), w13_bias, w2_bias,
    )  # fmt: skip


def _run(
    x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, w13: torch.Tensor, w13_scale: torch.Tensor,
    w2: torch.Tensor, w2_scale: torch.Tensor, **named: Any,
) -> torch.Tensor:  # fmt: skip
    """The weights themselves say which layout they are in: the environment may have changed since."""
    if w13.dtype == torch.bfloat16:
        return prepared_moe(x, topk_weights, topk_ids, w13, w2, **named)
    return mxfp4_moe(x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale, **named)


BACKEND = MoEBackend(
    "CPU",
    order={"": 80},
    requires=(requirements.platform("cpu"), GATED),
    padding=lambda problem: Padding(32, 32),
    run=_run,
    convert=_convert,
)
