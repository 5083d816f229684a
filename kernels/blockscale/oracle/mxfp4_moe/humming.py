"""humming's kernels, compiled when first used."""

from __future__ import annotations

import torch

from blockscale import envs
from blockscale.kernels import humming
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import BF16_ACTIVATIONS, GATED, PLAIN_LAYOUT
from blockscale.oracle.mxfp4_moe.weights import KernelTensor, Mxfp4MoEWeights, PrecisionConfig
from blockscale.platforms.libraries import HUMMING


def _convert(
    w13: torch.Tensor, w2: torch.Tensor, w13_scale: torch.Tensor, w2_scale: torch.Tensor,
    w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None, interleaved: bool,
) -> Mxfp4MoEWeights:  # fmt: skip
    """Both GEMMs' weights in humming's order. Rows stay in theirs: the activation is not humming's work."""
    made13, scale13, bias13, layout13 = humming.prepare(w13, w13_scale, w13_bias)
    made2, scale2, bias2, layout2 = humming.prepare(w2, w2_scale, w2_bias)
    return Mxfp4MoEWeights(
        KernelTensor(made13, w13.shape, layout13), KernelTensor(made2, w2.shape, layout2), None, None, bias13, bias2,
        PrecisionConfig(KernelTensor(scale13, w13_scale.shape, layout13)),
        PrecisionConfig(KernelTensor(scale2, w2_scale.shape, layout2)),
    )  # fmt: skip


BACKEND = MoEBackend(
    "HUMMING",
    order={"gpt-oss": 60, "deepseek-v4": 40},
    requires=(
        requirements.platform("cuda"),
        requirements.switched_on(envs.use_humming, "BLOCKSCALE_USE_HUMMING=0"),
        requirements.library(HUMMING),
        BF16_ACTIVATIONS,
        GATED,
        PLAIN_LAYOUT,
    ),
    padding=lambda problem: Padding(64, 1),
    run=humming.mxfp4_moe,
    convert=_convert,
)
