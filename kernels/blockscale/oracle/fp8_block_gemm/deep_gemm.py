"""DeepGEMM's fp8_gemm_nt."""

from __future__ import annotations

from blockscale import envs
from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.fp8_block_gemm.conditions import BLOCKS_OF_128, WHOLE_BLOCKS
from blockscale.oracle.selection import Backend
from blockscale.platforms.libraries import DEEP_GEMM

BACKEND: Backend[Fp8BlockGemmProblem] = Backend(
    "DEEP_GEMM",
    order={"": 20},
    requires=(
        requirements.platform("cuda"),
        requirements.switched_on(envs.use_deep_gemm, "BLOCKSCALE_USE_DEEP_GEMM=0"),
        requirements.library(DEEP_GEMM),
        BLOCKS_OF_128,
        WHOLE_BLOCKS,
        requirements.holds(lambda p: not p.e8m0_scales, "It is called with fp32 scales, and these are e8m0."),
    ),
)
