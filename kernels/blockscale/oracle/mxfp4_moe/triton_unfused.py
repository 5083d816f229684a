"""blockscale's Triton kernel with the activation as a step of its own: DeepSeek-V4's path on ROCm."""

from __future__ import annotations

from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.problem import GATED, Mxfp4MoEProblem
from blockscale.oracle.mxfp4_moe.triton import TRITON_FAMILIES
from blockscale.oracle.selection import Backend
from blockscale.platforms import current_platform

BACKEND: Backend[Mxfp4MoEProblem] = Backend(
    "TRITON_UNFUSED",
    order={"gpt-oss": 45, "deepseek-v4": 45},
    requires=(
        requirements.platform("rocm"),
        requirements.arch(families=TRITON_FAMILIES),
        requirements.triton(),
        GATED,
    ),
    padding=lambda problem: Padding(256, 256) if current_platform.is_rocm() else Padding(64, 1),
)
