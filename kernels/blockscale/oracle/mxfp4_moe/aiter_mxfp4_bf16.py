"""AITER's CK kernel, bf16 activations: gfx950 alone (gfx942 crashes), sizes in multiples of 256."""

from __future__ import annotations

from blockscale import envs
from blockscale.kernels import aiter
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import (
    ALIGNED_TO_256,
    BF16_ACTIVATIONS,
    GATED,
    PLAIN_LAYOUT,
)
from blockscale.platforms.libraries import AITER

BACKEND = MoEBackend(
    "AITER_MXFP4_BF16",
    order={"": 10},
    requires=(
        requirements.platform("rocm"),
        requirements.arch("gfx950"),
        requirements.switched_on(envs.use_aiter, "BLOCKSCALE_USE_AITER=0"),
        requirements.library(AITER),
        BF16_ACTIVATIONS,
        GATED,
        ALIGNED_TO_256,
        PLAIN_LAYOUT,
    ),
    padding=lambda p: Padding(128, 128) if p.activation == "silu" else Padding(256, 256),
    run=aiter.mxfp4_moe,
)
