"""blockscale's Triton kernel where the matrix unit multiplies MXFP4 by MXFP4."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[OcpMxLinearProblem] = Backend(
    "TRITON_NATIVE",
    order={"": 20},
    requires=(
        requirements.platform("cuda", "rocm"),
        requirements.arch("gfx950", "gfx1250", families=("sm_100", "sm_120")),
        requirements.triton(),
    ),
)
