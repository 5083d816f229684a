"""DeepGEMM's grouped GEMM of FP8 by MXFP4, on Blackwell. Weights stay as loaded, so experts may move between ranks."""

from __future__ import annotations

from blockscale import envs
from blockscale.kernels import deep_gemm
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import GATED
from blockscale.platforms.libraries import DEEP_GEMM

BACKEND = MoEBackend(
    "DEEPGEMM_MXFP4",
    order={"deepseek-v4": 30},
    requires=(
        requirements.platform("cuda"),
        requirements.arch(families=("sm_100", "sm_120")),
        requirements.switched_on(envs.use_deep_gemm, "BLOCKSCALE_USE_DEEP_GEMM=0"),
        requirements.library(DEEP_GEMM),
        requirements.holds(
            lambda p: p.activation_format == "fp8",
            "It takes FP8 activations in groups of 128, and the layer wants {activation_format}.",
        ),
        GATED,
    ),
    padding=lambda problem: Padding(128, 128),
    run=deep_gemm.mxfp4_moe,
)
