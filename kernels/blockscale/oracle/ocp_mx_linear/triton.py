"""blockscale's Triton kernel, weights dequantized to bf16 in registers."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[OcpMxLinearProblem] = Backend(
    "TRITON", order={"": 30}, requires=(requirements.platform("cuda", "rocm", "xpu"), requirements.triton())
)
