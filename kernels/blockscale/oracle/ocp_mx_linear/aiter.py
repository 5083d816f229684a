"""AITER's FP4 GEMM on gfx950, unless BLOCKSCALE_USE_AITER=0."""

from __future__ import annotations

from blockscale import envs
from blockscale.oracle import requirements
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem
from blockscale.oracle.selection import Backend
from blockscale.platforms.libraries import AITER

BACKEND: Backend[OcpMxLinearProblem] = Backend(
    "AITER",
    order={"": 10},
    requires=(
        requirements.platform("rocm"),
        requirements.arch("gfx950"),
        requirements.switched_on(envs.use_aiter, "BLOCKSCALE_USE_AITER=0"),
        requirements.library(AITER),
        requirements.holds(
            lambda p: p.n % 32 == 0 and p.k % 256 == 0, "It needs N in 32s and K in 256s, and they are {n} and {k}."
        ),
    ),
)
