"""blockscale's kernel on Intel GPUs, which dequantizes and never asks for a scaled product."""

from __future__ import annotations

from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import GATED

BACKEND = MoEBackend(
    "XPU",
    order={"": 70},
    requires=(requirements.platform("xpu"), requirements.triton(), GATED),
    padding=lambda problem: Padding(64, 1),
)
