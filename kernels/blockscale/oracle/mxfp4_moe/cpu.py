"""blockscale's CPU path: experts dequantized to bf16, torch's matmul."""

from __future__ import annotations

from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import GATED

BACKEND = MoEBackend(
    "CPU",
    order={"": 80},
    requires=(requirements.platform("cpu"), GATED),
    padding=lambda problem: Padding(32, 32),
)
