"""blockscale's Triton kernel, the activation fused into the first GEMM."""

from __future__ import annotations

from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import GATED
from blockscale.platforms import current_platform

TRITON_FAMILIES = ("sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "gfx9", "gfx11", "gfx12", "gfx125")
"""Where Triton compiles the kernel with matrix instructions (seen in its output)."""

BACKEND = MoEBackend(
    "TRITON",
    order={"gpt-oss": 40, "deepseek-v4": 50},
    requires=(
        requirements.platform("cuda", "rocm"),
        requirements.arch(families=TRITON_FAMILIES),
        requirements.triton(),
        GATED,
    ),
    padding=lambda problem: Padding(256, 256) if current_platform.is_rocm() else Padding(64, 1),
)
