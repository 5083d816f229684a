"""humming's kernels, compiled when first used."""

from __future__ import annotations

from blockscale import envs
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.problem import GATED, PLAIN_LAYOUT, Mxfp4MoEProblem
from blockscale.oracle.selection import Backend
from blockscale.platforms.libraries import HUMMING

BACKEND: Backend[Mxfp4MoEProblem] = Backend(
    "HUMMING",
    order={"gpt-oss": 60, "deepseek-v4": 40},
    requires=(
        requirements.platform("cuda"),
        requirements.switched_on(envs.use_humming, "BLOCKSCALE_USE_HUMMING=0"),
        requirements.library(HUMMING),
        GATED,
        PLAIN_LAYOUT,
        requirements.never("blockscale does not call its indexed GEMM yet."),
    ),
    padding=lambda problem: Padding(64, 1),
)
