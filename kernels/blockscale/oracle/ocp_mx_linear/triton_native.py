"""blockscale's Triton kernel where the matrix unit multiplies MXFP4 by MXFP4."""

from __future__ import annotations

from blockscale.kernels.ocp_mx_linear import MXFP4_ARCHS, MXFP4_FAMILIES
from blockscale.oracle import requirements
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[OcpMxLinearProblem] = Backend(
    "TRITON_NATIVE",
    order={"": 20},
    requires=(
        requirements.platform("cuda", "rocm"),
        requirements.arch(*MXFP4_ARCHS, families=MXFP4_FAMILIES),
        requirements.triton(),
    ),
)
