"""blockscale's Triton kernel with the activation as a step of its own: DeepSeek-V4's path on ROCm."""

from __future__ import annotations

from functools import partial

from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import GATED
from blockscale.oracle.mxfp4_moe.triton import TRITON_FAMILIES

BACKEND = MoEBackend(
    "TRITON_UNFUSED",
    order={"gpt-oss": 45, "deepseek-v4": 45},
    requires=(
        requirements.platform("rocm"),
        requirements.arch(families=TRITON_FAMILIES),
        requirements.triton(),
        GATED,
    ),
    padding=lambda problem: Padding(256, 256),
    run=partial(mxfp4_moe, fused=False),
)
