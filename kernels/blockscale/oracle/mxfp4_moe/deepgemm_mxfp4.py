"""DeepGEMM's FP8 x MXFP4 grouped GEMM, on Blackwell."""

from __future__ import annotations

from blockscale import envs
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.problem import GATED, PLAIN_LAYOUT, Mxfp4MoEProblem
from blockscale.oracle.selection import Backend
from blockscale.platforms.libraries import DEEP_GEMM

BACKEND: Backend[Mxfp4MoEProblem] = Backend(
    "DEEPGEMM_MXFP4",
    order={"deepseek-v4": 30},
    requires=(
        requirements.platform("cuda"),
        requirements.arch(families=("sm_100", "sm_120")),
        requirements.switched_on(envs.use_deep_gemm, "BLOCKSCALE_USE_DEEP_GEMM=0"),
        requirements.library(DEEP_GEMM),
        requirements.holds(
            lambda p: p.activation_format in ("mxfp8", "fp8"),
            "It takes FP8 activations, and the layer wants {activation_format}.",
        ),
        GATED,
        PLAIN_LAYOUT,
        requirements.never("blockscale packs its scales and does not call its grouped GEMM yet."),
    ),
    padding=lambda problem: Padding(128, 128),
)
