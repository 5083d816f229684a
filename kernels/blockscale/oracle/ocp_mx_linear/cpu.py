"""blockscale's CPU path: torch's bf16 matmul on weights widened to bf16, once after loading or at each call."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[OcpMxLinearProblem] = Backend("CPU", order={"": 40}, requires=(requirements.platform("cpu"),))
