"""AITER with MXFP4 activations: the matrix unit multiplies MXFP4 by MXFP4."""

from __future__ import annotations

from blockscale import envs
from blockscale.kernels import aiter
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import ALIGNED_TO_256, GATED, PLAIN_LAYOUT
from blockscale.platforms.libraries import AITER

BACKEND = MoEBackend(
    "AITER_MXFP4_MXFP4",
    order={"": 20},
    requires=(
        requirements.platform("rocm"),
        requirements.arch("gfx950"),
        requirements.switched_on(envs.use_aiter, "BLOCKSCALE_USE_AITER=0"),
        requirements.library(AITER),
        requirements.holds(
            lambda p: p.activation_format == "mxfp4",
            "It takes MXFP4 activations, and the layer wants {activation_format}.",
        ),
        requirements.holds(
            lambda p: p.activation == "silu", "Its kernels compute silu, and the layer's activation is {activation}."
        ),
        GATED,
        ALIGNED_TO_256,
        PLAIN_LAYOUT,
    ),
    padding=lambda problem: Padding(128, 256),
    run=aiter.mxfp4_moe,
)
